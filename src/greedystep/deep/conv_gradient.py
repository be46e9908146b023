"""Pallas kernels for MinAtar's network on a GPU: the gradient step of one network of an ensemble.

RMSprop changes weights and averages in place while their gradient is still in registers, and only those of the chosen
network. Names and shapes are those of `conv_kernels.py`; δ is the derivative of the loss by a value, d by a weight.

    backward  δz = δq Vᵀ · [z > 0],   dU_p = h_pᵀ δz,   δh_p = δz U_pᵀ · [h_p > 0],   dF = Σ_p x_pᵀ δh_p
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as gpu

from greedystep.deep.conv_kernels import (
    GROUP,
    SPLITS,
    ConvShape,
    as_bytes,
    call,
    float32,
    load_patches,
    padded,
    rows_and_positions,
    sums_kernel,
)
from greedystep.deep.networks import FILTERS, ConvNet
from greedystep.deep.optimisers import centred_rmsprop

LOSS_SAMPLES = 8
"""Samples whose loss one program computes."""
HIDDEN_ROWS = 32
"""Rows of the hidden layer's weights that one program changes."""

EVICTION = (None, "evict_first", "evict_first")
"""What the cache may drop first: not the weights, which are soon read again, but both averages of RMSprop."""


class _Step(NamedTuple):
    """How the gradient step changes weights."""

    learning_rate: jax.Array
    decay: float
    epsilon: float

    def load(self, at: Callable[[Any], Any], arrays: Sequence[Any], mask: Any = None) -> _Block:
        """Load a block of weights and of both averages of RMSprop; `at` picks it from each array."""
        refs = tuple(at(array) for array in arrays)
        other = None if mask is None else 0.0
        values = tuple(
            gpu.load(ref, mask=mask, other=other, eviction_policy=policy)
            for ref, policy in zip(refs, EVICTION, strict=True)
        )
        return _Block(self, refs, values, mask)


class _Block(NamedTuple):
    """A block of weights, and of the moving averages of their gradients and of the squares of these."""

    step: _Step
    refs: tuple[Any, ...]
    values: tuple[jax.Array, ...]
    mask: Any

    def descend(self, gradient: jax.Array) -> None:
        """Change them in place by centred RMSprop."""
        (w, m, v), step = self.values, self.step
        update, m, v = centred_rmsprop(gradient, m, v, step.decay, step.epsilon)
        for ref, new, policy in zip(self.refs, (w - step.learning_rate * update, m, v), EVICTION, strict=True):
            gpu.store(ref, new, mask=self.mask, eviction_policy=policy)


def _loss_kernel(
    which, sums, action, targets, hidden_bias, outputs, output_bias, z_out, delta_z_out, slope_out, info,
    *, loss_of: Callable, count: int, shape: ConvShape,
) -> None:  # fmt: skip
    """Grid [B / LOSS_SAMPLES]: z, δz and the derivative of the loss by Q(s, a), for some samples; sums of loss and Q.

    Each sample concerns one output alone, that of its action: no matrix product is needed.
    """
    part, units = pl.program_id(0), jnp.arange(shape.hidden)
    samples = part * LOSS_SAMPLES + jnp.arange(LOSS_SAMPLES)
    network, taken = which[0], gpu.load(action.at[samples])
    weight = gpu.load(outputs.at[network, units[None, :], taken[:, None]])
    bias, target = gpu.load(output_bias.at[network, taken]), gpu.load(targets.at[samples])
    at = (samples[:, None], units[None, :])
    parts = [gpu.load(sums.at[0, i, *at]) for i in range(SPLITS)]
    z = jnp.maximum(sum(parts[1:], parts[0]) + gpu.load(hidden_bias.at[network, units])[None, :], 0)
    q = (z * weight).sum(axis=1) + bias
    loss, derivative = jax.vjp(loss_of, q - target)
    slope = derivative(jnp.ones_like(loss))[0] / count
    info[part, 0], info[part, 1] = loss.sum() / count, q.sum() / count
    gpu.store(slope_out.at[samples], slope)
    gpu.store(z_out.at[at], z)
    gpu.store(delta_z_out.at[at], jnp.where(z > 0, slope[:, None] * weight, 0))


def _hidden_kernel(which, h, delta_z, rate, *refs, count: int, shape: ConvShape, rmsprop: dict) -> None:
    """Grid [blocks]: changes HIDDEN_ROWS rows of the hidden layer's weights; δh of their inputs."""
    hidden, delta_h = refs[3:6], refs[6]
    network, step = which[0], _Step(rate[0], **rmsprop)
    first = pl.program_id(0) * HIDDEN_ROWS
    samples, units, columns = jnp.arange(count), jnp.arange(shape.hidden), first + jnp.arange(HIDDEN_ROWS)
    old = step.load(lambda x: x.at[network, pl.ds(first, HIDDEN_ROWS), :], hidden)
    dz = gpu.load(delta_z.at[samples[:, None], units[None, :]])
    here = gpu.load(h.at[samples[:, None], columns[None, :]])
    dh = jnp.where(here > 0, dz @ old.values[0].T, 0)
    old.descend(here.T @ dz)
    gpu.store(delta_h.at[samples[:, None], columns[None, :]], dh)


def _outputs_kernel(which, z, delta_z, slope, action, rate, *refs, count: int, shape: ConvShape, rmsprop: dict) -> None:
    """Grid [1]: changes the hidden layer's bias, and the weights and biases of the outputs."""
    network, samples, step = which[0], jnp.arange(count), _Step(rate[0], **rmsprop)
    units, actions = jnp.arange(shape.hidden), jnp.arange(padded(shape.actions))
    is_action = actions < shape.actions
    mask = jnp.broadcast_to(is_action[None, :], (len(units), len(actions)))
    bias = step.load(lambda x: x.at[network, units], refs[9:12])
    weight = step.load(lambda x: x.at[network, units[:, None], actions[None, :]], refs[12:15], mask)
    output_bias = step.load(lambda x: x.at[network, actions], refs[15:18], is_action)
    at = (samples[:, None], units[None, :])
    zs, dz = gpu.load(z.at[at]), gpu.load(delta_z.at[at])
    is_taken = gpu.load(action.at[samples])[:, None] == actions[None, :]
    dq = jnp.where(is_taken, gpu.load(slope.at[samples])[:, None], 0)
    output_bias.descend(dq.sum(axis=0))
    bias.descend(dz.sum(axis=0))
    weight.descend(zs.T @ dq)


def _filter_gradient_kernel(cells, delta_h, weight, bias, *, count: int, shape: ConvShape) -> None:
    """Grid [positions / GROUP]: gradient of the filters and their bias at a group of positions."""
    split, filters, inputs = pl.program_id(0), jnp.arange(FILTERS), jnp.arange(padded(shape.inputs))
    samples, positions = rows_and_positions(count, GROUP, jnp.int32(0), split * GROUP)
    patches = load_patches(cells, samples, None, positions, shape)
    dh = gpu.load(delta_h.at[samples[:, None], (positions * FILTERS)[:, None] + filters[None, :]])
    gpu.store(weight.at[split, inputs[:, None], filters[None, :]], patches.T @ dh)
    gpu.store(bias.at[split, filters], dh.sum(axis=0))


def _filters_kernel(which, filter_gradient, bias_gradient, rate, *refs, shape: ConvShape, rmsprop: dict) -> None:
    """Grid [1]: adds up the gradients of all positions, and changes the filters and their bias."""
    network, step = which[0], _Step(rate[0], **rmsprop)
    inputs, filters = jnp.arange(padded(shape.inputs)), jnp.arange(FILTERS)
    at = (inputs[:, None], filters[None, :])
    mask = jnp.broadcast_to((inputs < shape.inputs)[:, None], (len(inputs), FILTERS))
    weight = step.load(lambda x: x.at[network, *at], refs[6:9], mask)
    bias = step.load(lambda x: x.at[network, filters], refs[9:12])
    groups = range(shape.positions // GROUP)
    of_weight = [gpu.load(filter_gradient.at[i, *at]) for i in groups]
    of_bias = [gpu.load(bias_gradient.at[i, filters]) for i in groups]
    weight.descend(sum(of_weight[1:], of_weight[0]))
    bias.descend(sum(of_bias[1:], of_bias[0]))


class StepResult(NamedTuple):
    """Networks after a gradient step of one of them."""

    params: Any
    mu: Any
    nu: Any
    loss: jax.Array
    """Mean over the batch, before the step."""
    mean_q: jax.Array
    """Mean of Q(s, a) over the batch, before the step."""


def gradient_step(
    params: ConvNet,
    mu: ConvNet,
    nu: ConvNet,
    chosen: jax.Array,
    observations: jax.Array,
    action: jax.Array,
    targets: jax.Array,
    learning_rate: jax.Array,
    *,
    shape: ConvShape,
    loss: Callable[[jax.Array], jax.Array],
    decay: float,
    epsilon: float,
) -> StepResult:
    """Make a gradient step of one network with centred RMSprop; the others stay as they are.

    Args:
        mu, nu: moving averages of the gradients and of their squares, like `params`.
        chosen: int32, the network.
        observations: bool [B, H, W, C]; B is a power of two.
        action, targets: int32 [B] and float32 [B].
        loss: of each sample, as a function of Q(s, a) - target.
    """
    count, rmsprop = len(observations), {"decay": decay, "epsilon": epsilon}
    which, rate, cells = chosen.reshape(1), jnp.reshape(learning_rate, 1), as_bytes(observations)
    leaves, structure = jax.tree.flatten(params)
    filters, filter_bias, hidden, hidden_bias, outputs, output_bias = (
        list(one) for one in zip(leaves, jax.tree.leaves(mu), jax.tree.leaves(nu), strict=True)
    )

    def in_place(kernel, grid, inputs, changed, *new, **how):
        """Call a kernel that changes some arrays in place, and makes some new ones."""
        shapes = [*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in changed), *new]
        aliases = {len(inputs) + i: i for i in range(len(changed))}
        kernel = partial(kernel, shape=shape, rmsprop=rmsprop, **how)
        results = call(kernel, grid, shapes, input_output_aliases=aliases)(*inputs, *changed)
        return results[: len(changed)], results[len(changed) :]

    rows, parts, groups = shape.positions * FILTERS, count // LOSS_SAMPLES, shape.positions // GROUP
    of_hidden, of_rows = float32(count, shape.hidden), float32(count, rows)
    kernel = partial(sums_kernel, splits=SPLITS, count=count, shape=shape)
    shapes = float32(1, SPLITS, count, shape.hidden), of_rows
    sums, h = call(kernel, (1, SPLITS), shapes)(which, cells, *leaves[:3], leaves[5])
    kernel = partial(_loss_kernel, loss_of=loss, count=count, shape=shape)
    shapes = of_hidden, of_hidden, float32(count), float32(parts, 2)
    z, dz, slope, info = call(kernel, (parts,), shapes)(which, sums, action, targets, *leaves[3:])
    inputs, blocks = (which, h, dz, rate), rows // HIDDEN_ROWS
    hidden, (dh,) = in_place(_hidden_kernel, (blocks,), inputs, hidden, of_rows, count=count)
    inputs, changed = (which, z, dz, slope, action, rate), [*hidden_bias, *outputs, *output_bias]
    head, _ = in_place(_outputs_kernel, (1,), inputs, changed, count=count)
    kernel = partial(_filter_gradient_kernel, count=count, shape=shape)
    shapes = float32(groups, padded(shape.inputs), FILTERS), float32(groups, FILTERS)
    gradients = call(kernel, (groups,), shapes)(cells, dh)
    convolution, _ = in_place(_filters_kernel, (1,), (which, *gradients, rate), [*filters, *filter_bias])
    by_array = [convolution[:3], convolution[3:], hidden, head[:3], head[3:6], head[6:]]
    trees = [jax.tree.unflatten(structure, leaves) for leaves in zip(*by_array, strict=True)]
    loss_and_q = info.sum(axis=0)
    return StepResult(*trees, loss=loss_and_q[0], mean_q=loss_and_q[1])

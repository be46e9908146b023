"""Pallas kernels for MinAtar's network on a GPU: Q-values of an ensemble, and the gradient step of one of its networks.

With one environment and batches of 32, XLA makes a round of training from some eighty kernels of a few microseconds,
and moves weights and activations through memory several times. Here a forward pass is two kernels and a gradient step
six, whatever the number of lanes. Convolution and hidden layer are one kernel, since the outputs of the filters at one
position of the image meet just 16 rows of the hidden layer's weights. RMSprop changes weights and averages in place
while their gradient is still in registers, and only those of the chosen network.

Shapes: M networks, B samples, C channels, P = (H - 2)(W - 2) positions of the filters, D hidden units, A actions;
x_p [B, 9 C] is the patch of the images at position p.

    weights   filters F [M, 9 C, 16], hidden U [M, 16 P, D], outputs V [M, D, A], and biases f, u, v
    forward   h_p = relu(x_p F + f),   z = relu(Σ_p h_p U_p + u),   q = z V + v
    backward  δz = δq Vᵀ · [z > 0],   dU_p = h_pᵀ δz,   δh_p = δz U_pᵀ · [h_p > 0],   dF = Σ_p x_pᵀ δh_p

Products are TF32, XLA's default for float32 on such GPUs. Triton wants sizes that are powers of two, so that some are
padded with zeros; `ConvShape.of` says which networks the kernels can take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as gpu

from greedystep.deep.networks import FILTERS, SIDE, ConvNet
from greedystep.deep.optimisers import centred_rmsprop

AMPERE = 8.0
"""The first compute capability that has TF32."""
LEAST = 16
"""Triton's smallest side of a matrix in a product."""
SMALL_BATCH = 64
"""The largest batch whose forward pass is split over positions; larger ones are split into tiles of TILE samples."""
TILE = 32
SPLITS = 8
"""Number of programs over which the positions of a network are split; twice as many for one network and sample."""
GROUP = 4
"""Positions whose patches are multiplied with the filters at once."""
MOST_PATCH_CELLS = 2**14
"""The largest matrix of patches that a program holds in registers."""
LOSS_SAMPLES = 8
"""Samples whose loss one program computes."""
HIDDEN_ROWS = 32
"""Rows of the hidden layer's weights that one program changes."""
WARPS = {"one": 4, "sums": 4, "outputs": 4, "tile": 4, "loss": 4, "hidden": 4, "head": 4, "filters": 4}
STAGES = 3
"""Triton's options: warps per program by kernel, and stages of the pipeline of a loop."""


@dataclass(frozen=True)
class ConvShape:
    """Sizes of a `ConvNet` with one hidden layer."""

    height: int
    width: int
    channels: int
    hidden: int
    actions: int

    @classmethod
    def of(cls, observation: Sequence[int], hidden: Sequence[int], actions: int) -> ConvShape | None:
        """Return the sizes; None if the kernels cannot take them."""
        if len(observation) != 3 or len(hidden) != 1:
            return None
        height, width, channels = observation
        shape = cls(height, width, channels, hidden[0], actions)
        fits = shape.hidden == _padded(shape.hidden) and shape.positions % (2 * SPLITS * GROUP) == 0
        return shape if fits else None

    @property
    def across(self) -> int:
        """Positions of the filters in a row of the image."""
        return self.width - SIDE + 1

    @property
    def positions(self) -> int:
        """Positions of the filters in the image."""
        return (self.height - SIDE + 1) * self.across

    @property
    def inputs(self) -> int:
        """Inputs of a filter."""
        return SIDE * SIDE * self.channels


def is_available() -> bool:
    """Return whether Triton can compile the kernels for this machine's GPUs: those of NVIDIA from Ampere on."""
    try:
        return jax.default_backend() == "gpu" and float(jax.devices()[0].compute_capability) >= AMPERE
    except (AttributeError, ValueError):  # other makers name their GPUs otherwise
        return False


def takes_batch(size: int) -> bool:
    """Return whether a gradient step may have so many samples."""
    return size == _padded(size) <= SMALL_BATCH


def _padded(size: int) -> int:
    """Return the next power of two that Triton's products take."""
    return max(LEAST, 1 << (size - 1).bit_length())


# -- parts of kernels -------------------------------------------------------------------------------------------------


class _Filters(NamedTuple):
    """The filters of one network, and where their inputs lie in an image."""

    weight: jax.Array
    """[padded 9 C, 16]."""
    bias: jax.Array
    """[16]."""

    @classmethod
    def load(cls, weight: Any, bias: Any, network: jax.Array, shape: ConvShape) -> _Filters:
        inputs, filters = jnp.arange(_padded(shape.inputs)), jnp.arange(FILTERS)
        mask = jnp.broadcast_to((inputs < shape.inputs)[:, None], (len(inputs), FILTERS))
        w = gpu.load(weight.at[network, inputs[:, None], filters[None, :]], mask=mask, other=0.0)
        return cls(w, gpu.load(bias.at[network, filters]))

    def __call__(self, patches: jax.Array) -> jax.Array:
        """Return relu(x F + f): [rows, padded 9 C] -> [rows, 16]."""
        return jnp.maximum(patches @ self.weight + self.bias[None, :], 0)


def _load_patches(
    cells: Any, samples: jax.Array, count: int | None, positions: jax.Array, shape: ConvShape
) -> jax.Array:
    """Return the inputs of the filters for some samples and positions, float32 [rows, padded 9 C].

    Args:
        cells: [samples, H W C].
        samples, positions: int32 [rows].
        count: samples from this number on are 0; None: there are none.
    """
    inputs, in_row = jnp.arange(_padded(shape.inputs)), SIDE * shape.channels
    offsets = lax.div(inputs, in_row) * (shape.width * shape.channels) + lax.rem(inputs, in_row)
    first = lax.div(positions, shape.across) * shape.width + lax.rem(positions, shape.across)
    mask = jnp.broadcast_to((inputs < shape.inputs)[None, :], (len(samples), len(inputs)))
    if count is not None:
        mask = mask & (samples < count)[:, None]
    at = cells.at[samples[:, None], (first * shape.channels)[:, None] + offsets[None, :]]
    return gpu.load(at, mask=mask, other=0).astype(jnp.float32)


def _rows_and_positions(samples: int, group: int, first_sample: jax.Array, first: jax.Array) -> tuple:
    """Return samples and positions of `group` positions for each sample, int32 [samples * group], sample by sample."""
    rows = jnp.arange(samples * group)
    return first_sample + lax.div(rows, group), first + lax.rem(rows, group)


class _Outputs(NamedTuple):
    """The weights of one network behind the sums of its hidden layer."""

    hidden_bias: jax.Array
    """[D]."""
    weight: jax.Array
    """[D, padded A]."""
    bias: jax.Array
    """[padded A]."""

    @classmethod
    def load(cls, hidden_bias: Any, weight: Any, bias: Any, network: jax.Array, shape: ConvShape) -> _Outputs:
        units, actions = jnp.arange(shape.hidden), jnp.arange(_padded(shape.actions))
        is_action = actions < shape.actions
        at = weight.at[network, units[:, None], actions[None, :]]
        return cls(
            gpu.load(hidden_bias.at[network, units]),
            gpu.load(at, mask=jnp.broadcast_to(is_action[None, :], (shape.hidden, len(actions))), other=0.0),
            gpu.load(bias.at[network, actions], mask=is_action, other=0.0),
        )

    def __call__(self, sums: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return z [B, D] and q [B, padded A]."""
        z = jnp.maximum(sums + self.hidden_bias[None, :], 0)
        return z, z @ self.weight + self.bias[None, :]


# -- forward ----------------------------------------------------------------------------------------------------------


def _one_sample_kernel(which, cells, filters, filter_bias, hidden, out, *, splits: int, shape: ConvShape) -> None:
    """Grid [networks, splits]: the hidden layer's sums over the positions of one split, for one sample.

    That is what acts: it reads each weight for one product, so that these need not be matrix products.
    """
    row, split = pl.program_id(0), pl.program_id(1)
    network, units = which[row], jnp.arange(shape.hidden)
    own = _Filters.load(filters, filter_bias, network, shape)
    each = shape.positions // splits

    def add(i: jax.Array, products: jax.Array) -> jax.Array:
        first = split * each + i * GROUP
        positions = first + jnp.arange(GROUP)
        patches = _load_patches(cells, jnp.zeros_like(positions), None, positions, shape)
        h = jnp.maximum((patches[:, :, None] * own.weight[None]).sum(axis=1) + own.bias[None, :], 0)
        weights = gpu.load(hidden.at[network, pl.ds(first * FILTERS, GROUP * FILTERS), :])
        return products + h.reshape(-1)[:, None] * weights

    first = jnp.zeros((GROUP * FILTERS, shape.hidden), jnp.float32)
    gpu.store(out.at[row, split, 0, units], lax.fori_loop(0, each // GROUP, add, first).sum(axis=0))


def _sums_kernel(which, cells, filters, filter_bias, hidden, out, *kept, splits: int, count: int, shape: ConvShape):
    """Grid [networks, splits]: the hidden layer's sums over the positions of one split; keeps h if asked to."""
    row, split = pl.program_id(0), pl.program_id(1)
    network, units, padded = which[row], jnp.arange(shape.hidden), _padded(count)
    own, each = _Filters.load(filters, filter_bias, network, shape), shape.positions // splits
    samples, is_padded = jnp.arange(padded), padded != count

    def add(i: jax.Array, sums: jax.Array) -> jax.Array:
        first = split * each + i * GROUP
        rows, positions = _rows_and_positions(padded, GROUP, jnp.int32(0), first)
        h = own(_load_patches(cells, rows, count if is_padded else None, positions, shape))
        h = h.reshape(padded, GROUP * FILTERS)
        for keep in kept:
            columns = first * FILTERS + jnp.arange(GROUP * FILTERS)
            gpu.store(keep.at[samples[:, None], columns[None, :]], h)
        return sums + h @ gpu.load(hidden.at[network, pl.ds(first * FILTERS, GROUP * FILTERS), :])

    sums = lax.fori_loop(0, each // GROUP, add, jnp.zeros((padded, shape.hidden), jnp.float32))
    mask = jnp.broadcast_to((samples < count)[:, None], sums.shape) if is_padded else None
    gpu.store(out.at[row, split, samples[:, None], units[None, :]], sums, mask=mask)


def _add_splits(sums: Any, row: jax.Array, samples: jax.Array, count: int, splits: int, shape: ConvShape) -> jax.Array:
    """Return the sums over all positions, [B, D], from those of each split, [rows, splits, count, D]."""
    units = jnp.arange(shape.hidden)
    mask = jnp.broadcast_to((samples < count)[:, None], (len(samples), shape.hidden))
    parts = [gpu.load(sums.at[row, i, samples[:, None], units[None, :]], mask=mask, other=0.0) for i in range(splits)]
    return sum(parts[1:], parts[0])


def _outputs_kernel(which, sums, hidden_bias, outputs, output_bias, q, *, splits: int, count: int, shape: ConvShape):
    """Grid [networks]: Q-values from the sums of all splits."""
    row, samples = pl.program_id(0), jnp.arange(_padded(count))
    own = _Outputs.load(hidden_bias, outputs, output_bias, which[row], shape)
    _, values = own(_add_splits(sums, row, samples, count, splits, shape))
    _store_q(q, row, samples, values, count, shape)


def _tile_kernel(
    cells, filters, filter_bias, hidden, hidden_bias, outputs, output_bias, q, *, count: int, shape: ConvShape
) -> None:
    """Grid [networks, tiles]: Q-values of a tile of samples, from their images to the end."""
    network, first_sample = pl.program_id(0), pl.program_id(1) * TILE
    own = _Filters.load(filters, filter_bias, network, shape)
    group = min(GROUP, MOST_PATCH_CELLS // (TILE * _padded(shape.inputs)))

    def add(i: jax.Array, sums: jax.Array) -> jax.Array:
        rows, positions = _rows_and_positions(TILE, group, first_sample, i * group)
        h = own(_load_patches(cells, rows, count, positions, shape)).reshape(TILE, group * FILTERS)
        return sums + h @ gpu.load(hidden.at[network, pl.ds(i * group * FILTERS, group * FILTERS), :])

    sums = lax.fori_loop(0, shape.positions // group, add, jnp.zeros((TILE, shape.hidden), jnp.float32))
    _, values = _Outputs.load(hidden_bias, outputs, output_bias, network, shape)(sums)
    _store_q(q, network, first_sample + jnp.arange(TILE), values, count, shape)


def _store_q(q: Any, row: jax.Array, samples: jax.Array, values: jax.Array, count: int, shape: ConvShape) -> None:
    actions = jnp.arange(values.shape[1])
    mask = (samples < count)[:, None] & (actions < shape.actions)[None, :]
    gpu.store(q.at[row, samples[:, None], actions[None, :]], values, mask=mask)


def ensemble_q(params: ConvNet, observations: jax.Array, shape: ConvShape) -> jax.Array:
    """Return the Q-values of every network, bool [B, H, W, C] -> [M, B, A]."""
    arrays, count = jax.tree.leaves(params), len(observations)
    networks = len(arrays[0])
    cells = _cells(observations)
    q = _float32(networks, count, shape.actions)
    if count > SMALL_BATCH:
        kernel = partial(_tile_kernel, count=count, shape=shape)
        return _call(kernel, (networks, -(-count // TILE)), q, WARPS["tile"])(cells, *arrays)
    which = jnp.arange(networks)
    splits = 2 * SPLITS if count == networks == 1 else SPLITS
    out, inputs = _float32(networks, splits, count, shape.hidden), (which, cells, *arrays[:3])
    if count == 1:
        kernel = partial(_one_sample_kernel, splits=splits, shape=shape)
        sums = _call(kernel, (networks, splits), out, WARPS["one"])(*inputs)
    else:
        kernel = partial(_sums_kernel, splits=splits, count=count, shape=shape)
        sums = _call(kernel, (networks, splits), out, WARPS["sums"])(*inputs)
    kernel = partial(_outputs_kernel, splits=splits, count=count, shape=shape)
    return _call(kernel, (networks,), q, WARPS["outputs"])(which, sums, *arrays[3:])


def _cells(observations: jax.Array) -> jax.Array:
    """Return boolean images as bytes, [B, H W C]."""
    return observations.reshape(len(observations), -1).astype(jnp.uint8)


def _float32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


# -- the gradient step ------------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """How the gradient step changes weights."""

    learning_rate: jax.Array
    decay: float
    epsilon: float

    def load(self, at: Callable[[Any], Any], arrays: Sequence[Any], mask: Any = None) -> _Block:
        """Load a block of weights and of both averages of RMSprop; `at` picks it from each array."""
        refs = tuple(at(array) for array in arrays)
        other = None if mask is None else 0.0
        return _Block(self, refs, tuple(gpu.load(ref, mask=mask, other=other) for ref in refs), mask)


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
        for ref, new in zip(self.refs, (w - step.learning_rate * update, m, v), strict=True):
            gpu.store(ref, new, mask=self.mask)


def _loss_kernel(
    which, sums, action, targets, hidden_bias, outputs, output_bias, z_out, delta_z_out, slope_out, info,
    *, loss_of: Callable, splits: int, count: int, shape: ConvShape,
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
    parts = [gpu.load(sums.at[0, i, *at]) for i in range(splits)]
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


def _outputs_step_kernel(
    which, z, delta_z, slope, action, rate, *refs, count: int, shape: ConvShape, rmsprop: dict
) -> None:
    """Grid [1]: changes the hidden layer's bias, and the weights and biases of the outputs."""
    network, samples, step = which[0], jnp.arange(count), _Step(rate[0], **rmsprop)
    units, actions = jnp.arange(shape.hidden), jnp.arange(_padded(shape.actions))
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
    split, filters, inputs = pl.program_id(0), jnp.arange(FILTERS), jnp.arange(_padded(shape.inputs))
    samples, positions = _rows_and_positions(count, GROUP, jnp.int32(0), split * GROUP)
    patches = _load_patches(cells, samples, None, positions, shape)
    dh = gpu.load(delta_h.at[samples[:, None], (positions * FILTERS)[:, None] + filters[None, :]])
    gpu.store(weight.at[split, inputs[:, None], filters[None, :]], patches.T @ dh)
    gpu.store(bias.at[split, filters], dh.sum(axis=0))


def _filters_step_kernel(which, filter_gradient, bias_gradient, rate, *refs, shape: ConvShape, rmsprop: dict) -> None:
    """Grid [1]: adds up the gradients of all positions, and changes the filters and their bias."""
    network, step = which[0], _Step(rate[0], **rmsprop)
    inputs, filters = jnp.arange(_padded(shape.inputs)), jnp.arange(FILTERS)
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
    which, rate, cells = chosen.reshape(1), jnp.reshape(learning_rate, 1), _cells(observations)
    leaves, structure = jax.tree.flatten(params)
    filters, filter_bias, hidden, hidden_bias, outputs, output_bias = (
        list(one) for one in zip(leaves, jax.tree.leaves(mu), jax.tree.leaves(nu), strict=True)
    )

    def in_place(kernel, grid, warps, inputs, changed, *new, **how):
        """Call a kernel that changes some arrays in place, and makes some new ones."""
        shapes = [*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in changed), *new]
        aliases = {len(inputs) + i: i for i in range(len(changed))}
        kernel = partial(kernel, shape=shape, rmsprop=rmsprop, **how)
        results = _call(kernel, grid, shapes, warps, input_output_aliases=aliases)(*inputs, *changed)
        return results[: len(changed)], results[len(changed) :]

    splits, rows, padded = SPLITS, shape.positions * FILTERS, _padded(shape.inputs)
    kernel = partial(_sums_kernel, splits=splits, count=count, shape=shape)
    shapes = _float32(1, splits, count, shape.hidden), _float32(count, rows)
    sums, h = _call(kernel, (1, splits), shapes, WARPS["sums"])(which, cells, *leaves[:3])
    kernel = partial(_loss_kernel, loss_of=loss, splits=splits, count=count, shape=shape)
    hidden_shape = _float32(count, shape.hidden)
    parts = count // LOSS_SAMPLES
    shapes = hidden_shape, hidden_shape, _float32(count), _float32(parts, 2)
    z, dz, slope, info = _call(kernel, (parts,), shapes, WARPS["loss"])(which, sums, action, targets, *leaves[3:])
    hidden, (dh,) = in_place(
        _hidden_kernel, (rows // HIDDEN_ROWS,), WARPS["hidden"], (which, h, dz, rate), hidden, _float32(count, rows),
        count=count,
    )  # fmt: skip
    changed = [*hidden_bias, *outputs, *output_bias]
    head, _ = in_place(
        _outputs_step_kernel, (1,), WARPS["head"], (which, z, dz, slope, action, rate), changed, count=count
    )
    groups = shape.positions // GROUP
    kernel = partial(_filter_gradient_kernel, count=count, shape=shape)
    shapes = _float32(groups, padded, FILTERS), _float32(groups, FILTERS)
    gradients = _call(kernel, (groups,), shapes, WARPS["filters"])(cells, dh)
    changed = [*filters, *filter_bias]
    convolution, _ = in_place(_filters_step_kernel, (1,), WARPS["head"], (which, *gradients, rate), changed)
    by_array = [convolution[:3], convolution[3:], hidden, head[:3], head[3:6], head[6:]]
    trees = [jax.tree.unflatten(structure, leaves) for leaves in zip(*by_array, strict=True)]
    return StepResult(*trees, loss=info[:, 0].sum(), mean_q=info[:, 1].sum())


def _call(kernel: Callable, grid: tuple[int, ...], out: Any, warps: int, **how: Any) -> Callable[..., Any]:
    """Return a kernel as a function of arrays; without a GPU it is interpreted, which is for tests."""
    options = gpu.CompilerParams(num_warps=warps, num_stages=STAGES)
    return pl.pallas_call(kernel, out, grid=grid, interpret=_is_interpreted(), compiler_params=options, **how)


def _is_interpreted() -> bool:
    return jax.default_backend() == "cpu"

"""Pallas kernels for MinAtar's network on a GPU: the Q-values of an ensemble (`conv_gradient.py`: its gradient step).

With one environment and batches of 32, XLA makes a round of training from some eighty kernels of a few microseconds,
and moves weights and activations through memory several times. Here a forward pass is two or three kernels and a
gradient step six, whatever the number of lanes. For a batch, convolution and hidden layer are one kernel, since the
outputs of the filters at one position of the image meet just 16 rows of the hidden layer's weights.

Shapes: M networks, B samples, C channels, P = (H - 2)(W - 2) positions of the filters, D hidden units, A actions;
x_p [B, 9 C] is the patch of the images at position p.

    weights   filters F [M, 9 C, 16], hidden U [M, 16 P, D], outputs V [M, D, A], and biases f, u, v
    forward   h_p = relu(x_p F + f),   z = relu(Σ_p h_p U_p + u),   q = z V + v

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

from greedystep.deep.networks import ABSENT, FILTERS, SIDE, ConvNet

AMPERE = 8.0
"""The first compute capability that has TF32."""
LEAST = 16
"""Triton's smallest side of a matrix in a product."""
SMALL_BATCH = 64
"""The largest batch whose forward pass is split over positions; larger ones are split into tiles of TILE samples."""
TILE = 32
SPLITS, ONE_SPLITS = 8, 16
"""Number of programs over which the hidden layer of a network is split, for a small batch and for one sample."""
GROUP = 2
"""Positions of a sample whose patches are multiplied with the filters at once."""


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
        fits = shape.hidden == padded(shape.hidden) and shape.positions == padded(shape.positions) >= SPLITS * GROUP
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
    """Return whether a gradient step may have batches of this size."""
    return size == padded(size) <= SMALL_BATCH


def padded(size: int) -> int:
    """Return the next power of two that Triton's products take."""
    return max(LEAST, 1 << (size - 1).bit_length())


# -- parts of kernels -------------------------------------------------------------------------------------------------


class _Filters(NamedTuple):
    """The filters of one network."""

    weight: jax.Array
    """[padded 9 C, 16]."""
    bias: jax.Array
    """[16]."""

    @classmethod
    def load(cls, weight: Any, bias: Any, network: jax.Array, shape: ConvShape) -> _Filters:
        inputs, filters = jnp.arange(padded(shape.inputs)), jnp.arange(FILTERS)
        mask = jnp.broadcast_to((inputs < shape.inputs)[:, None], (len(inputs), FILTERS))
        w = gpu.load(weight.at[network, inputs[:, None], filters[None, :]], mask=mask, other=0.0)
        return cls(w, gpu.load(bias.at[network, filters]))

    def __call__(self, patches: jax.Array) -> jax.Array:
        """Return relu(x F + f): [rows, padded 9 C] -> [rows, 16]."""
        return jnp.maximum(patches @ self.weight + self.bias[None, :], 0)


def load_patches(
    cells: Any, samples: jax.Array, count: int | None, positions: jax.Array, shape: ConvShape
) -> jax.Array:
    """Return the inputs of the filters for some samples and positions, float32 [rows, padded 9 C].

    Args:
        cells: [samples, H W C].
        samples, positions: int32 [rows].
        count: samples from this number on are 0; None: there are none.
    """
    inputs, in_row = jnp.arange(padded(shape.inputs)), SIDE * shape.channels
    offsets = lax.div(inputs, in_row) * (shape.width * shape.channels) + lax.rem(inputs, in_row)
    first = lax.div(positions, shape.across) * shape.width + lax.rem(positions, shape.across)
    mask = jnp.broadcast_to((inputs < shape.inputs)[None, :], (len(samples), len(inputs)))
    if count is not None:
        mask = mask & (samples < count)[:, None]
    at = cells.at[samples[:, None], (first * shape.channels)[:, None] + offsets[None, :]]
    return gpu.load(at, mask=mask, other=0).astype(jnp.float32)


def rows_and_positions(samples: int, group: int, first_sample: jax.Array, first: jax.Array) -> tuple:
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
        units, actions = jnp.arange(shape.hidden), jnp.arange(padded(shape.actions))
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


def _is_present(output_bias: Any, network: jax.Array) -> jax.Array:
    """Return whether a network takes part in the ensemble, see `networks.leave_out`."""
    return output_bias[network, 0] < ABSENT


def _one_convolution_kernel(which, cells, filters, filter_bias, output_bias, h, *, shape: ConvShape) -> None:
    """Grid [networks]: h of one sample."""
    row, positions = pl.program_id(0), jnp.arange(shape.positions)
    network = which[row]

    @pl.when(_is_present(output_bias, network))
    def _() -> None:
        patches = load_patches(cells, jnp.zeros_like(positions), None, positions, shape)
        out = _Filters.load(filters, filter_bias, network, shape)(patches)
        gpu.store(h.at[row, (positions * FILTERS)[:, None] + jnp.arange(FILTERS)[None, :]], out)


def _one_sample_kernel(which, h, hidden, output_bias, out, *, splits: int, shape: ConvShape) -> None:
    """Grid [networks, splits]: the hidden layer's sums over some of its inputs, for one sample.

    That is what acts. It reads each weight for one product, and with no convolution or matrix product in between it
    takes little longer than that.
    """
    row, split, units = pl.program_id(0), pl.program_id(1), jnp.arange(shape.hidden)
    network, each = which[row], shape.positions * FILTERS // splits

    @pl.when(_is_present(output_bias, network))
    def _() -> None:
        weights = gpu.load(hidden.at[network, pl.ds(split * each, each), :])
        own = gpu.load(h.at[row, split * each + jnp.arange(each)])
        gpu.store(out.at[row, split, units], (own[:, None] * weights).sum(axis=0))


def sums_kernel(
    which, cells, filters, filter_bias, hidden, output_bias, out, *kept, splits: int, count: int, shape: ConvShape
) -> None:
    """Grid [networks, splits]: the hidden layer's sums over the positions of one split; keeps h if asked to."""
    row, split = pl.program_id(0), pl.program_id(1)
    network, units, samples = which[row], jnp.arange(shape.hidden), jnp.arange(padded(count))
    each, is_padded = shape.positions // splits, len(samples) != count

    @pl.when(_is_present(output_bias, network))
    def _() -> None:
        own = _Filters.load(filters, filter_bias, network, shape)

        def add(i: jax.Array, sums: jax.Array) -> jax.Array:
            first = split * each + i * GROUP
            rows, positions = rows_and_positions(len(samples), GROUP, jnp.int32(0), first)
            h = own(load_patches(cells, rows, count if is_padded else None, positions, shape))
            h = h.reshape(len(samples), GROUP * FILTERS)
            for keep in kept:
                columns = first * FILTERS + jnp.arange(GROUP * FILTERS)
                gpu.store(keep.at[samples[:, None], columns[None, :]], h)
            return sums + h @ gpu.load(hidden.at[network, pl.ds(first * FILTERS, GROUP * FILTERS), :])

        sums = lax.fori_loop(0, each // GROUP, add, jnp.zeros((len(samples), shape.hidden), jnp.float32))
        mask = jnp.broadcast_to((samples < count)[:, None], sums.shape) if is_padded else None
        gpu.store(out.at[row, split, samples[:, None], units[None, :]], sums, mask=mask)


def _add_splits(sums: Any, row: jax.Array, samples: jax.Array, count: int, splits: int, shape: ConvShape) -> jax.Array:
    """Return the sums over all positions, [B, D], from those of each split, [rows, splits, count, D]."""
    units = jnp.arange(shape.hidden)
    mask = jnp.broadcast_to((samples < count)[:, None], (len(samples), shape.hidden))
    parts = [gpu.load(sums.at[row, i, samples[:, None], units[None, :]], mask=mask, other=0.0) for i in range(splits)]
    return sum(parts[1:], parts[0])


def _one_output_kernel(which, sums, hidden_bias, outputs, output_bias, q, *, splits: int, shape: ConvShape) -> None:
    """Grid [networks]: what `_outputs_kernel` does for one sample, without matrix products."""
    row = pl.program_id(0)
    own, units = _Outputs.load(hidden_bias, outputs, output_bias, which[row], shape), jnp.arange(shape.hidden)
    parts = gpu.load(sums.at[row, jnp.arange(splits)[:, None], units[None, :]])
    z = jnp.maximum(parts.sum(axis=0) + own.hidden_bias, 0)
    values = (z[:, None] * own.weight).sum(axis=0) + own.bias
    values = jnp.where(_is_present(output_bias, which[row]), values, ABSENT)
    actions = jnp.arange(values.shape[0])
    gpu.store(q.at[row, 0, actions], values, mask=actions < shape.actions)


def _outputs_kernel(which, sums, hidden_bias, outputs, output_bias, q, *, splits: int, count: int, shape: ConvShape):
    """Grid [networks]: Q-values from the sums of all splits, which are not computed for networks that are left out."""
    row, samples = pl.program_id(0), jnp.arange(padded(count))
    own = _Outputs.load(hidden_bias, outputs, output_bias, which[row], shape)
    _, values = own(_add_splits(sums, row, samples, count, splits, shape))
    values = jnp.where(_is_present(output_bias, which[row]), values, ABSENT)
    _store_q(q, row, samples, values, count, shape)


def _tile_kernel(
    cells, filters, filter_bias, hidden, hidden_bias, outputs, output_bias, q, *, count: int, shape: ConvShape
) -> None:
    """Grid [networks, tiles]: Q-values of a tile of samples, from their images to the end."""
    network, first_sample = pl.program_id(0), pl.program_id(1) * TILE
    samples = first_sample + jnp.arange(TILE)
    is_present = _is_present(output_bias, network)

    @pl.when(is_present)
    def _() -> None:
        own = _Filters.load(filters, filter_bias, network, shape)

        def add(i: jax.Array, sums: jax.Array) -> jax.Array:
            rows, positions = rows_and_positions(TILE, GROUP, first_sample, i * GROUP)
            h = own(load_patches(cells, rows, count, positions, shape)).reshape(TILE, GROUP * FILTERS)
            return sums + h @ gpu.load(hidden.at[network, pl.ds(i * GROUP * FILTERS, GROUP * FILTERS), :])

        sums = lax.fori_loop(0, shape.positions // GROUP, add, jnp.zeros((TILE, shape.hidden), jnp.float32))
        _, values = _Outputs.load(hidden_bias, outputs, output_bias, network, shape)(sums)
        _store_q(q, network, samples, values, count, shape)

    @pl.when(~is_present)
    def _() -> None:
        _store_q(q, network, samples, jnp.full((TILE, padded(shape.actions)), ABSENT, jnp.float32), count, shape)


def _store_q(q: Any, row: jax.Array, samples: jax.Array, values: jax.Array, count: int, shape: ConvShape) -> None:
    actions = jnp.arange(values.shape[1])
    mask = (samples < count)[:, None] & (actions < shape.actions)[None, :]
    gpu.store(q.at[row, samples[:, None], actions[None, :]], values, mask=mask)


def ensemble_q(params: ConvNet, observations: jax.Array, shape: ConvShape) -> jax.Array:
    """Return the Q-values of every network, bool [B, H, W, C] -> [M, B, A]."""
    arrays, count = jax.tree.leaves(params), len(observations)
    networks = len(arrays[0])
    cells = as_bytes(observations)
    q = float32(networks, count, shape.actions)
    if count > SMALL_BATCH:
        kernel = partial(_tile_kernel, count=count, shape=shape)
        return call(kernel, (networks, -(-count // TILE)), q)(cells, *arrays)
    which = jnp.arange(networks)
    if count == 1:
        out = float32(networks, shape.positions * FILTERS)
        h = call(partial(_one_convolution_kernel, shape=shape), (networks,), out)(which, cells, *arrays[:2], arrays[5])
        kernel, out = partial(_one_sample_kernel, splits=ONE_SPLITS, shape=shape), (networks, ONE_SPLITS, shape.hidden)
        sums = call(kernel, (networks, ONE_SPLITS), float32(*out), warps=8)(which, h, arrays[2], arrays[5])
        kernel = partial(_one_output_kernel, splits=ONE_SPLITS, shape=shape)
    else:
        kernel, out = (
            partial(sums_kernel, splits=SPLITS, count=count, shape=shape),
            (networks, SPLITS, count, shape.hidden),
        )
        sums = call(kernel, (networks, SPLITS), float32(*out))(which, cells, *arrays[:3], arrays[5])
        kernel = partial(_outputs_kernel, splits=SPLITS, count=count, shape=shape)
    return call(kernel, (networks,), q)(which, sums, *arrays[3:])


def as_bytes(observations: jax.Array) -> jax.Array:
    """Return boolean images as bytes, [B, H W C]."""
    return observations.reshape(len(observations), -1).astype(jnp.uint8)


def float32(*shape: int) -> jax.ShapeDtypeStruct:
    """Return the description of a float32 array, for the results of kernels."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def call(kernel: Callable, grid: tuple[int, ...], out: Any, *, warps: int = 4, **how: Any) -> Callable[..., Any]:
    """Return a kernel as a function of arrays; without a GPU it is interpreted, which is for tests."""
    options = gpu.CompilerParams(num_warps=warps, num_stages=3)
    return pl.pallas_call(kernel, out, grid=grid, interpret=_is_interpreted(), compiler_params=options, **how)


def _is_interpreted() -> bool:
    return jax.default_backend() == "cpu"

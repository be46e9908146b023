"""Q-networks: Equinox modules that map one observation to Q(s, ·).

An ensemble is one module whose arrays have a leading axis [M]. Nothing here loops over networks or observations:
`vmap` turns the products below into batched matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.core import ObservationSpec

Network = Any
"""A callable pytree, for example an Equinox module: one observation -> float32 [A]."""
MakeNetwork = Callable[[jax.Array, ObservationSpec, int], Network]
"""(key, observation spec, number of actions) -> network."""

LARGE = 36
"""Images at least this high and wide get `NatureNet`, whose convolutions need that size."""
ABSENT = 1e30
"""Q-value of a network that is left out of an ensemble: no minimum is ever taken there."""
FILTERS, SIDE = 16, 3
"""Number of filters of MinAtar's convolution, and their width and height."""


class Dense(eqx.Module):
    """A linear layer x W + b, initialised with W ~ Normal(0, 2 / inputs) (He et al. 2015) and b = 0."""

    weight: jax.Array
    """[inputs, outputs]."""
    bias: jax.Array

    def __init__(self, key: jax.Array, inputs: int, outputs: int):
        self.weight = jax.random.normal(key, (inputs, outputs)) * math.sqrt(2 / inputs)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """Linear layers with ReLUs between them, on the flattened observation."""

    layers: tuple[Dense, ...]

    def __init__(self, key: jax.Array, inputs: int, hidden: Sequence[int], outputs: int):
        sizes = [inputs, *hidden, outputs]
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(Dense(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True))

    def __call__(self, observation: jax.Array) -> jax.Array:
        x = as_float(observation).reshape(-1)
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


class StandardisedMLP(eqx.Module):
    """An MLP on (x - mean) / deviation, element by element; both are 0 and 1 until `standardise` sets them."""

    mean: jax.Array
    """Of the shape of an observation, as is `deviation`; neither is learned."""
    deviation: jax.Array
    mlp: MLP

    def __init__(self, mlp: MLP, shape: tuple[int, ...]):
        self.mean, self.deviation, self.mlp = jnp.zeros(shape), jnp.ones(shape), mlp

    def __call__(self, observation: jax.Array) -> jax.Array:
        mean, deviation = jax.lax.stop_gradient((self.mean, self.deviation))
        return self.mlp((as_float(observation) - mean) / deviation)


class OneHotMLP(eqx.Module):
    """An MLP on the one-hot encoding of a state number."""

    mlp: MLP
    states: int = eqx.field(static=True)

    def __call__(self, observation: jax.Array) -> jax.Array:
        return self.mlp(jax.nn.one_hot(observation, self.states))


class ConvNet(eqx.Module):
    """MinAtar's network (Young & Tian 2019): 16 filters of 3 x 3 without padding, then an MLP.

    The convolution is one matrix product, since XLA's own is several times slower on a CPU, and on a GPU too once
    there are many networks side by side. On a CPU each 3 x 3 patch is multiplied with the filters. A GPU prefers wider
    products, though most of their weights are zero: three rows of the image at once give one row of the output, which
    makes whole trainings 25 % faster on Breakout and 40 % on Seaquest (25 lanes on an H200).
    """

    filters: Dense
    """[9 C, 16]; inputs are ordered by row, column and channel of a patch."""
    head: MLP

    def __init__(self, key: jax.Array, shape: tuple[int, ...], hidden: Sequence[int], outputs: int):
        height, width, channels = shape
        filters_key, head_key = jax.random.split(key)
        self.filters = Dense(filters_key, SIDE * SIDE * channels, FILTERS)
        self.head = MLP(head_key, (height - SIDE + 1) * (width - SIDE + 1) * FILTERS, hidden, outputs)

    def __call__(self, observation: jax.Array) -> jax.Array:
        convolve = conv_by_patches if jax.default_backend() == "cpu" else conv_by_rows
        return self.head(jax.nn.relu(convolve(self.filters, as_float(observation))))


class NatureNet(eqx.Module):
    """The network of DQN on Atari (Mnih et al. 2015): three strided convolutions, then an MLP, for large images."""

    LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, side, stride

    filters: tuple[jax.Array, ...]
    """[side, side, inputs, outputs] of each convolution."""
    head: MLP
    channels_first: bool = eqx.field(static=True)

    def __init__(self, key: jax.Array, shape: tuple[int, ...], hidden: Sequence[int], outputs: int):
        self.channels_first = shape[0] < shape[2]  # [C, H, W], as stacked frames are
        height, width, channels = (*shape[1:], shape[0]) if self.channels_first else shape
        *keys, head_key = jax.random.split(key, len(self.LAYERS) + 1)
        filters = []
        for k, (count, side, stride) in zip(keys, self.LAYERS, strict=True):
            inputs = side * side * channels
            filters.append(jax.random.normal(k, (side, side, channels, count)) * math.sqrt(2 / inputs))
            height, width, channels = (height - side) // stride + 1, (width - side) // stride + 1, count
        self.filters = tuple(filters)
        self.head = MLP(head_key, height * width * channels, hidden, outputs)

    def __call__(self, observation: jax.Array) -> jax.Array:
        x = as_float(observation)
        x = (x.transpose(1, 2, 0) if self.channels_first else x)[None]
        for kernel, (_, _, stride) in zip(self.filters, self.LAYERS, strict=True):
            x = jax.lax.conv_general_dilated(
                x, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x)
        return self.head(x)


def as_float(observation: jax.Array) -> jax.Array:
    """Return the observation as float32; bytes, which images are made of, are scaled to [0, 1]."""
    scale = 255 if observation.dtype == jnp.uint8 else 1
    return observation.astype(jnp.float32) / scale


def conv_by_patches(filters: Dense, image: jax.Array) -> jax.Array:
    """Convolve [H, W, C] -> [H - 2, W - 2, 16], each 3 x 3 patch times the filters."""
    height, width, _ = image.shape
    shifted = [image[i : height - SIDE + 1 + i, j : width - SIDE + 1 + j] for i in range(SIDE) for j in range(SIDE)]
    return filters(jnp.concatenate(shifted, axis=-1))


def conv_by_rows(filters: Dense, image: jax.Array) -> jax.Array:
    """Convolve [H, W, C] -> [H - 2, (W - 2) 16]: three rows of the image times the filters placed at every column."""
    height, width, channels = image.shape
    across = width - SIDE + 1
    rows = image.reshape(height, -1)
    rows = jnp.concatenate([rows[i : height - SIDE + 1 + i] for i in range(SIDE)], axis=-1)
    # [3, C, 16, W - 2, W]: the filters at position o lie on the columns o, o + 1, o + 2 of the image. Rows of W + 1
    # numbers that are read as rows of W shift by one column from row to row: no index, no product, one small kernel.
    weight = filters.weight.reshape(SIDE, SIDE, channels, FILTERS).transpose(0, 2, 3, 1)
    padded = jnp.pad(weight, [(0, 0)] * 3 + [(0, width + 1 - SIDE)])[..., None, :]
    repeated = jnp.broadcast_to(padded, (SIDE, channels, FILTERS, across, width + 1)).reshape(*weight.shape[:3], -1)
    shifted = repeated[..., : across * width].reshape(*weight.shape[:3], across, width)
    everywhere = shifted.transpose(0, 4, 1, 3, 2).reshape(SIDE * width * channels, across * FILTERS)
    return rows @ everywhere + jnp.tile(filters.bias, across)


def default_network(hidden: Sequence[int], init_scale: float = 1.0, standardise: bool = False) -> MakeNetwork:
    """Return the function that makes the default network for the shape of the observations.

    `ConvNet` for small images [H, W, C], `NatureNet` for those of at least 36 x 36 pixels, [H, W, C] or [C, H, W],
    `OneHotMLP` for state numbers, `MLP` for everything else, with `standardise` `StandardisedMLP`. All weights are
    multiplied with `init_scale`.
    """

    def choose(key: jax.Array, observation: ObservationSpec, num_actions: int) -> Network:
        if len(observation.shape) == 3 and sorted(observation.shape)[1] >= LARGE:
            return NatureNet(key, observation.shape, hidden, num_actions)
        if len(observation.shape) == 3 and min(observation.shape[:2]) >= SIDE:
            return ConvNet(key, observation.shape, hidden, num_actions)
        if observation.num_states is not None:
            states = observation.num_states
            return OneHotMLP(MLP(key, states, hidden, num_actions), states)
        return MLP(key, math.prod(observation.shape), hidden, num_actions)

    def make(key: jax.Array, observation: ObservationSpec, num_actions: int) -> Network:
        network = choose(key, observation, num_actions)
        network = jax.tree.map(lambda x: init_scale * x if eqx.is_array(x) else x, network)  # biases are 0 anyway
        is_standardised = standardise and isinstance(network, MLP)
        return StandardisedMLP(network, observation.shape) if is_standardised else network

    return make


def numpy_layers(networks: Network) -> tuple[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Return the kind and the weights and biases of an ensemble of default networks, as `NumpyPolicy` takes them.

    ValueError for other networks.
    """
    if isinstance(networks, StandardisedMLP):
        kind, ((weight, bias), *rest) = numpy_layers(networks.mlp)
        mean, deviation = (np.asarray(x, float).reshape(len(weight), -1) for x in (networks.mean, networks.deviation))
        weight = weight / deviation[..., None]  # in float64
        bias = bias - (mean[:, None] @ weight)[:, 0]
        return kind, [(weight.astype(np.float32), bias.astype(np.float32)), *rest]
    kinds = {MLP: "mlp", OneHotMLP: "one-hot", ConvNet: "conv"}
    if type(networks) not in kinds:
        known = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"network: only {known} can be exported to NumPy, got {type(networks).__name__}")
    head = networks.head if isinstance(networks, ConvNet) else getattr(networks, "mlp", networks)
    layers = [*([networks.filters] if isinstance(networks, ConvNet) else []), *head.layers]
    return kinds[type(networks)], [(np.asarray(layer.weight), np.asarray(layer.bias)) for layer in layers]


# -- ensembles --------------------------------------------------------------------------------------------------------


def make_ensemble(make: MakeNetwork, key: jax.Array, size: int, observation: ObservationSpec, num_actions: int) -> Any:
    """Make `size` networks, each from its own key, as one module whose arrays have a leading axis [size]."""
    return eqx.filter_vmap(lambda k: make(k, observation, num_actions))(jax.random.split(key, size))


def leave_out(networks: ConvNet, count: jax.Array) -> ConvNet:
    """Leave the networks from number `count` on out of an ensemble: their Q-values are ABSENT."""
    *rest, last = networks.head.layers
    is_absent = jnp.arange(len(last.bias)) >= count
    bias = jnp.where(is_absent[:, None], ABSENT, last.bias)
    weight = jnp.where(is_absent[:, None, None], 0, last.weight)
    last = eqx.tree_at(lambda x: (x.weight, x.bias), last, (weight, bias))
    return eqx.tree_at(lambda x: x.head.layers, networks, (*rest, last))


def ensemble_q(networks: Network, observations: jax.Array) -> jax.Array:
    """Return the Q-values of every network for every observation, [B, ...] -> [M, B, A]."""
    return eqx.filter_vmap(batch_q, in_axes=(eqx.if_array(0), None))(networks, observations)


def batch_q(network: Network, observations: jax.Array) -> jax.Array:
    """Return the Q-values of one network for every observation, [B, ...] -> [B, A]."""
    return jax.vmap(network)(observations)


def check_network(network: Network, observation: ObservationSpec, num_actions: int) -> None:
    """Raise ValueError unless the network maps one observation to float32 [num_actions]."""
    try:
        output = eqx.filter_eval_shape(network, jax.ShapeDtypeStruct(observation.shape, observation.dtype))
    except Exception as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise ValueError(f"network: it cannot take an observation of shape {observation.shape} ({reason})") from problem
    if getattr(output, "shape", None) != (num_actions,):
        shape = getattr(output, "shape", type(output).__name__)
        raise ValueError(f"network: expected one value for each of {num_actions} actions, got shape {shape}")

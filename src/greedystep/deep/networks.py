"""Networks for action values: Equinox modules that map one observation to Q(s, ·).

An ensemble is one module whose arrays have a leading axis [M]. Nothing here loops over networks or observations:
`vmap` turns the products below into batched matrix products, which CPUs and GPUs both like.
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
"""A callable pytree: one observation -> float32 [A]. Any Equinox module will do."""
MakeNetwork = Callable[[jax.Array, ObservationSpec, int], Network]
"""(key, observation, number of actions) -> network."""

FILTERS, SIDE = 16, 3


class Dense(eqx.Module):
    """x -> x W + b, with W ~ Normal(0, 2 / inputs) (He et al. 2015) and b = 0."""

    weight: jax.Array
    """[inputs, outputs]."""
    bias: jax.Array

    def __init__(self, key: jax.Array, inputs: int, outputs: int):
        self.weight = jax.random.normal(key, (inputs, outputs)) * math.sqrt(2 / inputs)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """Layers with a ReLU between them, on the flattened observation."""

    layers: tuple[Dense, ...]

    def __init__(self, key: jax.Array, inputs: int, hidden: Sequence[int], outputs: int):
        sizes = [inputs, *hidden, outputs]
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(Dense(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True))

    def __call__(self, observation: jax.Array) -> jax.Array:
        x = observation.astype(jnp.float32).reshape(-1)
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


class NumberedMLP(eqx.Module):
    """An MLP for states that are only a number: each has an input of its own."""

    mlp: MLP
    states: int = eqx.field(static=True)

    def __call__(self, observation: jax.Array) -> jax.Array:
        return self.mlp(jax.nn.one_hot(observation, self.states))


class ConvNet(eqx.Module):
    """MinAtar's network (Young & Tian 2019): 16 filters of 3 x 3 (no padding), then an MLP.

    The convolution is one matrix product, since XLA's own is several times slower on a CPU, and on a GPU too once
    there are many networks side by side. A CPU multiplies each patch of 3 x 3 with the filters. A GPU likes wider
    products better, though most of what they multiply with is zero: three rows of the picture at once give a row of
    the answer, which makes whole trainings a quarter faster on Breakout and 40 % on Seaquest (25 lanes on an H200).
    """

    filters: Dense
    """[9 C, 16]; the rows are ordered by row, column and channel of a patch."""
    head: MLP

    def __init__(self, key: jax.Array, shape: tuple[int, ...], hidden: Sequence[int], outputs: int):
        height, width, channels = shape
        of_filters, of_head = jax.random.split(key)
        self.filters = Dense(of_filters, SIDE * SIDE * channels, FILTERS)
        self.head = MLP(of_head, (height - SIDE + 1) * (width - SIDE + 1) * FILTERS, hidden, outputs)

    def __call__(self, observation: jax.Array) -> jax.Array:
        convolve = by_patches if jax.default_backend() == "cpu" else by_rows
        return self.head(jax.nn.relu(convolve(self.filters, observation.astype(jnp.float32))))


def by_patches(filters: Dense, picture: jax.Array) -> jax.Array:
    """[H, W, C] -> [H - 2, W - 2, 16]: each patch of 3 x 3 times the filters."""
    height, width, _ = picture.shape
    shifted = [picture[i : height - SIDE + 1 + i, j : width - SIDE + 1 + j] for i in range(SIDE) for j in range(SIDE)]
    return filters(jnp.concatenate(shifted, axis=-1))


def by_rows(filters: Dense, picture: jax.Array) -> jax.Array:
    """[H, W, C] -> [H - 2, (W - 2) 16], the same numbers: three rows at once times the filters at all their places."""
    height, width, channels = picture.shape
    across = width - SIDE + 1
    rows = picture.reshape(height, -1)
    rows = jnp.concatenate([rows[i : height - SIDE + 1 + i] for i in range(SIDE)], axis=-1)
    # [3, W - 2, W]: whether column j of the filter at place o lies on column x of the picture.
    places = np.stack([np.eye(across, width, k=j, dtype=np.float32) for j in range(SIDE)])
    weight = filters.weight.reshape(SIDE, SIDE, channels, FILTERS)
    everywhere = jnp.einsum("ijcf,jox->ixcof", weight, places).reshape(SIDE * width * channels, across * FILTERS)
    return rows @ everywhere + jnp.tile(filters.bias, across)


def default_network(hidden: Sequence[int]) -> MakeNetwork:
    """A `ConvNet` for pictures [H, W, C], a `NumberedMLP` for numbered states, an `MLP` for everything else."""

    def make(key: jax.Array, observation: ObservationSpec, num_actions: int) -> Network:
        if len(observation.shape) == 3 and min(observation.shape[:2]) >= SIDE:
            return ConvNet(key, observation.shape, hidden, num_actions)
        if observation.shape == () and observation.dtype.kind in "iu":
            states = int(observation.high) + 1
            return NumberedMLP(MLP(key, states, hidden, num_actions), states)
        return MLP(key, math.prod(observation.shape), hidden, num_actions)

    return make


# -- ensembles --------------------------------------------------------------------------------------------------------


def ensemble_of(make: MakeNetwork, key: jax.Array, size: int, observation: ObservationSpec, num_actions: int) -> Any:
    """`size` networks, each from a key of its own, as one module with a leading axis on every array."""
    return eqx.filter_vmap(lambda k: make(k, observation, num_actions))(jax.random.split(key, size))


def q_values(networks: Network, observations: jax.Array) -> jax.Array:
    """Q of every network and observation: [B, ...] -> [M, B, A]."""
    return eqx.filter_vmap(one_network, in_axes=(eqx.if_array(0), None))(networks, observations)


def one_network(network: Network, observations: jax.Array) -> jax.Array:
    """[B, ...] -> [B, A]."""
    return jax.vmap(network)(observations)


def check_network(network: Network, observation: ObservationSpec, num_actions: int) -> None:
    """ValueError unless the network answers an observation with one number for each action."""
    seen = jax.ShapeDtypeStruct(observation.shape, observation.dtype)
    try:
        answer = eqx.filter_eval_shape(network, seen)
    except Exception as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise ValueError(f"network: it cannot take an observation of shape {observation.shape} ({reason})") from problem
    if getattr(answer, "shape", None) != (num_actions,):
        shape = getattr(answer, "shape", type(answer).__name__)
        raise ValueError(f"network: expected one value for each of {num_actions} actions, got {shape}")

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

    The convolution is one matrix product of all 3 x 3 patches with the filters. XLA's own convolution is several times
    slower on a CPU, and on a GPU too once there are many networks side by side.
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
        return self.head(jax.nn.relu(self.filters(patches(observation.astype(jnp.float32)))))


def patches(picture: jax.Array) -> jax.Array:
    """[H, W, C] -> [H - 2, W - 2, 9 C]: what each filter of 3 x 3 sees."""
    height, width, _ = picture.shape
    shifted = [picture[i : height - SIDE + 1 + i, j : width - SIDE + 1 + j] for i in range(SIDE) for j in range(SIDE)]
    return jnp.concatenate(shifted, axis=-1)


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

"""Adam and RMSprop as PyTorch computes them, and clipping by the global norm.

What differs elsewhere: the small constant ε stands outside the root, the averages begin at zero, and the learning rate
is a plain argument, which may be another one in every lane. For a gradient g, all operations by element:

    Adam      m ← β₁ m + (1 - β₁) g,  v ← β₂ v + (1 - β₂) g²,  step = η m̂ / (√v̂ + ε),  m̂ = m / (1 - β₁ᵗ), v̂ likewise
    RMSprop   v ← α v + (1 - α) g²,   step = η g / (√v + ε)
    centred   m ← α m + (1 - α) g as well,   step = η g / (√(v - m²) + ε)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

BETA_1, BETA_2 = 0.9, 0.999


class Optimiser(NamedTuple):
    """Which formula, and its numbers."""

    kind: str
    """"adam", "rmsprop" or "centred-rmsprop"."""
    decay: float
    """α of RMSprop; Adam has its own two."""
    epsilon: float


class Averages(NamedTuple):
    """What an optimiser remembers: pytrees like the parameters."""

    count: jax.Array
    """int32: updates so far."""
    first: Any
    """m; empty where the formula has none."""
    second: Any
    """v."""


def start(optimiser: Optimiser, params: Any) -> Averages:
    zeros = jax.tree.map(jnp.zeros_like, params)
    return Averages(jnp.int32(0), None if optimiser.kind == "rmsprop" else zeros, jax.tree.map(jnp.copy, zeros))


def update(optimiser: Optimiser, learning_rate: Any, gradient: Any, averages: Averages, params: Any) -> tuple:
    """One step down: (parameters, averages)."""
    decays = (BETA_1, BETA_2) if optimiser.kind == "adam" else (optimiser.decay, optimiser.decay)
    count = averages.count + 1
    second = jax.tree.map(lambda v, g: decays[1] * v + (1 - decays[1]) * g * g, averages.second, gradient)
    first = averages.first
    if first is not None:
        first = jax.tree.map(lambda m, g: decays[0] * m + (1 - decays[0]) * g, first, gradient)

    if optimiser.kind == "adam":
        unbias = [1 / (1 - decay**count) for decay in decays]
        steps = jax.tree.map(lambda m, v: unbias[0] * m / (jnp.sqrt(unbias[1] * v) + optimiser.epsilon), first, second)
    elif optimiser.kind == "rmsprop":
        steps = jax.tree.map(lambda g, v: g / (jnp.sqrt(v) + optimiser.epsilon), gradient, second)
    else:
        # A gradient that hardly varies has v ≈ m², and rounding must not make the root that of a negative number.
        steps = jax.tree.map(
            lambda g, m, v: g / (jnp.sqrt(jnp.maximum(v - m * m, 0)) + optimiser.epsilon), gradient, first, second
        )
    params = jax.tree.map(lambda p, step: p - learning_rate * step, params, steps)
    return params, Averages(count, first, second)


def clip_by_norm(gradient: Any, limit: float | None) -> Any:
    """The gradient, scaled so that the norm of all its numbers together is at most `limit` (as PyTorch's clipping)."""
    if limit is None:
        return gradient
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    scale = jnp.minimum(1, limit / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, gradient)


def loss_of(kind: str, error: jax.Array) -> jax.Array:
    """ "squared": e². "huber": e² / 2 up to |e| = 1, and |e| - 1/2 beyond."""
    if kind == "squared":
        return error * error
    size = jnp.abs(error)
    return jnp.where(size < 1, 0.5 * error * error, size - 0.5)

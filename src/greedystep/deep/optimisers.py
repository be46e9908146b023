"""Optimisers with PyTorch's formulas, built from optax; the learning rate, which may differ by lane, is applied later.

For a gradient g, all operations by element:

    Adam      m ← β₁ m + (1 - β₁) g,  v ← β₂ v + (1 - β₂) g²,  update = m̂ / (√v̂ + ε),  m̂ = m / (1 - β₁ᵗ), v̂ likewise
    RMSprop   v ← α v + (1 - α) g²,   update = g / (√v + ε)
    centred   m ← α m + (1 - α) g as well,   update = g / (√(v - m²) + ε)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from greedystep.deep.config import DQNConfig


def make_optimiser(config: DQNConfig) -> optax.GradientTransformation:
    """Return the optax transformation from gradients to updates, clipping included, without the learning rate."""
    decay, epsilon = config.optimiser_decay, config.optimiser_epsilon
    match config.optimiser:
        case "adam":
            scale = optax.scale_by_adam(eps=epsilon)
        case "rmsprop":
            scale = optax.scale_by_rms(decay, epsilon, eps_in_sqrt=False)
        case "centred-rmsprop":
            scale = scale_by_stddev(decay, epsilon)
    clip = [] if config.max_gradient_norm is None else [optax.clip_by_global_norm(config.max_gradient_norm)]
    return optax.chain(*clip, scale)


def scale_by_stddev(decay: float, epsilon: float) -> optax.GradientTransformation:
    """Return `optax.scale_by_stddev(eps_in_sqrt=False)`, with √max(v - m², 0) where optax takes √(v - m²).

    Once gradients have become smaller and hardly vary, v ≈ m², and rounding makes v - m² negative: with optax 0.2.8
    two thirds of the parameters became NaN when random gradients fell to a third and stayed there for 2000 updates.
    """

    def init(params: Any) -> optax.ScaleByRStdDevState:
        return optax.ScaleByRStdDevState(mu=optax.tree.zeros_like(params), nu=optax.tree.zeros_like(params))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, optax.ScaleByRStdDevState]:
        new = jax.tree.map(partial(centred_rmsprop, decay=decay, epsilon=epsilon), updates, state.mu, state.nu)
        updates, mu, nu = jax.tree.transpose(jax.tree.structure(updates), jax.tree.structure((0, 0, 0)), new)
        return updates, optax.ScaleByRStdDevState(mu=mu, nu=nu)

    return optax.GradientTransformation(init, update)


def centred_rmsprop(
    g: jax.Array, m: jax.Array, v: jax.Array, decay: float, epsilon: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the update and both moving averages after a gradient g, all of one shape."""
    m = decay * m + (1 - decay) * g
    v = decay * v + (1 - decay) * g * g
    return g / (jnp.sqrt(jnp.maximum(v - m * m, 0)) + epsilon), m, v

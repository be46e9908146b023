"""Learn from logged trajectories alone, with the same periods and updates as in training, without an environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep.checks import INT32_MAX
from greedystep.deep import target_pool
from greedystep.deep.config import DQNConfig
from greedystep.deep.learner import Learner, LearnerState
from greedystep.deep.targets import LaneHyperparams
from greedystep.replay import ReplayBuffer, ReplayState
from greedystep.trajectory import Trajectory


class FitResult(NamedTuple):
    """Result of `fit`."""

    state: LearnerState
    key: jax.Array
    """Random key to continue with."""
    loss: jax.Array
    """Mean loss over all updates; not finite if one was not."""


def fit(
    learner: Learner,
    buffer: ReplayBuffer,
    replay: ReplayState,
    state: LearnerState,
    hyperparams: LaneHyperparams,
    key: jax.Array,
    begin: jax.Array,
    end: jax.Array,
) -> FitResult:
    """Make the updates `begin`, `begin` + 1, ... up to `end` on the steps of the replay buffer; works under jit.

    Targets and pool are refreshed as often as in training, and at `begin`, which must be the start of a period.
    """
    config, period = learner.config, updates_per_period(learner.config)
    pool = target_pool.init(config, buffer) if config.is_pooled else None

    def one_period(carry: tuple) -> tuple:
        done, key, state, pool, total = carry
        key, pool_key, update_key = jax.random.split(key, 3)
        target_params, pool = learner.refresh_targets(buffer, hyperparams, pool_key, replay, state)

        def update(i: jax.Array, carry: tuple) -> tuple:
            state, total = carry
            sample_key, network_key = jax.random.split(jax.random.fold_in(update_key, i))
            batch = learner.sample_batch(buffer, sample_key, replay, pool, state)
            state, info = learner.update(state, batch, network_key, hyperparams.learning_rate)
            return state, total + info.loss

        until = done + jnp.minimum(period, end - done)
        state, total = lax.fori_loop(done, until, update, (state._replace(target_params=target_params), total))
        return until, key, state, pool, total

    first = begin, key, state, pool, jnp.float32(0)
    _, key, state, _, total = lax.while_loop(lambda carry: carry[0] < end, one_period, first)
    return FitResult(state, key, total / jnp.maximum(end - begin, 1))


def updates_per_period(config: DQNConfig) -> int:
    """Return the number of updates between two target network updates, at most what int32 holds."""
    return min(config.samples_per_period // config.batch_size, INT32_MAX)


def check_dataset(learner: Learner, dataset: Trajectory | Iterable[Trajectory]) -> list[Trajectory]:
    """Return the trajectories as a list; ValueError if this learner cannot learn from them."""
    trajectories: list[Trajectory] = [dataset] if isinstance(dataset, Trajectory) else list(dataset)
    if not trajectories:
        raise ValueError("dataset: expected at least one trajectory, got none")
    shape, actions = learner.observation.shape, learner.num_actions
    for number, one in enumerate(trajectories):
        if not isinstance(one, Trajectory):
            raise ValueError(f"dataset: expected trajectories, got {type(one).__name__} as number {number}")
        if one.observations.shape[1:] != shape:
            got = one.observations.shape[1:]
            raise ValueError(f"dataset: expected observations of shape {shape}, got {got} in trajectory {number}")
        whole = np.issubdtype(one.actions.dtype, np.integer) and one.actions.ndim == 1
        if not whole or one.actions.min() < 0 or one.actions.max() >= actions:
            raise ValueError(f"dataset: expected whole numbers in 0..{actions - 1} as actions of trajectory {number}")
        if learner.config.returns == "retrace" and one.behaviour_prob is None:
            raise ValueError(f"returns: retrace needs behaviour_prob, which trajectory {number} does not have")
    return trajectories

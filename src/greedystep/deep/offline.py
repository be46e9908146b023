"""Learning from logged trajectories alone: the same periods and updates, without an environment."""

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
from greedystep.deep.learner import Knowledge, Learner
from greedystep.deep.targets import Numbers
from greedystep.replay import Replay, Store
from greedystep.trajectory import Trajectory


class Fitted(NamedTuple):
    """What came of it."""

    knowledge: Knowledge
    key: jax.Array
    """To go on with."""
    loss: jax.Array
    """Mean over all updates; not finite if one was not."""


def fit(
    learner: Learner,
    store: Store,
    replay: Replay,
    knowledge: Knowledge,
    numbers: Numbers,
    key: jax.Array,
    begin: jax.Array,
    end: jax.Array,
) -> Fitted:
    """The updates `begin`, `begin` + 1, ... up to `end` on what the replay holds. Compilable.

    Targets and pool are renewed as often as in training, and at once: `begin` must be the beginning of a period.
    """
    config, period = learner.config, updates_a_period(learner.config)
    made = target_pool.empty(config, store) if config.is_pooled else None

    def a_period(carry: tuple) -> tuple:
        done, key, knowledge, made, total = carry
        key, of_pool, of_updates = jax.random.split(key, 3)
        targets, made = learner.renew(store, numbers, of_pool, replay, knowledge)

        def update(i: jax.Array, carry: tuple) -> tuple:
            knowledge, total = carry
            of_samples, of_network = jax.random.split(jax.random.fold_in(of_updates, i))
            batch = learner.samples(store, of_samples, replay, made, knowledge)
            knowledge, learned = learner.update(knowledge, batch, of_network, numbers.learning_rate)
            return knowledge, total + learned.loss

        until = done + jnp.minimum(period, end - done)
        knowledge, total = lax.fori_loop(done, until, update, (knowledge._replace(targets=targets), total))
        return until, key, knowledge, made, total

    first = begin, key, knowledge, made, jnp.float32(0)
    _, key, knowledge, _, total = lax.while_loop(lambda carry: carry[0] < end, a_period, first)
    return Fitted(knowledge, key, total / jnp.maximum(end - begin, 1))


def updates_a_period(config: DQNConfig) -> int:
    """Updates between two copies of the targets; more than int32 holds never end."""
    return min(config.samples_a_period // config.batch_size, INT32_MAX)


def checked(learner: Learner, dataset: Trajectory | Iterable[Trajectory]) -> list[Trajectory]:
    """The trajectories, if this learner can learn from them; ValueError says in one sentence why not."""
    found: list[Trajectory] = [dataset] if isinstance(dataset, Trajectory) else list(dataset)
    if not found:
        raise ValueError("dataset: expected at least one trajectory, got none")
    shape, actions = learner.observation.shape, learner.num_actions
    for number, one in enumerate(found):
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
    return found

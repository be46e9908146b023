"""Clone the behaviour of a log, before Q is learned from it (conservatism "bcq").

The targets of cloning are the actions of the log, which do not change. So the behaviour network learns first and
alone. Then it stays as it is, and the actions in the data are found once for all rows of the log: learning Q pays
neither for training that network nor for evaluating it.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep.config import DQNConfig
from greedystep.deep.learner import Learner, LearnerState
from greedystep.deep.targets import LaneHyperparams
from greedystep.replay import ReplayBuffer, ReplayState

CLONING_SHARE = 0.5
"""Updates of a fit that clone the behaviour, as a share of those that learn Q, which follow them."""
ROWS_AT_ONCE, NUMBERS_AT_ONCE = 1024, 2**22
"""Rows of the log whose actions in the data are found at a time, and numbers in their observations, at most."""
KEY_NUMBER = 2**31 - 1
"""What is folded into the key of a fit for the batches of cloning; the keys of learning Q are its splits."""


class UpdateRange(NamedTuple):
    """The updates number `begin` to `end` - 1 of `updates`."""

    begin: jax.Array
    end: jax.Array
    updates: jax.Array

    @classmethod
    def of(cls, begin: int, end: int, updates: int) -> UpdateRange:
        """Return the range of these numbers as arrays, so that other numbers need no other program."""
        return cls(*map(jnp.int32, (begin, end, updates)))

    def learning_rate(self, first: jax.Array, i: jax.Array) -> jax.Array:
        """Return the learning rate of update i: it falls linearly from `first` to 0 after the last of all updates."""
        return first * (1 - i / self.updates)


def cloning_updates(config: DQNConfig, updates: int) -> int:
    """Return the number of cloning updates that precede `updates` updates of Q: none without bcq."""
    return round(CLONING_SHARE * updates) if config.conservatism == "bcq" else 0


def clone(
    learner: Learner,
    buffer: ReplayBuffer,
    replay: ReplayState,
    update_range: UpdateRange,
    state: LearnerState,
    hyperparams: LaneHyperparams,
    key: jax.Array,
) -> tuple[LearnerState, jax.Array]:
    """Make a range of the updates that clone the behaviour; return state and mean loss.

    Batches are sampled from all steps of the log. The learning rate falls linearly, to 0 after the last update.
    """
    config, key = learner.config, jax.random.fold_in(key, KEY_NUMBER)

    def update(i: jax.Array, carry: tuple) -> tuple:
        params, opt_state, total = carry
        index = buffer.sample(jax.random.fold_in(key, i), replay, config.batch_size)
        seen, action = buffer.observations(replay, index), buffer.read(replay, index).action
        rate = update_range.learning_rate(hyperparams.learning_rate, i)
        params, opt_state, loss = learner.clone_behaviour(params, opt_state, seen, action, rate)
        return params, opt_state, total + loss

    others, behaviour = split_behaviour(state, config.num_q_networks)
    first = behaviour.params, behaviour.opt_state, jnp.float32(0)
    params, opt_state, total = lax.fori_loop(update_range.begin, update_range.end, update, first)
    state = join_behaviour(others, LearnerState(params, params, opt_state))
    return state, total / jnp.maximum(update_range.end - update_range.begin, 1)


def split_behaviour(state: LearnerState, size: int) -> tuple[LearnerState, LearnerState]:
    """Return the `size` networks that estimate Q, [M, ...], and that of the behaviour, without the axis."""
    others, behaviour = (jax.tree.map(itemgetter(at), state) for at in (slice(size), size))
    return others, behaviour


def join_behaviour(others: LearnerState, behaviour: LearnerState) -> LearnerState:
    """Return all networks, [M + 1, ...]."""
    return jax.tree.map(lambda x, one: jnp.concatenate([x, one[None]]), others, behaviour)


def find_support(learner: Learner, buffer: ReplayBuffer, replay: ReplayState, params: Any) -> jax.Array:
    """Return the actions in the data for all rows of the log, bool [N, R, A].

    The rows are read block by block where they lie, so that no part of the log is copied but a block. The last block
    overlaps the one before it.
    """
    behaviour = jax.tree.map(itemgetter(slice(learner.config.num_q_networks, None)), params)
    stored, most = replay.observations.reshape(buffer.rows, -1), NUMBERS_AT_ONCE // math.prod(learner.observation.shape)
    block = min(buffer.rows, ROWS_AT_ONCE, max(1, most))

    def add(i: jax.Array, found: jax.Array) -> jax.Array:
        first = jnp.minimum(i * block, buffer.rows - block)
        seen = buffer.unpack(lax.dynamic_slice_in_dim(stored, first, block))
        _, support = learner.q_and_support(behaviour, seen)
        assert support is not None
        return lax.dynamic_update_slice_in_dim(found, support, first, axis=0)

    nothing = jnp.zeros((buffer.rows, learner.num_actions), bool)
    found = lax.fori_loop(0, -(-buffer.rows // block), add, nothing)
    return found.reshape(buffer.columns, buffer.rows_per_column, -1)

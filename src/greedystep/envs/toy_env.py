"""Toy tasks as JAX environments: outcomes are drawn from the tables of a `ToyTask`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.checks import INT32_MAX, check_int
from greedystep.envs.core import Environment, ObservationSpec, Step
from greedystep.envs.toy_task import END, ToyTask


class ToyState(NamedTuple):
    """State of an episode: state number and steps so far."""

    number: jax.Array  # int32: the state; after the last step of an episode that ended, the one before
    steps: jax.Array  # int32: steps taken


class ToyDraws(NamedTuple):
    """Random numbers of one step."""

    outcome: jax.Array  # float32, uniform in [0, 1): which outcome of the row
    noise: jax.Array  # float32, standard normal: how far the reward is from its mean


@dataclass(frozen=True)
class ToyEnvironment(Environment):
    """A toy task as a JAX environment that observes the state number, int32; `task` holds its tables and optimum.

    Episodes are truncated after `task.horizon` steps. An unavailable action has the outcomes of the state's first
    available one, since compiled code cannot raise.
    """

    task: ToyTask

    def __post_init__(self) -> None:
        check_int("horizon", self.task.horizon, 1, INT32_MAX)
        check_int("states x actions", self.task.num_states * self.task.num_actions, 1, INT32_MAX)

    @property
    def name(self) -> str:
        return self.task.name

    @cached_property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(str(action) for action in range(self.task.num_actions))

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.task.stochastic

    @property
    def observation(self) -> ObservationSpec:
        return ObservationSpec((), np.dtype(np.int32), 0, self.task.num_states - 1)

    def draw_start(self, key: jax.Array) -> jax.Array:
        return jax.random.uniform(key)

    def start(self, draws: jax.Array) -> ToyState:
        states = np.flatnonzero(self.task.start).astype(np.int32)
        cumulative = np.cumsum(self.task.start[states]).astype(np.float32)
        place = jnp.searchsorted(cumulative, draws, side="right")
        return ToyState(jnp.asarray(states)[jnp.minimum(place, len(states) - 1)], jnp.int32(0))

    def draw(self, key: jax.Array) -> ToyDraws:
        outcome, noise = jax.random.split(key)
        return ToyDraws(jax.random.uniform(outcome), jax.random.normal(noise))

    def advance(self, draws: ToyDraws, state: ToyState, action: jax.Array) -> tuple[ToyState, Step]:
        first, cumulative, successor, reward, noise = self._tables
        row = jnp.asarray(self._rows)[state.number * self.num_actions + action]
        low, high = jnp.asarray(first)[row], jnp.asarray(first)[row + 1]
        # The outcome is the first whose sum of probabilities is above the draw; the last one needs no comparing.
        candidates = low + jnp.arange(self._branching - 1)
        passed = (candidates < high - 1) & (draws.outcome >= jnp.asarray(cumulative)[candidates])
        k = low + passed.sum()
        after = jnp.asarray(successor)[k]
        terminated = after == END
        steps = state.steps + 1
        paid = jnp.asarray(reward)[k] + jnp.asarray(noise)[k] * draws.noise
        truncated = (steps >= self.task.horizon) & ~terminated
        return ToyState(jnp.where(terminated, state.number, after), steps), Step(paid, terminated, truncated)

    def observe(self, state: ToyState) -> jax.Array:
        return state.number

    # NumPy arrays become constants of each compiled program; JAX arrays made while tracing would leak.

    @cached_property
    def _tables(self) -> tuple[np.ndarray, ...]:
        first, cumulative, successor, reward, noise = self.task.outcomes
        cumulative, reward, noise = (column.astype(np.float32) for column in (cumulative, reward, noise))
        return first.astype(np.int32), cumulative, successor, reward, noise

    @cached_property
    def _branching(self) -> int:
        return int(np.diff(self.task.outcomes.first).max())

    @cached_property
    def _rows(self) -> np.ndarray:
        """int32 [S*A]: the row of outcomes of each (s, a), for an unavailable action that of an available one."""
        S, A = self.task.mdp.rewards.shape
        exists = np.diff(self.task.outcomes.first).reshape(S, A) > 0
        states, actions = np.arange(S)[:, None], np.arange(A)
        return (states * A + np.where(exists, actions, exists.argmax(axis=1)[:, None])).ravel().astype(np.int32)

"""The interface of all JAX environments, and the wrappers for time limits and automatic resets.

An environment is a frozen dataclass of its options, so that a compiled program may close over it or take it as a static
argument. It holds no state: states are pytrees of arrays of fixed shape, one episode each, and `jax.vmap` makes many.

Random numbers and rules are separate: `draw` turns a key into all random numbers that one step may need, `advance`
applies the rules to them, and `step` does both. So a test can feed the same draws to another implementation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from greedystep.checks import INT32_MAX, check_int
from greedystep.envs.observation import ObservationSpec

State = Any  # a pytree of arrays; each environment has its own NamedTuple
Draws = Any  # a pytree of random numbers; each environment has its own NamedTuple


class Step(NamedTuple):
    """Reward, terminated and truncated of one step; scalars, or [N] under vmap."""

    reward: jax.Array  # float32
    terminated: jax.Array  # bool: the episode has ended; nothing follows
    truncated: jax.Array  # bool: the episode was cut off; its last state still has a value


def int32s(**numbers: int) -> dict[str, jax.Array]:
    """Return the named numbers as int32 scalars, for the fields of a game's first state."""
    return {name: jnp.int32(number) for name, number in numbers.items()}


class Environment(ABC):
    """Base class of JAX environments; a game defines `action_names` and the abstract methods."""

    default_limit: ClassVar[int | None] = None
    """Steps after which `envs.make` truncates an episode by default; None for never."""
    stochastic: ClassVar[bool] = True
    """Whether anything but the first state is random."""
    action_names: tuple[str, ...]
    """One word per action."""

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        if "restart" in vars(cls):
            raise TypeError(f"{cls.__name__}.restart: training does not call it; define start_after(draws, state)")

    @property
    @abstractmethod
    def name(self) -> str:
        """The environment's name for `envs.make`."""

    @property
    def num_actions(self) -> int:
        """Number of actions, which are 0 .. num_actions - 1."""
        return len(self.action_names)

    @property
    @abstractmethod
    def observation(self) -> ObservationSpec:
        """Shape, dtype and range of what `observe` returns."""

    @abstractmethod
    def draw_start(self, key: jax.Array) -> Draws:
        """Draw all random numbers that the first state of an episode depends on."""

    @abstractmethod
    def start(self, draws: Draws) -> State:
        """Return the first state of an episode, given the random numbers of `draw_start`."""

    @abstractmethod
    def draw(self, key: jax.Array) -> Draws:
        """Draw all random numbers that one step may need."""

    @abstractmethod
    def advance(self, draws: Draws, state: State, action: jax.Array) -> tuple[State, Step]:
        """Apply the rules for one step to the random numbers of `draw`; return the next state and the `Step`."""

    @abstractmethod
    def observe(self, state: State) -> jax.Array:
        """Return the observation of a state."""

    def reset(self, key: jax.Array) -> State:
        """Return the first state of an independent episode."""
        return self.start(self.draw_start(key))

    def start_after(self, draws: Draws, state: State) -> State:
        """Return the first state of the episode that follows the one that ended in `state`, given `draw_start`'s draws.

        The same as `start(draws)`, unless a game carries something over, as MinAtar does the last (sticky) action.
        """
        return self.start(draws)

    def restart(self, key: jax.Array, state: State) -> State:
        """Return the first state of the episode that follows the one that ended in `state`."""
        return self.start_after(self.draw_start(key), state)

    def step(self, key: jax.Array, state: State, action: jax.Array | int) -> tuple[State, Step]:
        """Take one step; outside compiled code, an invalid action raises ValueError."""
        self.check_action(action)
        return self.advance(self.draw(key), state, jnp.asarray(action))

    def check_action(self, action: Any) -> None:
        """Raise ValueError unless the actions are integers in range; traced arrays are not checked."""
        if isinstance(action, jax.core.Tracer):
            return
        actions = np.asarray(action)
        if not np.issubdtype(actions.dtype, np.integer):
            raise ValueError(f"action: expected an integer in 0..{self.num_actions - 1}, got {action!r}")
        if actions.size and not 0 <= actions.min() <= actions.max() < self.num_actions:
            wrong = actions.min() if actions.min() < 0 else actions.max()
            raise ValueError(f"action: {self.name} has the actions 0..{self.num_actions - 1}, got {wrong}")


# -- wrappers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wrapper(Environment):
    """Base class of wrappers: an environment whose methods are those of the inner `env` unless overridden."""

    env: Environment

    @property
    def name(self) -> str:
        return self.env.name

    @cached_property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.env.action_names

    @property
    def observation(self) -> ObservationSpec:
        return self.env.observation

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.env.stochastic

    def draw_start(self, key: jax.Array) -> Draws:
        return self.env.draw_start(key)

    def draw(self, key: jax.Array) -> Draws:
        return self.env.draw(key)


class TimedState(NamedTuple):
    """State of the inner environment, and the steps of its episode so far."""

    state: State
    steps: jax.Array  # int32: steps taken in this episode


@dataclass(frozen=True)
class TimeLimit(Wrapper):
    """Truncates an episode after `limit` steps, unless it terminates in that step."""

    limit: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", check_int("limit", self.limit, 1, INT32_MAX))

    def start(self, draws: Draws) -> TimedState:
        return TimedState(self.env.start(draws), jnp.int32(0))

    def start_after(self, draws: Draws, state: TimedState) -> TimedState:
        return TimedState(self.env.start_after(draws, state.state), jnp.int32(0))

    def advance(self, draws: Draws, state: TimedState, action: jax.Array) -> tuple[TimedState, Step]:
        inner, step = self.env.advance(draws, state.state, action)
        steps = state.steps + 1
        cut = (steps >= self.limit) & ~step.terminated
        return TimedState(inner, steps), step._replace(truncated=step.truncated | cut)

    def observe(self, state: TimedState) -> jax.Array:
        return self.env.observe(state.state)


class AutoResetStep(NamedTuple):
    """Result of a step of `AutoReset`: reward, terminated, truncated, and the state before a reset."""

    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    last: State
    """The state that the step led to, before a reset: `env.observe(step.last)` is the observation that belongs to this
    step. (Unused, it costs nothing in compiled code.)
    """


class AutoResetDraws(NamedTuple):
    """Random numbers of a step of `AutoReset`."""

    step: Draws
    start: Draws
    """Those of the next episode's first state, in case the step ends this one."""


@dataclass(frozen=True)
class AutoReset(Wrapper):
    """Begins a new episode within the step that terminates or truncates one."""

    def start(self, draws: Draws) -> State:
        return self.env.start(draws)

    def start_after(self, draws: Draws, state: State) -> State:
        return self.env.start_after(draws, state)

    def draw(self, key: jax.Array) -> AutoResetDraws:
        step_key, start_key = jax.random.split(key)
        return AutoResetDraws(self.env.draw(step_key), self.env.draw_start(start_key))

    def step(self, key: jax.Array, state: State, action: jax.Array | int) -> tuple[State, AutoResetStep]:  # type: ignore[override]
        """Take one step; where it ended the episode, return the first state of the next one."""
        self.check_action(action)
        return self.advance(self.draw(key), state, jnp.asarray(action))

    def advance(self, draws: AutoResetDraws, state: State, action: jax.Array) -> tuple[State, AutoResetStep]:  # type: ignore[override]
        last, step = self.env.advance(draws.step, state, action)
        over = step.terminated | step.truncated
        first = self.env.start_after(draws.start, last)
        state = jax.tree.map(lambda new, old: jnp.where(over, new, old), first, last)
        return state, AutoResetStep(*step, last)

    def observe(self, state: State) -> jax.Array:
        return self.env.observe(state)

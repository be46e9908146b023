"""Adapter of Jumanji's environments, and of others with its protocol: `envs.from_jumanji(jumanji.make("Snake-v1"))`.

    state, timestep = env.reset(key)
    state, timestep = env.step(state, action)        # timestep: step_type, reward, discount, observation

The last step of an episode has step_type 2; its discount is 0 where the episode terminated, and positive where it was
cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.core import Environment, ObservationSpec, Step
from greedystep.envs.gymnax import ObservedState

JUMANJI_NEEDED = ("reset", "step", "observation_spec", "action_spec", "discount_spec")
LAST = 2
"""Value of `timestep.step_type` in the last step of an episode."""


@dataclass(frozen=True, eq=False)
class FromJumanji(Environment):
    """A Jumanji environment with one discrete action as an `Environment`. Equal only to itself: it may hold arrays.

    An observation of one array is kept as it is. One of several, such as a board and a mask of legal actions, becomes
    one float32 vector, in the order of its fields.
    """

    env: Any

    @property
    def name(self) -> str:
        return f"jumanji/{type(self.env).__name__}"

    @cached_property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(map(str, range(int(_spec(self.env.action_spec).num_values))))

    @cached_property
    def observation(self) -> ObservationSpec:
        parts = jax.tree.leaves(jax.eval_shape(self._first_observation, jax.random.key(0)))
        if len(parts) > 1:
            return ObservationSpec((sum(prod(part.shape) for part in parts),), np.dtype(np.float32), -np.inf, np.inf)
        spec = _spec(self.env.observation_spec)
        is_bool = parts[0].dtype == bool
        low = getattr(spec, "minimum", 0 if is_bool else -np.inf)
        high = getattr(spec, "maximum", 1 if is_bool else np.inf)
        return ObservationSpec(parts[0].shape, np.dtype(parts[0].dtype), np.asarray(low), np.asarray(high))

    def _first_observation(self, key: jax.Array) -> Any:
        return self.env.reset(jax.random.key_data(key))[1].observation

    def draw_start(self, key: jax.Array) -> jax.Array:
        return jax.random.key_data(key)  # Jumanji keeps the key in its state, as plain numbers

    def start(self, draws: jax.Array) -> ObservedState:
        state, timestep = self.env.reset(draws)
        return ObservedState(state, self._flat(timestep.observation))

    def draw(self, key: jax.Array) -> None:
        """Return None: the randomness of a step comes from the key in the state."""

    def advance(self, draws: None, state: ObservedState, action: jax.Array) -> tuple[ObservedState, Step]:
        inner, timestep = self.env.step(state.state, action)
        # Some environments return numbers of another dtype than reset does.
        inner = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), inner, state.state)
        is_last, terminates = timestep.step_type == LAST, timestep.discount == 0
        step = Step(jnp.float32(timestep.reward), is_last & terminates, is_last & ~terminates)
        return ObservedState(inner, self._flat(timestep.observation)), step

    def observe(self, state: ObservedState) -> jax.Array:
        return state.observation

    def _flat(self, observation: Any) -> jax.Array:
        parts = jax.tree.leaves(observation)
        if len(parts) == 1:
            return jnp.asarray(parts[0], self.observation.dtype)
        return jnp.concatenate([jnp.ravel(part).astype(jnp.float32) for part in parts])


def from_jumanji(env: Any) -> FromJumanji:
    """Return an environment with Jumanji's protocol, and without an auto-reset wrapper, as an `Environment`."""
    missing = [word for word in JUMANJI_NEEDED if not hasattr(env, word)]
    if missing:
        raise ValueError(f"env: expected one of Jumanji, got a {type(env).__name__} without {missing[0]}")
    actions = _spec(env.action_spec)
    if not hasattr(actions, "num_values") or np.ndim(actions.num_values) != 0:
        raise ValueError(f"env: expected one discrete action, {type(env).__name__} has {actions}")
    return FromJumanji(env)


def is_jumanji(env: Any) -> bool:
    """Whether an environment, made already, has the protocol of Jumanji."""
    return not isinstance(env, type) and all(hasattr(env, word) for word in JUMANJI_NEEDED)


def _spec(spec: Any) -> Any:
    """Return the value of a spec, which is a property since Jumanji 1.0 and was a method before."""
    return spec() if callable(spec) else spec

"""Use gymnax environments as ours: `envs.from_gymnax("CartPole-v1")`, or one that is already made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.core import Environment, ObservationSpec, Step

NEEDED = ("reset_env", "step_env", "is_truncated", "observation_space", "action_space")
"""Methods of gymnax 1.0 environments that `FromGymnax` calls: a step without gymnax's own auto-reset."""


class ObservedState(NamedTuple):
    """A gymnax state, with the observation that was returned with it (gymnax may draw it at random)."""

    state: Any
    observation: jax.Array


@dataclass(frozen=True, eq=False)
class FromGymnax(Environment):
    """A gymnax environment with discrete actions, as ours. Equal only to itself: its parameters may be arrays."""

    env: Any
    params: Any

    @property
    def name(self) -> str:
        return f"gymnax/{self.env.name}"

    @cached_property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(map(str, range(int(self.env.action_space(self.params).n))))

    @cached_property
    def observation(self) -> ObservationSpec:
        space = self.env.observation_space(self.params)
        if hasattr(space, "n"):  # its Discrete: 0 .. n - 1
            return ObservationSpec((), np.dtype(space.dtype), 0, int(space.n) - 1)
        low, high = np.asarray(space.low), np.asarray(space.high)
        return ObservationSpec(tuple(space.shape), np.dtype(space.dtype), low, high, is_quantity=True)

    def draw_start(self, key: jax.Array) -> jax.Array:
        return key

    def start(self, draws: jax.Array) -> ObservedState:
        observation, state = self.env.reset_env(draws, self.params)
        return ObservedState(state, self._cast(observation))

    def draw(self, key: jax.Array) -> jax.Array:
        return key

    def advance(self, draws: jax.Array, state: ObservedState, action: jax.Array) -> tuple[ObservedState, Step]:
        observation, inner, reward, terminated, _ = self.env.step_env(draws, state.state, action, self.params)
        terminated = jnp.asarray(terminated, bool)
        truncated = jnp.asarray(self.env.is_truncated(inner, self.params), bool) & ~terminated
        return ObservedState(inner, self._cast(observation)), Step(jnp.float32(reward), terminated, truncated)

    def observe(self, state: ObservedState) -> jax.Array:
        return state.observation

    def _cast(self, observation: Any) -> jax.Array:
        """Cast an observation to the dtype and shape that its space declares: some of gymnax have others."""
        return jnp.asarray(observation, self.observation.dtype).reshape(self.observation.shape)


def from_gymnax(env: Any, params: Any = None) -> FromGymnax:
    """Return a gymnax environment as an `Environment`; its time limit stays the one in `params`.

    Args:
        env: an id for `gymnax.make` (gymnax is an extra: `pip install "greedystep[gymnax]"`), or an environment made
            by it, without wrappers.
        params: gymnax's parameters of the environment; by default its own.
    """
    if isinstance(env, str):
        if find_spec("gymnax") is None:
            raise ValueError(f'env: {env!r} needs gymnax, which is not installed: pip install "greedystep[gymnax]"')
        import gymnax  # pyright: ignore[reportMissingImports]

        env, _ = gymnax.make(env)
    missing = [word for word in NEEDED if not hasattr(type(env), word)]
    if missing:
        kind = type(env).__name__
        raise ValueError(f"env: expected one of gymnax >= 1.0 without wrappers, got a {kind} without {missing[0]}")
    params = env.default_params if params is None else params
    if not hasattr(env.action_space(params), "n"):
        raise ValueError(f"env: expected discrete actions, {env.name} has {env.action_space(params)}")
    return FromGymnax(env, params)

"""Gymnasium adapters of our environments: `GymnasiumEnv` for one, `GymnasiumVectorEnv` for many at once.

Importing this module registers the ids: `gymnasium.make("greedystep/minatar-breakout-v1", sticky=0.0)` and
`gymnasium.make_vec(...)` make these classes. Environment i of a vector environment that was reset with seed s sees the
same episodes, action for action, as a single one that was reset with seed s + i.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from greedystep import envs
from greedystep.envs.core import Environment, ObservationSpec, State, Step
from greedystep.envs.gymnasium_ids import register_ids
from greedystep.envs.rendering import frames_per_second, render

RENDER_MODES = ["rgb_array"]

register_ids()


class GymnasiumEnv(gymnasium.Env):
    """One of our environments with the API of `gymnasium.Env`.

    Args:
        env: a name for `envs.make`, or an environment.
        render_mode: None or "rgb_array".
        options: those of `envs.make`, the time limit included (`limit=1000`, `limit=None`).
    """

    metadata = {"render_modes": RENDER_MODES}  # noqa: RUF012
    """Render modes; a class attribute, because Gymnasium reads it before it makes an environment."""

    def __init__(self, env: str | Environment, render_mode: str | None = None, **options: Any) -> None:
        self.env = _environment(env, options)
        self.metadata = _metadata(self.env)
        self.render_mode = _check_render_mode(render_mode)
        self.observation_space = observation_space(self.env.observation)
        self.action_space = spaces.Discrete(self.env.num_actions)
        self._current: _EnvState | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode; without a seed it continues the random stream, and MinAtar's last action may stick."""
        super().reset(seed=seed)
        if seed is not None or self._current is None:
            self._current, seen = _jit_call(_reset, self.env, _key(self.np_random))
        else:
            self._current, seen = _jit_call(_restart, self.env, self._current)
        return _observation(self.observation_space, seen), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._current is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        self.env.check_action(action)
        self._current, step, seen = _jit_call(_step, self.env, self._current, np.int32(action))
        reward, terminated, truncated, seen = jax.device_get((*step, seen))
        return _observation(self.observation_space, seen), float(reward), bool(terminated), bool(truncated), {}

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return the current state as an image, uint8 [H, W, 3]."""
        if self.render_mode is None or self._current is None:
            return None
        return render(self.env, self._current.state)


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv):
    """`num_envs` environments with the Gymnasium vector API, all stepped in one compiled call.

    Args:
        env, render_mode, options: as for `GymnasiumEnv`.
        autoreset_mode: SAME_STEP resets a finished environment in the same step and puts the last observation of its
            episode into `infos["final_obs"]`; NEXT_STEP returns that observation, and the next call resets whatever the
            action.
    """

    def __init__(
        self,
        env: str | Environment,
        num_envs: int = 1,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        **options: Any,
    ) -> None:
        self.env = _environment(env, options)
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        if self.autoreset_mode == AutoresetMode.DISABLED:
            raise ValueError("autoreset_mode: expected SAME_STEP or NEXT_STEP, got DISABLED")
        self.metadata = {**_metadata(self.env), "autoreset_mode": self.autoreset_mode}
        self.render_mode = _check_render_mode(render_mode)
        self.single_observation_space = observation_space(self.env.observation)
        self.single_action_space = spaces.Discrete(self.env.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._current: _EnvState | None = None
        self._done = np.zeros(num_envs, bool)

    def reset(  # type: ignore[override]
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments; environment i gets the seed `seed + i`, or `seed[i]`."""
        if seed is None and self._current is not None:
            self._current, seen = _jit_vmap_call(_restart, self.env, self._current)
        else:
            keys = jnp.stack([_key(generator) for generator in self._generators(seed)])
            self._current, seen = _jit_vmap_call(_reset, self.env, keys)
        self._done = np.zeros(self.num_envs, bool)
        return self._observations(seen), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._current is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,):
            raise ValueError(f"actions: expected {self.num_envs} of them, got shape {actions.shape}")
        self.env.check_action(actions)
        actions = actions.astype(np.int32)
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            self._current, step, seen = _jit_vmap_call(_next_step_reset, self.env, self._current, actions, self._done)
            last = None
        else:
            self._current, step, seen, last = _jit_vmap_call(_same_step_reset, self.env, self._current, actions)
        (reward, terminated, truncated), seen = jax.device_get((step, seen))
        self._done = terminated | truncated
        infos = {} if last is None or not self._done.any() else self._final(last)
        return self._observations(seen), reward.astype(np.float64), terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...] | None:  # type: ignore[override]
        """Return one image per environment."""
        if self.render_mode is None or self._current is None:
            return None
        states = jax.device_get(self._current.state)
        return tuple(render(self.env, jax.tree.map(lambda leaf, i=i: leaf[i], states)) for i in range(self.num_envs))

    def _generators(self, seed: int | Sequence[int] | None) -> list[np.random.Generator]:
        if seed is None:
            return self.np_random.spawn(self.num_envs)
        super().reset(seed=seed if isinstance(seed, int) else None)
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed: expected one number or {self.num_envs}, got {len(seeds)}")
        return [seeding.np_random(one)[0] for one in seeds]

    def _observations(self, seen: Any) -> np.ndarray:
        return np.asarray(seen).astype(self.observation_space.dtype, copy=True)

    def _final(self, last: Any) -> dict[str, Any]:
        """Return infos as Gymnasium's vector environments do: "final_obs" is None where no episode ended."""
        final = np.full(self.num_envs, None, object)
        last = np.asarray(last)
        for i in np.flatnonzero(self._done):
            final[i] = _observation(self.single_observation_space, last[i])
        over = self._done.copy()
        return {"final_obs": final, "_final_obs": over, "final_info": {}, "_final_info": over.copy()}


def observation_space(spec: ObservationSpec) -> spaces.Space:
    """Return the Gymnasium space: Discrete for a scalar integer with finite bounds that is no quantity, else a Box."""
    is_number = spec.shape == () and spec.dtype.kind in "iu" and not spec.is_quantity
    if is_number and np.isfinite([spec.low, spec.high]).all():
        return spaces.Discrete(int(spec.high) - int(spec.low) + 1, start=int(spec.low))
    low, high = (np.broadcast_to(bound, spec.shape).astype(spec.dtype) for bound in (spec.low, spec.high))
    return spaces.Box(low, high, dtype=spec.dtype.type)


# -- compiled functions -----------------------------------------------------------------------------------------------


class _EnvState(NamedTuple):
    key: jax.Array
    state: State


def _reset(env: Environment, key: jax.Array) -> tuple[_EnvState, jax.Array]:
    key, use = jax.random.split(key)
    state = env.reset(use)
    return _EnvState(key, state), env.observe(state)


def _restart(env: Environment, now: _EnvState) -> tuple[_EnvState, jax.Array]:
    key, use = jax.random.split(now.key)
    state = env.restart(use, now.state)
    return _EnvState(key, state), env.observe(state)


def _step(env: Environment, now: _EnvState, action: jax.Array) -> tuple[_EnvState, Step, jax.Array]:
    key, use = jax.random.split(now.key)
    state, step = env.step(use, now.state, action)
    return _EnvState(key, state), step, env.observe(state)


def _same_step_reset(
    env: Environment, now: _EnvState, action: jax.Array
) -> tuple[_EnvState, Step, jax.Array, jax.Array]:
    now, step, last = _step(env, now, action)
    now, seen = _where(step.terminated | step.truncated, _restart(env, now), (now, last))
    return now, step, seen, last


def _next_step_reset(
    env: Environment, now: _EnvState, action: jax.Array, over: jax.Array
) -> tuple[_EnvState, Step, jax.Array]:
    moved, step, seen = _step(env, now, action)
    now, seen = _where(over, _restart(env, now), (moved, seen))
    return now, jax.tree.map(lambda leaf: jnp.where(over, jnp.zeros_like(leaf), leaf), step), seen


def _where(condition: jax.Array, this: Any, that: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), this, that)


@partial(jax.jit, static_argnums=(0, 1))
def _jit_call(function: Any, env: Environment, *arrays: Any) -> Any:
    """Return function(env, *arrays), compiled with `env` static: equal environments share the compilation."""
    return function(env, *arrays)


@partial(jax.jit, static_argnums=(0, 1))
def _jit_vmap_call(function: Any, env: Environment, *arrays: Any) -> Any:
    """Return function(env, *arrays), compiled and vmapped over the leading axis of the arrays; `env` is static."""
    return jax.vmap(partial(function, env))(*arrays)


# -- the rest ---------------------------------------------------------------------------------------------------------


def _environment(env: str | Environment, options: dict[str, Any]) -> Environment:
    if isinstance(env, str):
        return envs.make(env, **options)
    if options:
        raise ValueError(f"{next(iter(options))}: options go with a name; {env.name} is already made")
    return env


def _metadata(env: Environment) -> dict[str, Any]:
    return {"render_modes": RENDER_MODES, "render_fps": frames_per_second(env)}


def _check_render_mode(render_mode: str | None) -> str | None:
    if render_mode not in (None, *RENDER_MODES):
        raise ValueError(f"render_mode: expected None or {', '.join(RENDER_MODES)}, got {render_mode!r}")
    return render_mode


def _key(generator: np.random.Generator) -> jax.Array:
    return jax.random.key(generator.integers(2**32, dtype=np.uint32))


def _observation(space: spaces.Space, seen: Any) -> Any:
    """Return the observation as a NumPy array (or int) that the Gymnasium space contains."""
    if isinstance(space, spaces.Discrete):
        return np.int64(seen)
    return np.array(seen)

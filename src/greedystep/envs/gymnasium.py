"""Our environments as Gymnasium's: one episode at a time (`GymnasiumEnv`), or many at once (`GymnasiumVectorEnv`).

The ids are registered by `greedystep.gymnasium_ids`; `gymnasium.make("greedystep/minatar-breakout-v1", sticky=0.0)` and
`gymnasium.make_vec(...)` end here. Number i of a vector environment that was reset with seed s sees, action for action,
the same episodes as a single one that was reset with seed s + i.
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
from greedystep.envs.rendering import frames_per_second, picture

RENDER_MODES = ["rgb_array"]


class GymnasiumEnv(gymnasium.Env):
    """One of our environments, an episode at a time.

    Args:
        env: a name for `envs.make_env`, or an environment.
        render_mode: None or "rgb_array".
        options: what `envs.make_env` takes; the time limit is ours too (`limit=1000`, `limit=None`).
    """

    metadata = {"render_modes": RENDER_MODES}  # noqa: RUF012
    """Gymnasium looks at the class before it makes one."""

    def __init__(self, env: str | Environment, render_mode: str | None = None, **options: Any) -> None:
        self.env = _environment(env, options)
        self.metadata = _metadata(self.env)
        self.render_mode = _checked_mode(render_mode)
        self.observation_space = observation_space(self.env.observation)
        self.action_space = spaces.Discrete(self.env.num_actions)
        self._now: _Now | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A new episode. Without a seed it follows the one before, and games carry over what they carry over."""
        super().reset(seed=seed)
        if seed is not None or self._now is None:
            self._now, seen = _one(_begin, self.env, _key(self.np_random))
        else:
            self._now, seen = _one(_begin_again, self.env, self._now)
        return _observation(self.observation_space, seen), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._now is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        self.env.check_action(action)
        self._now, step, seen = _one(_step, self.env, self._now, np.int32(action))
        reward, terminated, truncated, seen = jax.device_get((*step, seen))
        return _observation(self.observation_space, seen), float(reward), bool(terminated), bool(truncated), {}

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """The picture of the present state, uint8 [H, W, 3]."""
        if self.render_mode is None or self._now is None:
            return None
        return picture(self.env, self._now.state)


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv):
    """`num_envs` of our environments in one compiled call.

    Args:
        env, render_mode, options: as for `GymnasiumEnv`.
        autoreset_mode: SAME_STEP, a finished environment begins anew in the same step, and the last observation of its
            episode is in `infos["final_obs"]`; or NEXT_STEP, it shows its last observation, and the next call begins
            anew whatever the action.
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
        self.render_mode = _checked_mode(render_mode)
        self.single_observation_space = observation_space(self.env.observation)
        self.single_action_space = spaces.Discrete(self.env.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._now: _Now | None = None
        self._over = np.zeros(num_envs, bool)

    def reset(  # type: ignore[override]
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """New episodes everywhere; environment i gets the seed `seed + i`, or `seed[i]`."""
        if seed is None and self._now is not None:
            self._now, seen = _many(_begin_again, self.env, self._now)
        else:
            keys = jnp.stack([_key(random) for random in self._randoms(seed)])
            self._now, seen = _many(_begin, self.env, keys)
        self._over = np.zeros(self.num_envs, bool)
        return self._observations(seen), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._now is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,):
            raise ValueError(f"actions: expected {self.num_envs} of them, got shape {actions.shape}")
        self.env.check_action(actions)
        actions = actions.astype(np.int32)
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            self._now, step, seen = _many(_step_or_begin, self.env, self._now, actions, self._over)
            last = None
        else:
            self._now, step, seen, last = _many(_step_and_begin, self.env, self._now, actions)
        (reward, terminated, truncated), seen = jax.device_get((step, seen))
        self._over = terminated | truncated
        infos = {} if last is None or not self._over.any() else self._final(last)
        return self._observations(seen), reward.astype(np.float64), terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...] | None:  # type: ignore[override]
        """A picture of every environment."""
        if self.render_mode is None or self._now is None:
            return None
        states = jax.device_get(self._now.state)
        return tuple(picture(self.env, jax.tree.map(lambda leaf, i=i: leaf[i], states)) for i in range(self.num_envs))

    def _randoms(self, seed: int | Sequence[int] | None) -> list[np.random.Generator]:
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
        """As Gymnasium's own vector environments give it: an array of objects, None where nothing ended."""
        final = np.full(self.num_envs, None, object)
        last = np.asarray(last)
        for i in np.flatnonzero(self._over):
            final[i] = _observation(self.single_observation_space, last[i])
        over = self._over.copy()
        return {"final_obs": final, "_final_obs": over, "final_info": {}, "_final_info": over.copy()}


def observation_space(spec: ObservationSpec) -> spaces.Space:
    """A whole number from a range is Discrete, all else a Box."""
    if spec.shape == () and spec.dtype.kind in "iu" and np.isfinite([spec.low, spec.high]).all():
        return spaces.Discrete(int(spec.high) - int(spec.low) + 1, start=int(spec.low))
    low, high = (np.broadcast_to(bound, spec.shape).astype(spec.dtype) for bound in (spec.low, spec.high))
    return spaces.Box(low, high, dtype=spec.dtype.type)


# -- the compiled part ------------------------------------------------------------------------------------------------


class _Now(NamedTuple):
    """Where an environment stands; every use of the key leaves a new one."""

    key: jax.Array
    state: State


def _begin(env: Environment, key: jax.Array) -> tuple[_Now, jax.Array]:
    key, use = jax.random.split(key)
    state = env.reset(use)
    return _Now(key, state), env.observe(state)


def _begin_again(env: Environment, now: _Now) -> tuple[_Now, jax.Array]:
    key, use = jax.random.split(now.key)
    state = env.restart(use, now.state)
    return _Now(key, state), env.observe(state)


def _step(env: Environment, now: _Now, action: jax.Array) -> tuple[_Now, Step, jax.Array]:
    key, use = jax.random.split(now.key)
    state, step = env.step(use, now.state, action)
    return _Now(key, state), step, env.observe(state)


def _step_and_begin(env: Environment, now: _Now, action: jax.Array) -> tuple[_Now, Step, jax.Array, jax.Array]:
    now, step, last = _step(env, now, action)
    now, seen = _where(step.terminated | step.truncated, _begin_again(env, now), (now, last))
    return now, step, seen, last


def _step_or_begin(env: Environment, now: _Now, action: jax.Array, over: jax.Array) -> tuple[_Now, Step, jax.Array]:
    moved, step, seen = _step(env, now, action)
    now, seen = _where(over, _begin_again(env, now), (moved, seen))
    return now, jax.tree.map(lambda leaf: jnp.where(over, jnp.zeros_like(leaf), leaf), step), seen


def _where(condition: jax.Array, this: Any, that: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), this, that)


@partial(jax.jit, static_argnums=(0, 1))
def _one(function: Any, env: Environment, *arrays: Any) -> Any:
    """Call it compiled: once for equal environments, whoever asks."""
    return function(env, *arrays)


@partial(jax.jit, static_argnums=(0, 1))
def _many(function: Any, env: Environment, *arrays: Any) -> Any:
    """Call it compiled, for as many environments as the arrays are long."""
    return jax.vmap(partial(function, env))(*arrays)


# -- the rest ---------------------------------------------------------------------------------------------------------


def _environment(env: str | Environment, options: dict[str, Any]) -> Environment:
    if isinstance(env, str):
        return envs.make_env(env, **options)
    if options:
        raise ValueError(f"{next(iter(options))}: options go with a name; {env.name} is already made")
    return env


def _metadata(env: Environment) -> dict[str, Any]:
    return {"render_modes": RENDER_MODES, "render_fps": frames_per_second(env)}


def _checked_mode(render_mode: str | None) -> str | None:
    if render_mode not in (None, *RENDER_MODES):
        raise ValueError(f"render_mode: expected None or {', '.join(RENDER_MODES)}, got {render_mode!r}")
    return render_mode


def _key(random: np.random.Generator) -> jax.Array:
    return jax.random.key(random.integers(2**32, dtype=np.uint32))


def _observation(space: spaces.Space, seen: Any) -> Any:
    """The observation as a member of the space, the reader's own copy."""
    if isinstance(space, spaces.Discrete):
        return np.int64(seen)
    return np.array(seen)

"""Checks of compiled environments, whose methods must be pure and keep shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.checks import short_repr
from greedystep.deep.env_check_gymnasium import naming, warn_endless
from greedystep.envs.core import AutoReset, Environment, ObservationSpec, Step
from greedystep.envs.gymnasium_rules import sentence

LANES = 4
"""Number of compiled environments that are stepped side by side."""


def check_compiled(env: Environment, steps: int, seed: int) -> None:
    """Raise ValueError, in one sentence, at the first thing that an agent cannot work with."""
    _check_description(env)
    key = jax.random.key(seed)
    with _compiling("reset"):
        first = jax.eval_shape(env.reset, key)
    for action in range(env.num_actions):
        with _compiling("step"):
            after, step = jax.eval_shape(env.step, key, first, jnp.int32(action))
        _check_same_state(first, after)
        _check_result(step)
    with _compiling("observe"):
        seen = jax.eval_shape(env.observe, first)
    spec = env.observation
    if (found := _type(seen)) != (declared := f"{np.dtype(spec.dtype)}{list(spec.shape)}"):
        raise ValueError(f"env: observe returns {found}, observation says {declared}")
    _check_pure(env, key)
    _check_rollout(env, steps, key)


def _check_description(env: Environment) -> None:
    with naming("its description"):
        names, spec = env.action_names, env.observation
    if not (isinstance(names, tuple) and names and all(isinstance(name, str) for name in names)):
        raise ValueError(f"env: action_names must be a tuple with one word per action, got {short_repr(names)}")
    if not isinstance(spec, ObservationSpec):
        raise ValueError(f"env: observation must be an ObservationSpec, got {short_repr(spec)}")
    try:
        hash(env)
    except TypeError:
        raise ValueError(
            f"env: a {type(env).__name__} has no hash, which compiled programs need; decorate it with "
            "@dataclass(frozen=True)"
        ) from None


def _check_same_state(first: Any, after: Any) -> None:
    """Raise ValueError unless `step` returns a state of the same structure, shapes and dtypes, as loops in JAX need."""
    one, other = jax.tree.structure(first), jax.tree.structure(after)
    if one != other:
        raise ValueError(f"env: step returns a state of another structure, {short_repr(other)}, than reset, {one}")
    for (path, begins), goes_on in zip(jax.tree_util.tree_leaves_with_path(first), jax.tree.leaves(after), strict=True):
        if (begins.shape, begins.dtype) != (goes_on.shape, goes_on.dtype):
            name = f"state{jax.tree_util.keystr(path)}"
            raise ValueError(f"env: {name} is {_type(begins)} after reset and {_type(goes_on)} after step")


def _check_result(step: Any) -> None:
    if not isinstance(step, Step):
        raise ValueError(f"env: step must return (state, Step), got a {type(step).__name__} instead of a Step")
    for name, dtype in (("reward", "float32"), ("terminated", "bool"), ("truncated", "bool")):
        if (found := _type(getattr(step, name))) != f"{dtype}[]":
            raise ValueError(f"env: {name} must be {dtype}[], got {found}")


def _check_pure(env: Environment, key: jax.Array) -> None:
    """Raise ValueError unless the same key, state and action give the same result, compiled or not."""

    def play(key: jax.Array) -> Any:
        state = env.reset(key)
        state, step = env.step(key, state, jnp.int32(0))
        return env.observe(state), step

    with naming("step"):
        results = [jax.tree.leaves(one(key)) for one in (play, play, jax.jit(play))]
    for what, other in (("twice", results[1]), ("when compiled", results[2])):
        if not all(np.allclose(a, b, atol=1e-4, equal_nan=True) for a, b in zip(results[0], other, strict=True)):
            raise ValueError(
                f"env: reset and step gave something else {what} with the same key; they must be pure: no state in "
                "self, random numbers from the key alone"
            )


def _check_rollout(env: Environment, steps: int, key: jax.Array) -> None:
    """Play environments side by side with automatic resets, as an agent does, and check rewards and observations."""
    resetting = AutoReset(env)

    def one(states: Any, key: jax.Array) -> Any:
        keys = jax.random.split(key, LANES + 1)
        actions = jax.random.randint(keys[0], (LANES,), 0, env.num_actions)
        states, step = jax.vmap(resetting.step)(keys[1:], states, actions)
        return states, (jax.vmap(env.observe)(step.last), step.reward, step.terminated, step.truncated)

    with _compiling("a loop of steps"):
        begin = jax.jit(jax.vmap(env.reset))(jax.random.split(key, LANES))
        keys = jax.random.split(jax.random.fold_in(key, 1), -(-steps // LANES))
        seen, reward, terminated, truncated = jax.tree.map(
            np.asarray, jax.jit(partial(jax.lax.scan, one))(begin, keys)[1]
        )
    if not np.isfinite(reward).all():
        raise ValueError(f"env: the reward must be finite, got {reward[~np.isfinite(reward)][0]}")
    if seen.dtype.kind == "f" and not np.isfinite(seen).all():
        raise ValueError(f"env: an observation is not finite: {short_repr(seen[~np.isfinite(seen)][0])}")
    low, high = env.observation.low, env.observation.high
    if (outside := (seen < low) | (seen > high)).any():
        wrong = seen[outside][0]
        raise ValueError(f"env: an observation holds {wrong:g}, observation says {np.min(low):g} to {np.max(high):g}")
    if (terminated & truncated).any():
        raise ValueError("env: a step is terminated and truncated at once; an episode that ended is not cut off")
    if not (terminated | truncated).any():
        warn_endless(env.name, steps)


@contextmanager
def _compiling(what: str) -> Iterator[None]:
    """Within the block, turn an exception of the user's code into a ValueError of one sentence about `what`."""
    with naming(what, "cannot be compiled:"):
        try:
            yield
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as problem:
            raise ValueError(
                f"env: {what} cannot be compiled, since it needs the value of a traced array: use jnp.where or "
                f"lax.cond instead of if, and jnp instead of np ({sentence(problem)})"
            ) from problem


def _type(x: Any) -> str:
    """Return dtype and shape as text: float32[4]."""
    return f"{np.dtype(x.dtype)}{list(x.shape)}"

"""Checks of a user's environment, Gymnasium's or compiled: one sentence about the first thing that is wrong with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from greedystep.checks import check_int, check_seed, short_repr
from greedystep.deep.env_spec import as_environment
from greedystep.envs.core import AutoReset, Environment, ObservationSpec, Step
from greedystep.envs.gymnasium_ids import make_gymnasium
from greedystep.envs.gymnasium_rules import kind_of, sentence, wrong_reset, wrong_step
from greedystep.envs.host import HostEnvironment

LANES = 4
"""Number of compiled environments that are stepped side by side."""
COMPARED = 100
"""Number of steps that are played twice with the same seed, to be compared."""
MOST_STEPS = 1_000_000
FIRST_STEPS = 5
"""Number of steps of `check_first_steps`."""


class EnvironmentWarning(UserWarning):
    """An environment can be learned in, but something about it is probably a mistake."""


def check_env(env: Any, steps: int = 1_000, *, seed: int = 0, **options: Any) -> None:
    """Play random actions and raise ValueError, in one sentence, at the first thing that an agent cannot work with.

    An `EnvironmentWarning` says what is legal and yet doubtful: no episode ends, or the same seed and actions do not
    give the same episode, so that a training cannot be resumed exactly.

    Args:
        env: what `DQN` takes: a name, a Gymnasium id, a function that makes an environment, an environment or vector
            environment of Gymnasium, an `envs.Environment`, or one of gymnax.
        steps: the number of random steps.
        options: those of the environment, for a name or an id.
    """
    steps, seed = check_int("steps", steps, 1, MOST_STEPS), check_seed(seed)
    single = _gymnasium_env(env, options)
    if single is not None:
        _check_gymnasium(single, steps, seed)
        return
    found = as_environment(env, **options)
    if isinstance(found, HostEnvironment):
        _check_vector(found, steps, seed)
    else:
        _check_compiled(found, steps, seed)


def check_first_steps(env_id: str, **options: Any) -> None:
    """Raise ValueError unless a Gymnasium environment can be made, reset and stepped: what takes no time to find out.

    It is made without Gymnasium's own checker, whose sentences are longer than ours.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = HostEnvironment(env_id, **dict(options, disable_env_checker=True))
        running, rng = env.open(1), np.random.default_rng(0)
        try:
            running.reset([(0, 0)])
            for _ in range(FIRST_STEPS):
                running.step(rng.integers(env.num_actions, size=1))
        finally:
            running.abandon()


# -- Gymnasium ---------------------------------------------------------------------------------------------------------


def _gymnasium_env(env: Any, options: dict[str, Any]) -> gymnasium.Env | None:
    """Return the single Gymnasium environment that `env` stands for; None for vector and compiled environments."""
    from greedystep import envs

    if isinstance(env, str) and not envs.is_own_name(env):
        return make_gymnasium(env, disable_env_checker=True, **options)
    if isinstance(env, Environment | VectorEnv | str):
        return None
    if options:
        raise ValueError(f"{next(iter(options))}: options go with a name, this environment is made already")
    if isinstance(env, gymnasium.Env):
        return env
    is_made = not isinstance(env, type) and hasattr(env, "reset") and hasattr(env, "step")
    if is_made and isinstance(getattr(env, "action_space", None), spaces.Space):
        raise ValueError(f"env: a {type(env).__name__} has reset and step, but is not derived from gymnasium.Env")
    if callable(env) and not is_made:
        with _naming("the function that makes it"):
            made = env()
        if not isinstance(made, gymnasium.Env):
            raise ValueError(f"env: expected a function that makes a gymnasium.Env, got a {type(made).__name__}")
        return made
    return None


def _check_gymnasium(env: gymnasium.Env, steps: int, seed: int) -> None:
    host = HostEnvironment(env)  # checks the spaces
    space, actions = env.observation_space, env.action_space
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium's own checker, which may wrap the environment
        log, ended = _play_gymnasium(env, space, actions, steps, seed)
        again, _ = _play_gymnasium(env, space, actions, min(steps, COMPARED), seed)
    if not ended:
        _warn_endless(host.name, steps)
    differs = next((t for t, (one, other) in enumerate(zip(log, again, strict=True)) if not _same(one, other)), None)
    if differs is not None:
        what = "its first observation" if differs == 0 else f"step {differs}"
        warnings.warn(
            f"{host.name}: the same seed and actions gave another episode from {what} on, so that a training cannot be "
            "resumed exactly; draw all random numbers from self.np_random, which reset(seed=...) sets",
            EnvironmentWarning,
            stacklevel=4,
        )


def _play_gymnasium(
    env: gymnasium.Env, space: spaces.Space, actions: Any, steps: int, seed: int
) -> tuple[list[tuple], bool]:
    """Play random steps; return (observation, reward, over) of the first COMPARED, and whether an episode ended."""
    rng, ended = np.random.default_rng(seed), False
    log: list[tuple] = [(_check_reset(env, space, seed), 0.0, False)]
    for t in range(steps):
        result = _check_step(env, space, actions.start + rng.integers(actions.n))
        if t < COMPARED:
            log.append(result)
        if result[-1]:
            ended = True
            _check_reset(env, space, int(rng.integers(2**31)))
    return log, ended


def _check_reset(env: gymnasium.Env, space: spaces.Space, seed: int) -> Any:
    with _naming(f"reset(seed={seed})"):
        result = env.reset(seed=seed)
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise ValueError(f"env: {wrong_reset(result)}")
    _check_observation("reset", space, result[0])
    return _copy(result[0])


def _check_step(env: gymnasium.Env, space: spaces.Space, action: Any) -> tuple[Any, float, bool]:
    with _naming(f"step({action})"):
        result: Any = env.step(action)
    if not (isinstance(result, tuple) and len(result) == 5):
        raise ValueError(f"env: {wrong_step(result)}")
    seen, reward, terminated, truncated, info = result
    _check_observation("step", space, seen)
    is_number = np.ndim(reward) == 0 and np.asarray(reward).dtype.kind in "biuf"
    if not (is_number and np.isfinite(reward)):
        raise ValueError(f"env: the reward must be one finite number, got {short_repr(reward)}")
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"env: {name} must be a bool, got {short_repr(value)}")
    if not isinstance(info, dict):
        raise ValueError(f"env: info must be a dict, got {short_repr(info)}")
    return _copy(seen), float(reward), bool(terminated or truncated)


def _check_observation(where: str, space: spaces.Space, seen: Any, what: str = "observation") -> None:
    """Raise ValueError saying how an observation differs from its space."""
    if isinstance(space, spaces.Dict):
        if not isinstance(seen, dict) or seen.keys() != space.spaces.keys():
            got = sorted(seen) if isinstance(seen, dict) else type(seen).__name__
            raise ValueError(f"env: the {what} of {where} must be a dict of {sorted(space.spaces)}, got {got}")
        for name, part in space.spaces.items():
            _check_observation(where, part, seen[name], f"{what}[{name!r}]")
        return
    if isinstance(space, spaces.Box):
        found = np.asarray(seen)
        if not isinstance(seen, np.ndarray | np.generic):
            raise ValueError(f"env: the {what} of {where} must be a NumPy array, got {kind_of(seen)}")
        if found.shape != space.shape:
            raise ValueError(f"env: the {what} of {where} has shape {found.shape}, its space says {space.shape}")
        if not np.can_cast(found.dtype, space.dtype or found.dtype):
            raise ValueError(f"env: the {what} of {where} is {found.dtype}, its space says {space.dtype}")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise ValueError(f"env: the {what} of {where} is not finite: {short_repr(found.tolist())}")
        if (outside := (found < space.low) | (found > space.high)).any():
            place = tuple(int(i) for i in np.argwhere(outside)[0])
            at = f" at {list(place)}" if place else ""
            raise ValueError(
                f"env: the {what} of {where} is {found[place]:g}{at}, its space says {space.low[place]:g} to "
                f"{space.high[place]:g}"
            )
    elif not space.contains(seen):
        raise ValueError(f"env: the {what} of {where} is {short_repr(seen)}, which is not in {space}")


def _check_vector(env: HostEnvironment, steps: int, seed: int) -> None:
    assert env.fixed_num_envs is not None
    running, rng, ended = env.open(env.fixed_num_envs), np.random.default_rng(seed), False
    with _naming("reset"):
        running.reset([(seed, i) for i in range(running.num_envs)])
    for _ in range(-(-steps // running.num_envs)):
        with _naming("step"):
            step = running.step(rng.integers(env.num_actions, size=running.num_envs))
        ended = ended or bool((step.terminated | step.truncated).any())
    if not ended:
        _warn_endless(env.name, steps)


# -- compiled ----------------------------------------------------------------------------------------------------------


def _check_compiled(env: Environment, steps: int, seed: int) -> None:
    _check_description(env)
    key = jax.random.key(seed)
    with _naming("reset", compiled=True):
        first = jax.eval_shape(env.reset, key)
    for action in range(env.num_actions):
        with _naming("step", compiled=True):
            after, step = jax.eval_shape(env.step, key, first, jnp.int32(action))
        _check_same_state(first, after)
        _check_result(step)
    with _naming("observe", compiled=True):
        seen = jax.eval_shape(env.observe, first)
    spec = env.observation
    if (found := _type(seen)) != (declared := f"{np.dtype(spec.dtype)}{list(spec.shape)}"):
        raise ValueError(f"env: observe returns {found}, observation says {declared}")
    _check_pure(env, key)
    _check_rollout(env, steps, key)


def _check_description(env: Environment) -> None:
    with _naming("its description"):
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

    with _naming("step"):
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

    with _naming("a loop of steps", compiled=True):
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
        _warn_endless(env.name, steps)


# -- words -------------------------------------------------------------------------------------------------------------


@contextmanager
def _naming(what: str, *, compiled: bool = False) -> Iterator[None]:
    """Within the block, turn an exception of the user's code into a ValueError of one sentence about `what`."""
    try:
        yield
    except ValueError as problem:
        if str(problem).startswith("env: "):  # one of ours
            raise
        raise ValueError(f"env: {what} raised {sentence(problem)}") from problem
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as problem:
        raise ValueError(
            f"env: {what} cannot be compiled, since it needs the value of a traced array: use jnp.where or lax.cond "
            f"instead of if, and jnp instead of np ({sentence(problem)})"
        ) from problem
    except Exception as problem:
        raise ValueError(
            f"env: {what} {'cannot be compiled: ' if compiled else 'raised '}{sentence(problem)}"
        ) from problem


def _warn_endless(name: str, steps: int) -> None:
    warnings.warn(
        f"{name}: no episode ended within {steps} random steps; unless that is meant, give it a time limit",
        EnvironmentWarning,
        stacklevel=5,
    )


def _type(x: Any) -> str:
    """Return dtype and shape as text: float32[4]."""
    return f"{np.dtype(x.dtype)}{list(x.shape)}"


def _copy(seen: Any) -> Any:
    return jax.tree.map(np.array, seen)


def _same(one: tuple, other: tuple) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)

"""Checks of Gymnasium environments: random actions, and one sentence about the first thing that is wrong."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

from greedystep.checks import short_repr
from greedystep.envs.gymnasium_rules import kind_of, sentence, wrong_reset, wrong_step
from greedystep.envs.host import HostEnvironment
from greedystep.envs.observation_codec import fits_float32

COMPARED = 100
"""Number of steps that are played twice with the same seed, to be compared."""
FIRST_STEPS = 5
"""Number of steps of `check_first_steps`."""


class EnvironmentWarning(UserWarning):
    """An environment can be learned in, but something about it is probably a mistake."""


def check_gymnasium(env: gymnasium.Env, steps: int, seed: int) -> None:
    """Raise ValueError, in one sentence, at the first thing that an agent cannot work with."""
    host = HostEnvironment(env)  # checks the spaces
    space, actions = env.observation_space, env.action_space
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium's own checker, which may wrap the environment
        log, ended = _play_gymnasium(env, space, actions, steps, seed)
        again, _ = _play_gymnasium(env, space, actions, min(steps, COMPARED), seed)
    if not ended:
        warn_endless(host.name, steps)
    pairs = enumerate(zip(log, again, strict=False))
    differs = next((t for t, (one, other) in pairs if not data_equivalence(one, other, exact=True)), None)
    if differs is not None:
        what = "its first observation" if differs == 0 else f"step {differs}"
        warnings.warn(
            f"{host.name}: the same seed and actions gave another episode from {what} on, so that a training cannot be "
            "resumed exactly; draw all random numbers from self.np_random, which reset(seed=...) sets",
            EnvironmentWarning,
            stacklevel=4,
        )


def check_first_steps(env_id: str, **options: Any) -> None:
    """Raise ValueError unless a Gymnasium environment can be made, reset and stepped: what takes no time to find out.

    It is made without Gymnasium's own checker, whose sentences are longer than ours.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how: dict[str, Any] = {**options, "disable_env_checker": True}
        env = HostEnvironment(env_id, **how)
        running, rng = env.open(1), np.random.default_rng(0)
        try:
            running.reset([(0, 0)])
            for _ in range(FIRST_STEPS):
                running.step(rng.integers(env.num_actions, size=1))
        finally:
            running.abandon()


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
    with naming(f"reset(seed={seed})"):
        result = env.reset(seed=seed)
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise ValueError(f"env: {wrong_reset(result)}")
    _check_observation("reset", space, result[0])
    return copy.deepcopy(result[0])


def _check_step(env: gymnasium.Env, space: spaces.Space, action: Any) -> tuple[Any, float, bool]:
    with naming(f"step({action})"):
        result: Any = env.step(action)
    if not (isinstance(result, tuple) and len(result) == 5):
        raise ValueError(f"env: {wrong_step(result)}")
    seen, reward, terminated, truncated, info = result
    _check_observation("step", space, seen)
    is_number = np.ndim(reward) == 0 and np.asarray(reward).dtype.kind in "biuf"
    if not (is_number and fits_float32(reward)):
        raise ValueError(f"env: the reward must be one number, finite in float32, got {short_repr(reward)}")
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"env: {name} must be a bool, got {short_repr(value)}")
    if not isinstance(info, dict):
        raise ValueError(f"env: info must be a dict, got {short_repr(info)}")
    return copy.deepcopy(seen), float(reward), bool(terminated or truncated)


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
        if found.dtype.kind == "f" and not fits_float32(found):
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


def check_vector(env: HostEnvironment, steps: int, seed: int) -> None:
    """Do so for a vector environment."""
    assert env.fixed_num_envs is not None
    running, rng, ended = env.open(env.fixed_num_envs), np.random.default_rng(seed), False
    with naming("reset"):
        running.reset([(seed, i) for i in range(running.num_envs)])
    for _ in range(-(-steps // running.num_envs)):
        with naming("step"):
            step = running.step(rng.integers(env.num_actions, size=running.num_envs))
        ended = ended or bool((step.terminated | step.truncated).any())
    if not ended:
        warn_endless(env.name, steps)


# -- words -------------------------------------------------------------------------------------------------------------


@contextmanager
def naming(what: str, verb: str = "raised") -> Iterator[None]:
    """Within the block, turn an exception of the user's code into a ValueError of one sentence about `what`."""
    try:
        yield
    except ValueError as problem:
        if str(problem).startswith("env: "):  # one of ours
            raise
        raise ValueError(f"env: {what} raised {sentence(problem)}") from problem
    except Exception as problem:
        raise ValueError(f"env: {what} {verb} {sentence(problem)}") from problem


def warn_endless(name: str, steps: int) -> None:
    warnings.warn(
        f"{name}: no episode ended within {steps} random steps; unless that is meant, give it a time limit",
        EnvironmentWarning,
        stacklevel=5,
    )

"""Checks of a user's environment, Gymnasium's or compiled: one sentence about the first thing that is wrong with it.

Those of Gymnasium need no JAX.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from greedystep.checks import check_int, check_seed
from greedystep.deep.env_check_gymnasium import EnvironmentWarning, check_gymnasium, check_vector, naming
from greedystep.envs.gymnasium_ids import make_gymnasium
from greedystep.envs.host import HostEnvironment
from greedystep.extras import deep_extra

__all__ = ["EnvironmentWarning", "check_env"]

MOST_STEPS = 1_000_000


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
        check_gymnasium(single, steps, seed)
    elif isinstance(env, VectorEnv):
        check_vector(HostEnvironment(env, **options), steps, seed)
    else:
        with deep_extra():
            from greedystep.deep.env_check_compiled import check_compiled
            from greedystep.deep.env_spec import as_environment
        found = as_environment(env, **options)
        if isinstance(found, HostEnvironment):
            check_vector(found, steps, seed)
        else:
            check_compiled(found, steps, seed)


def _gymnasium_env(env: Any, options: dict[str, Any]) -> gymnasium.Env | None:
    """Return the single Gymnasium environment that `env` stands for; None for vector and compiled environments."""
    from greedystep import envs

    if isinstance(env, str) and not envs.is_own_name(env):
        return make_gymnasium(env, disable_env_checker=True, **options)
    is_made = not isinstance(env, type) and hasattr(env, "reset") and hasattr(env, "step")
    if isinstance(env, VectorEnv | str):
        return None
    if options:
        raise ValueError(f"{next(iter(options))}: options go with a name, this environment is made already")
    if isinstance(env, gymnasium.Env):
        return env
    if is_made and isinstance(getattr(env, "action_space", None), spaces.Space):
        raise ValueError(f"env: a {type(env).__name__} has reset and step, but is not derived from gymnasium.Env")
    if callable(env) and not is_made:
        with naming("the function that makes it"):
            made = env()
        if not isinstance(made, gymnasium.Env):
            raise ValueError(f"env: expected a function that makes a gymnasium.Env, got a {type(made).__name__}")
        return made
    return None

"""Gymnasium ids of our environments: `minatar/breakout` is `greedystep/minatar-breakout-v1`.

`import greedystep` registers them if Gymnasium has been imported before, and `import greedystep.envs.gymnasium` always
does. So `gymnasium.make("greedystep.envs.gymnasium:greedystep/minatar-breakout-v1")` needs no import of ours at all.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from greedystep import envs
from greedystep.extras import MissingExtraError, deep_extra

if TYPE_CHECKING:
    import gymnasium

ADAPTERS = "greedystep.envs.gymnasium"
"""The module of the Gymnasium classes, which imports JAX; this one does not."""

MODULE_HINT = "If a module registers it when it is imported, name both, MODULE:ID, as in ale_py:ALE/Pong-v5"


def register_ids() -> None:
    """Register every environment with Gymnasium, by name only: none is made or imported."""
    from gymnasium.envs.registration import register, registry

    for name in envs.names():
        if gymnasium_id(name) not in registry:
            register(
                gymnasium_id(name),
                entry_point=f"{ADAPTERS}:GymnasiumEnv",
                vector_entry_point=f"{ADAPTERS}:GymnasiumVectorEnv",
                kwargs={"env": name},
            )


def gymnasium_id(name: str) -> str:
    """Return the Gymnasium id of an environment's name."""
    return f"greedystep/{name.replace('/', '-')}-v1"


def make_gymnasium(env_id: str, **options: Any) -> gymnasium.Env:
    """Make a Gymnasium environment, one of ours included; ValueError if that fails.

    Args:
        options: arguments of `gymnasium.make`; `limit` is its `max_episode_steps`.
    """
    import gymnasium

    register_ids()
    if "limit" in options:
        options["max_episode_steps"] = options.pop("limit")
    try:
        with deep_extra():  # for our own
            return gymnasium.make(env_id, **options)
    except MissingExtraError:
        raise
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as problem:
        unknown = isinstance(problem, gymnasium.error.NamespaceNotFound | gymnasium.error.NameNotFound)
        hint = f" {MODULE_HINT}" if unknown and ":" not in env_id and "Did you mean" not in str(problem) else ""
        raise ValueError(f"env: gymnasium cannot make {env_id!r}: {problem}{hint}") from None
    except (Exception, SystemExit) as problem:
        from greedystep.envs.gymnasium_rules import sentence

        raise ValueError(f"env: gymnasium cannot make {env_id!r}: {sentence(problem)}") from problem


def check_registered(env_id: str, source: Any) -> None:
    """Raise ValueError if making the environment `env_id`, which the file `source` names, would import a module.

    For an id "module:name" Gymnasium imports the module, which runs its code. The user may decide that, a file that
    somebody sent may not.
    """
    import gymnasium

    module, _, name = env_id.rpartition(":")
    if module and not (module in sys.modules and name in gymnasium.registry):
        raise ValueError(
            f"env: {source} names the environment {env_id!r}, for which the module {module!r} would be imported; "
            f"if you trust it, name the environment yourself: --env {env_id}, train {env_id} --resume, or in Python "
            f"env={env_id!r}"
        )

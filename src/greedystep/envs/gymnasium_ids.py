"""Gymnasium ids of our environments: `minatar/breakout` is `greedystep/minatar-breakout-v1`.

`import greedystep` registers them if Gymnasium has been imported before, and `import greedystep.envs.gymnasium` always
does. So `gymnasium.make("greedystep.envs.gymnasium:greedystep/minatar-breakout-v1")` needs no import of ours at all.
"""

from __future__ import annotations

from greedystep import envs

ADAPTERS = "greedystep.envs.gymnasium"
"""The module of the Gymnasium classes; it imports JAX, registering the ids does not."""


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

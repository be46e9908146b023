"""The ids under which Gymnasium knows our environments: `minatar/breakout` is `greedystep/minatar-breakout-v1`.

Gymnasium has no list of packages to ask (its plug-ins went with version 1.0): who imports a package gets its ids. We
import nothing heavy, so the ids wait here until Gymnasium is imported, before us or after us.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

HOME = "greedystep.envs.gymnasium"


def register_with_gymnasium() -> None:
    """Register all ids now if Gymnasium is there, otherwise as soon as it is imported."""
    if "gymnasium" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _AfterGymnasium())


def register() -> None:
    """Register all ids with Gymnasium; neither it nor an environment is made or imported for it beyond the names."""
    from gymnasium.envs.registration import register, registry

    from greedystep.envs import names

    for name in names():
        if gymnasium_id(name) not in registry:
            register(
                gymnasium_id(name),
                entry_point=f"{HOME}:GymnasiumEnv",
                vector_entry_point=f"{HOME}:GymnasiumVectorEnv",
                kwargs={"env": name},
            )


def gymnasium_id(name: str) -> str:
    """`minatar/breakout` -> `greedystep/minatar-breakout-v1`."""
    return f"greedystep/{name.replace('/', '-')}-v1"


class _AfterGymnasium:
    """A finder of modules that finds none itself: it has `register` called at the end of `import gymnasium`."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                register()

            spec.loader.exec_module = execute_and_register
        return spec

"""How an environment was made, as JSON, so that a file can say it and make the environment again."""

from __future__ import annotations

import dataclasses
from typing import Any

from greedystep import envs, io
from greedystep.envs.core import Environment, TimeLimit
from greedystep.envs.toy_env import ToyEnvironment

Recipe = dict[str, Any]
"""{"name": ..., "options": what `envs.make` takes, or None if it cannot make this environment}."""


def recipe_of(env: Environment) -> Recipe:
    """The recipe; tried before it is given away."""
    inner, limit = (env.env, env.limit) if isinstance(env, TimeLimit) else (env, None)
    name = getattr(inner, "name", type(inner).__name__)
    if isinstance(inner, ToyEnvironment):
        options: Any = inner.task.made_with
    elif dataclasses.is_dataclass(inner):
        options = {f.name: getattr(inner, f.name) for f in dataclasses.fields(inner)} | {"limit": limit}
    else:
        options = None
    try:
        options = io.jsonable(options)
        is_right = options is not None and repr(envs.make(name, **options)) == repr(env)
    except (TypeError, ValueError):
        is_right = False
    return {"name": name, "options": options if is_right else None}


def made_again(recipe: Recipe, source: Any) -> Environment:
    """The environment of a recipe that was read from `source`; ValueError if it has to be given by hand."""
    if recipe["options"] is None:
        raise ValueError(f"env: {source} was trained on {recipe['name']!r}, which has to be given to load it")
    try:
        return envs.make(recipe["name"], **recipe["options"])
    except (ValueError, MemoryError) as problem:
        raise ValueError(f"{source} names an environment that cannot be made: {problem}") from None

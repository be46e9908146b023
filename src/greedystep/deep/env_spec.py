"""The spec of an environment as JSON: a file stores it and makes the environment again from it."""

from __future__ import annotations

import dataclasses
from typing import Any

from greedystep import envs, io
from greedystep.envs.core import Environment, TimeLimit
from greedystep.envs.toy_env import ToyEnvironment

EnvSpec = dict[str, Any]
"""{"name": ..., "options": the options of `envs.make`, or None if it cannot make this environment}."""


def spec_of(env: Environment) -> EnvSpec:
    """Return the spec of an environment, after a check that it makes an equal one."""
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
        is_complete = options is not None and repr(envs.make(name, **options)) == repr(env)
    except (TypeError, ValueError):
        is_complete = False
    return {"name": name, "options": options if is_complete else None}


def make_from_spec(spec: EnvSpec, source: Any) -> Environment:
    """Make the environment of a spec that was read from `source`; ValueError if the caller has to pass it instead."""
    if spec["options"] is None:
        raise ValueError(f"env: {source} was trained on {spec['name']!r}, which has to be given to load it")
    try:
        return envs.make(spec["name"], **spec["options"])
    except (ValueError, MemoryError) as problem:
        raise ValueError(f"{source} names an environment that cannot be made: {problem}") from None

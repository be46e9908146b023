"""Turn what users pass as `env`, or the JSON description in a checkpoint, into an environment for deep agents."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Discrete, Tuple

from greedystep import envs, io, schema
from greedystep.checks import INT32_MAX, check_entries
from greedystep.datasets import Dataset
from greedystep.deep.config import DQNConfig
from greedystep.deep.presets import env_options, make_config
from greedystep.envs.core import Environment, ObservationSpec, TimeLimit
from greedystep.envs.gymnasium_ids import check_registered, gymnasium_id, make_gymnasium
from greedystep.envs.gymnax import NEEDED, from_gymnax
from greedystep.envs.host import HostEnvironment, LoggedEnvironment, Vectorization
from greedystep.envs.jumanji import from_jumanji, is_jumanji
from greedystep.envs.observation_codec import ObservationCodec, stored_dtype
from greedystep.envs.observation_spec import check_spaces
from greedystep.envs.space_json import space_from_json, space_to_json
from greedystep.envs.toy_env import ToyEnvironment
from greedystep.envs.toy_task import ToyTask

AnyEnvironment = Environment | HostEnvironment
"""A compiled environment, or one of Gymnasium that is stepped on the host."""

EnvSpec = dict[str, Any]
"""{"name": ..., "options": the options of `envs.make`, or None if it cannot make this environment}."""


def as_environment(env: Any, *, vectorization: Vectorization = "sync", **options: Any) -> AnyEnvironment:
    """Convert what a user passed as `env` to an environment that a `Trainer` takes.

    Args:
        env: a name of `envs.names()` (with the time limit of the experiments), the id of a Gymnasium environment, a
            function that makes one, an environment or a vector environment of Gymnasium, one of gymnax or Jumanji, or
            one of ours.
        vectorization: for Gymnasium only; see `HostEnvironment`.
        options: keyword arguments of the environment, if `env` is a name or an id.
    """
    if isinstance(env, HostEnvironment) and not options:
        return env
    is_ours = isinstance(env, ToyTask | Environment) or (isinstance(env, str) and envs.is_own_name(env))
    is_gymnax = all(hasattr(env, name) for name in NEEDED)
    if not (is_ours or is_gymnax or is_jumanji(env)):
        return HostEnvironment(env, vectorization=vectorization, **options)
    if vectorization != "sync":
        raise ValueError("vectorization: only environments of Gymnasium have one; this one is compiled")
    if isinstance(env, str):
        return envs.make(env, **(env_options(env) | options))
    if options:
        raise ValueError(f"{next(iter(options))}: options go with a name, this environment is made already")
    if isinstance(env, ToyTask):
        return env.as_env()
    if isinstance(env, Environment):
        return env
    return from_gymnax(env) if is_gymnax else from_jumanji(env)


def environment_of(argument: str, env: Any) -> AnyEnvironment:
    """Convert as `as_environment` does what was passed as `argument`, which errors then name."""
    try:
        return as_environment(env)
    except ValueError as problem:
        raise ValueError(re.sub("^env:", f"{argument}:", str(problem))) from None


def config_for(env: AnyEnvironment, preset: str = "paper", **changes: Any) -> DQNConfig:
    """Return the settings of a preset for an environment, with `changes` to single settings."""
    return make_config(env.name, preset, images=len(env.observation.shape) == 3, **changes)


def same_spaces(env: AnyEnvironment, other: Any, argument: str = "env") -> AnyEnvironment:
    """Convert `other` to an environment; ValueError unless its observations and actions are those of `env`."""
    found = environment_of(argument, other)
    check_spaces(found, env.observation.shape, env.num_actions, argument)
    return found


def named_environment(own: AnyEnvironment, name: str | None) -> AnyEnvironment:
    """Return the environment that the user named for an agent to play in; None, or "module:id" of its own: its own."""
    if name is None or (":" in name and name == own.name):
        return own
    return same_spaces(own, name)


def spec_of(env: AnyEnvironment) -> EnvSpec:
    """Return the JSON description from which `make_from_spec` makes an equal environment; this is checked."""
    if isinstance(env, LoggedEnvironment):
        spec = env.observation
        spaces = {
            "shape": list(spec.shape),
            "dtype": str(spec.dtype),
            "low": np.min(spec.low),
            "high": np.max(spec.high),
            "num_actions": env.num_actions,
        }
        if spec.is_quantity and spec.shape == () and spec.dtype.kind in "iu":  # else it decides nothing
            spaces["is_quantity"] = True
        if env.first_action:
            spaces["first_action"] = env.first_action
        if env.space is not None:
            spaces["space"] = space_to_json(env.space)
        return {"name": env.name, "options": None, "spaces": io.jsonable(spaces)}
    if isinstance(env, HostEnvironment):
        return {"name": env.name, "options": _as_json(env.options)}
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


SPACES = {
    "shape": [schema.Int(1, INT32_MAX)],
    "dtype": schema.OneOf("float32", "int32", "int16", "int8", "uint16", "uint8", "bool"),
    "low": object,
    "high": object,
    "num_actions": schema.Int(1, INT32_MAX),
}
"""Schema of the spaces of an agent that was made from a dataset."""
FIRST_ACTION = schema.Int(-INT32_MAX, INT32_MAX)


def logged_environment(data: Dataset) -> LoggedEnvironment:
    """Return the spaces of a dataset's environment: as the dataset declares them, or from the range of its entries."""
    if data.spaces is not None:
        space, actions = data.spaces
        if not hasattr(actions, "n"):
            raise ValueError(f"{data.name}: expected Discrete actions, got {actions}")
        spec = ObservationCodec(data.name, space).spec
        # Others are in the dataset as in the environment.
        differs = isinstance(space, Dict | Tuple) or (isinstance(space, Discrete) and space.start != 0)
        return LoggedEnvironment(data.name, spec, int(actions.n), int(actions.start), space if differs else None)
    first = next(iter(data)).observations
    is_state, dtype, low, high, most = first.ndim == 1, first.dtype, np.inf, -np.inf, 0
    for number, one in enumerate(data):
        if is_state and one.observations.dtype.kind in "iu":
            _check_states(one.observations, f"{data.name}, episode {number}")
        dtype = np.result_type(dtype, one.observations.dtype)
        low, high = min(low, one.observations.min()), max(high, one.observations.max())
        most = max(most, int(one.actions.max()))
    spec = ObservationSpec(first.shape[1:], stored_dtype(dtype, low, high), low, high)
    return LoggedEnvironment(data.name, spec, most + 1)


def _check_states(states: np.ndarray, where: str) -> None:
    """Raise ValueError unless states are numbered from 0, with numbers that int32 holds."""
    for wrong, expected in ((states < 0, "numbered from 0"), (states > INT32_MAX, f"of at most {INT32_MAX}")):
        check_entries(wrong, lambda t, what=expected: f"{where}: expected states {what}, got {states[t]} in step {t}")


def gymnasium_spec(env: AnyEnvironment) -> Any:
    """Return the `gymnasium.EnvSpec` from which Gymnasium makes the environment again; None if there is none."""
    described = spec_of(env)
    if described["options"] is None:
        return None
    is_own = envs.is_own_name(described["name"])
    made = make_gymnasium(gymnasium_id(described["name"]) if is_own else described["name"], **described["options"])
    made.close()
    return made.spec


def _as_json(options: Any) -> Any:
    try:
        return io.jsonable(options)
    except (TypeError, ValueError):
        return None


def is_spec_of(spec: EnvSpec, name: str) -> bool:
    """Whether `make_from_spec` makes the environment of that name."""
    return spec["name"] == name and spec["options"] is not None


def make_from_spec(spec: EnvSpec, source: Any, named: str | None = None) -> AnyEnvironment:
    """Make the environment of a spec; ValueError, naming the file `source`, if the caller has to pass it instead.

    Args:
        named: an environment that the user has named; for this one a module may be imported.
    """
    if "spaces" in spec:
        spaces = schema.check(spec["spaces"], SPACES, "its spaces")
        shape, dtype = tuple(spaces["shape"]), np.dtype(spaces["dtype"])
        is_quantity = schema.check(spaces.get("is_quantity", False), bool, "its spaces.is_quantity")
        first_action = schema.check(spaces.get("first_action", 0), FIRST_ACTION, "its spaces.first_action")
        space = space_from_json(spaces["space"], "its spaces.space") if "space" in spaces else None
        observation = ObservationSpec(shape, dtype, spaces["low"], spaces["high"], is_quantity)
        return LoggedEnvironment(spec["name"], observation, spaces["num_actions"], first_action, space)
    if spec["options"] is None:
        raise ValueError(f"env: {source} was trained on {spec['name']!r}, which has to be given to load it")
    if not envs.is_own_name(spec["name"]) and named != spec["name"]:
        check_registered(spec["name"], source)
    try:
        return as_environment(spec["name"], **spec["options"])
    except (ValueError, MemoryError) as problem:
        raise ValueError(f"{source} names an environment that cannot be made: {problem}") from None

"""Descriptions of environments for `greedystep envs NAME`: observation, actions, options and their meaning."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
from docstring_parser import parse

from greedystep import envs

LIMIT = "steps after which an episode is cut off (truncated, not terminated), None for never."
"""The meaning of the option `limit`, which all environments but the toy tasks have."""


class Option(NamedTuple):
    """Name, default and meaning of an environment's option."""

    name: str
    default: Any
    about: str  # its meaning, from the docstring; empty where that says nothing


class Description(NamedTuple):
    """Everything that `greedystep envs NAME` prints about an environment."""

    name: str
    about: str  # its docstring without the options
    observation: str
    actions: str
    stochastic: bool  # whether anything but the first state is random
    limit: int | None  # steps after which an episode is truncated
    options: tuple[Option, ...]


def describe(name: str) -> Description:
    """Describe the environment that `envs.make(name)` makes; a toy task without importing JAX."""
    factory = envs.factory(name)
    defaults = {option: parameter.default for option, parameter in inspect.signature(factory).parameters.items()}
    if envs.is_toy(name):
        env = envs.make_task(name)
        limit = env.horizon
        observation, actions = f"0..{env.num_states - 1}", str(env.num_actions)
    else:
        env = envs.make(name)
        limit = defaults["limit"] = getattr(env, "limit", None)
        shape = " x ".join(map(str, env.observation.shape)) or "1"
        observation = f"{shape} {np.dtype(env.observation.dtype).name}"
        actions = f"{env.num_actions}: {', '.join(env.action_names)}"
    docs, meaning = parse(inspect.getdoc(factory) or ""), _option_docs(factory)
    about = "\n\n".join(part for part in (docs.short_description, docs.long_description) if part)
    options = tuple(Option(option, default, meaning.get(option, "")) for option, default in defaults.items())
    return Description(name, about, observation, actions, env.stochastic, limit, options)


def _option_docs(factory: Any) -> dict[str, str]:
    """Return {option: its description in the docstrings} of a function, or of a class and its bases."""
    found = {"limit": LIMIT}
    for place in reversed(inspect.getmro(factory) if inspect.isclass(factory) else (factory,)):
        for entry in parse(place.__doc__ or "").params:
            found |= dict.fromkeys(entry.arg_name.split(", "), " ".join((entry.description or "").split()))
    return found

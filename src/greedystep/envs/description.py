"""What can be said about an environment without playing it."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
from docstring_parser import parse

from greedystep import envs
from greedystep.envs.toy import ToyTask

LIMIT = "steps after which an episode is cut off (truncated, not terminated), None for never."


class Option(NamedTuple):
    name: str
    default: Any
    about: str
    """From the docstring; empty where it says nothing."""


class Description(NamedTuple):
    name: str
    about: str
    """What its docstring says, without the options."""
    observation: str
    actions: str
    stochastic: bool
    """Whether anything but the first state is random."""
    limit: int | None
    """Steps after which an episode is cut off."""
    options: tuple[Option, ...]


def describe(name: str) -> Description:
    """Everything about the environment that `envs.make(name)` makes."""
    maker = envs.maker_of(name)
    env = envs.make(name)
    limit = env.horizon if isinstance(env, ToyTask) else getattr(env, "limit", None)
    defaults = {word: parameter.default for word, parameter in inspect.signature(maker).parameters.items()}
    if not isinstance(env, ToyTask):
        defaults["limit"] = limit
    words = _about(maker)
    docs = parse(inspect.getdoc(maker) or "")
    about = "\n\n".join(part for part in (docs.short_description, docs.long_description) if part)
    options = tuple(Option(word, default, words.get(word, "")) for word, default in defaults.items())
    if isinstance(env, ToyTask):
        seen, actions = f"0..{env.num_states - 1}", str(env.num_actions)
        chance = bool((np.diff(env.outcomes.first) > 1).any() or env.outcomes.noise.any())
        return Description(name, about, seen, actions, chance, limit, options)
    actions = f"{env.num_actions}: {', '.join(env.action_names)}"
    return Description(name, about, _observation(env.observation), actions, env.stochastic, limit, options)


def _observation(spec: Any) -> str:
    shape = " x ".join(map(str, spec.shape)) or "1"
    return f"{shape} {np.dtype(spec.dtype).name}"


def _about(maker: Any) -> dict[str, str]:
    """Option -> its line in the docstring of the function, or of the class or one of those it is made from."""
    found = {"limit": LIMIT}
    for place in reversed(inspect.getmro(maker) if inspect.isclass(maker) else (maker,)):
        for entry in parse(place.__doc__ or "").params:
            found |= dict.fromkeys(entry.arg_name.split(", "), " ".join((entry.description or "").split()))
    return found

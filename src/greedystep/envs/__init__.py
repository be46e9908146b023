"""Environments by name: `make("minatar/breakout", sticky=0.0)`, `make("toy/trace-back", delay=20)`.

The toy tasks are finite MDPs whose exact answers are known (`ToyTask`, without JAX). All others follow the protocol of
`greedystep.envs.core`.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greedystep.envs.gymnax import from_gymnax
    from greedystep.envs.toy import Outcomes, ToyTask

__all__ = ["Outcomes", "ToyTask", "from_gymnax", "make", "make_env", "names"]

_HOME = {"Outcomes": "toy", "ToyTask": "toy", "from_gymnax": "gymnax"}
"""The module of this package where a public name lives; imported on first use, so that the names alone cost nothing."""

_MAKERS = {
    "classic/acrobot": "classic:Acrobot",
    "classic/cartpole": "classic:CartPole",
    "classic/mountaincar": "classic:MountainCar",
    "minatar/asterix": "minatar.asterix:Asterix",
    "minatar/breakout": "minatar.breakout:Breakout",
    "minatar/freeway": "minatar.freeway:Freeway",
    "minatar/seaquest": "minatar.seaquest:Seaquest",
    "minatar/space_invaders": "minatar.space_invaders:SpaceInvaders",
    "ple/catcher": "ple.catcher:Catcher",
    "ple/pixelcopter": "ple.pixelcopter:Pixelcopter",
    "ple/pong": "ple.pong:Pong",
    "toy/bomb": "toy:bomb",
    "toy/choice": "toy:choice",
    "toy/grid-world": "toy:grid_world",
    "toy/n-horizon": "toy:n_horizon",
    "toy/trace-back": "toy:trace_back",
    "toy/watch-repair": "toy:watch_repair",
}
"""Name -> module of this package and its callable; imported when asked for, so that toy tasks never import JAX."""

OWN_LIMIT = "own"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'greedystep.envs' has no attribute {name!r}")
    value = getattr(import_module(f"greedystep.envs.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def names() -> list[str]:
    """The names that `make` knows."""
    return sorted(_MAKERS)


def make(name: str, /, **options: Any) -> Any:
    """The environment of that name; its options and their meaning stand at its class or function.

    Args:
        options: what the environment has, and for all but the toy tasks `limit`: the number of steps after which an
            episode is cut off, None for never; without it, the environment's own.
    """
    maker = maker_of(name)
    known = list(inspect.signature(maker).parameters)
    if not name.startswith("toy/"):
        known.append("limit")
    for option in options:
        if option not in known:
            raise ValueError(f"{option}: {name} has no such option, only {', '.join(known)}")
    if name.startswith("toy/"):
        return replace(maker(**options), made_with=options)

    from greedystep.envs.core import TimeLimit

    limit = options.pop("limit", OWN_LIMIT)
    env = maker(**options)
    if limit == OWN_LIMIT:
        limit = env.default_limit
    return env if limit is None else TimeLimit(env, limit)


def make_env(name: str, /, **options: Any) -> Any:
    """The same, and a toy task too comes as an environment of the protocol."""
    made = make(name, **options)
    return made.as_env() if name.startswith("toy/") else made


def maker_of(name: str) -> Any:
    """The class or function that makes the environment of that name."""
    if name not in _MAKERS:
        from greedystep.checks import did_you_mean

        guess = did_you_mean(str(name), _MAKERS, cutoff=0.4)
        raise ValueError(f"name: {name!r} is not one of {', '.join(names())}{guess}")
    module, callable_name = _MAKERS[name].split(":")
    return getattr(import_module(f"greedystep.envs.{module}"), callable_name)

"""Environments by name: `make("minatar/breakout", sticky=0.0)`, `make("toy/trace-back", delay=20)`.

`make` returns an `Environment` of the protocol in `greedystep.envs.core`. A toy task is a finite MDP besides, whose
tables and optimum are its `task`; `make_task` makes that alone. All but `make_task` and `names` need JAX.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from greedystep.checks import did_you_mean
from greedystep.extras import deep_extra

if TYPE_CHECKING:
    from greedystep.envs.core import Environment
    from greedystep.envs.gymnasium_rules import EnvironmentFailedError
    from greedystep.envs.gymnax import from_gymnax
    from greedystep.envs.jumanji import from_jumanji
    from greedystep.envs.toy_env import ToyEnvironment
    from greedystep.envs.toy_task import Outcomes, ToyTask

__all__ = [
    "Environment",
    "EnvironmentFailedError",
    "Outcomes",
    "ToyEnvironment",
    "ToyTask",
    "from_gymnax",
    "from_jumanji",
    "make",
    "make_task",
    "names",
]

_MODULES = {
    "Environment": "core",
    "EnvironmentFailedError": "gymnasium_rules",
    "Outcomes": "toy_task",
    "ToyEnvironment": "toy_env",
    "ToyTask": "toy_task",
    "from_gymnax": "gymnax",
    "from_jumanji": "jumanji",
}
"""Public name -> module of this package that defines it, imported on first use."""

_FACTORIES = {
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
"""Environment name -> module of this package and the class or function in it, imported when it is asked for."""

_DEFAULT_LIMIT = object()


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'greedystep.envs' has no attribute {name!r}")
    with deep_extra():
        value = getattr(import_module(f"greedystep.envs.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def names() -> list[str]:
    """Return the names that `make` knows, sorted."""
    return sorted(_FACTORIES)


def make(name: str, /, **options: Any) -> Environment:
    """Make the environment of that name.

    Args:
        name: one of `names()`.
        options: those of the environment (`greedystep envs NAME` describes them). All but the toy tasks also have
            `limit`, the number of steps after which an episode is truncated: None for never, by default the
            environment's own.
    """
    if is_toy(name):
        return make_task(name, **options).as_env()
    build = factory(name)
    _check_options(name, options, [*inspect.signature(build).parameters, "limit"])

    from greedystep.envs.core import TimeLimit

    limit = options.pop("limit", _DEFAULT_LIMIT)
    env = build(**options)
    if limit is _DEFAULT_LIMIT:
        limit = env.default_limit
    return env if limit is None else TimeLimit(env, limit)


def make_task(name: str, /, **options: Any) -> ToyTask:
    """Make the toy task of that name: its transition tables, exact MDP and optimal return, without JAX.

    It equals `make(name, **options).task`.
    """
    build = factory(name)
    if not is_toy(name):
        raise ValueError(f"name: expected a toy task ({', '.join(filter(is_toy, names()))}), got {name!r}")
    _check_options(name, options, list(inspect.signature(build).parameters))
    return replace(build(**options), made_with=options)


def as_task(env: Any) -> ToyTask:
    """Return the toy task meant by `env`: its name (with default options), an environment of `make`, or a `ToyTask`.

    Raises:
        ValueError: `env` is none of these.
    """
    from greedystep.envs.toy_task import ToyTask

    task = make_task(env) if isinstance(env, str) else getattr(env, "task", env)
    if not isinstance(task, ToyTask):
        raise ValueError(f"task: expected the name of a toy task, a ToyTask or its environment, got {env!r}")
    return task


def is_toy(name: Any) -> bool:
    """Whether the name begins with "toy/"; such a task need not exist."""
    return isinstance(name, str) and name.startswith("toy/")


def is_own_name(name: str) -> bool:
    """Whether the name has the prefix of one of our families, such as minatar/; all others are Gymnasium ids."""
    return name.partition("/")[0] in {own.partition("/")[0] for own in _FACTORIES}


def factory(name: str) -> Any:
    """Return the class or function that makes the environment of that name."""
    if name not in _FACTORIES:
        guess = did_you_mean(str(name), _FACTORIES, cutoff=0.4)
        raise ValueError(f"name: {name!r} is not one of {', '.join(names())}{guess}")
    module, _, attribute = _FACTORIES[name].partition(":")
    with deep_extra():
        return getattr(import_module(f"greedystep.envs.{module}"), attribute)


def _check_options(name: str, options: dict[str, Any], known: list[str]) -> None:
    for option in options:
        if option not in known:
            raise ValueError(f"{option}: {name} has no such option, only {', '.join(known)}")

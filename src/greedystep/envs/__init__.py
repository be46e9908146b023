"""Environments by name.

The toy tasks are finite MDPs whose exact answers are known: `make("toy/trace-back", delay=20)` gives a `ToyTask`.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from greedystep.envs import toy
from greedystep.envs.toy import Outcomes, ToyTask

__all__ = ["Outcomes", "ToyTask", "make", "names"]

_MAKERS = {
    "toy/bomb": toy.bomb,
    "toy/choice": toy.choice,
    "toy/grid-world": toy.grid_world,
    "toy/n-horizon": toy.n_horizon,
    "toy/trace-back": toy.trace_back,
    "toy/watch-repair": toy.watch_repair,
}


def names() -> list[str]:
    """The names that `make` knows."""
    return sorted(_MAKERS)


def make(name: str, **options: Any) -> ToyTask:
    """The environment of that name; its options and their meaning stand at its function, e.g. `toy.trace_back`."""
    if name not in _MAKERS:
        raise ValueError(f"name: {name!r} is not one of {', '.join(names())}")
    known = inspect.signature(_MAKERS[name]).parameters
    for option in options:
        if option not in known:
            raise ValueError(f"{option}: {name} has no such option, only {', '.join(known)}")
    return replace(_MAKERS[name](**options), made_with=options)

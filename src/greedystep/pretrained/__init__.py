"""Pretrained agents: for each game a greedy policy in a small file, and a card that says how it was trained and plays.

policy = gs.load_pretrained("ple/catcher")              # needs NumPy only
gs.pretrained.card("ple/catcher")["score"]              # mean return with its 95 % CI

`python -m benchmarks.pretrained` makes them, in a checkout; on the command line it is `greedystep watch NAME
--pretrained` and `greedystep eval NAME --pretrained`.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from greedystep import io
from greedystep.checks import short_repr
from greedystep.numpy_policy import NumpyPolicy


def file_name(env: str, ending: str) -> str:
    """Return the name of the file of an environment's policy (ending "npz") or card ("json")."""
    return f"{env.replace('/', '-')}.{ending}"


def names() -> list[str]:
    """Return the names of the environments that have a pretrained agent."""
    files = (file.name for file in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(".json").replace("-", "/", 1) for name in files if name.endswith(".json"))


def card(env: str) -> dict[str, Any]:
    """Return the card of a pretrained agent.

    Entries: `env` and its `options`; `training` (preset, changed settings, steps per seed, seeds); `selection` (mean
    return of each seed's greedy play, and the `seed` that was chosen by it); `score` (greedy play of the policy in
    `episodes` fresh episodes: `mean` and its 95 % bootstrap interval `low` to `high`); `random` (the same of random
    play); `policy` (its file); `version` of greedystep; `provenance`.
    """
    with resources.as_file(resources.files(__name__) / file_name(_known(env), "json")) as path:
        return io.read_json(path)


def load_pretrained(env: str) -> NumpyPolicy:
    """Load the pretrained greedy policy of an environment; `gs.pretrained.names()` lists those that have one."""
    with resources.as_file(resources.files(__name__) / file_name(_known(env), "npz")) as path:
        return NumpyPolicy.load(path)


def describe(card: dict[str, Any]) -> str:
    """Return a card in one sentence."""
    score, random, training = card["score"], card["random"], card["training"]
    seeds = len(training["seeds"])
    which = f"the best of {seeds} seeds" if seeds > 1 else "one seed"
    return (
        f"{card['env']}, pretrained: mean return {score['mean']:.4g} (95 % CI {score['low']:.4g} to "
        f"{score['high']:.4g}) over {score['episodes']} episodes, random play {random['mean']:.4g}; {which} after "
        f"{training['steps']:,} steps"
    )


def _known(env: str) -> str:
    known = names()
    if env not in known:
        have = f"these have one: {', '.join(known)}" if known else "none has one"
        raise ValueError(f"pretrained: there is no pretrained agent for {short_repr(env)}; {have}")
    return env

"""Read folders of training runs and group them by settings, so that seeds can be averaged.

A run is a folder with config.json and metrics.jsonl, as `greedystep train` writes it. Runs that differ only in their
seeds form one group; so do the lanes of one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import schema
from greedystep.io import read_json
from greedystep.metrics import read_metrics
from greedystep.provenance import config_hash
from greedystep.tables import cell

Lane = dict[str, np.ndarray]
"""The metrics of one lane by column."""

CHOICE = {"dqn": "returns", "tabular": "method"}
"""Kind of run -> the setting that gives a group its name."""
CONTENT = {
    "kind": schema.OneOf(*CHOICE),
    "config": {"env": str, "options": dict},
    "provenance": {"command": str},
}
"""Required content of config.json."""
CONFIG = {"dqn": {"agent": {"returns": str}}, "tabular": {"method": str, "method_options": dict}}
"""Required settings by kind of run."""
NOT_SETTINGS = ("env", "options", "agent", "method_options", "steps", "episodes", "seeds", "seed", "preset")
"""Entries of config.json that do not tell groups apart, or are handled separately."""
NUMBERS = ("episode_return", "mean_q", "overestimation", "mean_n", "steps_per_second")
"""Columns that are drawn or tabulated; NaN where a row has no value."""


@dataclass(frozen=True)
class Run:
    """One run folder."""

    folder: Path
    kind: str
    env: str
    """The environment's name with its options."""
    settings: dict[str, Any]
    """All settings but environment, seeds and length."""
    lanes: list[Lane]
    provenance: dict[str, Any]


@dataclass(frozen=True)
class RunGroup:
    """Runs with the same settings in the same environment."""

    env: str
    label: str
    runs: list[Run] = field(repr=False)

    @property
    def lanes(self) -> list[Lane]:
        return [lane for run in self.runs for lane in run.lanes]


def is_run(path: Path) -> bool:
    """Return whether the path is a folder with the two files of a run."""
    return (path / "config.json").is_file() and (path / "metrics.jsonl").is_file()


def read(folder: Path) -> Run:
    """Read one run; ValueError says in one sentence what is wrong with the folder."""
    if not folder.exists():
        raise FileNotFoundError(f"no such file or folder: {folder}")
    if not is_run(folder):
        raise ValueError(f"{folder} holds no run (config.json and metrics.jsonl)")
    content = read_json(folder / "config.json")
    try:
        kind = schema.check(content, CONTENT, "it")["kind"]
        config = schema.check(content["config"], CONFIG[kind], "config")
    except ValueError as problem:
        raise ValueError(f"{folder / 'config.json'} is not the configuration of a run ({problem})") from None
    settings = {name: value for name, value in config.items() if name not in NOT_SETTINGS}
    settings |= config["agent"] if kind == "dqn" else config["method_options"]
    env, options, provenance = config["env"], config["options"], content["provenance"]
    lanes = [_checked(folder, kind, lane) for lane in read_metrics(folder / "metrics.jsonl").values()]
    if not lanes:
        raise ValueError(f"{folder} has no rows of metrics yet")
    named = ", ".join(f"{name} {cell(value)}" for name, value in options.items())
    return Run(folder, kind, f"{env} ({named})" if named else env, settings, lanes, provenance)


def _checked(folder: Path, kind: str, lane: Lane) -> Lane:
    """Check a lane's columns; return it with `episodes` counted since the row before."""
    path = folder / "metrics.jsonl"
    for name in ("episode_return", "episodes", "seed"):
        if name not in lane:
            raise ValueError(f"{path} has no column {name!r}")
    kinds = {"episodes": "iu", "seed": "iu"} | {name: "iuf" for name in NUMBERS if name in lane}
    for name, kind_letters in kinds.items():
        if lane[name].dtype.kind not in kind_letters or lane[name].ndim != 1:
            raise ValueError(f"{path} has values that are not numbers in the column {name!r}")
    if not (np.diff(lane["step"]) > 0).all():
        raise ValueError(f"{path} has rows whose steps do not increase, as if two runs had written to it")
    if kind == "tabular":  # counts all episodes so far
        lane["episodes"] = np.diff(lane["episodes"], prepend=0)
    if (lane["episodes"] < 0).any():
        raise ValueError(f"{path} has a negative number of episodes")
    if not np.isfinite(lane["episode_return"][lane["episodes"] > 0].astype(float)).all():
        raise ValueError(f"{path} has episodes whose return is not a finite number")
    return lane


def group(runs: Iterable[Run]) -> list[RunGroup]:
    """Group runs by environment and settings, in order of first occurrence; ValueError if a seed occurs twice."""
    found: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.env, run.kind, config_hash(run.settings)), []).append(run)
    for same in found.values():
        _check_seeds(same)
    labels = _labels([same[0] for same in found.values()])
    return [RunGroup(same[0].env, label, same) for same, label in zip(found.values(), labels, strict=True)]


def _check_seeds(runs: list[Run]) -> None:
    where: dict[int, Path] = {}
    for run in runs:
        for seed in (int(lane["seed"][0]) for lane in run.lanes):
            if where.setdefault(seed, run.folder) != run.folder:
                raise ValueError(f"{where[seed]} and {run.folder} are the same training (seed {seed}): give one")


def _labels(runs: Sequence[Run]) -> list[str]:
    """Label each run by its method and every other setting in which these runs differ, where it is set."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    chosen = set(CHOICE.values())
    varying = [n for n in names if n not in chosen and len({cell(run.settings.get(n)) for run in runs}) > 1]

    def label(run: Run) -> str:
        differs = [(name, run.settings.get(name)) for name in varying]
        parts = [f"{name.strip('_').replace('_', ' ')} {cell(value)}" for name, value in differs if value is not None]
        return ", ".join([run.settings[CHOICE[run.kind]], *parts])

    return [label(run) for run in runs]

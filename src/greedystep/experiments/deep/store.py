"""Finished trainings: one file for each group that was trained together, written when it is finished and never again.

A training is found by what it is (environment, settings, seed), not by who asked for it. So Figures 3, 4 and 5 share
what they have in common, and a training that is longer than needed serves as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from greedystep import schema
from greedystep.experiments.deep.training import CURVES, Lane
from greedystep.io import read_json, write_json
from greedystep.provenance import config_hash, provenance

Record = Mapping[str, Any]
_NUMBERS = [schema.Nullable(schema.Float())]
LANE = {
    "name": str,
    "task": str,
    "preset": str,
    "setting": dict,
    "seed": schema.Int(),
    "env": dict,
    "steps": schema.Int(1),
    "curve": {"step": [schema.Int()], **dict.fromkeys(CURVES, _NUMBERS)},
    "phase": schema.Int(),
    "n_first": [schema.Int()],
    "n_last": [schema.Int()],
    "device": str,
    "evaluation": schema.Nullable(schema.Float()),
    "diverged": schema.Nullable(schema.Int()),
    "seconds": schema.Float(0),
    "steps_per_second": schema.Nullable(schema.Float(0)),
    "side_by_side": schema.Int(1),
}
"""One training in a file."""


class Store:
    """The trainings in a folder; `problems` says in a sentence each what could not be read.

    Args:
        folder: None to keep nothing on the disk.
    """

    def __init__(self, folder: Path | None = None):
        self.folder, self.problems = folder, []
        self._found: dict[str, Record] = {}
        self._lock = Lock()
        for path in sorted(folder.glob("*.json")) if folder is not None and folder.is_dir() else ():
            try:
                self._add(_lanes(path), path.name)
            except (ValueError, OSError) as problem:
                self.problems.append(f"{problem}; its trainings count as missing")

    def get(self, lane: Lane, steps: int) -> Record | None:
        """The training, if it is there and at least that long."""
        found = self._found.get(lane.name)
        return found if found is not None and found["steps"] >= steps else None

    def half_way(self, names: Iterable[str], steps: int) -> Path | None:
        """The folder of a group of trainings while it is not finished."""
        return None if self.folder is None else self.folder / "half-way" / _group(names, steps)

    def keep(self, lanes: list[dict[str, Any]], settings: Mapping[str, Any]) -> None:
        """Trainings of one group; `settings` is what the group has in common."""
        group = _group((lane["name"] for lane in lanes), lanes[0]["steps"])
        file = f"{lanes[0]['task']}-{settings['returns']}-{settings['ensemble']}-{group}.json"
        if self.folder is not None:
            write_json(self.folder / file, {"lanes": lanes, "provenance": provenance(settings)})
        self._add(lanes, file)

    def _add(self, lanes: Iterable[Record], file: str) -> None:
        with self._lock:
            for lane in lanes:
                known = self._found.get(lane["name"])
                if known is None or known["steps"] < lane["steps"]:
                    self._found[lane["name"]] = {**lane, "part": file}


def _group(names: Iterable[str], steps: int) -> str:
    """Equal for equal trainings of equal length."""
    return config_hash({"lanes": sorted(names), "steps": steps})[:8]


def _lanes(path: Path) -> list[Record]:
    """The trainings of a file; ValueError says why it is none."""
    part = read_json(path)
    try:
        lanes = schema.check(part, {"lanes": [LANE]}, "it")["lanes"]
    except ValueError as problem:
        raise ValueError(f"{path} holds a training that cannot be read ({problem})") from None
    if not lanes:
        raise ValueError(f"{path} holds no trainings")
    for lane in lanes:
        lengths = {len(lane["curve"][name]) for name in ("step", *CURVES)}
        if len(lengths) > 1 or 0 in lengths:
            raise ValueError(f"{path} holds a training whose curve is not complete")
    return lanes

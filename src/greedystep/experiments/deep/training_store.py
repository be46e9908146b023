"""Finished trainings: one part (see `runs.parts`) for each group of lanes that was trained together.

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
from greedystep.provenance import config_hash, provenance
from greedystep.runs.part_store import PartStore

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
"""What a part holds of one training."""


class Store:
    """The finished trainings among the parts of a folder; `problems` says in one sentence each what cannot be read.

    Args:
        parts: the parts, or their folder; None to keep nothing on the disk.
    """

    def __init__(self, parts: PartStore | Path | None = None):
        self.parts = PartStore.at(parts)
        self.problems = [*self.parts.problems]
        self._found: dict[str, Record] = {}
        self._lock = Lock()
        for name in self.parts.names():
            try:
                self._add(_lanes(self.parts.read(name), self.parts.where(name)), name)
            except (ValueError, OSError) as problem:
                self.problems.append(f"{problem}; its trainings count as missing")

    def get(self, lane: Lane, steps: int) -> Record | None:
        """Return the training, if it is there and at least that long."""
        found = self._found.get(lane.name)
        if found is None or found["steps"] < steps:
            return None
        self.parts.use(found["part"])
        return found

    def half_way(self, names: Iterable[str], steps: int) -> Path | None:
        """Return the folder of a group of trainings while it is not finished."""
        return self.parts.half_way(_group(names, steps))

    def keep(self, lanes: list[dict[str, Any]], settings: Mapping[str, Any]) -> None:
        """Keep trainings of one group; `settings` is what the group has in common."""
        group = _group((lane["name"] for lane in lanes), lanes[0]["steps"])
        name = f"{lanes[0]['task']}-{settings['returns']}-{settings['ensemble']}-{group}.json"
        self.parts.write(name, {"lanes": lanes, "provenance": provenance(settings)})
        self._add(lanes, name)

    def _add(self, lanes: Iterable[Record], part: str) -> None:
        with self._lock:
            for lane in lanes:
                known = self._found.get(lane["name"])
                if known is None or known["steps"] < lane["steps"]:
                    self._found[lane["name"]] = {**lane, "part": part}


def _group(names: Iterable[str], steps: int) -> str:
    """Return a hash that is equal for equal trainings of equal length."""
    return config_hash({"lanes": sorted(names), "steps": steps})[:8]


def _lanes(part: Any, where: str) -> list[Record]:
    """Return the trainings of a part; ValueError says why it holds none."""
    try:
        lanes = schema.check(part, {"lanes": [LANE]}, "it")["lanes"]
    except ValueError as problem:
        raise ValueError(f"{where} holds a training that cannot be read ({problem})") from None
    if not lanes:
        raise ValueError(f"{where} holds no trainings")
    for lane in lanes:
        lengths = {len(lane["curve"][name]) for name in ("step", *CURVES)}
        if len(lengths) > 1 or 0 in lengths:
            raise ValueError(f"{where} holds a training whose curve is not complete")
    return lanes

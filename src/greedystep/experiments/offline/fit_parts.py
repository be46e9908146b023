"""The parts of a folder that hold finished fits, and what the logs that they learned from are like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from greedystep import schema
from greedystep.deep.config import described
from greedystep.deep.presets import make_config
from greedystep.experiments.offline.fit_methods import METHODS
from greedystep.experiments.offline.logs import OfflineTask
from greedystep.provenance import config_hash, provenance
from greedystep.runs.part_store import Parts, PartStore

NAME = "offline"
"""The experiment, and the folder of its parts."""
FIT = {"returns": [schema.Float()], "microseconds": schema.Float(0), "device": str}
LOGS = {"logs": dict}
"""What the part of a fit holds, and that of the logs of a task."""


class FitParts:
    """The finished fits and logs among the parts of a folder."""

    def __init__(self, parts: Parts):
        self.store = PartStore.at(parts)
        self.problems = [*self.store.problems]
        self.finished: dict[str, Mapping[str, Any]] = {}
        """The content of each part by its name."""

    def fit_name(self, key: str, task: OfflineTask, kind: str, method: str) -> str:
        """The name of the part of one fit."""
        config = described(make_config(task.env, "paper", **METHODS[method]))
        return self._name(f"{key}-{kind}", task, kind, config)

    def logs_name(self, key: str, task: OfflineTask) -> str:
        """The name of the part of the logs of a task."""
        return self._name(f"{key}-logs", task)

    def _name(self, key: str, task: OfflineTask, *about: Any) -> str:
        """The name of a part, by everything that decides its numbers."""
        which = config_hash({"task": task.as_settings, "about": about})[:8]
        return f"{NAME}/{key}-{which}.json"

    def load(self, key: str, task: OfflineTask, methods: Sequence[str]) -> None:
        """Read the parts of a task that were finished before."""
        contents = {self.fit_name(key, task, kind, method): FIT for method in methods for kind in task.kinds}
        for name, content in (contents | {self.logs_name(key, task): LOGS}).items():
            found = self._read(name, content)
            if found is not None:
                self.finished[name] = found

    def _read(self, name: str, content: Any) -> dict[str, Any] | None:
        """Return a part; a damaged one counts as missing."""
        try:
            found = self.store.read(name)
            if found is None:
                return None
            schema.check(found, content, self.store.where(name))
        except (ValueError, OSError) as problem:
            self.problems.append(f"{problem}; it counts as missing")
            return None
        self.store.use(name)
        return found

    def finish(self, name: str, content: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Write a part, with the provenance of these settings."""
        self.finished[name] = content
        self.store.write(name, {**content, "provenance": provenance(settings)})
        self.store.use(name)

    def collect(self, key: str, task: OfflineTask, methods: Sequence[str]) -> dict[str, Any]:
        """Return the logs and the fits of one task, for the result's JSON.

        Scores are 0 at the mean return of the random log and 1 at that of the expert's.
        """
        logs = self.finished.get(self.logs_name(key, task), {}).get("logs", {})
        low, high = (logs.get(kind, {}).get("return") for kind in ("random", "expert"))
        fits = []
        for kind in task.kinds:
            for method in methods:
                one = self.finished.get(self.fit_name(key, task, kind, method))
                if one is not None and low is not None and high is not None:
                    scores = [(x - low) / (high - low) if high != low else None for x in one["returns"]]
                    fits.append({"kind": kind, "method": method, "scores": scores} | {x: one[x] for x in FIT})
        return {"title": task.title, "logs": logs, "updates": task.updates, "fits": fits}

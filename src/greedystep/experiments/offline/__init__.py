"""Beyond the paper: learning from logs alone, with and without conservatism.

Logs of random actions, of an expert's, and of a mixture are made by an agent of our own. Every rule for the returns
then learns from each of them without conservatism, with CQL's penalty and with BCQ's support, beside behaviour cloning.
Every method has two networks ("auto" six, Peng's Q(λ), the default for logs, and behaviour cloning one) and the same
number of updates. A score is the return of greedy play on a scale on which the random log's mean return is 0 and the
expert's is 1.

    greedystep reproduce offline --scale paper          # finished fits are kept: an interruption loses a minute or two

logs             the logs
fit_methods      the methods
fits             one method, fitted to a log with several seeds
fit_parts        what is finished
offline_claims   what is claimed, and how it is judged
offline_output   the figure and the tables
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from threading import Event
from typing import Any

import jax

from greedystep.experiments.offline.fit_methods import METHODS, QUICK_METHODS
from greedystep.experiments.offline.fit_parts import NAME, FitParts
from greedystep.experiments.offline.fits import LaneFit, fit_in_worker
from greedystep.experiments.offline.logs import OfflineTask, behaviour_return, make_logs
from greedystep.experiments.offline.offline_claims import claims
from greedystep.experiments.offline.offline_output import draw, tables
from greedystep.runs.job_queue import StoppedError, run_jobs
from greedystep.runs.part_store import Parts
from greedystep.runs.progress import ReportProgress, WorkProgress
from greedystep.runs.ray_workers import MOST_WAITING
from greedystep.trajectory import Trajectory

__all__ = ["IN_PARTS", "METHODS_OF", "NAME", "SCALES", "TASKS", "TITLE", "draw", "run", "tables"]

IN_PARTS = True
TITLE = "Learning from logs: returns and conservatism"

SCALES: dict[str, dict[str, OfflineTask]] = {
    "quick": {
        "cartpole": OfflineTask(
            "CartPole", "classic/cartpole", "paper", 40_000, 5_000, 3_000, 3, 20, ("random", "expert")
        )
    },
    "paper": {
        "breakout": OfflineTask("Breakout", "minatar/breakout", "fast", 2_000_000, 200_000, 20_000),
        "catcher": OfflineTask("Catcher", "ple/catcher", "paper", 200_000, 200_000, 100_000),
        "cartpole": OfflineTask("CartPole", "classic/cartpole", "paper", 60_000, 50_000, 50_000),
        "mountaincar": OfflineTask("MountainCar", "classic/mountaincar", "paper", 100_000, 200_000, 50_000),
    },
}
TASKS = tuple(SCALES["paper"])
METHODS_OF = {"quick": QUICK_METHODS, "paper": tuple(METHODS)}


def run(scale: str, progress: ReportProgress, parts: Parts = None, only: Sequence[str] = ()) -> dict[str, Any]:
    tasks, methods, fit_parts = SCALES[scale], METHODS_OF[scale], FitParts(parts)
    asked = [key for key in tasks if not only or key in only]
    work = WorkProgress(progress, sum(tasks[key].updates * len(tasks[key].kinds) * len(methods) for key in asked))
    for key, task in tasks.items():
        fit_parts.load(key, task, methods)
        if key in asked:
            _TaskFits(key, task, methods, fit_parts, work).make_missing()
    found = {key: fit_parts.collect(key, task, methods) for key, task in tasks.items()}
    absent = [
        f"{task.title}: {done} of {len(task.kinds) * len(methods)} fits are made"
        for key, task in tasks.items()
        if (done := len(found[key]["fits"])) < len(task.kinds) * len(methods)
    ]
    return {
        "title": TITLE,
        "settings": {"scale": scale, "tasks": {key: task.as_settings for key, task in tasks.items()}},
        "numbers": {"logged_tasks": found, "missing": absent, "problems": fit_parts.problems},
        "claims": [asdict(claim) for claim in claims(found)],
    }


class _TaskFits:
    """The fits of one task, which are made method by method in threads or in the workers of a cluster."""

    def __init__(self, key: str, task: OfflineTask, methods: Sequence[str], parts: FitParts, work: WorkProgress):
        self._key, self._task, self._parts, self._work = key, task, parts, work
        self._workers, self._stop = parts.store.workers, Event()
        self._part_names = {name: [parts.fit_name(key, task, kind, name) for kind in task.kinds] for name in methods}

    def make_missing(self) -> None:
        """Make the logs and the fits that are not finished."""
        parts, task, logs_name = self._parts, self._task, self._parts.logs_name(self._key, self._task)
        missing = [
            method for method, names in self._part_names.items() if any(name not in parts.finished for name in names)
        ]
        if not missing and logs_name in parts.finished:
            return
        self._work.leave_out(
            task.updates * sum(name in parts.finished for names in self._part_names.values() for name in names)
        )
        self._work.advance(0, f"{task.title}: the agent that is logged")
        logs = make_logs(task, None if parts.store.folder is None else parts.store.folder / "logs")
        about = {
            kind: {"return": behaviour_return(log), "steps": sum(map(len, log)), "episodes": len(log)}
            for kind, log in logs.items()
        }
        parts.finish(logs_name, {"logs": about}, task.as_settings)
        threads = (os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1
        if self._workers is not None:
            threads = MOST_WAITING
        run_jobs((partial(self._fit, method, logs) for method in missing), threads, on_failure=self._stop.set)

    def _fit(self, method: str, logs: Mapping[str, list[Trajectory]]) -> None:
        """Fit one method to those logs that it was not fitted to yet."""
        task, setting = self._task, METHODS[method]
        rows = max(sum(map(len, log)) + len(log) for log in logs.values())
        program = None if self._workers else LaneFit(task, setting, rows)
        for kind, name in zip(task.kinds, self._part_names[method], strict=True):
            if name in self._parts.finished:
                continue
            what = f"{task.title}, {kind} log, {method}"
            if program is not None:
                found = program.run(logs[kind], partial(self._on_piece, what))
            else:
                assert self._workers is not None
                found = self._workers.call(
                    what, fit_in_worker, task, setting, rows, logs[kind], should_stop=self._stop.is_set
                )
                self._on_piece(what, task.updates)
            self._parts.finish(name, {"task": self._key, "kind": kind, "method": method, **found}, setting)

    def _on_piece(self, what: str, updates: int) -> None:
        if self._stop.is_set():
            raise StoppedError
        self._work.advance(updates, what)

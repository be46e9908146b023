"""Train what the store lacks, in threads, with progress; and log what a command trained."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import partial
from threading import Event, Lock
from typing import Any

import jax

from greedystep.experiments.deep.tasks import TASKS
from greedystep.experiments.deep.training import Lane, Length, StoppedError, train
from greedystep.experiments.deep.training_store import Store
from greedystep.runs.job_queue import run_jobs
from greedystep.runs.progress import ReportProgress, WorkProgress

COMPILING = 2
"""Programs that are compiled ahead while a GPU computes: compiling one takes tens of seconds."""


class Session:
    """Trains what the store lacks and reports progress; when it ends, in whatever way, it logs what was trained.

    Args:
        total: steps of all lanes of all trainings that will be asked for. Progress is the share done of those that the
            store lacks, from which the time left follows.
    """

    def __init__(self, store: Store, progress: ReportProgress, total: int):
        self.store, self._parts = store, store.parts
        self._progress = WorkProgress(progress, total)
        self._stop, self._lock = Event(), Lock()
        self._is_cpu = jax.default_backend() == "cpu"
        self._began = time.perf_counter()
        self._trained: list[dict[str, Any]] = []
        self._counted: set[tuple[str, int]] = set()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if not self._trained:
            return
        work = {"trainings": len(self._trained), "steps": sum(lane["steps"] for lane in self._trained)}
        tasks = sorted({TASKS[lane["task"]].title for lane in self._trained})
        with suppress(OSError) if failure else nullcontext():  # a full disk has been told of
            self._parts.log_session(work | {"tasks": tasks, "seconds": time.perf_counter() - self._began})

    @property
    def _workers(self) -> int:
        return (os.cpu_count() or 1) if self._is_cpu else COMPILING + 1

    def ensure(self, lanes: Sequence[Lane], length: Length, what: str) -> None:
        """Train those of the lanes that the store lacks, in as few programs as possible."""
        missing = [lane for lane in lanes if self.store.get(lane, length.steps) is None]
        self._skip([lane.name for lane in lanes if lane not in missing], length.steps, what)
        programs: dict[str, list[Lane]] = {}
        for lane in missing:
            programs.setdefault(lane.program, []).append(lane)
        for group in programs.values():
            half_way = self.store.half_way([lane.name for lane in group], length.steps)
            on_chunk = partial(self._heard, what=what, lanes=len(group))
            with self._parts.working():
                at_first = self._parts.processes()
                found = train(group, length, on_chunk, half_way)
                processes = max(at_first, self._parts.processes())
            for lane in found:
                lane["side_by_side"] = processes * (self._workers if self._is_cpu else 1)
            self.store.keep(found, asdict(group[0].config))
            with self._lock:
                self._trained += found
                self._counted |= {(lane["name"], length.steps) for lane in found}
            if half_way is not None:
                shutil.rmtree(half_way, ignore_errors=True)

    def all(self, jobs: Iterable[Callable[[], object]]) -> None:
        """Start jobs in the given order and wait for all of them.

        On a CPU as many run at a time as there are cores, since a compiled training of small networks uses one core. On
        a GPU one training computes at a time, since it fills the device, and meanwhile others compile.
        """
        run_jobs(jobs, self._workers, on_failure=self._stop.set)

    def _heard(self, steps: int, speed: float, what: str, lanes: int) -> None:
        if self._stop.is_set():
            raise StoppedError
        plural = "lane" if lanes == 1 else "lanes"
        self._progress.advance(steps, f"{what}: {lanes} {plural}, {speed:,.0f} steps/s")

    def _skip(self, names: Iterable[str], steps: int, what: str) -> None:
        """Leave finished trainings out of the progress, once each: some are asked for again and again."""
        with self._lock:
            new = {(name, steps) for name in names} - self._counted
            self._counted |= new
        self._progress.leave_out(len(new) * steps)
        self._progress.advance(0, what)

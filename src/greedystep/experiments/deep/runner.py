"""Train the runs that are missing among a folder's finished parts, in threads or on a cluster, with progress.

A finished run is found by what it is (environment, settings, seed), not by which experiment asked for it. So Figures 3,
4 and 5 share what they have in common, a run that is longer than needed serves as well, and none is trained twice. If a
run was trained at several lengths, the shortest that is long enough counts, so that what was judged once stays.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from threading import Event, Lock
from typing import Any

import jax

from greedystep import schema
from greedystep.experiments.deep.suite import TASKS
from greedystep.experiments.deep.training import CURVES, Budget, RunSpec, train, train_in_worker
from greedystep.provenance import config_hash, provenance
from greedystep.runs.job_queue import StoppedError, run_jobs
from greedystep.runs.part_store import Parts, PartStore
from greedystep.runs.progress import ReportProgress, WorkProgress
from greedystep.runs.ray_workers import MOST_WAITING, RayWorkers

Record = Mapping[str, Any]
Job = Callable[[], object]
_NUMBERS = [schema.Nullable(schema.Float())]
RECORD = {
    **dict.fromkeys(("name", "task", "preset", "device"), str),
    **dict.fromkeys(("setting", "env"), dict),
    **dict.fromkeys(("seed", "phase"), schema.Int()),
    **dict.fromkeys(("steps", "side_by_side"), schema.Int(1)),
    "curve": {"step": [schema.Int()], **dict.fromkeys(CURVES, _NUMBERS)},
    "n_first": [schema.Int()],
    "n_last": [schema.Int()],
    "evaluation": schema.Nullable(schema.Float()),
    "diverged": schema.Nullable(schema.Int()),
    "seconds": schema.Float(0),
    "steps_per_second": schema.Nullable(schema.Float(0)),
}
"""Schema of one run in a part."""
GREEDY_CURVE_SCHEMA = {"step": [schema.Int()], "return": _NUMBERS, "overestimation": _NUMBERS}
"""Schema of the evaluations along a training, which only some runs have."""
COMPILING = 2
"""Number of programs that are compiled ahead while a GPU computes: compiling one takes tens of seconds."""


class RunStore:
    """Finished runs in a folder of parts; `problems` has a sentence for each part that cannot be read."""

    def __init__(self, parts: Parts = None):
        self.parts = PartStore.at(parts)
        self.problems = [*self.parts.problems]
        self._found: dict[str, dict[int, Record]] = {}  # by name and length
        self._lock = Lock()
        for name in self.parts.names():
            try:
                self._add(_checked(self.parts.read(name), self.parts.where(name)), name)
            except (ValueError, OSError) as problem:
                self.problems.append(f"{problem}; its trainings count as missing")

    def get(self, run: RunSpec, steps: int) -> Record | None:
        """Return a run's shortest record with at least `steps` steps, None without one."""
        lengths = self._found.get(run.name, {})
        found = lengths.get(min((length for length in lengths if length >= steps), default=0))
        if found is None:
            return None
        self.parts.use(found["part"])
        return found

    def get_all(self, runs: Iterable[RunSpec], steps: int) -> list[Record]:
        """Return the records of those runs that are finished with at least `steps` steps."""
        return [found for run in runs if (found := self.get(run, steps)) is not None]

    def keep(self, records: list[dict[str, Any]], settings: Mapping[str, Any]) -> None:
        """Write the records of runs that shared a program as one part; `settings` is what the runs have in common."""
        group = group_hash((record["name"] for record in records), records[0]["steps"])
        name = f"{records[0]['task']}-{settings['returns']}-{settings['ensemble']}-{group}.json"
        self.parts.write(name, {"lanes": records, "provenance": provenance(settings)})
        self._add(records, name)

    def _add(self, records: Iterable[Record], part: str) -> None:
        with self._lock:
            for record in records:
                lengths = self._found.setdefault(record["name"], {})
                lengths.setdefault(record["steps"], {**record, "part": part})


def group_hash(names: Iterable[str], steps: int) -> str:
    """Return a hash of a group of runs (their names) and its length."""
    return config_hash({"lanes": sorted(names), "steps": steps})[:8]


def _checked(part: Any, where: str) -> list[Record]:
    """Return the run records of a part; ValueError says what is wrong with it."""
    try:
        records = schema.check(part, {"lanes": [RECORD]}, "it")["lanes"]
        for record in records:
            if "greedy" in record:
                schema.check(record["greedy"], GREEDY_CURVE_SCHEMA, "greedy")
    except ValueError as problem:
        raise ValueError(f"{where} holds a training that cannot be read ({problem})") from None
    if not records:
        raise ValueError(f"{where} holds no trainings")
    for record in records:
        lengths = {len(column) for name, column in record["curve"].items() if name in ("step", *CURVES)}
        greedy = {len(column) for column in record.get("greedy", {"step": [0]}).values()}
        if len(lengths) > 1 or len(greedy) > 1 or 0 in lengths | greedy:
            raise ValueError(f"{where} holds a training whose curve is not complete")
    return records


def programs(runs: Iterable[RunSpec]) -> list[list[RunSpec]]:
    """Group runs by the compiled program that they share."""
    groups: dict[str, list[RunSpec]] = {}
    for run in runs:
        groups.setdefault(run.program, []).append(run)
    return list(groups.values())


class Runner:
    """Trains the runs that a store lacks, and reports progress; at its end, in whatever way, it logs what was trained.

    Args:
        total: steps of all runs that will be asked for. Progress is the share done of those that the store lacks, from
            which the time left follows.
    """

    def __init__(self, store: RunStore, progress: ReportProgress, total: int):
        self.store = store
        self._progress = WorkProgress(progress, total)
        self._stop, self._lock = Event(), Lock()
        self._is_cpu = jax.default_backend() == "cpu"
        self._threads = (os.cpu_count() or 1) if self._is_cpu else COMPILING + 1
        self._began = time.perf_counter()
        self._trained: list[dict[str, Any]] = []
        self._counted: set[tuple[str, int]] = set()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if not self._trained:
            return
        work = {"trainings": len(self._trained), "steps": sum(record["steps"] for record in self._trained)}
        tasks = sorted({TASKS[record["task"]].title for record in self._trained})
        with suppress(OSError) if failure else nullcontext():  # a full disk has been reported
            self.store.parts.log_session(work | {"tasks": tasks, "seconds": time.perf_counter() - self._began})

    def jobs(self, runs: Sequence[RunSpec], budget: Budget, what: str) -> list[Job]:
        """Return jobs for `all` that do together what `ensure` does: one per compiled program."""
        return [partial(self.ensure, group, budget, what) for group in programs(runs)]

    def ensure(self, runs: Sequence[RunSpec], budget: Budget, what: str) -> None:
        """Train those of the runs that the store lacks, in as few compiled programs as possible."""
        missing = [run for run in runs if self.store.get(run, budget.steps) is None]
        with self._lock:  # finished runs are left out of the progress once: some are asked for again and again
            new = {(run.name, budget.steps) for run in runs if run not in missing} - self._counted
            self._counted |= new
        self._progress.leave_out(len(new) * budget.steps)
        self._progress.advance(0, what)
        for group in programs(missing):
            self._train(group, budget, f"{what}: {len(group)} {'lane' if len(group) == 1 else 'lanes'}")

    def _train(self, runs: list[RunSpec], budget: Budget, what: str) -> None:
        parts = self.store.parts
        checkpoints = parts.half_way(group_hash((run.name for run in runs), budget.steps))
        if parts.workers is not None:
            records, side_by_side = self._train_on(parts.workers, runs, budget, what)
        else:
            with parts.working():
                at_first = parts.processes()
                records = train(runs, budget, partial(self._on_chunk, what), checkpoints)
                side_by_side = max(at_first, parts.processes()) * (self._threads if self._is_cpu else 1)
        for record in records:
            record["side_by_side"] = side_by_side
        self.store.keep(records, asdict(runs[0].config))
        with self._lock:
            self._trained += records
            self._counted |= {(record["name"], budget.steps) for record in records}
        if checkpoints is not None:
            shutil.rmtree(checkpoints, ignore_errors=True)

    def _train_on(
        self, workers: RayWorkers, runs: list[RunSpec], budget: Budget, what: str
    ) -> tuple[list[dict[str, Any]], int]:
        """Train runs in a worker of a cluster; return their records, and how many such workers a node has."""
        counted = 0.0

        def on_report(done: float, speed: str) -> None:
            nonlocal counted
            counted, new = done, done - counted  # negative where a worker died: its successor begins before
            self._progress.advance(new, f"{what}, {speed}")

        records = workers.call(
            what,
            train_in_worker,
            [replace(run) for run in runs],  # without the environments that runs keep once they were asked for them
            budget,
            folder=self.store.parts.half_way(group_hash((run.name for run in runs), budget.steps)),
            on_report=on_report,
            should_stop=self._stop.is_set,
        )
        self._progress.advance(len(runs) * budget.steps - counted, what)
        return records, workers.cluster.workers_per_node

    def _on_chunk(self, what: str, steps: int, speed: float) -> None:
        if self._stop.is_set():
            raise StoppedError
        self._progress.advance(steps, f"{what}, {speed:,.0f} steps/s")

    def all(self, jobs: Iterable[Job]) -> None:
        """Run jobs in threads, in the given order, and wait for all of them.

        On a CPU as many run at a time as there are cores, since a compiled training of small networks uses one core. On
        a GPU one training computes at a time, since it fills the device, and meanwhile others compile. With the workers
        of a cluster, threads only wait for them.
        """
        threads = self._threads if self.store.parts.workers is None else MOST_WAITING
        run_jobs(jobs, threads, on_failure=self._stop.set)

"""Training runs that differ in their seed alone, each a folder of its own, trained by workers elsewhere.

FOLDER/config.json      what is trained, and all seeds
FOLDER/seed0/           a run folder (see `dqn_run`) per seed
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import NamedTuple

from greedystep import checkpoint
from greedystep.deep.dqn_run import CHECKPOINTS, DQNRun, DQNRunConfig, read_config
from greedystep.io import os_error_context, write_json
from greedystep.provenance import provenance
from greedystep.runs.job_queue import run_jobs
from greedystep.runs.lock import FOLDER_LOCK, InUseError, WriterLock
from greedystep.runs.progress import ReportProgress
from greedystep.runs.ray_workers import MOST_WAITING, RayWorkers, Report
from greedystep.runs.resumable_run import CONFIG, locked

KIND = "dqn-seeds"
LOCKED_FOR = 20.0
"""Seconds for which a worker waits for the lock of a worker that has just died."""


class SeedResult(NamedTuple):
    """How the run of a seed ended."""

    seed: int
    steps: int
    episode_return: float
    """Mean return of the episodes of the last row."""


class SeedRuns:
    """Runs of several seeds under one folder; `start` or `resume` makes them, `train` trains them.

    This object holds the lock of the folder until `close`; the worker of a seed locks the folder of its run.
    """

    def __init__(self, folder: Path, config: DQNRunConfig, lock: WriterLock, *, tensorboard: bool = False):
        self.folder, self.config, self._lock, self._tensorboard = folder, config, lock, tensorboard

    @classmethod
    def start(cls, folder: Path, config: DQNRunConfig, *, tensorboard: bool = False) -> SeedRuns:
        """Make new runs in an empty folder. Nothing but its lock is written yet."""
        with locked(folder) as lock:
            if any(file.name != FOLDER_LOCK and file.suffix != ".part" for file in folder.iterdir()):
                raise ValueError(f"out: {folder} is not empty; resume the runs in it, or choose another folder")
            return cls(folder, config, lock, tensorboard=tensorboard)

    @classmethod
    def resume(cls, folder: Path, steps: int | None = None, *, env: str | None = None) -> SeedRuns:
        """Continue runs that were stopped or killed, or extend finished ones to `steps` steps in total."""
        config, tensorboard = read_config(folder, env, kind=KIND)
        if steps is not None:
            if steps < config.steps:
                raise ValueError(f"steps: the runs in {folder} have {config.steps}, got {steps}")
            config = dataclasses.replace(config, steps=steps)
        with locked(folder) as lock:
            return cls(folder, config, lock, tensorboard=tensorboard)

    def close(self) -> None:
        """Release the folder for other writers."""
        self._lock.release()

    def run_folder(self, seed: int) -> Path:
        return self.folder / f"seed{seed}"

    @property
    def unfinished(self) -> list[int]:
        """Seeds whose runs have not reached their last step."""
        return [seed for seed in self.config.seeds if _saved_steps(self.run_folder(seed)) < self.config.steps]

    def train(
        self, workers: RayWorkers, report: ReportProgress, save_every: float | None = None
    ) -> Sequence[SeedResult]:
        """Train all unfinished runs to the end, each in a worker, and return how they ended, in order of their seeds.

        The first failure, or Ctrl-C, ends all of them; what they have is saved.
        """
        about = {"kind": KIND, "config": self.config.as_json(), "tensorboard": self._tensorboard}
        with os_error_context(f"cannot write {self.folder / CONFIG}"):
            write_json(self.folder / CONFIG, about | {"provenance": provenance(about["config"])})
        seeds, stop, results = self.unfinished, Event(), []
        progress = _Progress(report, len(self.config.seeds), len(seeds), self.config.steps)

        def train_one(seed: int) -> SeedResult:
            config = dataclasses.replace(self.config, seeds=(seed,))
            return workers.call(
                f"seed {seed}",
                train_seed,
                config,
                self._tensorboard,
                save_every,
                folder=self.run_folder(seed),
                on_report=partial(progress.update, seed),
                should_stop=stop.is_set,
            )

        def on_done(result: SeedResult) -> None:
            results.append(result)
            progress.finish(result.seed)

        run_jobs((partial(train_one, seed) for seed in seeds), min(MOST_WAITING, max(len(seeds), 1)), on_done, stop.set)
        return sorted(results)


def train_seed(
    config: DQNRunConfig, tensorboard: bool, save_every: float | None, *, folder: Path, report: Report
) -> SeedResult:
    """Start or continue the run of one seed in `folder`, and train it to its end; called in a worker."""
    with closing(_open(config, tensorboard, folder)) as run:
        last = float("nan")
        with closing(run.train(save_every)) as chunks:
            for now in chunks:
                last = now.episode_return
                report(now.done, f"return {last:.4g}")
        return SeedResult(config.seeds[0], run.done, last)


def _open(config: DQNRunConfig, tensorboard: bool, folder: Path) -> DQNRun:
    until = time.monotonic() + LOCKED_FOR
    while True:
        try:
            if (folder / CONFIG).exists():
                return DQNRun.resume(folder, config.steps, env=config.env)
            return DQNRun.start(folder, config, tensorboard=tensorboard)
        except InUseError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def _saved_steps(folder: Path) -> int:
    """Return the step of the newest checkpoint of a run; 0 if it has none that is whole."""
    try:
        found = checkpoint.latest(folder / CHECKPOINTS)
    except checkpoint.DamagedCheckpointError:
        return 0
    return 0 if found is None else int(found.stem.rpartition("-")[2])


class _Progress:
    """One progress of many runs: the share of all steps, how many runs work, the newest of what they say."""

    def __init__(self, report: ReportProgress, total: int, left: int, steps: int):
        self._report, self._total, self._steps, self._finished = report, total, steps, total - left
        self._done: dict[int, float] = {}
        self._lock = Lock()
        report(self._finished / total, f"{self._finished} of {total} runs done, waiting for workers")

    def update(self, seed: int, done: float, what: str) -> None:
        with self._lock:
            self._done[seed] = done
            self._tell(f"seed {seed}: {what}")

    def finish(self, seed: int) -> None:
        with self._lock:
            self._done.pop(seed, None)
            self._finished += 1
            self._tell(f"seed {seed} is done")

    def _tell(self, what: str) -> None:
        share = (self._finished + sum(self._done.values()) / self._steps) / self._total
        working = f"{len(self._done)} at work" if self._done else "none at work"
        self._report(min(share, 1.0), f"{self._finished} of {self._total} runs done, {working}; {what}")

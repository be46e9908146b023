"""Which trainings are missing, who runs them, and how far it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from threading import Event, Lock

import jax

from greedystep.experiments import Progress
from greedystep.experiments.deep.store import Store
from greedystep.experiments.deep.training import Lane, Length, train


class StoppedError(Exception):
    """Somebody else failed or was interrupted."""


class Session:
    """Runs trainings that the store lacks, and tells progress.

    Args:
        total: steps of all lanes of all trainings that will be asked for.
    """

    def __init__(self, store: Store, progress: Progress, total: int):
        self.store = store
        self._progress, self._total, self._done = progress, max(total, 1), 0
        self._stop, self._lock = Event(), Lock()
        self._workers = (os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1

    def ensure(self, lanes: Sequence[Lane], length: Length, what: str) -> None:
        """Train those that are missing, in as few programs as possible."""
        missing = [lane for lane in lanes if self.store.get(lane, length.steps) is None]
        self._tell((len(lanes) - len(missing)) * length.steps, what)
        programs: dict[str, list[Lane]] = {}
        for lane in missing:
            programs.setdefault(lane.program, []).append(lane)
        for group in programs.values():
            found = train(group, length, lambda steps, speed, group=group: self._heard(steps, speed, what, len(group)))
            for lane in found:
                lane["side_by_side"] = self._workers
            self.store.keep(found, asdict(group[0].config))

    def all(self, jobs: Iterable[Callable[[], object]]) -> None:
        """Do jobs in their order: one by one on a GPU, which a program fills; on a CPU as many as there are cores,
        since the programs of small networks use one."""
        with ThreadPoolExecutor(self._workers) as pool:
            try:
                for done in as_completed([pool.submit(job) for job in jobs]):
                    done.result()
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _heard(self, steps: int, speed: float, what: str, lanes: int) -> None:
        if self._stop.is_set():
            raise StoppedError
        plural = "lane" if lanes == 1 else "lanes"
        self._tell(steps, f"{what}: {lanes} {plural}, {speed:,.0f} steps/s")

    def _tell(self, steps: int, what: str) -> None:
        with self._lock:
            self._done += steps
            self._progress(min(self._done / self._total, 1.0), what)

"""Training runs in a folder that can be resumed: config.json, metrics.jsonl and the saved state of an agent.

Rows of metrics are on the disk before the state of their step is saved. So whenever a run is killed, its last saved
state has all its rows; later rows are dropped when it goes on, and written again. The first state is saved before the
first row: rows without a state mean that it was lost, which is an error and never a silent start at step 0. One process
at a time writes to the folder.
"""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from greedystep.io import os_error_context, read_json, write_json
from greedystep.metrics import MetricsFile, Row, check_metrics
from greedystep.provenance import provenance
from greedystep.runs.lock import WriterLock, lock_folder
from greedystep.signals import deferred

CONFIG, METRICS = "config.json", "metrics.jsonl"


class RunProgress(NamedTuple):
    """How far a run is: steps or episodes done, mean return and speed of the last chunk."""

    done: int
    """Environment steps per lane (networks), or episodes (tables), so far."""
    episode_return: float
    """Mean return of the chunk's episodes, exploration included; NaN if none ended."""
    steps_per_second: float = math.nan
    """Environment steps per second of all lanes together; NaN where it is not measured."""


class RunFolder(ABC):
    """Base class of training runs in a folder; `start` or `resume` of a subclass makes one, `train` trains it.

    A run is the only writer of its folder until `train` has ended or `close` is called.

    Args:
        lock: the lock of the folder; see `locked`.
        is_saved: whether the folder holds a saved state from which the run continues.
        restart: rename what the folder holds, and begin again.
        tensorboard: write TensorBoard's event files too.
    """

    UNIT: str
    """What `done` and `total` count: "steps" or "episodes"."""
    STATE: str
    """Name of the file or folder that holds the saved state."""
    SAVE_EVERY: float
    """Smallest number of seconds between two saves."""
    FAILURES: tuple[type[Exception], ...]
    """Exceptions which mean that training itself has failed, for example with a loss that is not finite."""
    SAVED_FAILURES: tuple[type[Exception], ...] = ()
    """Those of FAILURES that leave the state whole, which is saved: an environment that failed, for example."""
    on_progress: Callable[[RunProgress], Any] | None = None
    """Called about once per second within a chunk that takes longer, if it can be told how far it is."""

    def __init__(
        self, folder: Path, lock: WriterLock, *, is_saved: bool, restart: bool = False, tensorboard: bool = False
    ):
        self.folder, self._lock = folder, lock
        self._restart, self._tensorboard = restart, tensorboard
        self._saved = self.done if is_saved else None

    # -- what a subclass says ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def done(self) -> int:
        """Steps per lane (networks), or episodes (tables), so far."""

    @property
    @abstractmethod
    def total(self) -> int:
        """Steps per lane (networks), or episodes (tables), of the whole run."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Environment steps per lane so far: the `step` of the last row."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the content of config.json without its provenance: "kind", "config" and the subclass's entries."""

    @abstractmethod
    def chunks(self) -> Iterator[tuple[Sequence[Row], RunProgress]]:
        """Train to the end in chunks; after each yield its complete metrics rows, and how far the run is."""

    def unfinished_rows(self) -> Sequence[Row]:
        """Return the metrics rows of what was trained since the last complete rows, when a run is interrupted."""
        return ()

    @abstractmethod
    def save_state(self) -> None:
        """Write the state of training to the folder."""

    # -- what a user calls ---------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        return self.done >= self.total

    def close(self) -> None:
        """Release the folder for other writers, if `train` is not called or has ended."""
        self._lock.release()

    def train(self, save_every: float | None = None) -> Generator[RunProgress, None, None]:
        """Train to the end; when the generator is closed or interrupted, everything so far is saved.

        After an error (a full disk, a loss that is not finite) nothing is saved: the last saved state stands. After
        SAVED_FAILURES everything is saved.

        Args:
            save_every: smallest number of seconds between two saves; SAVE_EVERY by default.
        """
        if not self._lock.held:
            raise ValueError(f"{self.folder}: this run has ended or was closed; `resume` goes on with it")
        every = self.SAVE_EVERY if save_every is None else save_every
        with self._lock, ExitStack() as files:
            with deferred():
                metrics = files.enter_context(self._begin())
            yield from self._train(metrics, every)

    def _begin(self) -> MetricsFile:
        is_resumed = (self.folder / CONFIG).exists()
        if self._restart:
            set_aside(self.folder, self.STATE, METRICS)
        about = self.describe()
        with os_error_context(f"cannot write {self.folder / CONFIG}"):
            write_json(self.folder / CONFIG, about | {"provenance": provenance(about["config"])})
        self._save()
        events = self.folder / "tensorboard" if self._tensorboard else None
        return MetricsFile(self.folder / METRICS, resume_at=self.steps if is_resumed else None, tensorboard=events)

    def _train(self, metrics: MetricsFile, save_every: float) -> Generator[RunProgress, None, None]:
        chunks, saved = self.chunks(), time.perf_counter()
        try:
            while not self.finished:
                with deferred():
                    rows, progress = next(chunks)
                    metrics.append(rows)
                    if rows and time.perf_counter() - saved > save_every:
                        self._save(metrics)
                        saved = time.perf_counter()
                yield progress
        except BaseException as problem:
            if not isinstance(problem, Exception) or isinstance(problem, self.SAVED_FAILURES):
                with deferred():
                    metrics.append(self.unfinished_rows())
                    self._save(metrics)
            raise
        with deferred():
            self._save(metrics)

    def _save(self, metrics: MetricsFile | None = None) -> None:
        """Save the state unless that of this step is saved already; metrics rows are synced first."""
        if self.done == self._saved:
            return
        if metrics is not None:
            metrics.sync()
        self.save_state()
        self._saved = self.done


@contextmanager
def locked(folder: Path) -> Iterator[WriterLock]:
    """Lock a folder, and release it again only if the block fails; InUseError if another process writes there."""
    lock = lock_folder(folder)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def read_run_config(folder: Path) -> Any:
    """Return the content of a run's config.json, unchecked; ValueError if the folder holds no run."""
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{folder} holds no run (it has no {CONFIG})")
    return read_json(folder / CONFIG)


# -- a run that cannot go on -------------------------------------------------------------------------------------------


def ask_for_restart(folder: Path, problem: str) -> ValueError:
    """Return the ValueError for a run that cannot be resumed, which suggests --restart; `problem` names the files."""
    return ValueError(
        f"resume: {folder} cannot go on: {problem}; --restart (in Python: restart=True) begins again at step 0 and "
        f"keeps what the run has written under other names"
    )


def check_resumable(folder: Path, missing_state: str | None) -> None:
    """Raise ValueError if a run's metrics rows are damaged, or if it has rows but no saved state.

    Args:
        missing_state: what the folder lacks, if it has no state. Without rows either, the run begins at step 0, and a
            warning says so.
    """
    if missing_state is not None:
        metrics = folder / METRICS
        if metrics.exists() and metrics.stat().st_size:
            raise ask_for_restart(folder, f"it has {METRICS} but no {missing_state}")
        sentence = f"{folder} was stopped before it saved anything; it begins at step 0"
        warnings.warn(sentence, RuntimeWarning, stacklevel=3)
    check_metrics(folder / METRICS)


def set_aside(folder: Path, *names: str) -> None:
    """Rename files or folders that exist: `x.y` becomes `x-before-restart-1.y`."""
    there = [folder / name for name in names if (folder / name).exists()]
    for number in count(1):
        moves = {path: path.with_stem(f"{path.stem}-before-restart-{number}") for path in there}
        if not any(target.exists() for target in moves.values()):
            break
    for path, target in moves.items():
        path.rename(target)

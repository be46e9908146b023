"""Call functions in the workers of a Ray cluster: reports of progress, files, and another attempt after a death.

A function that is called has the form `function(*arguments, folder, report)`. It keeps its checkpoints in `folder`,
from where it goes on when it is called again, and says how far it is with `report(done, what)`. So a worker that dies
costs the work since its last checkpoint, and nothing is done or counted twice: one attempt at a time, whose result is
taken once.

Where a worker sees the folder of this process (one machine, or a shared file system) it works there. Elsewhere it works
in a temporary folder, and its files are sent here as they change.
"""

from __future__ import annotations

import secrets
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from types import TracebackType
from typing import Any, NamedTuple

from greedystep.io import atomic_write
from greedystep.provenance import version_of
from greedystep.runs.job_queue import StoppedError
from greedystep.runs.lock import FOLDER_LOCK
from greedystep.runs.ray_cluster import Cluster, ClusterError

Report = Callable[[float, str], None]
"""`report(done, what)`: the work done since the very beginning, in any unit, and what is being done."""

MOST_WAITING = 128
"""Calls that may wait for a worker at the same time; each has a thread of this process."""
MOST_DEATHS = 3
"""Deaths of workers in a row, without any progress between them, after which a call is given up."""
REPORT_EVERY, SEND_EVERY = 0.5, 10.0
"""Seconds between two reports of a worker, and between two looks for files that have changed."""
STOP_WITHIN = 15.0
"""Seconds that a worker has to save its state when it is asked to stop; then it is killed."""


class RayWorkers:
    """Workers of a Ray cluster; a context manager.

    Each call has one CPU, and one GPU where the cluster has any.

    Args:
        folder: the folder of this process under which called functions keep their files; None if they have none.
    """

    def __init__(self, cluster: Cluster, folder: Path | None = None):
        self.cluster, self._ray = cluster, cluster.ray
        self._mark: Path | None = None
        if folder is not None:
            for old in folder.glob(".ray-*"):  # of killed processes
                old.unlink(missing_ok=True)
            folder.mkdir(parents=True, exist_ok=True)
            self._mark = folder.absolute() / f".ray-{secrets.token_hex(8)}"
            self._mark.touch()

    def close(self) -> None:
        """Remove the mark by which workers recognise the folder."""
        if self._mark is not None:
            self._mark.unlink(missing_ok=True)

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def put(self, value: Any) -> Any:
        """Give the cluster a large argument of several calls once; return its reference, for `call`."""
        return self._ray.put(value)

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        folder: Path | None = None,
        on_report: Report = lambda done, what: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Call `function(*arguments, folder=, report=)` in a worker and return its result; threads may share this.

        What the function raises is raised here. A worker that dies is replaced, and a warning says so; ClusterError if
        that does not help.

        Args:
            name: what is done, for messages.
            folder: where the function keeps its files, under that of this object.
            should_stop: asked twice per second; if true, the worker saves what it has, and StoppedError is raised.
        """
        deaths, furthest, files = 0, -1.0, None
        while True:
            attempt = self._Attempt(self, function, arguments, folder, files)
            before = furthest
            try:
                with closing(attempt.reports(should_stop)) as reports:
                    for done, what in reports:
                        furthest = max(furthest, done)
                        on_report(done, what)
                if not attempt.needs_files:
                    return attempt.result
                assert folder is not None
                files = read_files(folder)
            except self._ray.exceptions.OutOfMemoryError:
                sentence = (
                    f"{name}: its worker was ended because the memory of its node is full; what was finished stays"
                )
                raise ClusterError(sentence) from None
            except self._ray.exceptions.RayTaskError as problem:
                if not isinstance(problem.cause, self._ray.exceptions.RayError):
                    raise problem.cause from None
                reason = str(problem.cause).strip().splitlines()[-1]
                raise ClusterError(f"{name}: a worker of the Ray cluster cannot begin it ({reason})") from problem
            except self._ray.exceptions.RayError as problem:
                self.cluster.check()
                deaths = deaths + 1 if furthest <= before else 1
                reason = str(problem).strip().partition("\n")[0].rstrip(".")
                if deaths >= MOST_DEATHS:
                    sentence = f"{name}: {deaths} workers in a row have died ({reason}); what was finished stays"
                    raise ClusterError(sentence) from None
                warnings.warn(f"{name}: its worker died; another one goes on from its last checkpoint", stacklevel=2)
                files = None if files is None or folder is None else read_files(folder)

    class _Attempt:
        """One task of Ray, from its start to its result."""

        def __init__(
            self,
            workers: RayWorkers,
            function: Callable[..., Any],
            arguments: tuple[Any, ...],
            folder: Path | None,
            files: Mapping[str, bytes] | None,
        ):
            self._workers, self._folder = workers, folder
            self.result: Any = None
            self.needs_files = False
            ray, mark = workers._ray, workers._mark
            place = _Place(str(mark), str(folder.absolute()), files) if folder is not None else None
            task = ray.remote(
                num_cpus=1,
                num_gpus=int(workers.cluster.has_gpus),
                max_retries=0,  # Ray would begin again without telling; see `RayWorkers.call`
                num_returns="streaming",
            )(_work)
            # Arguments of a task that are references arrive as their values, but not those within a tuple.
            self._stream = task.remote(version_of("greedystep"), place, function, *arguments)

        def reports(self, should_stop: Callable[[], bool]) -> Generator[tuple[float, str], None, None]:
            """Yield the reports until the task has ended; where that is given up before, the worker stops."""
            ray = self._workers._ray
            try:
                while True:
                    self._workers.cluster.check()
                    if should_stop():
                        raise StoppedError
                    ready, _ = ray.wait([self._stream], timeout=REPORT_EVERY, fetch_local=False)
                    if not ready:
                        continue
                    try:
                        message: _Message = ray.get(next(self._stream))
                    except StopIteration:
                        return
                    if message.files and self._folder is not None:
                        write_files(self._folder, message.files)
                    if message.is_result:
                        self.result = message.content
                    elif message.content is None:
                        self.needs_files = True
                    else:
                        yield message.content
            except self._workers._ray.exceptions.RayError:
                raise
            except BaseException as problem:
                if not isinstance(problem, ClusterError):
                    self._stop()
                raise

        def _stop(self) -> None:
            """Ask the worker to save what it has, and wait until it has ended."""
            ray, until = self._workers._ray, time.monotonic() + STOP_WITHIN
            with suppress(Exception):
                ray.cancel(self._stream)
            with suppress(Exception):
                while time.monotonic() < until:
                    if ray.wait([self._stream], timeout=REPORT_EVERY)[0]:
                        ray.get(next(self._stream))  # raises once the task has ended
                ray.cancel(self._stream, force=True)


# -- what runs in a worker ---------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where a called function keeps its files."""

    mark: str
    """A file that exists where the folder is that of the calling process."""
    folder: str
    files: Mapping[str, bytes] | None
    """The content of the folder, for a worker that does not see it; None: not sent yet."""


class _Message(NamedTuple):
    """What a worker sends: a report (done, what), None to ask for files, or the result."""

    content: Any
    is_result: bool = False
    files: Mapping[str, bytes | None] | None = None


def _work(
    version: str | None, place: _Place | None, function: Callable[..., Any], *arguments: Any
) -> Iterator[_Message]:
    """Call the function in a thread of a worker, and yield its reports and its result.

    Ray interrupts the main thread to stop a task; the function then ends by the StoppedError of its next report.
    """
    if (own := version_of("greedystep")) != version:
        raise ClusterError(f"greedystep is {own} on a node of the Ray cluster, but {version} here")
    queue: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    stop, told = Event(), [0.0]
    with ExitStack() as temporary:
        folder, sender = None, None
        if place is not None:
            folder = Path(place.folder)
            if not Path(place.mark).exists():
                if place.files is None:
                    yield _Message(None)
                    return
                folder = Path(temporary.enter_context(tempfile.TemporaryDirectory(prefix="greedystep-"))) / folder.name
                write_files(folder, place.files)
                sender = ChangedFiles(folder)

        def report(done: float, what: str) -> None:
            if stop.is_set():
                raise StoppedError
            if time.monotonic() - told[0] >= REPORT_EVERY:
                told[0] = time.monotonic()
                queue.put(("report", _Message((done, what), files=None if sender is None else sender.now_and_then())))

        def call() -> None:
            try:
                result = function(*arguments, folder=folder, report=report)
                queue.put(("result", _Message(result, True, None if sender is None else sender.changes())))
            except BaseException as problem:
                queue.put(("failure", problem))

        thread = Thread(target=call, daemon=True)
        thread.start()
        try:
            kind = "report"
            while kind == "report":
                try:
                    kind, content = queue.get(timeout=REPORT_EVERY)  # an interrupt does not wake a longer wait
                except Empty:
                    continue
                if kind == "failure":
                    raise content
                yield content
        except BaseException:
            stop.set()
            thread.join()
            raise


# -- files -------------------------------------------------------------------------------------------------------------


def _is_sent(path: Path) -> bool:
    return path.is_file() and path.name != FOLDER_LOCK and path.suffix != ".part"


def read_files(folder: Path) -> dict[str, bytes]:
    """Return {path within the folder: content} of all files, without locks and files that are being written."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if _is_sent(path)}


def write_files(folder: Path, files: Mapping[str, bytes | None]) -> None:
    """Write files to a folder, and remove those whose content is None.

    Files directly in the folder (rows of metrics) come before those in subfolders (checkpoints), so that a state never
    lacks its rows, and nothing is removed before what replaces it is there.
    """
    for name in sorted(files, key=lambda name: (files[name] is None, name.count("/"), name)):
        path, content = folder / name, files[name]
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(content)
    folder.mkdir(parents=True, exist_ok=True)


class ChangedFiles:
    """Finds the files of a folder that have changed since the last call of `changes`."""

    def __init__(self, folder: Path):
        self._folder, self._looked = folder, time.monotonic()
        self._known = self._stamps()

    def now_and_then(self) -> dict[str, bytes | None] | None:
        """Return `changes`, but None within SEND_EVERY of the last look."""
        return self.changes() if time.monotonic() - self._looked >= SEND_EVERY else None

    def changes(self) -> dict[str, bytes | None]:
        """Return {path within the folder: content} of new and changed files, and None for those that are gone."""
        before, now = self._known, self._stamps()
        self._known, self._looked = now, time.monotonic()
        changed = [name for name, stamp in now.items() if before.get(name) != stamp]
        return {name: (self._folder / name).read_bytes() for name in changed} | dict.fromkeys(
            before.keys() - now.keys()
        )

    def _stamps(self) -> dict[str, tuple[int, int]]:
        found = [path for path in self._folder.rglob("*") if _is_sent(path)]
        return {path.relative_to(self._folder).as_posix(): _stamp(path) for path in found}


def _stamp(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_mtime_ns, about.st_size

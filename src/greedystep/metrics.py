"""Metrics rows of training runs: metrics.jsonl always, TensorBoard events when asked.

A row is one JSON object on one line, with at least `step` (environment steps so far) and `lane` (the number of the
training, where several run side by side). Rows are only appended, whole lines at a time. A run that was killed goes on
from a checkpoint: rows beyond the checkpoint's step are dropped and written again, so that the file equals that of an
uninterrupted run except in columns that measure time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import schema
from greedystep.checks import INT64_MAX, short_repr
from greedystep.io import atomic_write, from_json, open_regular_file, os_error_context, to_json

Row = Mapping[str, Any]  # one row of metrics: numbers, text or lists of numbers by name
LONGEST_LINE = 2**24  # bytes; far above every row of ours


class MetricsFile:
    """Appends metrics rows to a file; a context manager.

    Args:
        path: the file, usually metrics.jsonl in a run's folder.
        resume_at: None for a new file, which must not exist yet. Otherwise the step of the checkpoint that the run goes
            on from: later rows, and half a line at the end, are taken out of the file (which is replaced as a whole).
        tensorboard: a folder for TensorBoard's event files as well: one run per lane, one scalar per number of a row.
            Needs the extra `tensorboard`.

    Call `sync` before the checkpoint of a step is saved, so that no checkpoint is on the disk without its rows.
    """

    def __init__(
        self, path: str | os.PathLike, *, resume_at: int | None = None, tensorboard: str | os.PathLike | None = None
    ):
        self.path = Path(path)
        self._events = None if tensorboard is None else EventFiles(tensorboard, resume_at)
        if self.path.exists():
            if resume_at is None:
                raise ValueError(f"{self.path} holds the metrics of another run: resume it, or choose another folder")
            self._drop_after(resume_at)
        with os_error_context(f"cannot write to {self.path}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by `close`)

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows: afterwards all of them are in the file, or none if an error is raised."""
        lines = "".join(to_json(_checked(row)) + "\n" for row in rows).encode()
        size = os.fstat(self._file.fileno()).st_size
        with os_error_context(f"cannot add rows to {self.path}; the rows before are whole"):
            try:
                left = memoryview(lines)
                while left:  # a disk that fills up takes a part of the bytes first and refuses only the rest
                    left = left[os.write(self._file.fileno(), left) :]
                if self._events is not None:
                    self._events.append(rows)
            except OSError:
                os.ftruncate(self._file.fileno(), size)
                raise

    def sync(self) -> None:
        """Wait until all rows are on the disk (fsync)."""
        with os_error_context(f"cannot add rows to {self.path}"):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
        if self._events is not None:
            self._events.close()

    def __enter__(self) -> MetricsFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _drop_after(self, step: int) -> None:
        kept = sum(len(line) for row, line in _whole_lines(self.path) if row["step"] <= step)
        if kept != self.path.stat().st_size:
            problem = os_error_context(f"cannot remove the rows after step {step} from {self.path}")
            with problem, atomic_write(self.path) as file:
                file.writelines(line for row, line in _whole_lines(self.path) if row["step"] <= step)


def read_metrics(path: str | os.PathLike) -> dict[int, dict[str, np.ndarray]]:
    """Return the columns of every lane: {lane: {name: one value per row, in the order of the rows}}.

    A column holds integers, floats, booleans or text, or rows of numbers if its values are lists. What a row lacks, or
    has as null, is NaN. Half a line at the end (a run that is being written, or was killed) is left out.
    """
    lanes: dict[int, list[dict[str, Any]]] = {}
    for row, _ in _whole_lines(Path(path)):
        lanes.setdefault(row["lane"], []).append(row)
    return {lane: _columns(path, rows) for lane, rows in sorted(lanes.items())}


def check_metrics(path: str | os.PathLike) -> None:
    """Raise ValueError naming the first line that is not a metrics row; a missing file is accepted."""
    if Path(path).exists():
        for _ in _whole_lines(Path(path)):
            pass


def _columns(path: str | os.PathLike, rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        # A column holds text, booleans, lists or numbers, of one shape.
        kinds = [type(value) if isinstance(value, str | bool | list) else float for value in values]
        shapes = {(kind, np.shape(one)) for kind, one in zip(kinds, values, strict=True) if one is not None}
        if len(shapes) > 1:
            raise ValueError(f"{path}: the values of {name!r} differ in kind or length from row to row")
        _, shape = next(iter(shapes), (float, ()))
        columns[name] = np.array([np.full(shape, np.nan) if value is None else value for value in values])
    return columns


def _whole_lines(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield (row, its line as bytes) of each complete line; ValueError names the first that is no metrics row."""
    with open_regular_file(path) as file:
        for number in count(1):
            line = file.readline(LONGEST_LINE)
            if len(line) < LONGEST_LINE and not line.endswith(b"\n"):
                return  # the end, or half a line
            try:
                row = _checked(from_json(line.decode()))
            except ValueError as problem:  # of JSON, of UTF-8, or of a row
                raise ValueError(f"{path}, line {number}, is not a row of metrics: {line[:80]!r} ({problem})") from None
            yield row, line


def _checked(row: Any) -> Any:
    """Return the row if it has `step` and `lane`, and otherwise only numbers, text and lists of numbers; or raise."""
    schema.check(row, {"step": schema.Int(), "lane": schema.Int()}, "a row of metrics")
    for name, value in row.items():
        numbers = value if isinstance(value, list | tuple | np.ndarray) else [value]
        if not (value is None or isinstance(value, str) or all(map(_is_number, numbers))):
            raise ValueError(f"{name}: expected a number, text, or a list of numbers, got {short_repr(value)}")
    return row


def _is_number(value: Any) -> bool:
    """Return whether the value is a number that NumPy can hold, true and false included."""
    return isinstance(value, float | np.number | np.bool_) or (isinstance(value, int) and abs(value) <= INT64_MAX)


# -- TensorBoard ------------------------------------------------------------------------------------------------------

TAGS = {
    "episode_return": "charts/episodic_return",
    "episode_length": "charts/episodic_length",
    "steps_per_second": "charts/SPS",
    "eval_return": "eval/episodic_return",
    "loss": "losses/td_loss",
    "mean_q": "losses/q_values",
}
"""Column -> its tag in CleanRL's logs; other columns get the tag charts/COLUMN."""


def tagged(row: Row) -> dict[str, float]:
    """Return the numbers of a row by CleanRL's tags, for other programs; text, lists and null are left out."""
    return {
        TAGS.get(name, f"charts/{name}"): float(value)
        for name, value in row.items()
        if name not in ("step", "lane", "seed") and isinstance(value, int | float | np.number | np.bool_)
    }


class EventFiles:
    """Writes rows as TensorBoard's event files, one folder per lane, through tensorboardX (the extra `tensorboard`).

    TensorBoard draws lanes as runs; a row is one event, with one scalar per number (`TAGS`). tensorboardX's usual
    writer has a thread of its own, where a full disk would go unnoticed; here the caller's thread writes. A resumed run
    begins new files with an event that tells TensorBoard to forget what the old ones say after the checkpoint.
    """

    def __init__(self, folder: str | os.PathLike, resume_at: int | None = None):
        try:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto import event_pb2, summary_pb2
        except ImportError:
            raise ValueError(
                "tensorboard: event files need the package tensorboardX: pip install 'greedystep[tensorboard]'"
            ) from None
        self._make_writer, self._event, self._summary = EventsWriter, event_pb2, summary_pb2
        self._folder, self._resume_at = Path(folder), resume_at
        self._writers: dict[int, EventsWriter] = {}

    def append(self, rows: Sequence[Row]) -> None:
        """Write rows, each with `step` and `lane`; text and lists are not scalars and are left out."""
        for row in rows:
            values = [self._summary.Summary.Value(tag=tag, simple_value=value) for tag, value in tagged(row).items()]
            self._write(int(row["lane"]), int(row["step"]), summary=self._summary.Summary(value=values))
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _write(self, lane: int, step: int, **what: Any) -> None:
        if lane not in self._writers:
            folder = self._folder / f"lane-{lane}"
            folder.mkdir(parents=True, exist_ok=True)
            # Files are named after the second they are opened in; without more, one of the same second is overwritten.
            # TensorBoard reads them in the order of their names.
            self._writers[lane] = self._make_writer(str(folder / "events"), f".{time.time_ns()}")
            if self._resume_at is not None:
                start = self._event.SessionLog(status=self._event.SessionLog.START)
                self._write(lane, self._resume_at + 1, session_log=start)
        self._writers[lane].write_event(self._event.Event(wall_time=time.time(), step=step, **what))

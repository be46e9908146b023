"""Rows of metrics as TensorBoard's event files, through tensorboardX (the extra `tensorboard`)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class EventFiles:
    """One folder per lane, so that TensorBoard draws lanes as runs; one event per row, one scalar per number.

    tensorboardX's usual writer works in a thread of its own, where a full disk would go unnoticed; here its file format
    is written in the caller's thread. A resumed run begins new files with an event that tells TensorBoard to forget
    what the old ones say after the checkpoint.
    """

    def __init__(self, folder: str | os.PathLike, resume_at: int | None = None):
        try:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto import event_pb2, summary_pb2
        except ImportError:
            raise ValueError(
                "tensorboard: event files need the package tensorboardX: pip install 'greedystep[tensorboard]'"
            ) from None
        self._make_writer = EventsWriter
        self._event: Any = event_pb2
        self._summary: Any = summary_pb2
        self._folder = Path(folder)
        self._resume_at = resume_at
        self._writers: dict[int, EventsWriter] = {}

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows, each with `step` and `lane`; text and lists are no scalars and stay in the JSONL alone."""
        for row in rows:
            values = [
                self._summary.Summary.Value(tag=name, simple_value=float(value))
                for name, value in row.items()
                if name not in ("step", "lane") and isinstance(value, int | float | np.number | np.bool_)
            ]
            self._write(int(row["lane"]), int(row["step"]), summary=self._summary.Summary(value=values))
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _write(self, lane: int, step: int, **what: Any) -> None:
        if lane not in self._writers:
            self._writers[lane] = self._open(lane)
            if self._resume_at is not None:
                start = self._event.SessionLog(status=self._event.SessionLog.START)
                self._write(lane, self._resume_at + 1, session_log=start)
        self._writers[lane].write_event(self._event.Event(wall_time=time.time(), step=step, **what))

    def _open(self, lane: int) -> Any:
        folder = self._folder / f"lane-{lane}"
        folder.mkdir(parents=True, exist_ok=True)
        # A file is named after the second it is opened in; the step keeps a quick resume from overwriting the first.
        return self._make_writer(str(folder / "events"), f".{self._resume_at or 0}")

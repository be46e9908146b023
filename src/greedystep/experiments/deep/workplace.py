"""Who trains for a folder at the moment, and what commands took that did."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from greedystep import schema
from greedystep.io import read_json, write_json
from greedystep.provenance import provenance

NOTE = {
    "session": {"tasks": [str], "trainings": schema.Int(), "steps": schema.Int(), "seconds": schema.Float(0)},
    "provenance": {"command": str, "device": str},
}
"""What a command trained, in a file."""


class Workplace:
    """What stands beside the trainings of a folder: marks of processes in `half-way`, and notes in `sessions`.

    Args:
        folder: None to keep nothing on the disk.
    """

    def __init__(self, folder: Path | None = None):
        self._folder = folder
        self._lock, self._training = Lock(), 0

    @contextmanager
    def training(self) -> Iterator[None]:
        """While one or more threads of this process are within, others see it in `processes`."""
        mark = None if self._folder is None else self._folder / "half-way" / f"{os.getpid()}.process"
        if mark is None:
            yield
            return
        with self._lock:
            self._training += 1
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        try:
            yield
        finally:
            with self._lock:
                self._training -= 1
                if not self._training:
                    mark.unlink(missing_ok=True)

    def processes(self) -> int:
        """How many train for the folder now, this one included; marks of those that were killed do not count."""
        marks = [] if self._folder is None else self._folder.glob("half-way/*.process")
        marked = {int(mark.stem) for mark in marks if mark.stem.isdecimal()}
        return len({os.getpid()} | set(filter(_is_alive, marked)))

    def note(self, session: Mapping[str, Any]) -> None:
        """What a command trained, and how long it took."""
        if self._folder is not None:
            origin = provenance({"session": session})
            name = f"{origin['date'].replace(':', '-').partition('+')[0]}-{origin['config_hash'][:8]}"
            write_json(self._folder / "sessions" / f"{name}.json", {"session": session, "provenance": origin})

    def sessions(self) -> tuple[list[dict[str, Any]], list[str]]:
        """All that were noted, the oldest first, each with its command and device; and what could not be read."""
        found, problems = [], []
        for path in sorted(self._folder.glob("sessions/*.json")) if self._folder is not None else ():
            try:
                found.append(_session(path))
            except (ValueError, OSError) as problem:
                problems.append(str(problem))
        return found, problems


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere asking would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _session(path: Path) -> dict[str, Any]:
    """What a command trained; ValueError says why the file does not tell it."""
    try:
        noted = schema.check(read_json(path), NOTE, "it")
    except ValueError as problem:
        raise ValueError(f"{path} does not tell what a command trained ({problem})") from None
    session, origin = noted["session"], noted["provenance"]
    return {
        "command": origin["command"],
        "tasks": session["tasks"],
        "trainings": session["trainings"],
        "steps": session["steps"],
        "device": origin["device"],
        "seconds": float(session["seconds"]),
    }

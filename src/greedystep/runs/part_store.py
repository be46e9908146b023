"""Finished parts of experiments in a folder: a file for each while an experiment runs, packed files afterwards.

A part is one finished piece of an experiment, such as a group of trainings: a JSON object with a name, say
`breakout-greedy-step-6-33afda0c.json`. It is written as a file of that name when it is finished, and never again.
`pack` moves parts into one compressed file per experiment, `fig3.jsonl.gz`:

    gzip of UTF-8 text; each line is strict JSON
    line 1        {"format": "greedystep parts 1", "parts": [{"name": ..., "sha256": ...}, ...]}
    line 2, ...   the content of the parts in this order; `sha256` is that of the line without its line end

A part that several experiments need is in the packed file of the first of them that was packed; readers look through
all packed files of the folder. A file of its own is preferred to a packed part of the same name. Beside the parts are

    half-way/     checkpoints of parts that are not finished, and a mark of each process that works on them
    sessions/     what earlier commands trained, and how long it took
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from greedystep import schema
from greedystep.io import (
    LARGEST_JSON,
    atomic_write,
    from_json,
    open_regular_file,
    os_error_context,
    read_json,
    to_json,
    write_json,
)
from greedystep.provenance import provenance

if TYPE_CHECKING:
    from greedystep.runs.ray_workers import RayWorkers

PACKED = ".jsonl.gz"
FORMAT = "greedystep parts 1"
HEADER = {"format": schema.OneOf(FORMAT), "parts": [{"name": str, "sha256": str}]}
PART_NAME = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*\.json")
SESSION = {
    "session": {"tasks": [str], "trainings": schema.Int(), "steps": schema.Int(), "seconds": schema.Float(0)},
    "provenance": {"command": str, "device": str},
}
"""Schema of a file in `sessions`."""
NAMED = 3
"""Largest number of missing parts that a message names; it counts the others."""


class PartStore:
    """Finished parts of experiments in a folder; `problems` has one sentence per packed file that is damaged.

    Args:
        folder: None to keep nothing on the disk.
        workers: workers of a cluster that make missing parts; None to make them in this process.
    """

    def __init__(self, folder: Path | None = None, workers: RayWorkers | None = None):
        self.folder, self.workers, self.problems = folder, workers, []
        self._packed: dict[str, tuple[Path, bytes]] = {}
        self._used: set[str] = set()
        self._lock, self._working = Lock(), 0
        damaged: dict[Path, tuple[list[str], str]] = {}
        for path in sorted(folder.glob(f"*{PACKED}")) if folder is not None else ():
            lines, names, reason = _read_packed(path)
            self._packed |= {name: (path, line) for name, line in lines.items()}
            if reason:
                damaged[path] = names, reason
        self._damaged = set(damaged)
        for path, (names, reason) in damaged.items():
            missing = [name for name in names if name not in self._packed and not self._is_single(name)]
            if missing or not names:
                self.problems.append(f"{path} is damaged ({reason}); {_listed(missing)}")

    @classmethod
    def at(cls, parts: Parts) -> PartStore:
        """Return the store itself, or make the store of a folder."""
        return parts if isinstance(parts, PartStore) else cls(parts)

    def names(self, subfolder: str = "") -> list[str]:
        """Return the names of the parts directly in the folder, or in that subfolder."""
        start = f"{subfolder}/" if subfolder else ""
        single = (self.folder / subfolder).glob("*.json") if self.folder is not None else ()
        found = {f"{start}{path.name}" for path in single}
        return sorted(found | {name for name in self._packed if name.rpartition("/")[0] == subfolder})

    def read(self, name: str) -> Any:
        """Return the content of a part; None if there is no such part, ValueError or OSError if it cannot be read."""
        if self._is_single(name):
            return read_json(self._path(name))
        return from_json(self._packed[name][1].decode()) if name in self._packed else None

    def where(self, name: str) -> str:
        """Return where a part is, as text for messages: its file, or its name in a packed file."""
        if self._is_single(name) or name not in self._packed:
            return str(self._path(name))
        return f"{self._packed[name][0]}, {name},"

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a finished part, completely or not at all."""
        if self.folder is not None:
            write_json(self._path(name), content)

    def use(self, name: str) -> None:
        """Note that the running experiment needs this part, so that `pack` packs it."""
        self._used.add(name)

    def pack(self, experiment: str) -> int:
        """Move the parts noted by `use` since the last call into the experiment's packed file; return their number.

        Files of their own are deleted once the packed file is on the disk and can be read. Parts that are in another
        packed file stay there. Only one process may pack in a folder at a time.
        """
        moved = {name: to_json(self.read(name)).encode() for name in self._used if self._is_single(name)}
        self._used.clear()
        if self.folder is None or not moved:
            return 0
        path = self.folder / f"{experiment}{PACKED}"
        if path in self._damaged:  # what is whole of it is written again below
            shutil.copyfile(path, path.with_name(f"{path.name}.damaged"))
            self._damaged.remove(path)
        lines = {name: line for name, (where, line) in self._packed.items() if where == path} | moved
        _write_packed(path, lines)
        if _read_packed(path)[0] != lines:
            raise OSError(f"{path} was not written as it should have been; the files of its parts stay")
        for name in moved:
            self._packed[name] = path, lines[name]
            self._path(name).unlink()
            with suppress(OSError):  # not empty
                self._path(name).parent.rmdir()
        return len(moved)

    # -- work under way -----------------------------------------------------------------------------------------------

    def half_way(self, key: str) -> Path | None:
        """Return the folder for the checkpoints of an unfinished part; None if nothing is kept on the disk."""
        return None if self.folder is None else self.folder / "half-way" / key

    @contextmanager
    def working(self) -> Iterator[None]:
        """Within the block, count this process among the `processes` that work on parts of this folder."""
        mark = self.half_way(f"{os.getpid()}.process")
        if mark is None:
            yield
            return
        with self._lock:
            self._working += 1
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1
                if not self._working:
                    mark.unlink(missing_ok=True)

    def processes(self) -> int:
        """Return how many processes work on parts of this folder now, this one included; killed ones do not count."""
        marks = () if self.folder is None else self.folder.glob("half-way/*.process")
        marked = {int(mark.stem) for mark in marks if mark.stem.isdecimal()}
        return len({os.getpid()} | set(filter(_is_alive, marked)))

    def log_session(self, session: Mapping[str, Any]) -> None:
        """Write a session file: what this command trained, and how long it took."""
        if self.folder is not None:
            origin = provenance({"session": session})
            name = f"{origin['date'].replace(':', '-').partition('+')[0]}-{origin['config_hash'][:8]}"
            write_json(self.folder / "sessions" / f"{name}.json", {"session": session, "provenance": origin})

    def sessions(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the contents of all session files, oldest first, and a sentence for each that cannot be read."""
        found, problems = [], []
        for path in sorted(self.folder.glob("sessions/*.json")) if self.folder is not None else ():
            try:
                noted = schema.check(read_json(path), SESSION, "it")
                about = noted["provenance"] | noted["session"]
                columns = ("command", "tasks", "trainings", "steps", "device")
                found.append({name: about[name] for name in columns} | {"seconds": float(about["seconds"])})
            except (ValueError, OSError) as problem:
                problems.append(f"{path} does not tell what a command trained ({problem})")
        return found, problems

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / name

    def _is_single(self, name: str) -> bool:
        return self.folder is not None and self._path(name).is_file()


Parts = PartStore | Path | None
"""A store of parts, or its folder; None to keep nothing on the disk."""


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere asking would end it
        return True
    try:
        os.kill(process, 0)
    except OSError as problem:
        return not isinstance(problem, ProcessLookupError)  # it may be somebody else's
    return True


def _write_packed(path: Path, lines: Mapping[str, bytes]) -> None:
    parts = [{"name": name, "sha256": hashlib.sha256(line).hexdigest()} for name, line in sorted(lines.items())]
    text = [to_json({"format": FORMAT, "parts": parts}).encode(), *(lines[part["name"]] for part in parts)]
    with (
        os_error_context(f"cannot write {path}; the files of its parts stay"),
        atomic_write(path) as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as packed,  # neither name nor time: equal parts make equal files
    ):
        packed.writelines(line + b"\n" for line in text)


def _read_packed(path: Path) -> tuple[dict[str, bytes], list[str], str]:
    """Read a packed file: {part name: its line} where checksums are right, all names, and why parts are missing."""
    lines: dict[str, bytes] = {}
    names: list[str] = []
    reason = ""
    try:
        with open_regular_file(path) as file, gzip.GzipFile(fileobj=file) as packed:
            header = schema.check(from_json(packed.readline(LARGEST_JSON).decode()), HEADER, "its first line")
            names = [_checked_name(part["name"]) for part in header["parts"]]
            for name, part in zip(names, header["parts"], strict=True):
                line = packed.readline(LARGEST_JSON).removesuffix(b"\n")
                if hashlib.sha256(line).hexdigest() == part["sha256"]:
                    lines[name] = line
                else:
                    reason = "a checksum is wrong"
    except (ValueError, OSError, EOFError, zlib.error) as problem:
        reason = str(problem) or type(problem).__name__
    return lines, names, reason


def _checked_name(name: str) -> str:
    """Return the name; ValueError unless it is a plain file name, since packed files may come from anybody."""
    if not PART_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a part")
    return name


def _listed(missing: list[str]) -> str:
    if not missing:
        return "its parts count as missing"
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    return f"counted as missing: {', '.join(missing[:NAMED])}{more}"

"""Files: atomic writes, strict JSON, and a reader of .npz files that may be damaged or hostile.

JSON has no infinity and no NaN. They are written as the strings "Infinity", "-Infinity" and "NaN", so that every file
is strict JSON for other tools, and `read_json` turns these three strings back into floats.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from greedystep.checks import check_memory, short_repr

CHECKPOINT_MAGIC = b"gs-state"
"""First bytes of a checkpoint; here, so that agents' files can be told apart without JAX, which `checkpoint` needs."""
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The strings that stand for the numbers JSON lacks."""
LARGEST_JSON = 2**30  # bytes above which a file is not read: far above every JSON file that greedystep writes
DEEPEST_JSON = 100
"""Nesting levels above which JSON is refused: far above every JSON file that greedystep writes."""


# -- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` once it is complete and on the disk; missing parent folders are made.

    Whatever goes wrong before that (an exception, a full disk, a kill), an older file at `path` stays as it was.
    """
    target = Path(os.path.realpath(path))  # through a link, not over it
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException as problem:
        part.unlink(missing_ok=True)
        if isinstance(problem, OSError) and problem.filename in (None, str(part)) and problem.errno is not None:
            raise OSError(problem.errno, problem.strerror, str(target)) from problem
        raise
    with suppress(OSError):  # make the rename survive a power cut, where the system can (Windows cannot open a folder)
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def open_regular_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a file to read bytes; OSError if it is missing, a folder, or a pipe or device, which may never end."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode  # of the open file: the path may lead elsewhere by now
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "folder" if stat.S_ISDIR(mode) else "pipe or device"
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, f"it is a {kind}, not a file", str(path))
    with open(descriptor, "rb") as file:
        yield file


@contextmanager
def os_error_context(sentence: str) -> Iterator[None]:
    """Prefix an OSError raised within (a full disk, a read-only folder) with a sentence about what failed."""
    try:
        yield
    except OSError as problem:
        raise OSError(problem.errno, f"{sentence} ({problem.strerror or problem})") from problem


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a UTF-8 file, completely or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode())


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write strict JSON, completely or not at all; NumPy scalars and arrays become numbers and lists.

    One line per entry, but a list of numbers stays on one line.
    """
    write_text(path, _in_lines(jsonable(value)) + "\n")


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file written by `write_json`; ValueError says in one sentence what is wrong with a file."""
    with open_regular_file(path) as file:
        text = file.read(LARGEST_JSON + 1)
    try:
        if len(text) > LARGEST_JSON:
            raise ValueError(f"it is larger than {LARGEST_JSON} bytes")
        return from_json(text.decode())
    except ValueError as problem:
        raise ValueError(f"{path} is not a readable JSON file ({problem})") from None


def to_json(value: Any) -> str:
    """Return strict JSON on one line."""
    return _in_one_line(jsonable(value))


def from_json(text: str) -> Any:
    """Parse strict JSON: no key occurs twice in an object and every number is finite; else ValueError."""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_constant=_finite)
        return _with_floats(value)
    except RecursionError:
        raise ValueError("it has too many levels") from None


def _object(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(entries)
    if len(made) < len(entries):
        names = [name for name, _ in entries]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number


def _in_one_line(value: Any, separators: tuple[str, str] = (", ", ": ")) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=separators)


def _in_lines(value: Any, margin: str = "\n") -> str:
    inner = margin + " "
    match value:
        case dict() if value:
            entries = (f"{_in_one_line(name)}: {_in_lines(one, inner)}" for name, one in value.items())
            return "{" + inner + f",{inner}".join(entries) + margin + "}"
        case list() if any(isinstance(one, dict | list) for one in value):
            return "[" + inner + f",{inner}".join(_in_lines(one, inner) for one in value) + margin + "]"
    return _in_one_line(value, separators=(",", ":"))


def jsonable(value: Any) -> Any:
    """Convert a value to JSON's own types; TypeError names a type that cannot be converted."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else next(k for k, x in NOT_FINITE.items() if str(x) == str(value))
        case np.generic() | np.ndarray():
            return jsonable(value.tolist())
        case Mapping():
            if wrong := [key for key in value if not isinstance(key, str)]:
                raise TypeError(f"JSON objects have text keys, got {wrong[0]!r}")
            return {k: jsonable(v) for k, v in value.items()}
        case list() | tuple():
            return [jsonable(v) for v in value]
        case os.PathLike():
            return os.fspath(value)
    raise TypeError(f"cannot write a {type(value).__name__} as JSON: {value!r}")


def _with_floats(value: Any, levels: int = DEEPEST_JSON) -> Any:
    """Turn the strings of NOT_FINITE into floats; ValueError if JSON is nested too deeply or has broken Unicode."""
    match value:
        case str():
            value.encode()  # half a character (\ud800) could be read, but never written or printed
            return NOT_FINITE.get(value, value)
        case list() | dict() if levels == 0:
            raise ValueError(f"it has more than {DEEPEST_JSON} levels")
        case list():
            return [_with_floats(v, levels - 1) for v in value]
        case dict():
            "".join(value).encode()
            return {k: _with_floats(v, levels - 1) for k, v in value.items()}
    return value


# -- .npz files -------------------------------------------------------------------------------------------------------

UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, KeyError, EOFError, OSError, RuntimeError)
UNREADABLE += (OverflowError, MemoryError)
"""The errors that zipfile raises for damaged files."""

HEADER = re.compile(
    rb"\{'descr': '([<>|=])(b1|[iu][1248]|f[248]|c8|c16|[SU][1-9]\d{0,8})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\), \} *\n"
)
"""The header of an array in version 1.0 of NumPy's format; a version with longer headers is never needed here."""
MOST_AXES = 32
CHUNK = 2**22  # bytes that are read at once
LONGEST_REASON = 200
"""Largest number of characters of an error message that is quoted: zipfile quotes names of any length."""
KINDS = {"b": "booleans", "i": "integers", "iu": "integers", "f": "numbers", "iuf": "numbers", "U": "text"}
"""Letters of NumPy's dtype kinds -> what such an array holds."""


def load_npz(path: str | os.PathLike, file_format: str, noun: str) -> dict[str, np.ndarray]:
    """Read all arrays of a .npz file whose "format" must be `file_format`; errors call such a file a `noun`."""
    try:
        arrays = read_npz(path)
        found = str(get_array(arrays, "format", "U", 0))
        if found != file_format:
            raise ValueError(f"its format is not {file_format!r} but {short_repr(found)}")
    except FileNotFoundError:
        raise FileNotFoundError(f"no such {noun} file: {path}") from None
    except ValueError as problem:
        raise ValueError(f"{path} is no {noun} file of greedystep ({problem})") from None
    return arrays


def get_array(arrays: Mapping[str, np.ndarray], name: str, kinds: str, axes: int) -> np.ndarray:
    """Return arrays[name]; ValueError unless it has `axes` axes and a dtype kind in `kinds`, a key of KINDS."""
    if name not in arrays:
        raise ValueError(f"it has no {name!r}")
    array = arrays[name]
    if array.dtype.kind not in kinds or array.ndim != axes:
        raise ValueError(f"{name}: expected {KINDS[kinds]} with {axes} axes, got {array.dtype} {list(array.shape)}")
    return array


def npz_format(path: str | os.PathLike) -> str | None:
    """Return the "format" of a .npz file of greedystep, without reading the rest; None for any other file."""
    try:
        with open_regular_file(path) as file, zipfile.ZipFile(file) as archive:
            member = archive.getinfo("format.npy")
            if member.file_size > CHUNK:
                return None
            with archive.open(member) as stream:
                return str(get_array({"format": _array(stream, member.file_size, "format")}, "format", "U", 0))
    except UNREADABLE:
        return None


def read_npz(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Read all arrays of a .npz file, never Python objects; ValueError says why a file cannot be read."""
    with open_regular_file(path) as file:
        start = file.read(6)
        if start == np.lib.format.MAGIC_PREFIX:
            raise ValueError("it holds a single array")
        if not start.startswith(b"PK"):
            raise ValueError("it is not an archive of arrays")
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                check_memory("what it holds", sum(member.file_size for member in members))
                arrays = {}
                for member in members:
                    name = member.filename.removesuffix(".npy")
                    if name in arrays:
                        raise ValueError(f"it holds {name!r} twice")
                    with archive.open(member) as stream:
                        arrays[name] = _array(stream, member.file_size, name)
                return arrays
        except UNREADABLE as problem:
            reason = str(problem) or type(problem).__name__
            raise ValueError(reason[:LONGEST_REASON]) from None


def _array(stream: IO[bytes], size: int, name: str) -> np.ndarray:
    """Read one array of `size` bytes, header included."""
    start = stream.read(10)
    if len(start) < 10 or not start.startswith(np.lib.format.MAGIC_PREFIX + b"\x01\x00"):
        raise ValueError(f"{name!r} is not an array of NumPy's format 1.0")
    length = int.from_bytes(start[8:], "little")
    header = stream.read(length)
    if b"'|O'" in header:
        raise ValueError("it holds Python objects, which are never loaded")
    if not (found := HEADER.fullmatch(header)):
        raise ValueError(f"{name!r} has a header that is not that of a plain array")
    order, kind = found[1].decode(), found[2].decode()
    shape = tuple(int(axis) for axis in found[4].decode().split(",") if axis.strip())
    width = int(kind[1:]) * (4 if kind[0] == "U" else 1)
    expected, there = math.prod(shape) * width, size - len(start) - length
    if expected != there or len(shape) > MOST_AXES:
        raise ValueError(f"{name!r} says that it has shape {list(shape)} of {kind}, and has {there} bytes")
    array = np.empty(math.prod(shape), order + kind)
    left = array.view(np.uint8).data if array.size else b""
    while left:  # zipfile compares the checksum when the last byte is read
        count = stream.readinto(left[:CHUNK])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{name!r} is cut short")
        left = left[count:]
    return array.reshape(shape, order="F" if found[3] == b"True" else "C")

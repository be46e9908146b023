"""Reading .npz files that somebody may have damaged or made up, or that are something else.

`np.load` hands the header of each array to Python's parser and allocates what it asks for. Here a header is matched
against the few forms that NumPy writes for plain arrays, and has to agree with the size of its member before anything
is allocated. Arrays of Python objects, which could run code, have no such form.
"""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO

import numpy as np

from greedystep import record
from greedystep.memory import check_memory

UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, KeyError, EOFError, OSError, RuntimeError)
UNREADABLE += (OverflowError, MemoryError)
"""What zipfile raises for damaged files."""

HEADER = re.compile(
    rb"\{'descr': '([<>|=])(b1|[iu][1248]|f[248]|c8|c16|[SU][1-9]\d{0,8})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\), \} *\n"
)
"""Of version 1.0 of NumPy's format, which all but very long headers have."""
MOST_AXES = 32
CHUNK = 2**22
LONGEST_REASON = 200
KINDS = {
    "b": "true or false",
    "i": "whole numbers",
    "iu": "whole numbers",
    "f": "numbers",
    "iuf": "numbers",
    "U": "text",
}
"""Letters of NumPy's dtype kinds -> what such an array holds."""


def load(path: str | os.PathLike, file_format: str, noun: str) -> dict[str, np.ndarray]:
    """All arrays of a file that greedystep saved.

    Args:
        file_format: what the file's entry "format" has to be.
        noun: what such a file holds, for the sentence if it is none.
    """
    try:
        arrays = read(path)
        if str(take(arrays, "format", "U", 0)) != file_format:
            raise ValueError(f"its format is not {file_format!r}")
    except FileNotFoundError:
        raise FileNotFoundError(f"no such {noun} file: {path}") from None
    except ValueError as problem:
        raise ValueError(f"{path} is no {noun} file of greedystep ({problem})") from None
    return arrays


def take(arrays: Mapping[str, np.ndarray], name: str, kinds: str, axes: int) -> np.ndarray:
    """The array of that name; ValueError if it is missing, or has other kinds of entries or another number of axes.

    Args:
        kinds: one of KINDS.
    """
    if name not in arrays:
        raise ValueError(f"it has no {name!r}")
    array = arrays[name]
    if array.dtype.kind not in kinds or array.ndim != axes:
        raise ValueError(f"{name}: expected {KINDS[kinds]} with {axes} axes, got {array.dtype} {list(array.shape)}")
    return array


def read(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """All arrays of a .npz file; ValueError says in a few words why it is none that can be read."""
    with record.reading(path) as file:
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
            raise ValueError(
                reason[:LONGEST_REASON]
            ) from None  # zipfile quotes names, however long a file says they are


def _array(stream: IO[bytes], size: int, name: str) -> np.ndarray:
    """An array of `size` bytes, header included."""
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
    if array.size:
        _fill(stream, array.view(np.uint8).data, name)
    return array.reshape(shape, order="F" if found[3] == b"True" else "C")


def _fill(stream: IO[bytes], buffer: memoryview, name: str) -> None:
    """Read as much as the buffer holds; with the last byte zipfile compares the checksum."""
    while buffer:
        count = stream.readinto(buffer[:CHUNK])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{name!r} is cut short")
        buffer = buffer[count:]

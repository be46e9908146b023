"""Reading .npz files that somebody may have damaged, or that are something else."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib

import numpy as np

UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, TypeError, KeyError, SyntaxError)
UNREADABLE += (EOFError, OSError, RuntimeError, MemoryError, OverflowError)
"""What NumPy and zipfile raise for damaged files."""


def read(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """All arrays of a .npz file; ValueError says in a few words why it is none that can be read.

    Arrays of Python objects are never loaded, and never suggested to be: they could run code.
    """
    with open(path, "rb") as file:  # here, because np.load leaves a broken archive open
        start = file.read(6)
        file.seek(0)
        if start == np.lib.format.MAGIC_PREFIX:
            raise ValueError("it holds a single array")
        if not start.startswith(b"PK"):
            raise ValueError("it is not an archive of arrays")
        try:
            with np.load(file, allow_pickle=False) as archive:
                return dict(archive)
        except UNREADABLE as problem:
            if "allow_pickle" in str(problem):
                raise ValueError("it holds Python objects, which are never loaded") from None
            raise ValueError(str(problem) or type(problem).__name__) from None

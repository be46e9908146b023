"""A numba cache on disk that is keyed by all sources of a package.

numba's own cache watches only the file of the function it stores: after an edit, a loop that calls functions of other
files, which are compiled into it, would go on running their old code. So the loops of a package are cached in a folder
whose name is a hash of all its sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core import config

settings: Any = config  # numba's settings; it reads the cache folder, CACHE_DIR, when a function is decorated

KEPT = 8  # cache folders that are kept, so that going back to earlier sources compiles nothing
OLD = 24 * 3600.0
"""Seconds since its last use after which a cache folder may be deleted: a running process may use a younger one."""


@contextmanager
def cached_by_sources(package: str, *others: str | None) -> Iterator[None]:
    """Within the block, cache functions decorated with `@njit(cache=True)` by the content of their sources.

    The sources are all modules beside `package`, the `__file__` of an `__init__.py`, and `others`, the `__file__` of
    further modules whose compiled functions are called; import those before the block.
    """
    home, given = Path(package).parent, settings.CACHE_DIR
    if not given and not os.access(home, os.W_OK):
        yield  # an installation that does not change: numba finds a place of its own
        return
    base = Path(given) if given else home / "__pycache__"
    place = base / f"greedystep-{home.name}-{fingerprint(home, *others)}"
    place.mkdir(parents=True, exist_ok=True)
    os.utime(place)
    _delete_old(base, place.name.rsplit("-", 1)[0])
    settings.CACHE_DIR = str(place)
    try:
        yield
    finally:
        settings.CACHE_DIR = given


def fingerprint(home: Path, *others: str | None) -> str:
    """Return 16 hexadecimal digits, a hash of all sources in the folder `home` and of the files `others`."""
    total = hashlib.sha256()
    for source in (*sorted(home.glob("*.py")), *(Path(other) for other in others if other)):
        total.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def _delete_old(base: Path, prefix: str) -> None:
    """Delete cache folders that are not among the KEPT newest and were not used for OLD seconds."""
    last_used = {}
    for folder in base.glob(f"{prefix}-*"):
        try:
            last_used[folder] = folder.stat().st_mtime
        except FileNotFoundError:  # another process was quicker
            continue
    for folder in sorted(last_used, key=last_used.__getitem__)[:-KEPT]:
        if time.time() - last_used[folder] > OLD:
            shutil.rmtree(folder, ignore_errors=True)

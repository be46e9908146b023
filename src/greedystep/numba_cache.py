"""Compiled loops that notice when any file they were compiled from has changed.

numba's cache watches only the file of the function it stores. A loop that calls functions of other files, which are
compiled into it, would go on running their old code after an edit. So the loops of a package are cached in a folder
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

settings: Any = config
"""numba's, of which the folder of the cache is one; it is read when a function is decorated."""

KEPT = 8
"""Folders of earlier sources that stay, so that going back to them compiles nothing."""
OLD = 24 * 3600.0
"""Seconds since its last use before a folder may go: a younger one may belong to a process that still runs."""


@contextmanager
def cached_by_sources(package: str, *others: str | None) -> Iterator[None]:
    """Whatever `@njit(cache=True)` meets within is cached by the content of the sources it is compiled from.

    Args:
        package: `__file__` of the package's `__init__.py`; all modules beside it count.
        others: `__file__` of further modules whose compiled functions are called. They have to be imported before.
    """
    home = Path(package).parent
    given = settings.CACHE_DIR
    base = Path(given) if given else home / "__pycache__"
    if not given and not os.access(home, os.W_OK):
        yield  # an installation that does not change: numba finds a place of its own
        return
    place = base / f"greedystep-{home.name}-{fingerprint(home, *others)}"
    place.mkdir(parents=True, exist_ok=True)
    os.utime(place)
    _clear_out(base, place.name.rsplit("-", 1)[0])
    settings.CACHE_DIR = str(place)
    try:
        yield
    finally:
        settings.CACHE_DIR = given


def fingerprint(home: Path, *others: str | None) -> str:
    """Sixteen hexadecimal digits of all sources of a folder, and of some more."""
    total = hashlib.sha256()
    for source in (*sorted(home.glob("*.py")), *(Path(other) for other in others if other)):
        total.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def _clear_out(base: Path, prefix: str) -> None:
    last_used = {}
    for folder in base.glob(f"{prefix}-*"):
        try:
            last_used[folder] = folder.stat().st_mtime
        except FileNotFoundError:  # another process was quicker
            continue
    for folder in sorted(last_used, key=last_used.__getitem__)[:-KEPT]:
        if time.time() - last_used[folder] > OLD:
            shutil.rmtree(folder, ignore_errors=True)

"""Run the pieces of one compiled loop on all cores.

A plain thread pool and loops that release the interpreter lock: waiting threads sleep, so a busy machine costs the
share it takes and no more. (OpenMP's spinning barriers, numba's own way, cost ten times a sweep when a core is taken.)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

_pool: ThreadPoolExecutor | None = None


def count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(loop: Callable[..., Any], pieces: Sequence[tuple]) -> list[Any]:
    """[loop(*piece) for piece in pieces], side by side; the calling thread takes the last piece itself."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(1, count() - 1), thread_name_prefix="greedystep")
    others = [_pool.submit(loop, *piece) for piece in pieces[:-1]]
    try:
        own = loop(*pieces[-1])
    finally:
        wait(others)  # after a Ctrl-C, too: nobody may go on writing to arrays that the caller uses again
    return [other.result() for other in others] + [own]


def _forget_pool() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)

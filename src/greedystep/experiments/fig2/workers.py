"""Trials side by side: the compiled loops let go of the interpreter, so threads are enough."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from greedystep.experiments import Progress

Found = TypeVar("Found")


class Workers:
    """As many threads as cores, and the progress of a known number of batches; a context."""

    def __init__(self, progress: Progress, batches: int):
        self._progress, self._batches, self._done = progress, batches, 0
        self._pool = ThreadPoolExecutor(os.cpu_count())

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[Any], Found], items: Iterable[Any], what: str) -> list[Found]:
        """The results in the order of the items; one batch."""
        self._progress(min(self._done / self._batches, 1.0), what)
        self._done += 1
        return list(self._pool.map(work, items))

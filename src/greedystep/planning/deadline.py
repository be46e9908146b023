"""The time limit of a solve, and the points at which it can be interrupted.

Compiled code cannot be stopped from outside, and an exception that a signal handler raises on the way into it may come
out as a SystemError or not at all. So loops call `check` between chunks of work of about 0.1 s, and signals that arrive
in between are held back until then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from types import TracebackType

from greedystep.signals import HeldSignals

CHUNK = 4_000_000
"""Table entries that compiled code handles in one call: 0.1 s where they lie scattered in memory."""
HOLD_AFTER = 5e-3
"""Seconds after which signals are held back: installing handlers takes 0.04 ms, half the solve of a small model."""


class TimeLimitError(Exception):
    """The time limit has passed."""


class Deadline:
    """A time limit that starts now; within `with Deadline(2.0) as deadline:` signals wait for `check`."""

    def __init__(self, seconds: float | None = None):
        self._began = time.perf_counter()
        self._seconds = seconds
        self._held: HeldSignals | None = None
        self._holds_signals = False

    @property
    def elapsed(self) -> float:
        """Seconds since the deadline was made."""
        return time.perf_counter() - self._began

    def check(self) -> None:
        """Raise TimeLimitError after the time limit, or what the handler of a waiting signal raises."""
        elapsed = time.perf_counter() - self._began
        if self._held is not None:
            self._held.deliver()
        elif self._holds_signals and elapsed > HOLD_AFTER:
            self._held = HeldSignals()
        if self._seconds is not None and elapsed >= self._seconds:
            raise TimeLimitError(f"stopped by the time limit of {self._seconds:g} s")

    def chunks(self, size: int, entries: int) -> Iterable[tuple[int, int]]:
        """Split range(size), which covers so many table entries, into ranges (begin, end) with a check between them."""
        return self._chunks(size, min(size, entries // CHUNK)) if entries >= 2 * CHUNK else ((0, size),)

    def _chunks(self, size: int, count: int) -> Iterator[tuple[int, int]]:
        for i in range(count):
            self.check()
            yield size * i // count, size * (i + 1) // count

    def __enter__(self) -> Deadline:
        self._holds_signals = threading.current_thread() is threading.main_thread()  # no other thread has signals
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holds_signals = False
        if self._held is not None:
            self._held.release()
            if error is None:
                self._held.deliver()

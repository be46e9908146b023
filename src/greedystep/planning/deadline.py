"""When a solve has to stop: its time limit, and Ctrl-C or SIGTERM.

Compiled code cannot be stopped from outside, and an exception that a signal handler raises on the way into it may come
out as a SystemError or not at all. So signals wait while a deadline is in force, loops call `check` between pieces of
work of a tenth of a second or so, and a handler runs there.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PIECE = 4_000_000
"""Entries of a table that compiled code handles in one call: 0.1 s where they lie scattered in memory."""


class TimeIsUpError(Exception):
    """The time limit has passed."""


class Deadline:
    """A time limit that counts from now on, and the place where signals wait: `with Deadline(2.0) as deadline:`."""

    def __init__(self, seconds: float | None = None):
        self._began = time.perf_counter()
        self._seconds = seconds
        self._handlers: dict[int, Callable[..., Any]] = {}
        self._waiting: list[int] = []

    @property
    def elapsed(self) -> float:
        """Seconds since the deadline was made."""
        return time.perf_counter() - self._began

    def check(self) -> None:
        """Stop here if it is time to: raises TimeIsUpError, or what the handler of a waiting signal raises."""
        if self._waiting:
            self._deliver()
        if self._seconds is not None and self.elapsed >= self._seconds:
            raise TimeIsUpError(f"stopped by the time limit of {self._seconds:g} s")

    def pieces(self, size: int, entries: int) -> Iterator[tuple[int, int]]:
        """range(size), which takes so many entries to handle, in pieces (begin, end), with a check between them."""
        count = max(1, min(size, entries // PIECE))
        for i in range(count):
            if i > 0:
                self.check()
            yield size * i // count, size * (i + 1) // count

    def __enter__(self) -> Deadline:
        if threading.current_thread() is threading.main_thread():  # no other thread has signals
            handlers = {number: signal.getsignal(number) for number in SIGNALS}
            # What is left to the operating system, or ignored, is not a function.
            self._handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
            for number in self._handlers:
                signal.signal(number, self._wait)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if error is None:
            self._deliver()

    def _wait(self, number: int, frame: FrameType | None) -> None:
        if self._waiting:  # somebody presses again, because nothing happens
            self._waiting.clear()
            self._handlers[number](number, frame)
        else:
            self._waiting.append(number)

    def _deliver(self) -> None:
        while self._waiting:
            number = self._waiting.pop()
            self._handlers[number](number, None)

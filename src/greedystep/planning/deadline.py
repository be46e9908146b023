"""When a solve has to stop: its time limit, and Ctrl-C or SIGTERM.

Compiled code cannot be stopped from outside, and an exception that a signal handler raises on the way into it may come
out as a SystemError or not at all. So loops call `check` between pieces of work of a tenth of a second or so, signals
that arrive in between wait for it, and their handlers run there.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PIECE = 4_000_000
"""Entries of a table that compiled code handles in one call: 0.1 s where they lie scattered in memory."""
HOLD_FROM = 5e-3
"""Seconds after which signals wait: to arrange for it takes 0.04 ms, half of what solving a small model takes."""


class TimeIsUpError(Exception):
    """The time limit has passed."""


class Deadline:
    """A time limit that counts from now on, and the place where signals wait: `with Deadline(2.0) as deadline:`."""

    def __init__(self, seconds: float | None = None):
        self._began = time.perf_counter()
        self._seconds = seconds
        self._handlers: dict[int, Callable[..., Any]] | None = None
        self._waiting: list[int] = []
        self._in_force = False

    @property
    def elapsed(self) -> float:
        """Seconds since the deadline was made."""
        return time.perf_counter() - self._began

    def check(self) -> None:
        """Stop here if it is time to: raises TimeIsUpError, or what the handler of a waiting signal raises."""
        elapsed = time.perf_counter() - self._began
        if self._handlers is None:
            if self._in_force and elapsed > HOLD_FROM:
                self._hold()
        elif self._waiting:
            self._deliver()
        if self._seconds is not None and elapsed >= self._seconds:
            raise TimeIsUpError(f"stopped by the time limit of {self._seconds:g} s")

    def pieces(self, size: int, entries: int) -> Iterable[tuple[int, int]]:
        """range(size), which takes so many entries to handle, in pieces (begin, end), with a check between them."""
        return self._pieces(size, min(size, entries // PIECE)) if entries >= 2 * PIECE else ((0, size),)

    def _pieces(self, size: int, count: int) -> Iterator[tuple[int, int]]:
        for i in range(count):
            self.check()
            yield size * i // count, size * (i + 1) // count

    def __enter__(self) -> Deadline:
        self._in_force = threading.current_thread() is threading.main_thread()  # no other thread has signals
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handlers is not None:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            if error is None:
                self._deliver()
        self._in_force = False

    def _hold(self) -> None:
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        # What is left to the operating system, or ignored, is not a function.
        self._handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
        for number in self._handlers:
            signal.signal(number, self._wait)

    def _wait(self, number: int, frame: FrameType | None) -> None:
        assert self._handlers is not None
        if self._waiting:  # somebody presses again, because nothing happens
            self._waiting.clear()
            self._handlers[number](number, frame)
        else:
            self._waiting.append(number)

    def _deliver(self) -> None:
        assert self._handlers is not None
        while self._waiting:
            number = self._waiting.pop()
            self._handlers[number](number, None)

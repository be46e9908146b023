"""Ctrl-C and SIGTERM: raised as exceptions, held back where work must not be interrupted, and never lost.

`handling` is for a whole command, `deferred` for a block that must not be cut in two, `interruptible` for loops, and
`Deadline` for work with a time limit that is interrupted at chosen points only; `answered` says meanwhile that a signal
was received. Python runs signal handlers in the main
thread only: in other threads signals are not touched.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class TerminatedError(KeyboardInterrupt):
    """SIGTERM was received: the process saves what it has and ends, as after Ctrl-C."""


ERRORS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: TerminatedError}
RESEND_AFTER = 0.01  # seconds until a signal is sent again whose exception could not be raised, or was dropped
CHUNK = 4_000_000
"""Table entries that compiled code handles in one call: 0.1 s where they lie scattered in memory."""
HOLD_AFTER = 5e-3
"""Seconds after which a `Deadline` installs signal handlers: that takes 0.04 ms, half the time of a small solve."""

ANSWER_AFTER = 0.3
"""Seconds after which a signal is answered whose work goes on."""

_received: int | None = None  # the first signal since the innermost `handling` began


@contextmanager
def handling() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C and TerminatedError for SIGTERM within the block, and lose neither.

    An exception that is raised inside a finalizer or a callback of the garbage collector (JAX has one) is dropped and
    printed as "Exception ignored". If it is an interrupt, it is not printed but raised again a moment later. Where code
    drops it without a report, `check` still raises it. A C extension that is interrupted may raise ImportError or
    SystemError instead: an exception that leaves the block after a signal becomes the interrupt. While an extension is
    imported, nothing is raised.

    Signals that are ignored or have another handler keep it.
    """
    global _received
    if not _in_main_thread():
        yield
        return
    usual = (signal.default_int_handler, signal.SIG_DFL)
    outer, _received = _received, None
    try:
        with _handlers(_raise, [number for number in ERRORS if signal.getsignal(number) in usual]), _no_reports():
            yield
    except Exception:
        check()
        raise
    finally:
        _received = outer


def check() -> None:
    """Raise the exception of a signal that was received since `handling` began, if there was one."""
    if _received is not None and _in_main_thread():
        raise ERRORS[signal.Signals(_received)]


def interruptible(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, calling `check` before each, so that a loop over them can be interrupted."""
    for item in items:
        check()
        yield item


@contextmanager
def deferred() -> Iterator[list[int]]:
    """Delay Ctrl-C and SIGTERM until the end of the block, so that what it changes stays consistent.

    Yields the list of signals received so far: a long block can look at it and end early.
    """
    held: list[int] = []
    if not _in_main_thread():
        yield held
        return
    with _handlers(lambda number, frame: held.append(number), ERRORS):
        yield held
    if held:
        signal.raise_signal(held[0])


@contextmanager
def answered(tell: Callable[[], Any]) -> Iterator[None]:
    """Call `tell`, in another thread, if a signal has come and the block goes on for another ANSWER_AFTER seconds.

    Python runs signal handlers between its own instructions only, which a compiler may keep waiting for a minute.
    """
    if not _in_main_thread():
        yield
        return
    has_ended, (read, write) = threading.Event(), os.pipe()
    os.set_blocking(write, False)

    def wait() -> None:
        while (byte := os.read(read, 1)) != b"\0":
            if byte[0] in ERRORS and not has_ended.wait(ANSWER_AFTER):
                tell()

    thread = threading.Thread(target=wait, daemon=True)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        signal.set_wakeup_fd(before)
        os.write(write, b"\0")
        thread.join()
        os.close(read)
        os.close(write)


class TimeLimitError(Exception):
    """The time limit of a `Deadline` has passed."""


class Deadline:
    """A time limit that starts now; within `with Deadline(2.0) as deadline:` signals wait for `check` as well.

    For compiled code, which cannot be stopped from outside: an exception that a signal handler raises on the way into
    it may come out as a SystemError or not at all. So loops call `check` between chunks of work of about 0.1 s. A
    second signal while one waits is handled at once. Signals without a Python handler are left to the system.
    """

    def __init__(self, seconds: float | None = None):
        self._began, self._seconds = time.perf_counter(), seconds
        self._holds_signals = False
        self._handlers: dict[int, Callable[..., Any]] | None = None  # of the signals that are held back, once they are
        self._waiting: list[int] = []

    @property
    def elapsed(self) -> float:
        """Seconds since the deadline was made."""
        return time.perf_counter() - self._began

    def check(self) -> None:
        """Raise TimeLimitError after the time limit; if a signal has come, call its handler, which usually raises."""
        elapsed = time.perf_counter() - self._began
        if self._handlers is not None:
            self._deliver()
        elif self._holds_signals and elapsed > HOLD_AFTER:
            handlers = {number: signal.getsignal(number) for number in ERRORS}
            self._handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
            for number in self._handlers:
                signal.signal(number, self._hold)
        if self._seconds is not None and elapsed >= self._seconds:
            raise TimeLimitError(f"stopped by the time limit of {self._seconds:g} s")

    def chunks(self, size: int, entries: int) -> Iterable[tuple[int, int]]:
        """Split range(size), in all `entries` table entries, into ranges (begin, end) with a `check` between them."""
        return self._chunks(size, min(size, entries // CHUNK)) if entries >= 2 * CHUNK else ((0, size),)

    def _chunks(self, size: int, count: int) -> Iterator[tuple[int, int]]:
        for i in range(count):
            self.check()
            yield size * i // count, size * (i + 1) // count

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append(number)
        if len(self._waiting) > 1:  # the user presses again, because nothing happens
            self._waiting.clear()
            assert self._handlers is not None
            self._handlers[number](number, frame)

    def _deliver(self) -> None:
        while self._waiting and self._handlers is not None:
            number = self._waiting.pop()
            self._handlers[number](number, None)

    def __enter__(self) -> Deadline:
        self._holds_signals = _in_main_thread()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._holds_signals = False
        for number, handler in (self._handlers or {}).items():
            signal.signal(number, handler)
        if error is None:
            self._deliver()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _raise(number: int, frame: FrameType | None) -> None:
    global _received
    if _received is None:
        _received = number
    if _loads_extension(frame):
        _send_again(number)
    else:
        raise ERRORS[signal.Signals(number)]


def _loads_extension(frame: FrameType | None) -> bool:
    """Return whether a C extension is being imported: an exception may crash it (JAX's aborts the process)."""
    while frame is not None:
        if frame.f_code.co_name in ("create_module", "exec_module"):
            loader = frame.f_locals.get("self")
            if isinstance(loader, ExtensionFileLoader):
                return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    """Send the signal to the main thread again after RESEND_AFTER, unless `handling` has ended by then."""

    def send() -> None:
        if _received is None:
            return
        if hasattr(signal, "pthread_kill"):  # a real signal wakes calls that wait, too
            signal.pthread_kill(threading.main_thread().ident or 0, number)
        else:
            _thread.interrupt_main(signal.Signals(number))

    timer = threading.Timer(RESEND_AFTER, send)
    timer.daemon = True
    timer.start()


@contextmanager
def _handlers(handle: Callable[[int, FrameType | None], Any], numbers: Iterable[int]) -> Iterator[None]:
    before = {number: usual for number in numbers if (usual := signal.getsignal(number)) is not None}
    active = True

    def handler(number: int, frame: FrameType | None) -> None:
        if active:
            handle(number, frame)
        else:  # one signal interrupted the loop below before the handler of the other was put back
            signal.signal(number, before[number])
            signal.raise_signal(number)

    try:
        for number in before:
            signal.signal(number, handler)
        yield
    finally:
        active = False
        for number, usual in before.items():
            signal.signal(number, usual)


@contextmanager
def _no_reports() -> Iterator[None]:
    """Within the block, raise dropped interrupts again instead of printing "Exception ignored"."""
    before = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if _received is not None and issubclass(dropped.exc_type, KeyboardInterrupt):
            _send_again(_received)  # what is raised here is dropped as well
        else:
            before(dropped)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before

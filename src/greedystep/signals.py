"""Ctrl-C and SIGTERM: raised as exceptions, held back where work must not be interrupted, and never lost.

`handling` is for a whole command, `deferred` for a block that must not be cut in two, `interruptible` for loops, and
`HeldSignals` for work that is interrupted at chosen points only. Python runs signal handlers in the main thread only;
in other threads these functions do nothing.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class TerminatedError(KeyboardInterrupt):
    """SIGTERM was received: the process saves what it has and ends, as after Ctrl-C."""


ERRORS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: TerminatedError}
RESEND_AFTER = 0.01
"""Seconds until a signal is sent again whose exception could not be raised, or was dropped."""

_received: int | None = None
"""The first signal since the innermost `handling` began."""


@contextmanager
def handling() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C and TerminatedError for SIGTERM within the block, and lose neither.

    An exception that is raised inside a finalizer or a callback of the garbage collector (JAX has one) is dropped and
    printed as "Exception ignored". Such a report of an interrupt is not printed: the interrupt is raised again a moment
    later. Where code drops it without a report, `check` still raises it. A C extension that is interrupted may raise
    ImportError or SystemError instead: an exception that leaves the block after a signal becomes the interrupt. While
    an extension is imported, nothing is raised.

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
    """Yield the same items, with a `check` before each."""
    for item in items:
        check()
        yield item


@contextmanager
def deferred() -> Iterator[list[int]]:
    """Delay Ctrl-C and SIGTERM until the end of the block, so that what it changes stays consistent.

    Yields the list of the signals that wait: a long block can look at it and end early.
    """
    held: list[int] = []
    if not _in_main_thread():
        yield held
        return
    with _handlers(lambda number, frame: held.append(number), ERRORS):
        yield held
    if held:
        signal.raise_signal(held[0])


class HeldSignals:
    """Holds back Ctrl-C and SIGTERM from now on until `deliver`; a second one while one waits is handled at once.

    Only signals with a Python handler are held: ignored ones, and those left to the operating system, stay so.
    """

    def __init__(self) -> None:
        handlers = {number: signal.getsignal(number) for number in ERRORS}
        self._handlers: dict[int, Callable[..., Any]] = {
            n: handler for n, handler in handlers.items() if callable(handler)
        }
        self._waiting: list[int] = []
        for number in self._handlers:
            signal.signal(number, self._hold)

    def deliver(self) -> None:
        """Run the handler of each signal that waits."""
        while self._waiting:
            number = self._waiting.pop()
            self._handlers[number](number, None)

    def release(self) -> None:
        """Restore the handlers; signals that wait still do, until `deliver`."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self._waiting:  # the user presses again, because nothing happens
            self._waiting.clear()
            self._handlers[number](number, frame)
        else:
            self._waiting.append(number)


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
    """Return whether a C extension is being initialised: an exception may crash it (JAX's aborts the process)."""
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
    """Install a handler for these signals within the block."""
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
    """Raise an interrupt that Python drops within the block again, instead of printing it."""
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

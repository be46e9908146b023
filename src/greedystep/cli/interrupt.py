"""Ctrl-C and SIGTERM, never lost."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class TerminatedError(KeyboardInterrupt):
    """Somebody asked this process to end (SIGTERM): it saves what it has, as after Ctrl-C."""


ERRORS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: TerminatedError}


def stoppable(items: Iterable[T]) -> Iterator[T]:
    """The same items, until Ctrl-C or SIGTERM.

    Python drops an exception that reaches it inside a callback of the garbage collector, and JAX has such a callback: a
    KeyboardInterrupt can vanish there. So it is raised at once, as ever, and again before the next item if it was lost.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    ours = [number for number in usual if signal.getsignal(number) is usual[number]]  # not ignored, nor somebody else's
    asked: list[type[BaseException]] = []

    def remember(number: int, frame: FrameType | None) -> None:
        asked.append(ERRORS[signal.Signals(number)])
        raise asked[0]

    for number in ours:
        signal.signal(number, remember)
    try:
        for item in items:
            if asked:
                raise asked[0]
            yield item
    finally:
        for number in ours:
            signal.signal(number, usual[number])

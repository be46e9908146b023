"""Ctrl-C that is never lost."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def stoppable(items: Iterable[T]) -> Iterator[T]:
    """The same items, until Ctrl-C.

    Python drops an exception that reaches it inside a callback of the garbage collector, and JAX has such a callback: a
    KeyboardInterrupt can vanish there. So it is raised at once, as ever, and again before the next item if it was lost.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or somebody else's
        yield from items
        return
    asked = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, remember)
    try:
        for item in items:
            if asked:
                raise KeyboardInterrupt
            yield item
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)

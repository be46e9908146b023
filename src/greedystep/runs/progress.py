"""Progress of long work: a live line on a terminal, plain lines every half minute in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ReportProgress = Callable[[float, str], None]
"""`report(share, what)`: the share done, 0 to 1, and what is being done."""

LINE_EVERY = 30.0
"""Seconds between two lines of progress in a log."""
KNOWN_SHARE, KNOWN_SECONDS = 0.02, 20.0
"""The time left is estimated once this share is done, or this many seconds after the first progress."""


@contextmanager
def progress_line(console: Console, name: str, first: str = "") -> Iterator[ReportProgress]:
    """Show the share done and the time left: a live line on a terminal, elsewhere a plain line every half minute.

    Yields `report(share, what)`, to be called with the share done, 0 to 1, and what is being done.

    Args:
        first: text until the first report, such as "compiling".
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    started = time.perf_counter()
    if console.is_terminal:
        # On a narrow terminal only the words are cut short.
        words = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
        columns = (words, BarColumn(bar_width=8), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, expand=True) as bar:
            task = bar.add_task(f"{name}: {first}" if first else name, total=1.0)
            yield lambda share, what: bar.update(task, completed=share, description=f"{name}: {what}")
    else:
        say(console, f"{name}: {first} ..." if first else f"{name} ...")
        yield _plain_lines(console, name, started)
    say(console, f"{name}: done in {time.perf_counter() - started:.1f} s")


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Within the block, show on a terminal what is being done, on standard error; elsewhere show nothing.

    Yields a function that changes the text. Within the block nothing may be written to standard output.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status(f"{what} ...") as status:
        yield lambda text: status.update(f"{text} ...")


def _plain_lines(console: Console, name: str, started: float) -> ReportProgress:
    """Return a `report` that prints the share done and the time left every LINE_EVERY seconds."""
    told = started
    first: tuple[float, float] | None = None

    def report(share: float, what: str) -> None:
        nonlocal told, first
        now = time.perf_counter()
        if first is None and share > 0:
            first = now, share
        if now - told < LINE_EVERY:
            return
        told = now
        left = "" if first is None else _time_left(share, share - first[1], now - first[0])
        say(console, f"{name}: {share:.0%}{left}; {what}")

    return report


def _time_left(share: float, gained: float, seconds: float) -> str:
    """Return the time left as text if a share `gained` took `seconds`; empty while it would be a guess."""
    if gained <= 0 or (share < KNOWN_SHARE and seconds < KNOWN_SECONDS):
        return ""
    return f", about {seconds * (1 - share) / gained / 60:.0f} min left"


class WorkProgress:
    """Reports the share done of work whose total cost is known, in any unit; threads may share it.

    Args:
        total: cost of all work.
    """

    def __init__(self, report: ReportProgress, total: float):
        self._report, self._total, self._done = report, total, 0.0
        self._lock = Lock()

    def advance(self, cost: float, what: str) -> None:
        """Add the cost of work that is done, and report the new share; `what` says what is being done."""
        with self._lock:
            self._done += cost
            self._report(min(max(self._done / self._total, 0.0), 1.0) if self._total > 0 else 1.0, what)

    def leave_out(self, cost: float) -> None:
        """Subtract work that need not be done from the total."""
        with self._lock:
            self._total -= cost


def say(console: Console, text: str | Text = "") -> None:
    """Print text as it is: no wrapping of long lines in a pipe, no markup, no highlighting of numbers."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)

"""Progress of long work: a live line on a terminal, a plain line twice a minute in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ReportProgress = Callable[[float, str], None]
"""`report(share, what)`: the share done, 0 to 1, and what is being done."""

LINE_EVERY = 30.0
"""Seconds between two lines of progress in a log."""


@contextmanager
def progress_line(console: Console, name: str) -> Iterator[ReportProgress]:
    """A line with the share done and the time left on a terminal; elsewhere a plain line of it every half minute.

    Yields `report(share, what)`, to be called with the share done, 0 to 1, and what is being done.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    started = time.perf_counter()
    if console.is_terminal:
        # On a narrow terminal only the words are cut short.
        words = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
        columns = (words, BarColumn(bar_width=8), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, expand=True) as bar:
            task = bar.add_task(name, total=1.0)
            yield lambda share, what: bar.update(task, completed=share, description=f"{name}: {what}")
    else:
        say(console, f"{name} ...")
        yield _plain_lines(console, name, started)
    say(console, f"{name}: done in {time.perf_counter() - started:.1f} s")


def _plain_lines(console: Console, name: str, started: float) -> ReportProgress:
    """For a log: how far it is, and how long it will take if it goes on like that."""
    told = started

    def report(share: float, what: str) -> None:
        nonlocal told
        now = time.perf_counter()
        if now - told < LINE_EVERY:
            return
        told = now
        left = f", about {(now - started) * (1 - share) / share / 60:.0f} min left" if share > 0 else ""
        say(console, f"{name}: {share:.0%}{left}; {what}")

    return report


def say(console: Console, text: str | Text = "") -> None:
    """Print as it is: no wrapping of long lines in a pipe, no markup, no guessed highlighting."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)

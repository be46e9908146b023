"""A line of progress while an agent learns or fits, and the sentence on training that it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from greedystep.deep.trainer import Row, Trainer
from greedystep.runs.progress import ReportProgress, progress_line


@contextmanager
def showing_progress(is_shown: bool | None, name: str) -> Iterator[ReportProgress]:
    """Yield `report(share, text)`, which shows a line of progress, or does nothing; None: it does on a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not (console.is_terminal if is_shown is None else is_shown):
        yield lambda share, what: None
        return
    with progress_line(console, name, "compiling") as report:
        yield report


@contextmanager
def reporting_steps(trainer: Trainer, total: int, report: ReportProgress) -> Iterator[Callable[[Row], None]]:
    """Within the block, report the progress of `total` more steps; yields what is called with every new row."""
    begin, before, last = int(trainer.state.step), trainer.on_progress, None

    def tell(row: Row) -> None:
        nonlocal last
        last = row
        report((row["step"] - begin) / total, describe(row))

    def within(step: int, steps_per_second: float) -> None:
        row = {"step": step, "steps_per_second": steps_per_second}
        text = f"step {step}, {steps_per_second:.0f} steps/s" if last is None else describe(last | row)
        report((step - begin) / total, text)

    trainer.on_progress = within
    try:
        yield tell
    finally:
        trainer.on_progress = before


def describe(row: Row) -> str:
    """Return one line of text about training (step, returns, loss, speed) from a metrics row."""
    ended = row["episode_return"]
    score = "no episode ended" if ended is None else f"return {ended:.4g}, length {row['episode_length']:.4g}"
    played = "" if row.get("eval_return") is None else f", greedy {row['eval_return']:.4g}"
    loss = "" if row["loss"] is None else f", loss {row['loss']:.3g}"
    return f"step {row['step']}, {score}{played}{loss}, {row['steps_per_second']:.0f} steps/s"

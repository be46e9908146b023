"""Runs that cannot go on because what they have learned is damaged or missing.

A run saves its state before its first row of metrics. So rows without a state are a loss, which is told instead of
beginning again in silence; with `restart` the run begins again, and what it had written keeps another name.
"""

from __future__ import annotations

import warnings
from itertools import count
from pathlib import Path

METRICS = "metrics.jsonl"


def ask_for_restart(folder: Path, problem: str) -> ValueError:
    """The error to raise where a run cannot go on; `problem` names the files."""
    return ValueError(
        f"resume: {folder} cannot go on: {problem}; --restart (in Python: restart=True) begins again at step 0 and "
        f"keeps what the run has written under other names"
    )


def begin_without_state(folder: Path, missing: str) -> None:
    """Warn that a run begins at step 0 since it was stopped before it saved anything; ValueError if it has rows."""
    metrics = folder / METRICS
    if metrics.exists() and metrics.stat().st_size:
        raise ask_for_restart(folder, f"it has {METRICS} but no {missing}")
    warnings.warn(f"{folder} was stopped before it saved anything; it begins at step 0", RuntimeWarning, stacklevel=3)


def set_aside(folder: Path, *names: str) -> None:
    """Rename these files or folders of a run, as far as they are there: `x.y` becomes `x-before-restart-1.y`."""
    there = [folder / name for name in names if (folder / name).exists()]
    for number in count(1):
        moves = {path: path.with_stem(f"{path.stem}-before-restart-{number}") for path in there}
        if not any(target.exists() for target in moves.values()):
            break
    for path, target in moves.items():
        path.rename(target)

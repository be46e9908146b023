"""What every method hands out after each iteration, so that one loop can watch, bound and stop them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Backup(NamedTuple):
    """One Bellman backup, the evidence for a certificate."""

    v: np.ndarray
    """[S], the values it started from."""
    out: np.ndarray
    """[S], Bv."""
    choice: np.ndarray
    """[S], the greedy rows (or actions) of v."""
    low: float
    high: float
    """The range of Bv - v."""
    error: float = 0.0
    """How far rounding can have moved them, where the backup keeps account of it (discount 1)."""


class Iterate(NamedTuple):
    """One iteration's result."""

    values: Callable[[], np.ndarray]
    """Gives the current values in the model's numbering."""
    backup: Backup | None
    """A Bellman backup, where the method has just made one."""
    sweeps: float
    """Work so far, in backups of the whole model."""
    change: float | None = None
    """How much the iteration changed the values, where there is no backup to tell."""
    own_residual: float | None = None
    """How far the values are from solving the method's own equation, where that is not Bellman's."""

    @property
    def has_residual(self) -> bool:
        """Whether anything is known of how much changes."""
        return self.own_residual is not None or self.backup is not None or self.change is not None

    @property
    def residual(self) -> float:
        """The largest change of a value by a backup or a sweep: what a trace shows."""
        if self.own_residual is not None:
            return self.own_residual
        if self.backup is not None:
            return max(abs(self.backup.low), abs(self.backup.high))
        return np.nan if self.change is None else self.change

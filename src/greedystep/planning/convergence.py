"""Convergence: proves an error bound after the iterations of any method, reports progress and decides when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from greedystep.planning.backups import BellmanBackup, Iteration
from greedystep.planning.certificate import Certificate
from greedystep.planning.deadline import Deadline, TimeLimitError
from greedystep.planning.solution import SolveProgress

NEAR_ROUNDING = 4.0
"""A bound within this factor of what rounding alone costs cannot be brought down by more iterations."""
PROVE_EVERY = 200
"""Iterations without a Bellman backup after which the monitor makes one for a proof."""
IDLE_PROOFS = 1000
"""Proofs in a row without a better bound after which a discounted solve stops."""
UNBOUNDED_ITERATIONS = 100_000
"""Iterations after which a solve without any bound stops: values may grow for ever (a rewarding loop, discount 1)."""
COARSE = "float64 cannot prove more for values of this size"
OVERFLOW = "the values, or the bounds on them, are too large for float64"


class Proof(NamedTuple):
    """A backup with the bounds Bv + lower <= v* <= Bv + upper."""

    backup: BellmanBackup
    lower: float
    upper: float

    def shift_and_bound(self, shift_is_free: bool) -> tuple[float, float]:
        """Return (shift, bound) such that Bv + shift lies within bound of v*."""
        shift = 0.5 * self.lower + 0.5 * self.upper if shift_is_free and np.isfinite(self.upper - self.lower) else 0.0
        return shift, max(self.upper - shift, shift - self.lower, 0.0)


class ConvergenceMonitor:
    """Follows the iterations of a method until a reason to stop."""

    def __init__(
        self,
        certificate: Certificate,
        backup: Callable[[np.ndarray], BellmanBackup],
        tolerance: float,
        deadline: Deadline,
        max_iterations: int | None,
        callback: Callable[[SolveProgress], object] | None,
        *,
        backs_up_again: bool,
    ):
        self._certificate, self._backup, self._tolerance, self._deadline = certificate, backup, tolerance, deadline
        self._max_iterations, self._callback = max_iterations, callback
        self._backs_up_again = backs_up_again
        """Whether the backups of the method itself are no proof."""
        self.best: Proof | None = None
        self.error_bound = np.inf
        """The bound of the best proof."""
        self.trace: list[float] = []
        self.sweeps = 0.0
        self._unproved = self._idle_proofs = 0

    def record(self, backup: BellmanBackup) -> Proof:
        """Prove a bound from this backup; returns the best proof so far."""
        lower, upper = self._certificate.bounds(backup.low, backup.high, backup.v, backup.error)
        if not (math.isfinite(lower) and math.isfinite(upper)):  # half of a bound is none, and so is inf - inf
            lower, upper = -np.inf, np.inf
        proof = Proof(backup, lower, upper)
        bound = proof.shift_and_bound(self._certificate.shift_is_free)[1]
        self._idle_proofs = 0 if bound < self.error_bound else self._idle_proofs + 1
        finite = math.isfinite(backup.low) and math.isfinite(backup.high)
        if self.best is None or (bound <= self.error_bound and finite):
            # A copy, because the method may go on in the array that it handed out.
            self.best, self.error_bound = proof._replace(backup=backup._replace(out=backup.out.copy())), bound
        return self.best

    def best_values(self) -> np.ndarray:
        """Return the values that the best proof is about."""
        assert self.best is not None
        return self.best.backup.out + self.best.shift_and_bound(self._certificate.shift_is_free)[0]

    def best_is_much_smaller(self) -> bool:
        """Return whether rounding of the values that were backed up, much larger than those, limits the bound."""
        assert self.best is not None
        return 2.0 * np.abs(self.best_values()).max() < np.abs(self.best.backup.v).max()

    def run(
        self, iterations: Iterator[Iteration], show: Callable[[SolveProgress], None]
    ) -> tuple[Iteration | None, str]:
        """Iterate until there is a reason to stop; returns (last iteration, reason), the reason empty when solved."""
        last, before = None, self.sweeps
        try:
            for last in iterations:
                residual = last.residual
                self.trace.append(residual)
                self.sweeps = before + last.sweeps
                self._unproved = self._unproved + 1 if last.backup is None else 0
                if self._unproved >= PROVE_EVERY:
                    # A method that waits for a small change may wait for ever where float64 is too coarse for it.
                    last, self._unproved = last._replace(backup=self._backup(last.values())), 0
                if last.backup is not None:
                    self.record(self._backup(last.values()) if self._backs_up_again else last.backup)
                reason = self._reason_to_stop(last, residual)
                progress = SolveProgress(
                    len(self.trace), self.sweeps, self._deadline.elapsed, residual, self.error_bound
                )
                show(progress)
                if self._callback is not None and self._callback(progress) and reason is None:
                    reason = "stopped by the callback"
                if reason is not None:
                    return last, reason
                self._deadline.check()
        except (KeyboardInterrupt, TimeLimitError) as stop:
            reason = "interrupted" if isinstance(stop, KeyboardInterrupt) else str(stop)
            # Perhaps within an iteration: its values may have moved on since they were proved.
            return (None if last is None else last._replace(backup=None)), reason
        return last, ""

    def _reason_to_stop(self, last: Iteration, residual: float) -> str | None:
        if self.error_bound <= self._tolerance and last.own_residual is None:
            return ""
        if not math.isfinite(residual):
            return OVERFLOW
        count = len(self.trace)
        if last.backup is not None and np.isfinite(self.error_bound):
            floor = self._certificate.floor(last.backup.v)
            at_floor = floor * NEAR_ROUNDING >= self._tolerance and self.error_bound <= floor * NEAR_ROUNDING
            only_rounding = self._certificate.discounted or residual <= self._certificate.rounding(last.backup.v)
            if at_floor or (self._idle_proofs >= IDLE_PROOFS and only_rounding):
                return COARSE
        if self._max_iterations is not None and count >= self._max_iterations:
            return f"stopped after {count} iterations"
        if last.backup is not None and not np.isfinite(self.error_bound):  # no bound may ever be proved
            if residual <= 1e-3 * self._tolerance:
                return ""
            if count >= UNBOUNDED_ITERATIONS:
                return f"stopped after {count} iterations, with values that may have no limit"
        return None

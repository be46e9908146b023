"""Convergence of a solve: prove an error bound after iterations, report progress and decide when to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, isfinite
from typing import NamedTuple

import numpy as np

from greedystep.planning.backups import BellmanBackup, Iteration
from greedystep.planning.certificate import Certificate
from greedystep.signals import Deadline, TimeLimitError

NEAR_ROUNDING = 4.0  # more iterations do not improve a bound within this factor of what rounding alone costs
PROVE_EVERY = 200  # iterations without a Bellman backup after which the monitor makes one for a proof
IDLE_PROOFS = 1000  # proofs in a row without a better bound after which a discounted solve stops
IDLE_ITERATIONS = 5000  # iterations in which the bound has to halve where rounding alone costs the tolerance
UNBOUNDED_ITERATIONS = 100_000
"""Iterations after which a solve without any bound stops: values may grow for ever (a rewarding loop, discount 1)."""
COARSE = "float64 cannot prove more for values of this size"
STALLED = "more iterations hardly improve the bound"
OVERFLOW = "the values, or the bounds on them, are too large for float64"


class SolveProgress(NamedTuple):
    """What the `callback` of `solve` is called with after each iteration."""

    iteration: int
    sweeps: float
    """Work so far, in backups of the whole model."""
    seconds: float
    residual: float
    """The largest change of a value in this iteration."""
    error_bound: float
    """The best bound proved so far; infinite before the first."""


class Proof(NamedTuple):
    """A Bellman backup Bv with proved bounds, Bv + lower <= v* <= Bv + upper."""

    backup: BellmanBackup
    lower: float
    upper: float
    shift: float = 0.0

    @property
    def values(self) -> np.ndarray:
        """Return Bv + shift, [S], which lies within `bound` of v*."""
        return self.backup.out if self.shift == 0.0 else self.backup.out + self.shift

    @property
    def bound(self) -> float:
        """The proved largest distance of `values` from v*."""
        return max(self.upper - self.shift, self.shift - self.lower, 0.0)

    @property
    def much_smaller_than_backed_up(self) -> bool:
        """Whether `values` are so much smaller than the values backed up that rounding of those limits the bound."""
        return 2.0 * largest(self.values) < largest(self.backup.v)


def largest(v: np.ndarray) -> float:
    """Return max |v|, without another array of its size."""
    return float(max(v.max(), -v.min()))


class ConvergenceMonitor:
    """Runs a solver's iterations until there is a reason to stop, and keeps the best proof; arguments as in `solve`.

    `backup` computes a Bellman backup for a proof where an iteration has none; with `backs_up_again`, for every proof.
    """

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
        self.certificate, self._backup, self.tolerance, self.deadline = certificate, backup, tolerance, deadline
        self._max_iterations, self._callback, self._backs_up_again = max_iterations, callback, backs_up_again
        self.best: Proof | None = None
        self.error_bound = inf
        """The smallest bound proved so far."""
        self.trace: list[float] = []
        self.sweeps = 0.0
        self._largest = 0.0  # the largest absolute value that the last proof backed up
        self._unproved = self._idle_proofs = self._halved_at = 0
        self._to_halve = inf  # the bound when it had last halved, in iteration `_halved_at`

    def record(self, backup: BellmanBackup) -> Proof:
        """Prove a bound from this backup; return the best proof so far."""
        certificate, self._largest = self.certificate, largest(backup.v)
        lower, upper = certificate.bounds(backup.low, backup.high, self._largest, backup.error)
        if not (isfinite(lower) and isfinite(upper)):  # half of a bound is none, and so is inf - inf
            lower, upper = -inf, inf
        shift = 0.5 * lower + 0.5 * upper if certificate.shift_is_free and isfinite(upper - lower) else 0.0
        bound = Proof(backup, lower, upper, shift).bound
        self._idle_proofs = 0 if bound < self.error_bound else self._idle_proofs + 1
        if bound < 0.5 * self._to_halve:
            self._to_halve, self._halved_at = bound, len(self.trace)
        if self.best is None or (bound <= self.error_bound and isfinite(backup.low) and isfinite(backup.high)):
            # A copy, because the method may go on in the array that it handed out.
            self.best = Proof(backup._replace(out=backup.out.copy()), lower, upper, shift)
            self.error_bound = bound
        return self.best

    def run(self, iterations: Iterator[Iteration]) -> tuple[Iteration | None, str]:
        """Iterate until there is a reason to stop; return (last iteration, reason), the reason empty when solved."""
        last, before = None, self.sweeps
        self._idle_proofs, self._halved_at = 0, len(self.trace)
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
                if self._callback is not None:
                    state = (len(self.trace), self.sweeps, self.deadline.elapsed, residual, self.error_bound)
                    if self._callback(SolveProgress(*state)) and reason is None:
                        reason = "stopped by the callback"
                if reason is not None:
                    return last, reason
                self.deadline.check()
        except (KeyboardInterrupt, TimeLimitError) as stop:
            reason = "interrupted" if isinstance(stop, KeyboardInterrupt) else str(stop)
            # Perhaps within an iteration: its values may have moved on since they were proved.
            return (None if last is None else last._replace(backup=None)), reason
        return last, ""

    def _reason_to_stop(self, last: Iteration, residual: float) -> str | None:
        if self.error_bound <= self.tolerance and last.own_residual is None:
            return ""
        if not isfinite(residual):
            return OVERFLOW
        count, certificate, bounded = len(self.trace), self.certificate, isfinite(self.error_bound)
        if last.backup is not None and bounded:
            floor = NEAR_ROUNDING * certificate.floor(self._largest)
            only_rounding = certificate.discounted or residual <= certificate.rounding(self._largest)
            is_slow = floor >= self.tolerance and count - self._halved_at >= IDLE_ITERATIONS
            if self.error_bound <= floor >= self.tolerance:
                return COARSE
            if only_rounding and (is_slow or self._idle_proofs >= IDLE_PROOFS):
                return STALLED if certificate.discounted else COARSE
        if self._max_iterations is not None and count >= self._max_iterations:
            return f"stopped after {count} iterations"
        if last.backup is not None and not bounded:  # no bound may ever be proved
            if residual <= 1e-3 * self.tolerance:
                return ""
            if count >= UNBOUNDED_ITERATIONS:
                return f"stopped after {count} iterations, with values that may have no limit"
        return None

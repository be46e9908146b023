"""The result of a solve, and what a solve reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning.undiscounted import normalised


class SolveProgress(NamedTuple):
    """The argument of a callback, after each iteration."""

    iteration: int
    sweeps: float
    """Work so far, in backups of the whole model."""
    seconds: float
    residual: float
    """The largest change of a value in this iteration."""
    error_bound: float
    """The best bound proved so far; infinite before the first."""


@dataclass(frozen=True)
class Solution:
    """Values and a policy of an MDP, with proved bounds on their distance from optimal."""

    v: np.ndarray
    """[S], within `error_bound` of v* in every state."""
    policy: np.ndarray
    """int [S], greedy: the first action with q(s, a) = v(s)."""
    error_bound: float
    """v - error_bound <= v* <= v + error_bound; infinite where nothing can be proved (see `message`)."""
    policy_loss_bound: float
    """The policy's own value is at most this much below v*."""
    converged: bool
    """Whether error_bound <= tolerance."""
    iterations: int
    sweeps: float
    """Work in backups of the whole model; a backup of one policy counts for its share."""
    trace: np.ndarray
    """[iterations], the largest change of a value in each iteration (for multi-step: its own residual)."""
    seconds: float
    method: str
    message: str
    """Why the solve stopped early, or why there is no bound, in one sentence; else empty."""
    _backed_up: tuple[MDP, np.ndarray, float] = field(repr=False)
    """(mdp, values, shift) with q = B values + shift."""

    @cached_property
    def q(self) -> np.ndarray:
        """[S, A], within error_bound of q* up to rounding; -inf where an action is not available.

        Computed on first use: often only the policy is wanted, and q is A times as large as v.
        """
        mdp, before, shift = self._backed_up
        with np.errstate(over="ignore", invalid="ignore"):
            q = (normalised(mdp) if mdp.discount == 1.0 else mdp).backup(before) + shift
            if not np.isfinite(self.error_bound):
                q = np.where(mdp.available, np.nan_to_num(q, nan=0.0), -np.inf)
            # v and policy came from the same backup, summed in another order: make the last bit agree, so that the
            # policy is the first action with q = v.
            earlier = np.arange(mdp.num_actions) < self.policy[:, None]
            q = np.minimum(q, np.where(earlier, np.nextafter(self.v, -np.inf)[:, None], self.v[:, None]))
        q[np.arange(self.v.size), self.policy] = self.v
        return q

    def __str__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"{self.method}: {state} after {self.iterations} iterations ({self.sweeps:.1f} sweeps, "
            f"{self.seconds:.3g} s); v is within {self.error_bound:.3g} of v*"
        )

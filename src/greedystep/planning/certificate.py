"""How far values can be from optimal, proved from one Bellman backup.

For any v let low <= Bv - v <= high, and let every row of transitions, times the discount, sum to something in
[β_min, β_max], β_max < 1. Adding a constant c to v moves Bv by something between β_min c and β_max c, so v + c lies
below B(v + c), and therefore below v*, for c = low / (1 - β), with the β that makes it safe; likewise from above
(MacQueen 1966; Puterman 1994, section 6.6). One more backup carries the bound to Bv itself:

    Bv + β low / (1 - β)  <=  v*  <=  Bv + β high / (1 - β).

The greedy policy of v is worth at least the left side, so its loss is at most the distance of the two.

With discount 1 and all policies reaching an end, the longest expected walk to it, in jumps (undiscounted.py), takes the
place of 1 / (1 - β). Let low <= max_a q̂ - v <= high, low <= 0 <= high, and 1 + Σ p̂ w <= w for every action (walk.py):

    v + low w  <=  v*  <=  v + high w,        and one backup later, with B̂v = max_a q̂,
    B̂v + low (w - 1)  <=  v*  <=  B̂v + high (w - 1).

Where some policy never ends there is no bound.

Rounding: a backup of b successors in float64 is off by at most (b + 4) u (max|r| + max|v|), u = 2^-53; low and high are
widened by that, so that the proof holds for the numbers as computed. With discount 1 the backup has done so itself.
"""

from __future__ import annotations

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning.walk import Walk

UNIT = 2.0**-53
SMALLEST_NORMAL = 2.0**-1022
"""Below it a product is off by up to 2^-1075 whatever its size; this is more than a row of 2^53 of them can miss."""


class Certificate:
    """The constants of one model that turn (low, high) of a backup into bounds on v*."""

    def __init__(self, mdp: MDP, widest_row: int):
        least, most = mdp.row_sums
        self._slack = (widest_row + 4) * UNIT
        self._beta_min = max(0.0, mdp.discount * least * (1 - self._slack))
        self._raw_beta_max = mdp.discount * most
        self._beta_max = self._raw_beta_max * (1 + self._slack)
        self.largest_reward = float(np.abs(np.where(mdp.available, mdp.rewards, 0.0)).max())
        self._walk: Walk | None = None
        self.discounted = mdp.discount < 1.0
        # Where nothing ends, adding a constant to every value is free: the middle of the bounds is a better answer.
        self.shift_is_free = self.discounted and least >= 1 - 1e-9

    def set_longest_walk(self, walk: Walk) -> None:
        """For discount 1: how long a policy can take to an end."""
        self._walk = walk

    def obstacle(self) -> str:
        """Why there can be no bound, in one sentence; empty where nothing stands in its way."""
        if not self.discounted:
            return self._longest_walk().obstacle
        if self._beta_max < 1.0:
            return ""
        if self._raw_beta_max < 1.0:
            return "a discount closer to 1 than the rounding of a row leaves no bound on the error"
        return "rows that sum to more than 1 / discount leave no bound on the error"

    def rounding(self, v: np.ndarray) -> float:
        """How far a computed backup of v can be from the true one."""
        return self._slack * self.largest_reward + self._slack * float(np.abs(v).max()) + SMALLEST_NORMAL

    def floor(self, v: np.ndarray) -> float:
        """What rounding alone makes of the bound: no better one can be expected for values of this size."""
        if self.discounted:
            return self.bounds(0.0, 0.0, v)[1]
        # Values are off by half a unit in the last place each, and so their differences by one.
        return _times(self._longest_walk().jumps, 2 * UNIT * float(np.abs(v).max()))

    def bounds(self, low: float, high: float, v: np.ndarray, error: float = 0.0) -> tuple[float, float]:
        """(lower, upper) with Bv + lower <= v* <= Bv + upper, Bv as computed from v.

        `error` is that of low, high and Bv, where the backup has kept account of it (discount 1).
        """
        if not self.discounted:
            more = self._longest_walk().jumps - 1.0
            low, high = min(low - error, 0.0), max(high + error, 0.0)
            return _times(more, low) - error, _times(more, high) + error
        error = self.rounding(v)
        low, high = low - error, high + error
        if self._beta_max >= 1.0:
            return -np.inf, np.inf
        return self._carried(low, lower=True) - error, self._carried(high, lower=False) + error

    def _longest_walk(self) -> Walk:
        if self._walk is None:
            raise RuntimeError("with discount 1 the longest walk must be set before bounds can be asked for")
        return self._walk

    def _carried(self, edge: float, lower: bool) -> float:
        """β edge / (1 - β) with the β in [β_min, β_max] on the safe side."""
        pessimistic = edge < 0 if lower else edge > 0
        beta = self._beta_max if pessimistic else self._beta_min
        return beta * edge / (1.0 - beta)


def _times(jumps: float, edge: float) -> float:
    return 0.0 if edge == 0.0 else jumps * edge * (1 + 4 * UNIT)

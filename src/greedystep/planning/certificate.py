"""How far values can be from optimal, proved from one Bellman backup.

For any v let low <= Bv - v <= high, and let every row of transitions, times the discount, sum to something in
[β_min, β_max], β_max < 1. Adding a constant c to v moves Bv by something between β_min c and β_max c, so v + c lies
below B(v + c), and therefore below v*, for c = low / (1 - β), with the β that makes it safe; likewise from above
(MacQueen 1966; Puterman 1994, section 6.6). One more backup carries the bound to Bv itself:

    Bv + β low / (1 - β)  <=  v*  <=  Bv + β high / (1 - β).

The greedy policy of v is worth at least the left side, so its loss is at most the distance of the two.

With discount 1 and all policies reaching an end, the longest expected time to it, w = 1 + max_a T_a w, takes the place
of 1 / (1 - β): v + low w <= v* <= v + high w for low <= 0 <= high. Where some policy never ends there is no bound.

Rounding: a backup of b successors in float64 is off by at most (b + 4) u (max|r| + max|v|), u = 2^-53; low and high are
widened by that, so that the proof holds for the numbers as computed.
"""

from __future__ import annotations

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning.deadline import Deadline
from greedystep.planning.kernels import Rows, bellman, sweep

UNIT = 2.0**-53
SMALLEST_NORMAL = 2.0**-1022
"""Below it a product is off by up to 2^-1075 whatever its size; this is more than a row of 2^53 of them can miss."""
LONGEST_WALK_SWEEPS = 20_000


class Certificate:
    """The constants of one model that turn (low, high) of a backup into bounds on v*."""

    def __init__(self, mdp: MDP, widest_row: int):
        least, most = mdp.row_sums
        self._slack = (widest_row + 4) * UNIT
        self._beta_min = max(0.0, mdp.discount * least * (1 - self._slack))
        self._beta_max = mdp.discount * most * (1 + self._slack)
        self._largest_reward = float(np.abs(np.where(mdp.available, mdp.rewards, 0.0)).max())
        self._longest_walk: float | None = None
        self.discounted = mdp.discount < 1.0
        # Where nothing ends, adding a constant to every value is free: the middle of the bounds is a better answer.
        self.shift_is_free = self.discounted and least >= 1 - 1e-9

    def set_longest_walk(self, steps: float) -> None:
        """For discount 1: the longest expected number of steps to an end (infinite where some policy never ends)."""
        self._longest_walk = steps

    def rounding(self, v: np.ndarray) -> float:
        """How far a computed backup of v can be from the true one."""
        return self._slack * (self._largest_reward + float(np.abs(v).max())) + SMALLEST_NORMAL

    def bounds(self, low: float, high: float, v: np.ndarray) -> tuple[float, float]:
        """(lower, upper) with Bv + lower <= v* <= Bv + upper, Bv as computed from v."""
        error = self.rounding(v)
        low, high = low - error, high + error
        if not self.discounted:
            walk = self._longest_walk
            if walk is None:
                raise RuntimeError("with discount 1 the longest walk must be set before bounds can be asked for")
            return _times(walk, min(low, 0.0)) - error, _times(walk, max(high, 0.0)) + error
        if self._beta_max >= 1.0:
            return -np.inf, np.inf
        return self._carried(low, lower=True) - error, self._carried(high, lower=False) + error

    def _carried(self, edge: float, lower: bool) -> float:
        """β edge / (1 - β) with the β in [β_min, β_max] on the safe side."""
        pessimistic = edge < 0 if lower else edge > 0
        beta = self._beta_max if pessimistic else self._beta_min
        return beta * edge / (1.0 - beta)


def _times(walk: float, edge: float) -> float:
    return 0.0 if edge == 0.0 else walk * edge


def longest_walk(rows: Rows, deadline: Deadline | None = None) -> float:
    """max_s w(s) for w = 1 + max_a T_a w, rounded up; infinite when some policy can avoid every end.

    The table has its discount, 1, inside and its ends as missing probability.
    """
    if _can_avoid_ends(rows):
        return np.inf
    ones = rows._replace(reward=np.where(rows.reward > -np.inf, 1.0, -np.inf))
    S = rows.first.size - 1
    w, out, choice = np.zeros(S), np.empty(S), np.empty(S, np.uint32)
    for i in range(LONGEST_WALK_SWEEPS):
        if deadline is not None:
            deadline.check()
        if sweep(ones, w, choice, bool(i % 2)) < 0.1:
            # If 1 + max_a T_a w <= w + e with e < 1, then w / (1 - e) satisfies the inequality of a longest walk.
            _, e = bellman(ones, 1.0, w, out, choice)
            e += 1e-9 * (1.0 + float(w.max()))
            if e < 0.5:
                return float(w.max()) / (1.0 - max(e, 0.0)) * (1 + 1e-9)
    return np.inf


def _can_avoid_ends(rows: Rows) -> bool:
    """Whether some states have actions that keep the process among them for ever."""
    S, total = rows.first.size - 1, rows.reward.size
    row_state = np.repeat(np.arange(S), np.diff(rows.first))
    entry_row = np.repeat(np.arange(total), np.diff(rows.start))
    real = (rows.probability > 0) & (rows.reward[entry_row] > -np.inf)
    entry_row, successor = entry_row[real], rows.successor[real]
    sums = np.bincount(entry_row, rows.probability[real], minlength=total)
    stays_inside = (sums > 1 - 1e-9) & (rows.reward > -np.inf)
    inside = np.ones(S, bool)
    while True:
        leaves = np.bincount(entry_row[~inside[successor]], minlength=total) > 0
        able = np.zeros(S, bool)
        able[row_state[stays_inside & ~leaves]] = True
        if (able | ~inside).all():
            return bool(inside.any())
        inside &= able

"""Proved bounds on the distance of values from optimal, computed from one Bellman backup.

For any v let low <= Bv - v <= high, and let every row of transitions, times the discount, sum to something in
[β_min, β_max], β_max < 1. Adding a constant c to v moves Bv by something between β_min c and β_max c, so v + c lies
below B(v + c), and therefore below v*, for c = low / (1 - β), with the β that makes it safe; likewise from above
(MacQueen 1966; Puterman 1994, section 6.6). One more backup carries the bound to Bv itself:

    Bv + β low / (1 - β)  <=  v*  <=  Bv + β high / (1 - β).

The greedy policy of v is worth at least the left side, so its loss is at most the distance of the two.

With discount 1, if every policy terminates, the longest expected episode w, in jumps (undiscounted.py), takes the place
of 1 / (1 - β). w(s) is the largest expected number of jumps from state s to the end over all policies; any w' with
1 + Σ p̂ w' <= w' for every action lies above it, so that one backup proves a bound on it too. Let B̂v = max_a q̂ and
low <= B̂v - v <= high, low <= 0 <= high; then

    B̂v + low (w - 1)  <=  v*  <=  B̂v + high (w - 1).

Where some policy never terminates there is no bound. Where a cycle of states is left with a probability of 1e-20 per
round, a bound in float64 has to allow for the rounding error of 1e20 rounds: small models are then solved in rational
arithmetic (rational_arithmetic.py).

Rounding: a backup of b successors in float64 is off by at most (b + 4) u (max|r| + max|v|), u = 2^-53; low and high are
widened by that, so that the proof holds for the numbers as computed. With discount 1 the backup has done so itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np
from numba import njit

from greedystep.mdp import MDP
from greedystep.planning.kernels import FLOATS, INTS, ONE, SMALLEST_NORMAL, TABLE_TYPE, UNIT, unsigned
from greedystep.planning.matrix_free import MatrixFreeMDP
from greedystep.planning.policy_iteration import auto
from greedystep.planning.rational_arithmetic import rational_policy_iteration
from greedystep.planning.transition_tables import reward_distance_order
from greedystep.planning.undiscounted import UndiscountedModel
from greedystep.signals import Deadline

MOST_ITERATIONS = 1000  # iterations spent on proving an episode length in float64
PROVE_EVERY = 20  # iterations between two attempts at a proof of an episode length
CRUDE_SWEEPS = 50  # sweeps of the crude bound after every state is known to reach the end


class EpisodeLength(NamedTuple):
    """A bound on the expected jumps (changes of state) of an episode with discount 1, or why there is none."""

    jumps: float  # bound on the expected number of jumps of any policy from any state; may be infinite
    obstacle: str = ""  # why it is infinite, so that there is no bound on the error of values: one sentence


UNKNOWN = EpisodeLength(np.inf, "no bound on the error: no bound on the longest episode was found in time")


class Certificate:
    """Computes bounds on v* from the range (low, high) of a Bellman backup Bv - v; holds constants of one model."""

    def __init__(self, mdp: MDP | MatrixFreeMDP, widest_row: int):
        least, most = mdp.row_sums
        self._slack = (widest_row + 4) * UNIT
        self._beta_min = max(0.0, mdp.discount * least * (1 - self._slack))
        self._raw_beta_max = mdp.discount * most
        self._beta_max = self._raw_beta_max * (1 + self._slack)
        self.largest_reward = mdp.largest_reward
        self.episode_length = UNKNOWN
        """The longest expected episode, which bounds with discount 1 need; unknown at first."""
        self.discounted = mdp.discount < 1.0
        # Without termination, adding a constant to every value is allowed: the middle of the bounds is a better answer.
        self.shift_is_free = self.discounted and least >= 1 - 1e-9

    def obstacle(self) -> str:
        """Return in one sentence why no bound can be proved; empty if one can."""
        if not self.discounted:
            return self.episode_length.obstacle
        if self._beta_max < 1.0:
            return ""
        if self._raw_beta_max < 1.0:
            return "a discount closer to 1 than the rounding of a row leaves no bound on the error"
        return "rows that sum to more than 1 / discount leave no bound on the error"

    def rounding(self, largest: float) -> float:
        """Return a bound on the rounding error of one backup of values with |v| <= largest."""
        # Products below the normal numbers miss up to 2^-1075 each; SMALLEST_NORMAL covers a row of 2^53 of them.
        return self._slack * self.largest_reward + self._slack * largest + SMALLEST_NORMAL

    def floor(self, largest: float) -> float:
        """Return the smallest bound that can be proved for values of this size, because of rounding alone."""
        if self.discounted:
            return self.bounds(0.0, 0.0, largest)[1]
        # Values are off by half a unit in the last place each, and so their differences by one.
        return _times(self.episode_length.jumps, 2 * UNIT * largest)

    def bounds(self, low: float, high: float, largest: float, error: float = 0.0) -> tuple[float, float]:
        """Return (lower, upper) with Bv + lower <= v* <= Bv + upper, Bv as computed from v with |v| <= largest.

        `error` bounds the rounding error of low, high and Bv; with a discount below 1 it is computed here.
        """
        if not self.discounted:
            more = self.episode_length.jumps - 1.0
            low, high = min(low - error, 0.0), max(high + error, 0.0)
            return _times(more, low) - error, _times(more, high) + error
        if self._beta_max >= 1.0:
            return -np.inf, np.inf
        error = self.rounding(largest)
        low, high = low - error, high + error
        # β edge / (1 - β), with the β in [β_min, β_max] on the safe side.
        for_low = self._beta_max if low < 0 else self._beta_min
        for_high = self._beta_max if high > 0 else self._beta_min
        return for_low * low / (1.0 - for_low) - error, for_high * high / (1.0 - for_high) + error


def _times(jumps: float, edge: float) -> float:
    return 0.0 if edge == 0.0 else jumps * edge * (1 + 4 * UNIT)


def longest_episode(mdp: MDP, model: UndiscountedModel, deadline: Deadline) -> EpisodeLength:
    """Return a bound on the expected length of the longest episode of a model with discount 1."""
    if model.improper_start is not None:
        state, action = model.improper_start
        way = f"a policy that never ends (action {action} in state {state} can begin one)"
        return EpisodeLength(np.inf, f"with discount 1 {way} leaves no bound on the error")
    jumps = _proved_length(mdp, model, deadline)
    too_long = "no bound on the error: every policy ends, but the longest episode has more steps than float64 can count"
    return EpisodeLength(jumps, "" if np.isfinite(jumps) else too_long)


def _proved_length(mdp: MDP, model: UndiscountedModel, deadline: Deadline) -> float:
    counting, choice = model.counting_jumps(), model.table.first[:-1]
    for i, iterate in enumerate(auto(mdp, counting, None, 100.0, deadline)):
        backup = iterate.backup
        if backup is None and i % PROVE_EVERY == 0:
            backup = counting.backup(iterate.values())
        if backup is not None:
            choice = backup.choice
            excess = max(backup.high + backup.error, 0.0)
            if excess < 0.5:  # then w / (1 - excess) satisfies the inequality
                return float(backup.v.max()) / (1.0 - excess) * (1 + 8 * UNIT)
            if not np.isfinite(excess):
                break
        if i >= MOST_ITERATIONS:
            break
        deadline.check()
    exact = rational_policy_iteration(mdp, counting.actions_of(choice), counting=True)
    if exact is None:
        return _crude_length(model, deadline)
    try:
        return float(np.nextafter(float(max(exact.v)), np.inf))
    except OverflowError:
        return np.inf


def _crude_length(model: UndiscountedModel, deadline: Deadline) -> float:
    """Return k / m, where from every state every policy ends within k jumps with probability m or more."""
    table, ends = model.table, model.ends
    state, _ = reward_distance_order(table, deadline)
    chance, jumps = np.zeros(state.size), np.zeros(state.size)
    best, left = np.inf, CRUDE_SWEEPS
    while left > 0:
        deadline.check()
        changed = _sweep_end_probabilities(table, ends, state, chance, jumps)
        if chance.min() > 0.0:
            best = min(best, float(jumps.max() / chance.min()) * (1 + 8 * UNIT))
            left -= 1
        elif not changed:  # the chance is smaller than any float64 number
            break
    return best


@njit(nb.boolean(TABLE_TYPE, FLOATS, INTS, FLOATS, FLOATS), cache=True)
def _sweep_end_probabilities(table, ends, state, chance, jumps):
    """Update chance[s] in place: the smallest probability over actions of ending within jumps[s] jumps, rounded down.

    Returns whether any probability has grown.
    """
    first, start, to, p, reward = table
    grown = False
    for i in range(unsigned(state.size)):
        s = unsigned(state[i])
        least, most = 1.0, 0.0
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            if reward[row] == -np.inf:
                continue
            total = ends[row]
            for k in range(unsigned(start[row]), unsigned(start[row + ONE])):
                if p[k] > 0.0:
                    total += p[k] * chance[to[k]]
                    most = max(most, jumps[to[k]])
            # Terms below the normal numbers do not count: they may have been rounded up.
            total = total * (1.0 - (3.0 * (start[row + ONE] - start[row]) + 12.0) * UNIT)
            least = min(least, total if total > 1e-300 else 0.0)
        if least > chance[s]:
            grown = True
            chance[s] = least
            jumps[s] = 1.0 + most
    return grown

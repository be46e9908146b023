"""The longest expected walk of a model with discount 1: what turns the error of one backup into a bound on values.

w(s) is the largest expected number of jumps (undiscounted.py) from state s to an end, over all policies. Any w' with
1 + Σ p̂ w' <= w' for every action lies above it, so that one backup proves a bound on w.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np
from numba import njit

from greedystep.mdp import MDP
from greedystep.planning.auto import solve_fast
from greedystep.planning.deadline import Deadline
from greedystep.planning.kernels import ONE, ROWS_TYPE, unsigned
from greedystep.planning.layout import flow_order
from greedystep.planning.rational import solve_exactly
from greedystep.planning.undiscounted import UNIT, Undiscounted

MOST_ITERATIONS = 1000
"""Iterations spent on a walk that can be proved in float64."""
PROVE_EVERY = 20
CRUDE_SWEEPS = 50
"""Sweeps that the crude bound takes after every state is seen to end."""


class Walk(NamedTuple):
    """How long a walk can be."""

    jumps: float
    """A bound on the expected number of jumps of any policy from any state; may be infinite."""
    obstacle: str = ""
    """Why it is infinite, and there is no bound on the error of values: one sentence."""


UNKNOWN = Walk(np.inf, "no bound on the error: no bound on the longest walk to an end was found in time")


def longest_walk(mdp: MDP, model: Undiscounted, deadline: Deadline) -> Walk:
    """The longest expected walk to an end."""
    if model.endless is not None:
        state, action = model.endless
        begins = f"action {action} in state {state} can begin one"
        return Walk(np.inf, f"with discount 1 a policy that never ends ({begins}) leaves no bound on the error")
    jumps = _proved_walk(mdp, model, deadline)
    if np.isfinite(jumps):
        return Walk(jumps)
    return Walk(
        np.inf, "no bound on the error: every policy ends, but the longest walk takes more steps than float64 can count"
    )


def _proved_walk(mdp: MDP, model: Undiscounted, deadline: Deadline) -> float:
    counting, choice = model.counting_jumps(), model.rows.first[:-1]
    for i, iterate in enumerate(solve_fast(mdp, counting, None, 100.0, deadline)):
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
    exact = solve_exactly(mdp, counting.actions_of(choice), counting=True)
    if exact is not None:
        return _rounded_up(max(exact.v))
    return _crude_walk(model, deadline)


def _rounded_up(number) -> float:
    try:
        return float(np.nextafter(float(number), np.inf))
    except OverflowError:
        return np.inf


def _crude_walk(model: Undiscounted, deadline: Deadline) -> float:
    """k / m, if from every state every policy ends within k jumps with probability m or more."""
    rows, ends = model.rows, model.ends
    state, _ = flow_order(rows, deadline)
    chance, jumps = np.zeros(state.size), np.zeros(state.size)
    best, left = np.inf, CRUDE_SWEEPS
    while left > 0:
        deadline.check()
        changed = _sweep_chances(rows, ends, state, chance, jumps)
        if chance.min() > 0.0:
            best = min(best, float(jumps.max() / chance.min()) * (1 + 8 * UNIT))
            left -= 1
        elif not changed:  # the chance is smaller than any float64 number
            break
    return best


@njit(nb.boolean(ROWS_TYPE, nb.float64[::1], nb.uint32[::1], nb.float64[::1], nb.float64[::1]), cache=True)
def _sweep_chances(rows, ends, state, chance, jumps):
    """In place: the smallest probability over actions to have ended after one jump and what is known of the next state.

    From state s, `chance` is that of ending within `jumps`, rounded down. Returns whether any chance has grown.
    """
    first, start, to, p, reward = rows
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

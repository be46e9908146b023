"""Policy iteration in the order of the flow, for models in which value spreads from where it is earned.

States are ordered by their distance to the source. One pass along the order gives a first guess, which is exact where
the best way leads straight to the source. From there on, sweeps in place carry news through the whole model and improve
the policy, and between them the policy is evaluated (evaluation.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import numba as nb
import numpy as np
from numba import njit

from greedystep.mdp import MDP
from greedystep.planning import kernels
from greedystep.planning.backups import Sparse
from greedystep.planning.deadline import Deadline
from greedystep.planning.evaluation import Evaluator
from greedystep.planning.iterate import Iterate
from greedystep.planning.kernels import ONE, ROWS_TYPE, unsigned
from greedystep.planning.layout import flow_order, in_order

SWEEPS_SUFFICE = 0.3
"""Sweeps go on without evaluation while each cuts the change to this share."""
FORCING = 0.02
"""A policy is evaluated until this share of the last change is left: it is not the last one."""
MOST_ROUNDS = 60
PATIENCE = 10
"""Evaluations in vain, after which sweeps alone have to do: first so many of them, then twice as many, and so on."""


def solve_flowing(
    mdp: MDP, model: Sparse, v: np.ndarray | None, sweeps: float, tolerance: float, deadline: Deadline
) -> Iterator[Iterate]:
    """Sweeps in place in the order of the flow, and evaluations in between; from v, or from the first guess."""
    state, position = flow_order(model.rows, deadline)
    if v is None:
        v = np.empty(state.size)
        for begin, end in deadline.pieces(state.size, model.rows.probability.size):
            first_guess(model.rows, mdp.discount, state, position, v, begin, end)
        backup = model.backup(v)
        sweeps += 2
        v = backup.out
        yield Iterate(lambda v=v: v, backup, sweeps)
    order = in_order(model.rows, mdp.discount, state, position, deadline)
    evaluator = Evaluator(order.rows, deadline)
    share = 1.0 / model.rows_per_state
    w, choice = v[state], np.empty(state.size, np.uint32)
    target = 0.5 * tolerance * (1.0 - mdp.discount) if mdp.discount < 1 else 1e-3 * tolerance
    change, backward = np.inf, False
    patience = _Patience()
    while True:
        previous = change
        change = kernels.sweep(order.rows, w, choice, backward, order.side_by_side)
        backward = not backward
        sweeps += 1
        if change <= target:
            backup = model.backup(w[position])
            sweeps += 1
            yield Iterate(lambda v=backup.out: v, backup, sweeps)
            target *= 0.2
            if change == 0.0 and backup.high - backup.low == 0.0:
                return
            continue
        yield Iterate(lambda: w[position], None, sweeps, change)
        if change > SWEEPS_SUFFICE * previous and patience.lasts(change):
            sweeps += share * evaluator.evaluate(choice, w, max(FORCING * change, 0.3 * target), MOST_ROUNDS)


class _Patience:
    """Whether evaluations are worth it: after too many in vain they pause, each time for longer.

    Sweeps alone always converge. Policies that are evaluated only roughly may in theory go round in circles.
    """

    def __init__(self) -> None:
        self._best, self._vain, self._pause, self._next_pause = np.inf, 0, 0, PATIENCE

    def lasts(self, change: float) -> bool:
        if self._pause > 0:
            self._pause -= 1
            return False
        better = change < 0.5 * self._best
        self._best, self._vain = (change, 0) if better else (self._best, self._vain + 1)
        if self._vain > PATIENCE:
            self._vain, self._pause, self._next_pause = 0, self._next_pause, 2 * self._next_pause
            return False
        return True


_ints, _floats = nb.uint32[::1], nb.float64[::1]


@njit(nb.void(ROWS_TYPE, nb.float64, _ints, _ints, _floats, nb.int64, nb.int64), cache=True)
def first_guess(rows, discount, state, position, v, begin, end):
    """One pass along the order that takes the states still to come for as good as the one it is at:

    v(s) = max_a (r + γ Σ_known p v(s')) / (1 - γ Σ_others p).

    Exact where the best action leads only to states before it, or back to itself. A call guesses the states at
    positions begin .. end - 1; those before must be known.
    """
    first, start, to, p, reward = rows
    for i in range(unsigned(begin), unsigned(end)):
        s = unsigned(state[i])
        best, best_reward = -np.inf, -np.inf
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            known, others = 0.0, 0.0
            for k in range(unsigned(start[row]), unsigned(start[row + ONE])):
                if position[to[k]] < i:
                    known += p[k] * v[to[k]]
                else:
                    others += p[k]
            rest = 1.0 - discount * others
            if rest > 1e-9:  # with discount 1 an action may lead to nothing known
                best = max(best, (reward[row] + discount * known) / rest)
            best_reward = max(best_reward, reward[row])
        v[s] = best if best > -np.inf else best_reward

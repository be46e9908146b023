"""Models with discount 1, as their jump chain: from one change of state to the next.

With discount 1 values depend on how a state is left, however rarely, and a row of probabilities in float64 does not
tell: beside a probability of 1e-300 of leaving, staying is 1.0, and 1 - 1.0 is 0. So the entries of a row and its
termination are taken as weights, each with its share of their sum, and nothing is ever subtracted from 1 (Grassmann,
Taksar and Heyman 1985):

    leave = Σ_{s' ≠ s} p(s') + termination,        total = leave + p(s)
    q̂(s, a) = r total / leave + Σ_{s' ≠ s} p(s') / leave v(s')            (take action a until it leads elsewhere)

v* and the optimal policies are the same for q̂ as for the model, and every step of it, a *jump*, changes the state or
ends. The residual is computed from differences of values,

    q̂(s, a) - v(s) = (r total - termination v(s) + Σ_{s' ≠ s} p(s') (v(s') - v(s))) / leave,

with an error in proportion to these terms, which are small where neighbours have nearly the same value.
"""

from __future__ import annotations

import copy

import numba as nb
import numpy as np
import scipy.sparse as sp
from numba import njit

from greedystep.mdp import MDP
from greedystep.planning import kernels
from greedystep.planning.backups import BellmanBackup, SparseModel
from greedystep.planning.kernels import FLOATS, INTS, ONE, SMALLEST, SMALLEST_NORMAL, TABLE_TYPE, UNIT, unsigned
from greedystep.planning.transition_tables import as_table, widest_row
from greedystep.signals import Deadline

SMALL = 256  # states up to which policies are evaluated by dense elimination, which takes S^3 / 3 operations


class UndiscountedModel(SparseModel):
    """Backups of a model with discount 1, on the table of its jump chain (see the module)."""

    def __init__(self, mdp: MDP, deadline: Deadline):
        if isinstance(mdp.transitions, np.ndarray):
            mdp = _with_sparse_rows(mdp, deadline)
        given = as_table(mdp)
        ends = np.zeros(mdp.rewards.size) if mdp.termination is None else mdp.termination.ravel().astype(float)
        table = given._replace(probability=np.empty_like(given.probability), reward=np.empty_like(given.reward))
        self.ends = np.empty(ends.size)
        """float64 [rows]: the probability that a jump of the row ends the episode."""
        _jumps(given, ends, table, self.ends)
        super().__init__(mdp, table)
        row = int(_improper_row(table, self.ends))
        self.improper_start = None if row < 0 else divmod(row, mdp.num_actions)
        """A (state, action) with which an improper policy, one that never ends, can begin; None if there is none."""
        self.small = mdp.num_states <= SMALL

    def counting_jumps(self) -> UndiscountedModel:
        """Return the same model with reward 1 per jump: its optimal values are the longest expected episode lengths."""
        twin = copy.copy(self)
        twin.table = self.table._replace(reward=np.where(self.table.reward > -np.inf, 1.0, -np.inf))
        return twin

    def backup(self, v: np.ndarray) -> BellmanBackup:
        """Return max_a q̂, the greedy rows, the range of max_a q̂ - v and a bound on its rounding error."""
        out, choice = np.empty_like(v), np.empty(v.size, np.uint32)
        parts = (self.table, self.ends, v, out, choice)
        ranges = kernels.run_parallel(_backup_block, *parts, end=v.size, entries=self.table.probability.size)
        lows, highs, errors = zip(*ranges, strict=True)
        return BellmanBackup(v, out, choice, min(lows), max(highs), max(errors))

    def never_ends(self, choice: np.ndarray) -> bool:
        """Return whether the policy of the rows `choice` is improper: from some state its episodes never end."""
        chain = self._evaluator.chain(choice, 1.0)
        used = chain.start[-1]
        chain = chain._replace(successor=chain.successor[:used], probability=chain.probability[:used])
        return _improper_row(chain, self.ends[choice]) >= 0

    def policy_value(self, choice: np.ndarray, start: np.ndarray, deadline: Deadline) -> np.ndarray | None:
        """Return the value [S] of the policy of rows `choice` up to rounding; None if improper or float64 overflows.

        By elimination in a small model, else iteratively from `start`.
        """
        if self.improper_start is not None and self.never_ends(choice):
            return None
        if not self.small:
            v = super().policy_value(choice, start, deadline)
        else:
            weights, v = np.zeros((choice.size, choice.size + 1)), np.empty(choice.size)
            v = v if _gth_eliminate(self.table, self.ends, choice, weights, v) else None
        return v if v is not None and np.isfinite(v).all() else None


@njit(nb.void(TABLE_TYPE, FLOATS, TABLE_TYPE, FLOATS), cache=True)
def _jumps(given, ends, table, jump_ends):
    """Fill the table of the jump chain: the outcomes of each row, given that the state is left.

    A row that only stays where it is has no jump and is copied as it is.
    """
    first, start, to, p, reward = given
    _, _, _, jump_p, jump_reward = table
    for s in range(unsigned(first.size - 1)):
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            begin, end = unsigned(start[row]), unsigned(start[row + ONE])
            leave, stay = ends[row], 0.0
            for k in range(begin, end):
                if to[k] == s:
                    stay += p[k]
                else:
                    leave += p[k]
            leaves = leave > 0.0
            for k in range(begin, end):
                jump_p[k] = (p[k] / leave if to[k] != s else 0.0) if leaves else p[k]
            jump_ends[row] = ends[row] / leave if leaves else 0.0
            jump_reward[row] = reward[row] / leave * (leave + stay) if leaves else reward[row]


_block = nb.types.UniTuple(nb.float64, 3)(TABLE_TYPE, FLOATS, FLOATS, FLOATS, INTS, nb.int64, nb.int64)


@njit(_block, cache=True, nogil=True)
def _backup_block(table, ends, v, out, choice, begin, end):
    """Compute q̂ - v of every row from differences, with a bound on its rounding error; returns (low, high, error).

    Of n entries, a probability of the table is off by (n + 2) u, a reward by (2n + 4) u, a term by one more product and
    a difference, the sum of n + 2 terms by (n + 2) u of their sizes: (3n + 12) u covers all of it, second order
    included. Where products or quotients are below the normal numbers, they miss up to half the smallest number.
    The error of a state is that of its best row, or more where another row may be better than it seems.
    """
    first, start, to, p, reward = table
    low, high, worst = np.inf, -np.inf, 0.0
    for s in range(unsigned(begin), unsigned(end)):
        here = v[s]
        best, most, chosen = -np.inf, -np.inf, unsigned(first[s])
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            if reward[row] == -np.inf:
                continue
            gain = reward[row] - ends[row] * here
            size, reach = abs(reward[row]) + abs(ends[row] * here), abs(here)
            for k in range(unsigned(start[row]), unsigned(start[row + ONE])):
                if to[k] != s:
                    difference = v[to[k]] - here
                    gain += p[k] * difference
                    size += p[k] * abs(difference)
                    reach += abs(difference)
            entries = np.float64(start[row + ONE] - start[row])
            error = (3.0 * entries + 12.0) * UNIT * size + SMALLEST * (reach + entries) + SMALLEST_NORMAL
            if not error < np.inf:  # an overflow: nothing is known of this row
                gain = error = np.inf
            most = max(most, gain + error)
            if gain > best:
                best, chosen = gain, row
        if best == np.inf:
            best, most = 0.0, np.inf
        out[s] = here + best
        choice[s] = chosen
        low, high = min(low, best), max(high, best)
        worst = max(worst, (most - best) * (1.0 + 4.0 * UNIT))
    return low, high, worst


@njit(nb.boolean(TABLE_TYPE, FLOATS, INTS, nb.float64[:, ::1], FLOATS), cache=True)
def _gth_eliminate(table, ends, choice, weights, v):
    """Solve v = r + T v for the rows `choice` by elimination without subtraction (Grassmann, Taksar and Heyman 1985).

    weights[s, j] is the weight of going on to state j, weights[s, S] that of ending; only their proportions count, so a
    state's weight of coming back to itself is dropped. Returns False if a state is left with nowhere to go.
    """
    _, start, to, p, reward = table
    S = choice.size
    for s in range(S):
        row = unsigned(choice[s])
        for k in range(unsigned(start[row]), unsigned(start[row + ONE])):
            weights[s, to[k]] += p[k]
        weights[s, S] = ends[row]
        v[s] = reward[row]
    for s in range(S - 1, -1, -1):
        leave = weights[s, S]
        for j in range(s):
            leave += weights[s, j]
        if not leave > 0.0:
            return False
        for j in range(s):
            weights[s, j] /= leave
        weights[s, S] /= leave
        v[s] /= leave
        for i in range(s):
            through = weights[i, s]
            if through > 0.0:
                for j in range(s):
                    weights[i, j] += through * weights[s, j]
                weights[i, S] += through * weights[s, S]
                v[i] += through * v[s]
    for s in range(S):
        for j in range(s):
            v[s] += weights[s, j] * v[j]
    return True


@njit(nb.int64(TABLE_TYPE, FLOATS), cache=True)
def _improper_row(table, ends):
    """Return a row of the largest set of states that some policy never leaves; -1 if the set is empty.

    A state is out once every row of it may end or lead to a state that is out, which is passed on to predecessors.
    """
    first, start, to, p, reward = table
    S = first.size - 1
    offset = np.zeros(S + 2, np.int64)
    for k in range(to.size):
        offset[to[k] + 2] += p[k] > 0.0
    for s in range(S):
        offset[s + 2] += offset[s + 1]
    into, owner = np.empty(offset[S + 1], np.uint32), np.empty(reward.size, np.uint32)
    stays, ways = np.ones(reward.size, np.bool_), np.zeros(S, np.int64)
    out, count = np.empty(S, np.uint32), 0
    for s in range(S):
        for row in range(first[s], first[s + 1]):
            owner[row] = s
            stays[row] = reward[row] > -np.inf and ends[row] == 0.0
            ways[s] += stays[row]
            for k in range(start[row], start[row + 1]):
                if p[k] > 0.0:
                    into[offset[to[k] + 1]] = row
                    offset[to[k] + 1] += 1
        if ways[s] == 0:
            out[count] = s
            count += 1
    done = 0
    while done < count:
        s = out[done]
        done += 1
        for i in range(offset[s], offset[s + 1]):
            row = into[i]
            if stays[row]:
                stays[row] = False
                ways[owner[row]] -= 1
                if ways[owner[row]] == 0:
                    out[count] = owner[row]
                    count += 1
    for s in range(S):
        if ways[s] > 0:
            for row in range(first[s], first[s + 1]):
                if stays[row]:
                    return row
    return -1


def normalised(mdp: MDP) -> MDP:
    """Return the model with each row and its termination divided by their sum; the model itself if all sums are 1."""
    sums = np.asarray(mdp.transitions.sum(axis=1)).reshape(mdp.rewards.shape)
    total = sums if mdp.termination is None else sums + mdp.termination
    total = np.where(mdp.available, total, 1.0)
    if np.abs(total - 1.0).max() <= 2.0**-52 * (2 + widest_row(mdp)):
        return mdp
    twin = copy.copy(mdp)
    twin.transitions = sp.diags_array(1.0 / total.ravel()) @ mdp.transitions
    if mdp.termination is not None:
        twin.termination = mdp.termination / total
    return twin


def _with_sparse_rows(mdp: MDP, deadline: Deadline) -> MDP:
    twin, matrix = copy.copy(mdp), np.asarray(mdp.transitions)
    pieces = deadline.chunks(len(matrix), matrix.size)
    twin.transitions = sp.csr_array(sp.vstack([sp.csr_array(matrix[begin:end]) for begin, end in pieces]))
    return twin

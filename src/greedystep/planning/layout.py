"""From an MDP to the table the loops run on, and to a better numbered one.

`as_rows` keeps the state numbers and, where the model's CSR arrays already have the right form, the arrays themselves.
`in_order` makes a second table for sweeps in place:

- states are numbered by their distance to where the value comes from, so that one sweep carries it through the whole
  model and neighbours lie close in memory;
- an action that may stay where it is, q = r + γ p v(s) + γ Σ' p' v(s'), is solved for its own value:
  q = (r + γ Σ' p' v(s')) / (1 - γ p). The optimal values and policies are the same, and no sweep waits for a loop.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np
from numba import njit

from greedystep.mdp import MDP
from greedystep.planning.kernels import MAX_WIDTH, PARALLEL_FROM, ROWS_TYPE, Rows, take_rows

PADDING_LIMIT = 2.0
"""Padding may at most double the entries."""

_EMPTY = np.empty(0, np.int32)
_ints, _floats = nb.int32[::1], nb.float64[::1]


class Table(NamedTuple):
    """Rows of an MDP and which action each of them is."""

    rows: Rows
    action: np.ndarray | None
    """int32 [rows]; None when every state has every action, so that row s*A + a is action a."""

    def actions_of(self, choice: np.ndarray) -> np.ndarray:
        """int64 [S]: the actions of chosen rows."""
        if self.action is None:
            return choice.astype(np.int64) - self.rows.first[:-1]
        return self.action[choice].astype(np.int64)

    def rows_of(self, actions: np.ndarray, num_actions: int) -> np.ndarray:
        """int32 [S]: the rows of chosen actions."""
        if self.action is None:
            return (np.arange(actions.size) * num_actions + actions).astype(np.int32)
        position = np.full((actions.size, num_actions), -1, np.int32)
        states = np.repeat(np.arange(actions.size), np.diff(self.rows.first))
        position[states, self.action] = np.arange(self.action.size)
        return position[np.arange(actions.size), actions]


def as_rows(mdp: MDP) -> Table:
    """The model as a table in its own numbering, discount not included."""
    S, A = mdp.rewards.shape
    matrix = mdp.transitions
    if isinstance(matrix, np.ndarray):
        raise TypeError("as_rows: a dense model has no rows of successors")
    if matrix.nnz >= 2**31 or S * A >= 2**31:
        raise ValueError(f"mdp: {matrix.nnz} transitions are more than the 2^31 that the solver can index")
    start, successor, probability = matrix.indptr, matrix.indices, matrix.data
    reward, action = mdp.rewards.ravel(), None
    first = np.arange(0, S * A + 1, A, dtype=np.int32)
    available = mdp.available
    if not available.all():
        kept = np.flatnonzero(available).astype(np.int32)
        action = (kept % A).astype(np.int32)
        first = np.concatenate([[0], np.cumsum(available.sum(axis=1))]).astype(np.int32)
        matrix = matrix[kept]
        start, successor, probability = matrix.indptr, matrix.indices, matrix.data
        reward = reward[kept]
    lengths = np.diff(start)
    width = int(lengths.max(initial=1))
    rows = lengths.size
    if 0 < width <= MAX_WIDTH and width * rows <= PADDING_LIMIT * max(probability.size, rows):
        if probability.size != width * rows:
            successor, probability = _padded(
                _own(start, np.int32), _own(successor, np.int32), _own(probability, float), width
            )
        start = _EMPTY
    else:
        width, start = 0, _own(start, np.int32)
    table = Rows(first, width, start, _own(successor, np.int32), _own(probability, float), _own(reward, float))
    return Table(table, action)


def _own(array: np.ndarray, dtype: type) -> np.ndarray:
    """The array itself where the loops can take it: of this type, contiguous and writable (arrays from files are not)."""
    return np.require(array, dtype, ["C", "W"])


@njit(nb.types.Tuple((_ints, _floats))(_ints, _ints, _floats, nb.int64), cache=True)
def _padded(start, successor, probability, width):
    rows = start.size - 1
    to, p = np.zeros(rows * width, np.int32), np.zeros(rows * width)
    for row in range(rows):
        k = row * width
        for j in range(start[row], start[row + 1]):
            to[k] = successor[j]
            p[k] = probability[j]
            k += 1
    return to, p


def chain_of(rows: Rows, choice: np.ndarray, discount: float) -> Rows:
    """The Markov chain of one row a state, as a table with the discount inside."""
    S = choice.size
    if rows.width:
        start, entries = _EMPTY, S * rows.width
    else:
        start = np.zeros(S + 1, np.int32)
        entries = int((rows.start[choice + 1] - rows.start[choice]).sum())
    successor, probability, reward = np.empty(entries, np.int32), np.empty(entries), np.empty(S)
    take_rows(rows, choice, discount, start, successor, probability, reward)
    return Rows(np.arange(S + 1, dtype=np.int32), rows.width, start, successor, probability, reward)


class Ordered(NamedTuple):
    """A table in sweeping order; state i of it is state `state[i]` of the model, row j is row `row[j]`."""

    rows: Rows
    state: np.ndarray
    position: np.ndarray
    row: np.ndarray
    blocks: np.ndarray | None
    """int32 [2 * threads + 1], edges of blocks for a sweep on several cores; None where one core does better."""


def in_order(rows: Rows, discount: float, sources: np.ndarray) -> Ordered:
    """Number states by distance to the sources, against the arrows; put the discount in and take self-loops out.

    Args:
        rows: the model's table.
        discount: γ.
        sources: bool [S], where value comes from (ends, absorbing or best-paying states).
    """
    state, position = _backward_order(rows, sources)
    S = state.size
    counts = np.diff(rows.first)[state]
    first = np.zeros(S + 1, np.int32)
    np.cumsum(counts, out=first[1:])
    total = int(first[-1])
    if rows.width:
        start, entries = _EMPTY, total * rows.width
    else:
        start, entries = np.zeros(total + 1, np.int32), rows.probability.size
    out = Rows(first, rows.width, start, np.empty(entries, np.int32), np.empty(entries), np.empty(total))
    row = np.empty(total, np.int32)
    reach = _renumber(rows, discount, state, position, out, row)
    return Ordered(out, state, position, row, _blocks(S, entries, reach))


def _blocks(states: int, entries: int, reach: int) -> np.ndarray | None:
    """Cut the order into twice as many blocks as cores, if every second block is out of the others' reach."""
    count = 2 * nb.get_num_threads()
    if count == 2 or entries < PARALLEL_FROM or reach >= states // count:
        return None
    return np.linspace(0, states, count + 1).astype(np.int32)


@njit(inline="always")
def _span(rows, row):
    if rows.width:
        return row * rows.width, (row + 1) * rows.width
    return np.int64(rows.start[row]), np.int64(rows.start[row + 1])


@njit(nb.types.UniTuple(_ints, 2)(ROWS_TYPE, nb.boolean[::1]), cache=True)
def _backward_order(rows, sources):
    """Breadth first from the sources over predecessors; what cannot reach them follows in its old order."""
    S = sources.size
    # Predecessor lists by counting; the rows of a state are neighbours, so remembering the last one removes repeats.
    offset, last = np.zeros(S + 2, np.int64), np.full(S, -1, np.int32)
    for s in range(S):
        begin, _ = _span(rows, rows.first[s])
        _, end = _span(rows, rows.first[s + 1] - 1)
        for k in range(begin, end):
            to = rows.successor[k]
            if last[to] != s and rows.probability[k] > 0.0:
                last[to] = s
                offset[to + 2] += 1
    for s in range(S):
        offset[s + 2] += offset[s + 1]
    predecessor = np.empty(offset[S + 1], np.int32)
    last[:] = -1
    for s in range(S):
        begin, _ = _span(rows, rows.first[s])
        _, end = _span(rows, rows.first[s + 1] - 1)
        for k in range(begin, end):
            to = rows.successor[k]
            if last[to] != s and rows.probability[k] > 0.0:
                last[to] = s
                predecessor[offset[to + 1]] = s
                offset[to + 1] += 1
    state, position = np.empty(S, np.int32), np.full(S, -1, np.int32)
    known = 0
    for s in range(S):
        if sources[s]:
            state[known] = s
            position[s] = known
            known += 1
    done = 0
    while done < known:
        s = state[done]
        done += 1
        for k in range(offset[s], offset[s + 1]):
            before = predecessor[k]
            if position[before] < 0:
                position[before] = known
                state[known] = before
                known += 1
    for s in range(S):
        if position[s] < 0:
            position[s] = known
            state[known] = s
            known += 1
    return state, position


@njit(nb.int64(ROWS_TYPE, nb.float64, _ints, _ints, ROWS_TYPE, _ints), cache=True)
def _renumber(rows, discount, state, position, out, old_row):
    """Copy the rows into the new order, discount in, self-loops out; returns the farthest reach of an arrow."""
    row, k, reach = 0, 0, 0
    for i in range(state.size):
        s = state[i]
        for old in range(rows.first[s], rows.first[s + 1]):
            begin, end = _span(rows, old)
            stays = 0.0
            for j in range(begin, end):
                if rows.successor[j] == s:
                    stays += rows.probability[j]
            scale = 1.0 - discount * stays
            # With discount 1 an action that only loops has no finite value of its own: leave it as it is.
            scale = 1.0 / scale if scale > 0.0 else 1.0
            loop = scale == 1.0
            for j in range(begin, end):
                to = rows.successor[j]
                out.successor[k] = position[to]
                out.probability[k] = discount * scale * rows.probability[j] if to != s or loop else 0.0
                if out.probability[k] > 0.0:
                    reach = max(reach, abs(position[to] - i))
                k += 1
            if not rows.width:
                out.start[row + 1] = k
            out.reward[row] = scale * rows.reward[old]
            old_row[row] = old
            row += 1
    return reach

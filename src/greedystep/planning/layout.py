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
from greedystep.planning import threads
from greedystep.planning.kernels import MAX_WIDTH, ROWS_TYPE, Rows, in_pieces, take_rows

PADDING_LIMIT = 2.0
"""Padding may at most double the entries."""

_EMPTY = np.empty(0, np.int32)
_ints, _floats, _flags = nb.int32[::1], nb.float64[::1], nb.boolean[::1]


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
        kept = np.flatnonzero(available)
        action = (kept % A).astype(np.int32)
        first = np.concatenate([[0], np.cumsum(available.sum(axis=1))]).astype(np.int32)
        if (start[1:] - start[:-1])[~available.ravel()].any():  # entries of missing actions: leave them behind
            matrix = matrix[kept]
            start, successor, probability = matrix.indptr, matrix.indices, matrix.data
        else:
            start = np.append(start[kept], start[-1])
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
    """The array itself where the loops can take it: of this type, contiguous, writable (some arrays are not)."""
    return np.require(array, dtype, ["C", "W"])


def _padded(start: np.ndarray, successor: np.ndarray, probability: np.ndarray, width: int) -> tuple:
    rows = start.size - 1
    to, p = np.empty(rows * width, np.int32), np.empty(rows * width)
    in_pieces(_pad, start, successor, probability, width, to, p, size=rows, entries=to.size)
    return to, p


@njit(nb.void(_ints, _ints, _floats, nb.int64, _ints, _floats, nb.int64, nb.int64), cache=True, nogil=True)
def _pad(start, successor, probability, width, to, p, begin, end):
    for row in range(begin, end):
        j, stop = start[row], start[row + 1]
        for k in range(row * width, (row + 1) * width):
            to[k] = successor[j] if j < stop else 0
            p[k] = probability[j] if j < stop else 0.0
            j += 1


def chain_of(rows: Rows, choice: np.ndarray, discount: float) -> Rows:
    """The Markov chain of one row a state, as a table with the discount inside."""
    S = choice.size
    start, entries = _starts(rows, choice)
    chain = Rows(
        np.arange(S + 1, dtype=np.int32),
        rows.width,
        start,
        np.empty(entries, np.int32),
        np.empty(entries),
        np.empty(S),
    )
    take_rows(rows, choice, discount, chain)
    return chain


def _starts(rows: Rows, chosen: np.ndarray) -> tuple[np.ndarray, int]:
    """(offsets of the chosen rows when copied one after another, all their entries)."""
    if rows.width:
        return _EMPTY, chosen.size * rows.width
    start = np.zeros(chosen.size + 1, np.int32)
    np.cumsum(rows.start[chosen + 1] - rows.start[chosen], out=start[1:])
    return start, int(start[-1])


class Ordered(NamedTuple):
    """A table in sweeping order; state i of it is state `state[i]` of the model, row j is row `row[j]`."""

    rows: Rows
    state: np.ndarray
    position: np.ndarray
    row: np.ndarray
    side_by_side: bool
    """Whether stretches of the order hardly read each other, so that cores may sweep them side by side."""


def in_order(rows: Rows, discount: float) -> Ordered:
    """Number states by distance to where value comes from; put the discount in and take self-loops out."""
    final = final_states(rows)
    state, position = _backward_order(rows, final, _sources(rows, final))
    counts = np.diff(rows.first)[state]
    first = np.zeros(state.size + 1, np.int32)
    np.cumsum(counts, out=first[1:])
    row = np.repeat(rows.first[:-1][state] - first[:-1], counts) + np.arange(first[-1], dtype=np.int32)
    start, entries = _starts(rows, row)
    out = Rows(first, rows.width, start, np.empty(entries, np.int32), np.empty(entries), np.empty(row.size))
    reach = max(
        in_pieces(_renumber, rows, discount, state, position, row, out, size=state.size, entries=entries), default=0
    )
    return Ordered(out, state, position, row, side_by_side=reach < state.size // (4 * threads.count()))


@njit(inline="always")
def _begin(width, start, row):
    """Where the entries of a row begin; those of row - 1 end there."""
    return row * width if width else np.int64(start[row])


@njit(_flags(ROWS_TYPE), cache=True)
def final_states(rows):
    """States that no action leaves for another: ends and absorbing states."""
    first, width, start, successor, probability, _ = rows
    S = first.size - 1
    final = np.ones(S, np.bool_)
    for s in range(S):
        begin, end = _begin(width, start, first[s]), _begin(width, start, first[s + 1])
        for k in range(begin, end):
            if successor[k] != s and probability[k] > 0.0:
                final[s] = False
                break
    return final


@njit(_flags(ROWS_TYPE, _flags), cache=True)
def _sources(rows, final):
    """Where value comes from: the best-paid ways to an end or a final state; without any, the best-paid rows of all."""
    first, width, start, successor, probability, reward = rows
    S = final.size
    ending = np.zeros(reward.size, np.bool_)
    best_ending, best = -np.inf, -np.inf
    for s in range(S):
        for row in range(first[s], first[s + 1]):
            best = max(best, reward[row])
            if final[s]:
                continue
            begin, end = _begin(width, start, row), _begin(width, start, row + 1)
            total = 0.0
            for k in range(begin, end):
                if probability[k] > 0.0:
                    total += probability[k]
                    ending[row] |= final[successor[k]]
            ending[row] |= total < 1.0 - 1e-9
            if ending[row]:
                best_ending = max(best_ending, reward[row])
    any_ending = best_ending > -np.inf
    limit = best_ending if any_ending else best
    limit -= 1e-9 * abs(limit)
    sources = np.zeros(S, np.bool_)
    for s in range(S):
        for row in range(first[s], first[s + 1]):
            if reward[row] >= limit and (ending[row] or not any_ending):
                origin = s  # the final state itself where there is one: value flows from it to here
                begin, end = _begin(width, start, row), _begin(width, start, row + 1)
                for k in range(begin, end):
                    if any_ending and final[successor[k]] and probability[k] > 0.0:
                        origin = successor[k]
                sources[origin] = True
    return sources


@njit(nb.types.UniTuple(_ints, 2)(ROWS_TYPE, _flags, _flags), cache=True)
def _backward_order(rows, final, sources):
    """Breadth first from the sources over predecessors; what cannot reach them follows in its old order.

    Final states lead nowhere, but are placed beside the first state that leads to them: close in memory.
    """
    first, width, start, successor, probability, _ = rows
    S = sources.size
    # Predecessor lists by counting. The rows of a state are neighbours: remembering the last one removes repeats.
    offset, last = np.zeros(S + 2, np.int32), np.full(S, -1, np.int32)
    for s in range(S):
        if final[s]:
            continue
        begin, end = _begin(width, start, first[s]), _begin(width, start, first[s + 1])
        for k in range(begin, end):
            to = successor[k]
            if last[to] != s and probability[k] > 0.0:
                last[to] = s
                offset[to + 2] += 1
    for s in range(S):
        offset[s + 2] += offset[s + 1]
    predecessor = np.empty(offset[S + 1], np.int32)
    last[:] = -1
    for s in range(S):
        if final[s]:
            continue
        begin, end = _begin(width, start, first[s]), _begin(width, start, first[s + 1])
        for k in range(begin, end):
            to = successor[k]
            if last[to] != s and probability[k] > 0.0:
                last[to] = s
                predecessor[offset[to + 1]] = s
                offset[to + 1] += 1
    state, position = np.empty(S, np.int32), np.full(S, -1, np.int32)
    known, done, finals_left = 0, 0, 0
    for s in range(S):
        if sources[s]:
            state[known] = s
            position[s] = known
            known += 1
        elif final[s]:
            finals_left += 1
    while done < known:
        s = state[done]
        done += 1
        for k in range(offset[s], offset[s + 1]):
            before = predecessor[k]
            if position[before] < 0:
                position[before] = known
                state[known] = before
                known += 1
        if finals_left > 0 and not final[s]:
            begin, end = _begin(width, start, first[s]), _begin(width, start, first[s + 1])
            for k in range(begin, end):
                to = successor[k]
                if final[to] and position[to] < 0:
                    position[to] = known
                    state[known] = to
                    known += 1
                    finals_left -= 1
    for s in range(S):
        if position[s] < 0:
            position[s] = known
            state[known] = s
            known += 1
    return state, position


_renumber_signature = nb.int64(ROWS_TYPE, nb.float64, _ints, _ints, _ints, ROWS_TYPE, nb.int64, nb.int64)


@njit(_renumber_signature, cache=True, nogil=True)
def _renumber(rows, discount, state, position, old_row, out, begin_state, end_state):
    """Copy the rows into the new order, discount in, self-loops out; returns the farthest reach of an arrow."""
    _, width, start, successor, probability, reward = rows
    new_first, _, new_start, new_successor, new_probability, new_reward = out
    reach = 0
    for i in range(begin_state, end_state):
        s = state[i]
        for row in range(new_first[i], new_first[i + 1]):
            old = old_row[row]
            begin, end = _begin(width, start, old), _begin(width, start, old + 1)
            stays = 0.0
            for j in range(begin, end):
                if successor[j] == s:
                    stays += probability[j]
            rest = 1.0 - discount * stays
            # With discount 1 an action that only loops has no finite value of its own: leave it as it is.
            solvable = rest > 0.0
            scale = 1.0 / rest if solvable else 1.0
            k = _begin(width, new_start, row)
            for j in range(begin, end):
                to = successor[j]
                p = 0.0 if to == s and solvable else discount * scale * probability[j]
                new_successor[k] = position[to]
                new_probability[k] = p
                if p > 0.0:
                    reach = max(reach, abs(position[to] - i))
                k += 1
            new_reward[row] = scale * reward[old]
    return reach

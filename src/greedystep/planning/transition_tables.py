"""Transition tables of an MDP: in its own numbering, and reordered for Gauss-Seidel sweeps.

`as_table` keeps the state numbers and, as a rule, the model's own arrays. `reordered_table` makes a second table:

- states are numbered by their distance to the rewards (`reward_distance_order`), so that one sweep carries value
  through the whole model and neighbours lie close in memory;
- an action that may stay where it is, q = r + γ p v(s) + γ Σ' p' v(s'), is solved for its own value:
  q = (r + γ Σ' p' v(s')) / (1 - γ p). The optimal values and policies are the same, and no sweep waits for a loop.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numba import njit

from greedystep import provenance
from greedystep.mdp import MDP
from greedystep.planning import kernels
from greedystep.planning.kernels import FLAGS, INTS, LONG_INTS, ONE, TABLE_TYPE, TWO, TransitionTable, unsigned
from greedystep.signals import CHUNK, Deadline


def as_table(mdp: MDP) -> TransitionTable:
    """Return the model as a table in its own numbering: row s * A + a is action a of state s, without the discount."""
    S, A = mdp.rewards.shape
    matrix = mdp.transitions
    if isinstance(matrix, np.ndarray):
        raise TypeError("as_table: expected a sparse model, got a dense one")
    if matrix.nnz >= 2**31 or S * A >= 2**31:
        raise ValueError(f"mdp: {matrix.nnz} transitions are more than the 2^31 that the solver can index")
    return TransitionTable(
        np.arange(0, S * A + 1, A, dtype=np.uint32),
        _own(matrix.indptr, np.int32).view(np.uint32),
        _own(matrix.indices, np.int32).view(np.uint32),
        _own(matrix.data, float),
        _own(mdp.rewards.ravel(), float),
    )


def _own(array: np.ndarray, dtype: type) -> np.ndarray:
    """Return the array, or a copy if need be, with this dtype, contiguous and writable, as compiled loops need it."""
    return np.require(array, dtype, ["C", "W"])


def widest_row(mdp: MDP) -> int:
    """Return the largest number of successors of a pair (s, a)."""
    if isinstance(mdp.transitions, np.ndarray):
        return mdp.num_states
    return int(np.diff(mdp.transitions.indptr).max(initial=0))


def reward_distance_order(table: TransitionTable, deadline: Deadline) -> tuple[np.ndarray, np.ndarray]:
    """Return (states ordered by distance to the highest-paying ends or rows, position of each), both uint32 [S]."""
    final = absorbing_states(table)
    return backward_order(table, final, _reward_sources(table, final), deadline)


def reordered_table(
    table: TransitionTable, discount: float, state: np.ndarray, position: np.ndarray, deadline: Deadline
) -> tuple[TransitionTable, bool]:
    """Return the table in this order, with the discount multiplied in, without self-loops and unavailable actions.

    Also returns whether distant ranges of the order hardly read each other, so that threads may sweep them in parallel.
    """
    first, row, start = _ordered_rows(table, state)
    reach, entries = 0, int(start[-1])
    out = TransitionTable(first, start, np.empty(entries, np.uint32), np.empty(entries), np.empty(row.size))
    for begin, end in deadline.chunks(state.size, entries):
        arguments = (table, discount, state, position, row, out)
        reach = max(reach, *kernels.run_parallel(_renumber, *arguments, begin=begin, end=end, entries=entries))
    return out, reach < state.size // (4 * provenance.available_cores())


@njit(nb.types.UniTuple(INTS, 3)(TABLE_TYPE, INTS), cache=True)
def _ordered_rows(table, state):
    """Return (first row of each state, old row of each new row, start of each row) of the reordered table.

    Rows of unavailable actions are left out.
    """
    first, start, _, _, reward = table
    S = state.size
    new_first, new_start = np.empty(S + 1, np.uint32), np.empty(reward.size + 1, np.uint32)
    old_row = np.empty(reward.size, np.uint32)
    count, entries = unsigned(0), unsigned(0)
    for i in range(unsigned(S)):
        new_first[i] = count
        s = unsigned(state[i])
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            if reward[row] > -np.inf:
                old_row[count] = row
                new_start[count] = entries
                entries += unsigned(start[row + ONE]) - unsigned(start[row])
                count += ONE
    new_first[S] = count
    new_start[count] = entries
    return new_first, old_row[:count], new_start[: count + ONE]


@njit(FLAGS(TABLE_TYPE), cache=True)
def absorbing_states(table):
    """Return bool [S]: states that no action leaves for another state."""
    first, start, successor, probability, reward = table
    S = first.size - 1
    final = np.ones(S, np.bool_)
    for s in range(unsigned(S)):
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            for k in range(unsigned(start[row]), unsigned(start[row + ONE])):
                if successor[k] != s and probability[k] > 0.0 and reward[row] > -np.inf:
                    final[s] = False
                    break
            if not final[s]:
                break
    return final


@njit(FLAGS(TABLE_TYPE, FLAGS), cache=True)
def _reward_sources(table, final):
    """Return bool [S]: where the highest-paying final rows lead to; without such rows, the highest-paying states."""
    first, start, successor, probability, reward = table
    S = final.size
    ending = np.zeros(reward.size, np.bool_)
    best_ending, best = -np.inf, -np.inf
    for s in range(unsigned(S)):
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            best = max(best, reward[row])
            if final[s]:
                continue
            total = 0.0
            for k in range(unsigned(start[row]), unsigned(start[row + ONE])):
                total += probability[k]
                ending[row] |= final[successor[k]] and probability[k] > 0.0
            ending[row] |= total < 1.0 - 1e-9
            if ending[row]:
                best_ending = max(best_ending, reward[row])
    any_ending = best_ending > -np.inf
    limit = best_ending if any_ending else best
    limit -= 1e-9 * abs(limit)
    sources = np.zeros(S, np.bool_)
    for s in range(unsigned(S)):
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            if reward[row] >= limit and (ending[row] or not any_ending):
                origin = s  # the final state itself where there is one: value flows from it to here
                if any_ending:
                    for k in range(unsigned(start[row]), unsigned(start[row + ONE])):
                        if final[successor[k]] and probability[k] > 0.0:
                            origin = unsigned(successor[k])
                sources[origin] = True
    return sources


@njit(nb.void(TABLE_TYPE, FLAGS, INTS, INTS, INTS, nb.int64, nb.int64), cache=True)
def _list_predecessors(table, final, last, offset, predecessor, begin, end):
    """Append the predecessors of each state s to its list, which begins at offset[s + 1]; that is moved to its end.

    With an empty `predecessor` array they are counted, in offset[s + 2]. `last` holds the last predecessor of each
    state, which removes repeats: the rows of a state are neighbours.
    """
    first, start, successor, probability, _ = table
    counting = predecessor.size == 0
    for s in range(unsigned(begin), unsigned(end)):
        if final[s]:
            continue
        for k in range(unsigned(start[first[s]]), unsigned(start[first[s + ONE]])):
            to = unsigned(successor[k])
            if last[to] != s and probability[k] > 0.0:
                last[to] = s
                if counting:
                    offset[to + TWO] += ONE
                else:
                    predecessor[offset[to + ONE]] = s
                    offset[to + ONE] += ONE


@njit(nb.void(TABLE_TYPE, FLAGS, INTS, INTS, INTS, INTS, LONG_INTS, nb.int64), cache=True)
def _search_back(table, final, offset, predecessor, state, position, counts, most):
    """Continue a breadth-first search over predecessors: place those of the next `most` states in the order.

    `counts` holds the numbers of states placed, of states whose predecessors are placed, and of final states that are
    not.
    """
    first, start, successor, _, _ = table
    nowhere = np.uint32(state.size)
    known, done, finals_left = unsigned(counts[0]), unsigned(counts[1]), counts[2]
    stop = done + unsigned(most)
    while done < known and done < stop:
        s = unsigned(state[done])
        done += ONE
        for k in range(unsigned(offset[s]), unsigned(offset[s + ONE])):
            before = unsigned(predecessor[k])
            if position[before] == nowhere:
                position[before] = known
                state[known] = before
                known += ONE
        if finals_left > 0 and not final[s]:
            for k in range(unsigned(start[first[s]]), unsigned(start[first[s + ONE]])):
                to = unsigned(successor[k])
                if final[to] and position[to] == nowhere:
                    position[to] = known
                    state[known] = to
                    known += ONE
                    finals_left -= 1
    counts[0], counts[1], counts[2] = known, done, finals_left


def _backward_order(table, final, sources, pieces):
    """Compute `backward_order`; `pieces` are three sequences of ranges, each of which covers all states."""
    S = final.size
    offset, last = np.zeros(S + 2, np.uint32), np.full(S, S, np.uint32)
    for begin, end in pieces[0]:
        _list_predecessors(table, final, last, offset, np.empty(0, np.uint32), begin, end)
    offset[:] = np.cumsum(offset)
    predecessor = np.empty(max(1, offset[S + 1]), np.uint32)
    last[:] = S
    for begin, end in pieces[1]:
        _list_predecessors(table, final, last, offset, predecessor, begin, end)
    state, position = np.empty(S, np.uint32), np.full(S, S, np.uint32)
    placed = np.flatnonzero(sources)
    state[: placed.size] = placed
    position[placed] = np.arange(placed.size)
    counts = np.array([placed.size, 0, np.count_nonzero(final & ~sources)])
    for begin, end in pieces[2]:
        _search_back(table, final, offset, predecessor, state, position, counts, end - begin)
    missed = np.flatnonzero(position == S)
    state[counts[0] :] = missed
    position[missed] = np.arange(counts[0], S)
    return state, position


_ranges = nb.types.UniTuple(nb.types.UniTuple(nb.types.UniTuple(nb.int64, 2), 1), 3)
_backward_order_at_once = njit(nb.types.UniTuple(INTS, 2)(TABLE_TYPE, FLAGS, FLAGS, _ranges), cache=True)(
    _backward_order
)


def backward_order(
    table: TransitionTable, final: np.ndarray, sources: np.ndarray, deadline: Deadline
) -> tuple[np.ndarray, np.ndarray]:
    """Search breadth first from the sources over predecessors; returns (states in order, position of each).

    States that cannot reach a source follow in their old order. Final states lead nowhere, but are placed beside the
    first state that leads to them: close in memory.
    """
    if table.probability.size <= CHUNK:
        return _backward_order_at_once(table, final, sources, (((0, final.size),),) * 3)
    pieces = [deadline.chunks(final.size, table.probability.size) for _ in range(3)]
    return _backward_order(table, final, sources, pieces)


_renumber_signature = nb.int64(TABLE_TYPE, nb.float64, INTS, INTS, INTS, TABLE_TYPE, nb.int64, nb.int64)


@njit(_renumber_signature, cache=True, nogil=True)
def _renumber(table, discount, state, position, old_row, out, begin, end):
    """Copy rows into the new order, times the discount, self-loops solved; return the longest way to a successor."""
    _, start, successor, probability, reward = table
    new_first, new_start, new_successor, new_probability, new_reward = out
    reach = 0
    for i in range(unsigned(begin), unsigned(end)):
        s = state[i]
        for row in range(unsigned(new_first[i]), unsigned(new_first[i + ONE])):
            old = unsigned(old_row[row])
            j, stop = unsigned(start[old]), unsigned(start[old + ONE])
            stays = 0.0
            for k in range(j, stop):
                if successor[k] == s:
                    stays += probability[k]
            rest = 1.0 - discount * stays
            # With discount 1 an action that only loops has no finite value of its own: leave it as it is.
            solvable = rest > 0.0
            scale = 1.0 / rest if solvable else 1.0
            k = unsigned(new_start[row])
            while j < stop:
                to = successor[j]
                p = 0.0 if to == s and solvable else discount * scale * probability[j]
                new_successor[k] = position[to]
                new_probability[k] = p
                if p > 0.0:
                    reach = max(reach, abs(np.int64(position[to]) - np.int64(i)))
                j += ONE
                k += ONE
            new_reward[row] = scale * reward[old]
    return reach

"""Gaussian elimination for v = r + T v that can be interrupted and needs no pivoting.

A dense chain is eliminated in blocks. A sparse one is eliminated state by state: in a row of T, steps to eliminated
states are replaced by the steps that lead on from those, and what leads back to the state itself is solved for. The
fill-in depends on the order: nested dissection (George 1973) removes a small set of states that cuts the chain in two,
orders both parts in the same way, and puts the cut last.

Corridors, trees, queues and grids have small cuts. Chains that mix have none and fill up; BiCGSTAB is for those.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import scipy.sparse as sp
from numba import njit

from greedystep.planning.kernels import FLOATS, INTS, LONG_INTS, TABLE_TYPE, TransitionTable
from greedystep.signals import CHUNK, Deadline

SMALLEST_PIVOT = 1e-12
SMALL = 16  # states up to which nested dissection does not cut a part
FILL = 50  # entries per entry of the chain above which sparse elimination gives up
FREE_FILL = 10_000_000  # entries below which it never gives up

AT_ONCE = 1500  # states up to which LAPACK solves a dense system in one call, in 0.2 s
BLOCK = 256  # states that are eliminated together in larger dense systems
WORK = 4_000_000  # operations between two checks of the deadline, in units of 2 * BLOCK


def solve_dense(
    matrix: np.ndarray, rows: np.ndarray, discount: float, reward: np.ndarray, deadline: Deadline
) -> np.ndarray:
    """Return v = (I - γ T)^-1 r [S] for the chain T [S, S] of these rows of a matrix [S*A, S]; LinAlgError if singular.

    Eliminates in blocks, to be interrupted between them. I - γ T needs no pivots from other blocks: its diagonal
    dominates, and keeps doing so in what is left of it.
    """
    v, left = reward.copy(), np.empty((reward.size, reward.size))
    for begin, end in deadline.chunks(v.size, left.size):
        np.multiply(matrix[rows[begin:end]], -discount, out=left[begin:end])
    left[np.diag_indices_from(left)] += 1.0
    S = v.size
    block = S if S <= AT_ONCE else BLOCK
    for s in range(0, S, block):
        here, rest = slice(s, s + block), slice(s + block, S)
        solved = np.linalg.solve(left[here, here], np.column_stack([left[here, rest], v[here]]))
        left[here, rest], v[here] = solved[:, :-1], solved[:, -1]
        height = max(1, WORK // max(1, S - s))
        for i in range(s + block, S, height):
            deadline.check()
            below = slice(i, i + height)
            left[below, rest] -= left[below, here] @ left[here, rest]
            v[below] -= left[below, here] @ v[here]
    for s in reversed(range(0, S - block, block)):
        v[s : s + block] -= left[s : s + block, s + block :] @ v[s + block :]
    return v


def solve_sparse(chain: TransitionTable, v: np.ndarray, deadline: Deadline) -> bool:
    """Set v [S] to (I - T)^-1 r; return False, with v unchanged, if a pivot vanishes or it takes too much memory."""
    order = dissection_order(chain, deadline)
    position = np.empty_like(order)
    position[order] = np.arange(v.size, dtype=np.uint32)
    most = max(FREE_FILL, FILL * chain.probability.size)
    start, x = np.zeros(v.size + 1, np.int64), np.zeros(v.size)
    to, p = np.empty(CHUNK, np.uint32), np.empty(CHUNK)
    row, place, heap = np.zeros(v.size), np.full(v.size, -1, np.int64), np.empty(v.size + 1, np.int64)
    done = 0
    while done < v.size:
        deadline.check()
        if to.size - start[done] < v.size:
            if to.size > most:
                return False
            to, p = np.resize(to, 2 * to.size + v.size), np.resize(p, 2 * p.size + v.size)
        done = _eliminate_rows(chain, order, position, done, start, to, p, x, row, place, heap, CHUNK)
        if done < 0:
            return False
    _back_substitute(order, start, to, p, x, v)
    return True


def dissection_order(chain: TransitionTable, deadline: Deadline) -> np.ndarray:
    """Return the states in an order of nested dissection, uint32 [S]."""
    S = chain.start.size - 1
    graph = sp.csr_array((chain.probability > 0, chain.successor.view(np.int32), chain.start.view(np.int32)), (S, S))
    graph = sp.csr_array(graph + graph.T)
    start, to = graph.indptr.astype(np.uint32), graph.indices.astype(np.uint32)
    order, part, queue = np.arange(S, dtype=np.uint32), np.zeros(S, np.int64), np.empty(S, np.uint32)
    level = np.empty(S, np.int64)
    stack = np.empty(2 * S + 4, np.int64)
    stack[:2] = 0, S
    progress = np.array([1, 0])
    while progress[0] > 0:
        deadline.check()
        _dissect(start, to, order, part, queue, level, stack, progress, CHUNK)
    return order


@njit(nb.int64(INTS, INTS, LONG_INTS, nb.int64, INTS, LONG_INTS, nb.uint32), cache=True)
def _levels(start, to, part, own, queue, level, root):
    """Search breadth first from `root` within part `own`; put states reached into `queue` and into part own + 1.

    Fills their `level` (distance from the root); returns their number.
    """
    known, done = 1, 0
    queue[0] = root
    part[root] = own + 1
    level[root] = 0
    while done < known:
        s = queue[done]
        done += 1
        for k in range(start[s], start[s + 1]):
            other = to[k]
            if part[other] == own:
                part[other] = own + 1
                level[other] = level[s] + 1
                queue[known] = other
                known += 1
    return known


@njit(nb.types.UniTuple(nb.int64, 2)(INTS, LONG_INTS, nb.int64), cache=True)
def _smallest_cut(queue, level, size):
    """Return the range (begin, end) of `queue` with the smallest level that leaves a third of the states on each side.

    (size, size) if there is none: all states are near each other.
    """
    cut_begin = cut_end = size
    smallest, begin = size, 0
    while begin < size:
        end = begin
        while end < size and level[queue[end]] == level[queue[begin]]:
            end += 1
        if 3 * begin <= 2 * size and 3 * end >= size and begin > 0 and end < size and end - begin < smallest:
            smallest, cut_begin, cut_end = end - begin, begin, end
        begin = end
    return cut_begin, cut_end


@njit(nb.void(INTS, INTS, INTS, LONG_INTS, INTS, LONG_INTS, LONG_INTS, LONG_INTS, nb.int64), cache=True)
def _dissect(start, to, order, part, queue, level, stack, progress, work):
    """Cut the parts on the stack, which are ranges of `order`, in two, until `work` states have been visited.

    `progress` holds the number of parts on the stack and the last label of a part; states of cuts have label 0.
    """
    while progress[0] > 0 and work > 0:
        progress[0] -= 1
        begin, end = stack[2 * progress[0]], stack[2 * progress[0] + 1]
        size = end - begin
        if size <= SMALL:
            continue
        work -= 8 * size
        own = progress[1] + 1
        progress[1] += 3
        part[order[begin:end]] = own
        known = _levels(start, to, part, own, queue, level, order[begin])
        cut_begin = cut_end = known
        if known < size:  # not connected: what is reached, and the rest
            for i in range(begin, end):
                if part[order[i]] == own:
                    queue[known] = order[i]
                    known += 1
        else:  # from the state that is farthest away, there are more levels, and smaller ones
            _levels(start, to, part, own + 1, queue, level, queue[size - 1])
            cut_begin, cut_end = _smallest_cut(queue, level, size)
            if cut_begin == size:
                continue
        middle = begin + cut_begin
        last = middle + size - cut_end
        order[begin:middle] = queue[:cut_begin]
        order[middle:last] = queue[cut_end:size]
        order[last:end] = queue[cut_begin:cut_end]
        part[order[last:end]] = 0
        stack[2 * progress[0]], stack[2 * progress[0] + 1] = begin, middle
        stack[2 * progress[0] + 2], stack[2 * progress[0] + 3] = middle, last
        progress[0] += 2


@njit(inline="always")
def _push(heap, size, item):
    i = size + 1
    while i > 1 and heap[i >> 1] > item:
        heap[i] = heap[i >> 1]
        i >>= 1
    heap[i] = item
    return i


@njit(inline="always")
def _pop(heap, size):
    smallest, item = heap[1], heap[size]
    i, child = 1, 2
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= item:
            break
        heap[i] = heap[child]
        i, child = child, 2 * child
    heap[i] = item
    return smallest


_rows_signature = nb.int64(
    TABLE_TYPE, INTS, INTS, nb.int64, LONG_INTS, INTS, FLOATS, FLOATS, FLOATS, LONG_INTS, LONG_INTS, nb.int64
)


@njit(_rows_signature, cache=True)
def _eliminate_rows(chain, order, position, done, start, to, p, x, row, place, heap, most):
    """Eliminate states in the given order from position `done` on, with about `most` operations, while there is room.

    Columns are positions in the order; place[j] = i says that column j is in use for row i. Returns the next position,
    or -1 if a pivot vanishes.
    """
    _, chain_start, chain_to, chain_p, reward = chain
    S, work = order.size, 0
    while done < S and work < most and to.size - start[done] >= S:
        i, s = done, order[done]
        size, tail = 0, start[done]
        total = reward[s]
        place[i], row[i] = i, 0.0
        # The entries of the chain first, then those of each eliminated state that the row leads to, in their order.
        k, begin, end, factor = -1, np.int64(chain_start[s]), np.int64(chain_start[s + 1]), 1.0
        while True:
            work += end - begin
            for e in range(begin, end):
                j = np.int64(position[chain_to[e]]) if k < 0 else np.int64(to[e])
                value = chain_p[e] if k < 0 else p[e]
                if value == 0.0:
                    continue
                if place[j] != i:
                    place[j], row[j] = i, 0.0
                    if j < i:
                        _push(heap, size, j)
                        size += 1
                    else:
                        to[tail] = j
                        tail += 1
                row[j] += factor * value
            if size == 0:
                break
            k = _pop(heap, size)
            size -= 1
            factor, begin, end = row[k], start[k], start[k + 1]
            total += factor * x[k]
        pivot = 1.0 - row[i]
        if pivot < SMALLEST_PIVOT:
            return -1
        for e in range(start[done], tail):
            p[e] = row[to[e]] / pivot
        x[i] = total / pivot
        done += 1
        start[done] = tail
    return done


@njit(nb.void(INTS, LONG_INTS, INTS, FLOATS, FLOATS, FLOATS), cache=True)
def _back_substitute(order, start, to, p, x, v):
    """Compute the state values in the reverse order of elimination: x[i] += Σ p x[to]."""
    for i in range(order.size - 1, -1, -1):
        for e in range(start[i], start[i + 1]):
            x[i] += p[e] * x[to[e]]
        v[order[i]] = x[i]

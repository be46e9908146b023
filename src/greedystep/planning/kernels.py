"""The compiled loops of the fast solver.

All of them work on one table, `Rows`: the rows of a state lie together, a row is a list of successors. A Markov chain
is the same table with one row a state, so that improving and evaluating are the same loops.

Two habits make them two to three times faster than the obvious code. Indices are unsigned, for a signed one may count
from the end in Python, and asking each time costs more than the arithmetic. And the best row is kept by selection, not
by a branch: which action is best is hard to predict, and a branch foretold wrongly costs as much as a whole row.

Signatures are spelled out, so that everything is compiled once, when this module is first imported, and comes from the
cache on disk ever after: no later call, whatever its model, waits for the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numba import njit

from greedystep.planning import threads

PARALLEL_FROM = 300_000
"""Entries of a table from which several cores beat one: handing out the pieces takes some 40 microseconds."""


class Rows(NamedTuple):
    """A model as the loops want it: value of row i = reward[i] + discount * Σ_k probability[k] v[successor[k]]."""

    first: np.ndarray
    """uint32 [S + 1]: the rows of state s are first[s] .. first[s + 1] - 1; one with reward -inf is never chosen."""
    start: np.ndarray
    """uint32 [rows + 1]: the entries of row i are start[i] .. start[i + 1] - 1."""
    successor: np.ndarray
    """uint32 [entries]."""
    probability: np.ndarray
    """float64 [entries]; may carry a discount already."""
    reward: np.ndarray
    """float64 [rows]."""


_ints, _floats = nb.uint32[::1], nb.float64[::1]
ROWS_TYPE = _rows = nb.types.NamedTuple((_ints, _ints, _ints, _floats, _floats), Rows)
_bounds = nb.types.UniTuple(nb.float64, 2)
unsigned = np.uintp
ONE, TWO, THREE, FOUR = (unsigned(n) for n in (1, 2, 3, 4))
"""Numbers that keep an unsigned index unsigned."""


# The helpers below take arrays, not the table: taking a field out of it in a loop costs a reference count each time.


@njit(inline="always")
def term(to, p, k, v):
    """p[k] v[to[k]]."""
    return p[k] * v[to[k]]


@njit(inline="always")
def expectation(start, to, p, row, v):
    """Σ_k p[k] v[to[k]] over one row. Most rows are short, and on those the control of a loop would cost the most."""
    k = unsigned(start[row])
    n = unsigned(start[row + ONE]) - k
    if n == FOUR:
        return (term(to, p, k, v) + term(to, p, k + ONE, v)) + (term(to, p, k + TWO, v) + term(to, p, k + THREE, v))
    if n == THREE:
        return (term(to, p, k, v) + term(to, p, k + ONE, v)) + term(to, p, k + TWO, v)
    if n == TWO:
        return term(to, p, k, v) + term(to, p, k + ONE, v)
    if n == ONE:
        return term(to, p, k, v)
    # Four running sums: an addition need not wait for the one before it.
    a = b = c = d = 0.0
    for _ in range(n >> TWO):
        a += term(to, p, k, v)
        b += term(to, p, k + ONE, v)
        c += term(to, p, k + TWO, v)
        d += term(to, p, k + THREE, v)
        k += FOUR
    for _ in range(n & THREE):
        a += term(to, p, k, v)
        k += ONE
    return (a + b) + (c + d)


@njit(inline="always")
def _best_row(first, start, to, p, reward, discount, s, v):
    """(value, row) of the best row of state s; the first of equals."""
    row, end = unsigned(first[s]), unsigned(first[s + ONE])
    best, choice = -np.inf, row
    while row < end:
        q = reward[row] + discount * expectation(start, to, p, row, v)
        better = q > best
        best = q if better else best
        choice = row if better else choice
        row += ONE
    return best, choice


@njit(_bounds(_rows, nb.float64, _floats, _floats, _ints, nb.int64, nb.int64), cache=True, nogil=True)
def _bellman_block(rows, discount, v, out, choice, begin, end):
    first, start, to, p, reward = rows
    low, high = np.inf, -np.inf
    for s in range(unsigned(begin), unsigned(end)):
        best, row = _best_row(first, start, to, p, reward, discount, s, v)
        out[s] = best
        choice[s] = row
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high


def bellman(rows: Rows, discount: float, v: np.ndarray, out: np.ndarray, choice: np.ndarray) -> tuple[float, float]:
    """out = B v from the old values only, with the greedy rows; returns (min, max) of out - v."""
    ranges = in_pieces(_bellman_block, rows, discount, v, out, choice, end=v.size, entries=rows.probability.size)
    return min(low for low, _ in ranges), max(high for _, high in ranges)


@njit(
    _bounds(_rows, nb.float64, _floats, _floats, _ints, _floats, nb.float64, nb.int64, nb.int64), cache=True, nogil=True
)
def _careful_block(rows, discount, v, out, choice, upper, rise, begin, end):
    first, start, to, p, reward = rows
    low, high = np.inf, -np.inf
    for s in range(unsigned(begin), unsigned(end)):
        old = unsigned(choice[s])
        best, chosen = reward[old] + discount * expectation(start, to, p, old, v), old
        upper[old] = best - rise
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            if upper[row] + rise >= best and row != old:
                q = reward[row] + discount * expectation(start, to, p, row, v)
                upper[row] = q - rise
                if q > best or (q == best and row < chosen):
                    best, chosen = q, row
        out[s] = best
        choice[s] = chosen
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high


def careful_bellman(
    rows: Rows, discount: float, v: np.ndarray, out: np.ndarray, choice: np.ndarray, upper: np.ndarray, rise: float
) -> tuple[float, float]:
    """`bellman` that leaves out rows that cannot be the best: those with upper[row] + rise below the row `choice`.

    `choice` holds a row of every state, and then the best one; `upper` is kept up to date. For rows with many entries.
    """
    parts = (rows, discount, v, out, choice, upper, rise)
    ranges = in_pieces(_careful_block, *parts, end=v.size, entries=rows.probability.size)
    return min(low for low, _ in ranges), max(high for _, high in ranges)


@njit(_bounds(nb.float64[:, ::1], _floats, nb.float64, _floats, _floats, _ints, _floats, nb.float64), cache=True)
def careful_dense_bellman(matrix, reward, discount, v, out, choice, upper, rise):
    """`careful_bellman` of a dense model, matrix [S*A, S]."""
    S = v.size
    A = matrix.shape[0] // S
    low, high = np.inf, -np.inf
    for s in range(S):
        old = np.int64(choice[s])
        best, chosen = reward[old] + discount * np.dot(matrix[old], v), old
        upper[old] = best - rise
        for row in range(s * A, s * A + A):
            if upper[row] + rise >= best and row != old:
                q = reward[row] + discount * np.dot(matrix[row], v)
                upper[row] = q - rise
                if q > best or (q == best and row < chosen):
                    best, chosen = q, row
        out[s] = best
        choice[s] = chosen
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high


@njit(_bounds(nb.float64[:, ::1], nb.float64, _floats, _ints, _floats, _floats), cache=True)
def dense_chain_backup(matrix, discount, reward, choice, v, out):
    """out = r + γ T v for the chosen rows of a dense model, matrix [S*A, S]; returns (min, max) of out - v."""
    low, high = np.inf, -np.inf
    for s in range(v.size):
        row = np.int64(choice[s])
        out[s] = reward[row] + discount * np.dot(matrix[row], v)
        low = min(low, out[s] - v[s])
        high = max(high, out[s] - v[s])
    return low, high


@njit(_floats(_rows), cache=True)
def best_rewards(rows):
    """max_a r(s, a), [S]."""
    first, _, _, _, reward = rows
    best = np.empty(first.size - 1)
    for s in range(unsigned(best.size)):
        best[s] = -np.inf
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            best[s] = max(best[s], reward[row])
    return best


@njit(_bounds(_rows, _floats, _floats, nb.int64, nb.int64), cache=True, nogil=True)
def _chain_block(chain, v, out, begin, end):
    _, start, to, p, reward = chain
    low, high = np.inf, -np.inf
    for s in range(unsigned(begin), unsigned(end)):
        out[s] = reward[s] + expectation(start, to, p, s, v)
        low = min(low, out[s] - v[s])
        high = max(high, out[s] - v[s])
    return low, high


def chain_backup(chain: Rows, v: np.ndarray, out: np.ndarray) -> tuple[float, float]:
    """out = r + T v for a chain, one row a state with the discount inside; returns (min, max) of out - v."""
    return _chain_block(chain, v, out, 0, v.size)


@njit(nb.float64(_rows, _floats, _ints, nb.boolean, nb.int64, nb.int64), cache=True, nogil=True)
def _sweep_block(rows, v, choice, backward, begin, end):
    first, start, to, p, reward = rows
    change = 0.0
    for i in range(end - begin):
        s = unsigned(end - 1 - i if backward else begin + i)
        best, row = _best_row(first, start, to, p, reward, 1.0, s, v)
        change = max(change, abs(best - v[s]))
        v[s] = best
        choice[s] = row
    return change


def sweep(rows: Rows, v: np.ndarray, choice: np.ndarray, backward: bool, side_by_side: bool = False) -> float:
    """A Bellman sweep in place (Gauss-Seidel) with discounts inside the table; returns the largest change.

    Side by side, every core sweeps its own stretch of states and sees the others as they were before: the result does
    not depend on timing, and a lower bound stays one.
    """
    pieces = threads.count() if side_by_side and rows.probability.size >= PARALLEL_FROM else 1
    if pieces == 1:
        return _sweep_block(rows, v, choice, backward, 0, v.size)

    def stretch(begin: int, end: int) -> tuple[np.ndarray, float]:
        own = v.copy()
        change = _sweep_block(rows, own, choice, backward, begin, end)
        return own[begin:end], change

    edges = list(pairwise(v.size * i // pieces for i in range(pieces + 1)))
    done = threads.run(stretch, edges)
    for (begin, end), (own, _) in zip(edges, done, strict=True):
        v[begin:end] = own
    return max(change for _, change in done)


def in_pieces(loop: Callable[..., Any], *arguments: Any, begin: int = 0, end: int, entries: int) -> list[Any]:
    """Run a loop over range(begin, end) of a table with so many entries on as many cores as pay."""
    pieces = threads.count() if entries >= PARALLEL_FROM else 1
    edges = pairwise(begin + (end - begin) * i // pieces for i in range(pieces + 1))
    return threads.run(loop, [(*arguments, *edge) for edge in edges])

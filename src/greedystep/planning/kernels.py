"""Compiled loops of the solvers: Bellman backups, Gauss-Seidel sweeps and chain backups on a `TransitionTable`.

Two habits make them two to three times faster than the obvious code. Indices are unsigned: a signed one may count from
the end in Python, and testing for that costs more than the arithmetic. And the best row is kept by selection, not by a
branch: which action is best is hard to predict, and a mispredicted branch costs as much as a whole row.

Signatures are spelled out, so that everything is compiled when this module is first imported and comes from the cache
on disk afterwards: no later call, whatever its model, waits for the compiler.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numba import njit

from greedystep import provenance

UNIT, SMALLEST, SMALLEST_NORMAL = 2.0**-53, 2.0**-1074, 2.0**-1022
"""Unit roundoff, smallest positive and smallest normal number of float64."""
PARALLEL_FROM = 300_000  # table entries from which several cores are faster: starting threads takes about 40 µs


class TransitionTable(NamedTuple):
    """The rows r(s, a), p(· | s, a) of a model, state by state, with S states; a Markov chain has one row per state.

    The value of row i is reward[i] + discount * Σ_k probability[k] v[successor[k]].
    """

    first: np.ndarray  # uint32 [S + 1]: the rows of state s are first[s] .. first[s + 1] - 1.
    start: np.ndarray  # uint32 [rows + 1]: the entries of row i are start[i] .. start[i + 1] - 1.
    successor: np.ndarray  # uint32 [entries]
    probability: np.ndarray  # float64 [entries]; the discount may be multiplied in
    reward: np.ndarray  # float64 [rows]; -inf marks an action that is not available


INTS, LONG_INTS, FLOATS, FLAGS = nb.uint32[::1], nb.int64[::1], nb.float64[::1], nb.boolean[::1]
MATRIX = nb.float64[:, ::1]
TABLE_TYPE = nb.types.NamedTuple((INTS, INTS, INTS, FLOATS, FLOATS), TransitionTable)
_bounds = nb.types.UniTuple(nb.float64, 2)
unsigned = np.uintp
ONE, TWO, THREE, FOUR = (unsigned(n) for n in (1, 2, 3, 4))  # added to an unsigned index, it stays unsigned


# The helpers below take arrays, not the table: taking a field out of it in a loop costs a reference count each time.


@njit(inline="always")
def term(to, p, k, v):
    return p[k] * v[to[k]]


@njit(inline="always")
def expectation(start, to, p, row, v):
    """Return Σ_k p[k] v[to[k]] over one row, unrolled for short rows, where loop control would cost the most."""
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
    """Return (value, row) of the best row (action) of state s, the first one of equals."""
    row, end = unsigned(first[s]), unsigned(first[s + ONE])
    best, choice = -np.inf, row
    while row < end:
        q = reward[row] + discount * expectation(start, to, p, row, v)
        better = q > best
        best = q if better else best
        choice = row if better else choice
        row += ONE
    return best, choice


@njit(_bounds(TABLE_TYPE, nb.float64, FLOATS, FLOATS, INTS, nb.int64, nb.int64), cache=True, nogil=True)
def _bellman_block(table, discount, v, out, choice, begin, end):
    first, start, to, p, reward = table
    low, high = np.inf, -np.inf
    for s in range(unsigned(begin), unsigned(end)):
        best, row = _best_row(first, start, to, p, reward, discount, s, v)
        out[s] = best
        choice[s] = row
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high


def bellman(
    table: TransitionTable, discount: float, v: np.ndarray, out: np.ndarray, choice: np.ndarray
) -> tuple[float, float]:
    """Compute the Jacobi backup out = B v, and the greedy rows in `choice`; return (min, max) of out - v."""
    parts = (table, discount, v, out, choice)
    return _range(run_parallel(_bellman_block, *parts, end=v.size, entries=table.probability.size))


def _range(ranges: list[tuple[float, float]]) -> tuple[float, float]:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


_pruned = _bounds(TABLE_TYPE, nb.float64, FLOATS, FLOATS, INTS, FLOATS, nb.float64, nb.int64, nb.int64)


@njit(_pruned, cache=True, nogil=True)
def _pruned_block(table, discount, v, out, choice, upper, rise, begin, end):
    first, start, to, p, reward = table
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


def pruned_bellman(
    table: TransitionTable,
    discount: float,
    v: np.ndarray,
    out: np.ndarray,
    choice: np.ndarray,
    upper: np.ndarray,
    rise: float,
) -> tuple[float, float]:
    """`bellman` with action elimination: rows with upper[row] + rise below the value of the row `choice` are skipped.

    `choice` holds some row of every state, and afterwards the best one; `upper` is updated. Pays for long rows.
    """
    parts = (table, discount, v, out, choice, upper, rise)
    return _range(run_parallel(_pruned_block, *parts, end=v.size, entries=table.probability.size))


@njit(_bounds(MATRIX, FLOATS, nb.float64, FLOATS, FLOATS, INTS, FLOATS, nb.float64), cache=True)
def pruned_dense_bellman(matrix, reward, discount, v, out, choice, upper, rise):
    """`pruned_bellman` for a dense model with matrix [S*A, S]."""
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


@njit(_bounds(MATRIX, nb.float64, FLOATS, INTS, FLOATS, FLOATS), cache=True)
def dense_chain_backup(matrix, discount, reward, choice, v, out):
    """Compute out = r^π + γ T^π v for the rows `choice` of a dense matrix [S*A, S]; return (min, max) of out - v."""
    low, high = np.inf, -np.inf
    for s in range(v.size):
        row = np.int64(choice[s])
        out[s] = reward[row] + discount * np.dot(matrix[row], v)
        low = min(low, out[s] - v[s])
        high = max(high, out[s] - v[s])
    return low, high


@njit(FLOATS(TABLE_TYPE), cache=True)
def best_rewards(table):
    """Return max_a r(s, a), [S]."""
    first, _, _, _, reward = table
    best = np.empty(first.size - 1)
    for s in range(unsigned(best.size)):
        best[s] = -np.inf
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            best[s] = max(best[s], reward[row])
    return best


@njit(_bounds(TABLE_TYPE, nb.float64, INTS, FLOATS, FLOATS, nb.int64, nb.int64), cache=True, nogil=True)
def _policy_block(table, discount, choice, v, out, begin, end):
    _, start, to, p, reward = table
    low, high = np.inf, -np.inf
    for s in range(unsigned(begin), unsigned(end)):
        row = unsigned(choice[s])
        out[s] = reward[row] + discount * expectation(start, to, p, row, v)
        low = min(low, out[s] - v[s])
        high = max(high, out[s] - v[s])
    return low, high


def policy_backup(
    table: TransitionTable, discount: float, choice: np.ndarray, v: np.ndarray, out: np.ndarray
) -> tuple[float, float]:
    """Compute out = r^π + γ T^π v for the rows `choice` of a table, on all cores; return (min, max) of out - v."""
    parts = (table, discount, choice, v, out)
    return _range(run_parallel(_policy_block, *parts, end=v.size, entries=table.probability.size))


@njit(_bounds(TABLE_TYPE, FLOATS, FLOATS), cache=True)
def chain_backup(chain, v, out):
    """Compute out = r + T v for a chain with the discount multiplied in; return (min, max) of out - v."""
    _, start, to, p, reward = chain
    low, high = np.inf, -np.inf
    for s in range(unsigned(v.size)):
        out[s] = reward[s] + expectation(start, to, p, s, v)
        low = min(low, out[s] - v[s])
        high = max(high, out[s] - v[s])
    return low, high


@njit(nb.float64(TABLE_TYPE, FLOATS, INTS, nb.boolean, nb.int64, nb.int64), cache=True, nogil=True)
def _sweep_block(table, v, choice, backward, begin, end):
    first, start, to, p, reward = table
    change = 0.0
    for i in range(end - begin):
        s = unsigned(end - 1 - i if backward else begin + i)
        best, row = _best_row(first, start, to, p, reward, 1.0, s, v)
        change = max(change, abs(best - v[s]))
        v[s] = best
        choice[s] = row
    return change


def sweep(table: TransitionTable, v: np.ndarray, choice: np.ndarray, backward: bool, parallel: bool = False) -> float:
    """Make a Gauss-Seidel Bellman sweep of v, the discount multiplied into the table; return the largest change.

    In parallel, every thread sweeps its own range of states and sees the others as they were before: the result does
    not depend on timing, and a lower bound on v* stays one.
    """
    if not parallel or table.probability.size < PARALLEL_FROM:
        return _sweep_block(table, v, choice, backward, 0, v.size)

    def sweep_range(begin: int, end: int) -> tuple[np.ndarray, float]:
        own = v.copy()
        change = _sweep_block(table, own, choice, backward, begin, end)
        return own[begin:end], change

    done = run_parallel(sweep_range, end=v.size, entries=table.probability.size)
    np.concatenate([own for own, _ in done], out=v)
    return max(change for _, change in done)


# -- threads ----------------------------------------------------------------------------------------------------------
# A plain thread pool and loops that release the interpreter lock: waiting threads sleep, so that a busy machine costs
# only its share. (The spinning barriers of OpenMP, numba's own way, make a sweep ten times slower on a busy core.)

_pool: ThreadPoolExecutor | None = None


def run_parallel(loop: Callable[..., Any], *arguments: Any, begin: int = 0, end: int, entries: int) -> list[Any]:
    """Run loop(*arguments, begin, end) on parts of range(begin, end), one per core if the table has enough entries.

    Returns the results in order. The calling thread runs the last part.
    """
    global _pool
    pieces = provenance.available_cores() if entries >= PARALLEL_FROM else 1
    if pieces == 1:
        return [loop(*arguments, begin, end)]
    if _pool is None:
        _pool = ThreadPoolExecutor(pieces - 1, thread_name_prefix="greedystep")
    *edges, last = pairwise(begin + (end - begin) * i // pieces for i in range(pieces + 1))
    others = [_pool.submit(loop, *arguments, *edge) for edge in edges]
    try:
        own = loop(*arguments, *last)
    finally:
        wait(others)  # after a Ctrl-C, too: no thread may go on writing to arrays that the caller uses again
    return [other.result() for other in others] + [own]


def _forget_pool() -> None:
    """Drop the thread pool in a forked child process, where its threads do not exist."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)

"""The compiled loops of the fast solver.

All of them work on one table, `Rows`: the rows of a state lie together, a row is a list of successors. A Markov chain
is the same table with one row a state, so that improving and evaluating are the same loops.

Rows of up to MAX_WIDTH successors are padded to one width: on such short rows the loop control costs more than the
arithmetic, and a fixed width makes a sweep two to three times faster. Longer rows keep their CSR offsets.

Signatures are spelled out, so that everything is compiled once, when this module is first imported, and comes from the
cache on disk ever after: no later call, whatever its model, waits for the compiler.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np
from numba import njit, prange

MAX_WIDTH = 6
"""Rows up to this length are padded to a common width; `_expectation` has one branch for each."""


class Rows(NamedTuple):
    """A model as the loops want it: value of row i = reward[i] + discount * Σ_k probability[k] v[successor[k]]."""

    first: np.ndarray
    """int32 [S + 1]: the rows of state s are first[s] .. first[s + 1] - 1."""
    width: int
    """Entries per row, or 0 where rows differ and `start` says where each begins."""
    start: np.ndarray
    """int32 [rows + 1] when width is 0, else empty."""
    successor: np.ndarray
    """int32 [entries]."""
    probability: np.ndarray
    """float64 [entries]; may carry a discount already."""
    reward: np.ndarray
    """float64 [rows]."""


_ints, _floats = nb.int32[::1], nb.float64[::1]
ROWS_TYPE = _rows = nb.types.NamedTuple((_ints, nb.int64, _ints, _ints, _floats, _floats), Rows)
_bounds = nb.types.UniTuple(nb.float64, 2)


@njit(inline="always")
def _expectation(rows, row, v):
    """Σ_k probability[k] v[successor[k]] over one row."""
    p, to = rows.probability, rows.successor
    if rows.width == 1:
        return p[row] * v[to[row]]
    if rows.width == 2:
        k = 2 * row
        return p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]]
    if rows.width == 3:
        k = 3 * row
        return p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]] + p[k + 2] * v[to[k + 2]]
    if rows.width == 4:
        k = 4 * row
        return (p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]]) + (p[k + 2] * v[to[k + 2]] + p[k + 3] * v[to[k + 3]])
    if rows.width == 5:
        k = 5 * row
        return (
            (p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]])
            + (p[k + 2] * v[to[k + 2]] + p[k + 3] * v[to[k + 3]])
            + p[k + 4] * v[to[k + 4]]
        )
    if rows.width == 6:
        k = 6 * row
        return (
            (p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]])
            + (p[k + 2] * v[to[k + 2]] + p[k + 3] * v[to[k + 3]])
            + (p[k + 4] * v[to[k + 4]] + p[k + 5] * v[to[k + 5]])
        )
    # Four running sums: an addition need not wait for the one before it.
    k, end = rows.start[row], rows.start[row + 1]
    a = b = c = d = 0.0
    while k + 3 < end:
        a += p[k] * v[to[k]]
        b += p[k + 1] * v[to[k + 1]]
        c += p[k + 2] * v[to[k + 2]]
        d += p[k + 3] * v[to[k + 3]]
        k += 4
    while k < end:
        a += p[k] * v[to[k]]
        k += 1
    return (a + b) + (c + d)


@njit(inline="always")
def _best_row(rows, discount, s, v):
    """(value, row) of the best row of state s; the first of equals."""
    best, choice = -np.inf, rows.first[s]
    for row in range(rows.first[s], rows.first[s + 1]):
        q = rows.reward[row] + discount * _expectation(rows, row, v)
        if q > best:
            best, choice = q, row
    return best, choice


def _bellman(rows, discount, v, out, choice):
    """out = B v from the old values only, with the greedy rows; returns (min, max) of out - v."""
    low, high = np.inf, -np.inf
    for s in prange(v.size):
        best, row = _best_row(rows, discount, s, v)
        out[s] = best
        choice[s] = row
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high


_bellman_signature = _bounds(_rows, nb.float64, _floats, _floats, _ints)
bellman_serial = njit(_bellman_signature, cache=True)(_bellman)
bellman_parallel = njit(_bellman_signature, cache=True, parallel=True)(_bellman)

PARALLEL_FROM = 60_000
"""Entries of a table from which two threads beat one: waking the second takes some 10 microseconds."""


def bellman(rows: Rows, discount: float, v: np.ndarray, out: np.ndarray, choice: np.ndarray) -> tuple[float, float]:
    """`_bellman` on one core or on all of them, as pays."""
    loop = bellman_parallel if rows.probability.size >= PARALLEL_FROM else bellman_serial
    return loop(rows, discount, v, out, choice)


@njit(inline="always")
def _sweep_block(rows, v, choice, backward, begin, end):
    change = 0.0
    for i in range(end - begin):
        s = end - 1 - i if backward else begin + i
        best, row = _best_row(rows, 1.0, s, v)
        change = max(change, abs(best - v[s]))
        v[s] = best
        choice[s] = row
    return change


@njit(nb.float64(_rows, _floats, _ints, nb.boolean), cache=True)
def _sweep_serial(rows, v, choice, backward):
    return _sweep_block(rows, v, choice, backward, 0, v.size)


@njit(nb.float64(_rows, _floats, _ints, nb.boolean, _ints), cache=True, parallel=True)
def _sweep_parallel(rows, v, choice, backward, blocks):
    """Every second block at a time: blocks of one half never read each other, so the result is always the same."""
    change = 0.0
    for half in range(2):
        for i in prange(blocks.size // 2):
            block = 2 * i + (1 - half if backward else half)
            change = max(change, _sweep_block(rows, v, choice, backward, blocks[block], blocks[block + 1]))
    return change


def sweep(rows: Rows, v: np.ndarray, choice: np.ndarray, backward: bool, blocks: np.ndarray | None = None) -> float:
    """One Bellman sweep in place (Gauss-Seidel) with discounts inside the table; returns the largest change."""
    if blocks is None:
        return _sweep_serial(rows, v, choice, backward)
    return _sweep_parallel(rows, v, choice, backward, blocks)


@njit(nb.void(_rows, _ints, nb.float64, _ints, _ints, _floats, _floats), cache=True)
def take_rows(rows, choice, discount, start, successor, probability, reward):
    """Copy one row of each state: the chain of a policy, its discount multiplied in."""
    k = 0
    for s in range(choice.size):
        row = choice[s]
        begin = row * rows.width if rows.width else rows.start[row]
        end = begin + rows.width if rows.width else rows.start[row + 1]
        for j in range(begin, end):
            successor[k] = rows.successor[j]
            probability[k] = discount * rows.probability[j]
            k += 1
        if not rows.width:
            start[s + 1] = k
        reward[s] = rows.reward[row]


@njit(inline="always")
def _one_row(chain, s, v):
    return chain.reward[s] + _expectation(chain, s, v)


@njit(nb.void(_rows, _floats, _floats), cache=True)
def _symmetric_sweeps(chain, right, x):
    """x = M^-1 right: a sweep forward and one backward from zero, on chain rewards `right` (symmetric Gauss-Seidel)."""
    S = x.size
    for s in range(S):
        x[s] = 0.0
    for s in range(S):
        x[s] = right[s] + _expectation(chain, s, x)
    for s in range(S - 1, -1, -1):
        x[s] = right[s] + _expectation(chain, s, x)


@njit(nb.types.Tuple((nb.int64, nb.float64))(_rows, _floats, nb.float64, nb.int64), cache=True)
def evaluate(chain, v, target, most):
    """Solve v = r + T v for a chain by BiCGSTAB, right-preconditioned with symmetric Gauss-Seidel sweeps.

    The sweeps settle what flows along the numbering (a deterministic chain in good order is solved by the first), the
    Krylov part what diffuses or mixes slowly: each is hopeless where the other shines. Stops when the largest residual
    is at most `target`, after `most` rounds, or when the recurrence breaks down; v is the best iterate, never a worse
    one than was given. Returns (rounds, largest residual).
    """
    S = v.size
    residual, shadow = np.empty(S), np.empty(S)
    direction, image = np.zeros(S), np.zeros(S)
    y, z, t = np.empty(S), np.empty(S), np.empty(S)
    x = v.copy()
    best = 0.0
    for s in range(S):
        residual[s] = _one_row(chain, s, x) - x[s]
        shadow[s] = residual[s]
        best = max(best, abs(residual[s]))
    rho = alpha = omega = 1.0
    rounds = 0
    while rounds < most and best > target:
        rounds += 1
        rho_new = 0.0
        for s in range(S):
            rho_new += shadow[s] * residual[s]
        if rho_new == 0.0 or omega == 0.0 or not np.isfinite(rho_new):
            break
        beta = (rho_new / rho) * (alpha / omega)
        rho = rho_new
        for s in range(S):
            direction[s] = residual[s] + beta * (direction[s] - omega * image[s])
        _symmetric_sweeps(chain, direction, y)
        against = 0.0
        for s in range(S):
            image[s] = y[s] - _expectation(chain, s, y)
            against += shadow[s] * image[s]
        if against == 0.0:
            break
        alpha = rho / against
        for s in range(S):
            residual[s] -= alpha * image[s]
        _symmetric_sweeps(chain, residual, z)
        ts = tt = 0.0
        for s in range(S):
            t[s] = z[s] - _expectation(chain, s, z)
            ts += t[s] * residual[s]
            tt += t[s] * t[s]
        omega = ts / tt if tt > 0.0 else 0.0
        size = 0.0
        for s in range(S):
            x[s] += alpha * y[s] + omega * z[s]
            residual[s] -= omega * t[s]
            size = max(size, abs(residual[s]))
        if not np.isfinite(size):
            break
        if size < best:
            best = size
            v[:] = x
    return rounds, best


@njit(nb.boolean(_rows, _floats), cache=True)
def evaluate_deterministic(chain, v):
    """v = r + T v exactly, for a chain whose states have one successor each: walk to the end, or once round a loop.

    Returns False, with v unfinished, when a loop does not lose value (discount 1).
    """
    S = v.size
    to, kept, reward = chain.successor, chain.probability, chain.reward
    unseen, on_path, known = 0, 1, 2
    mark = np.zeros(S, np.int8)
    path = np.empty(S, np.int32)
    for origin in range(S):
        if mark[origin] != unseen:
            continue
        length, s = 0, origin
        while mark[s] == unseen:
            mark[s] = on_path
            path[length] = s
            length += 1
            if kept[s] == 0.0:
                break
            s = to[s]
        last = path[length - 1]
        if kept[last] != 0.0 and mark[s] == on_path:
            gathered, decay, t = 0.0, 1.0, s
            while True:
                gathered += decay * reward[t]
                decay *= kept[t]
                t = to[t]
                if t == s:
                    break
            if decay >= 1.0:
                return False
            v[s] = gathered / (1.0 - decay)
            mark[s] = known
        for i in range(length - 1, -1, -1):
            t = path[i]
            if mark[t] == on_path:
                v[t] = reward[t] + (kept[t] * v[to[t]] if kept[t] != 0.0 else 0.0)
                mark[t] = known
    return True

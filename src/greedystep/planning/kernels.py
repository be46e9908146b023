"""The compiled loops of the fast solver.

All of them work on one table, `Rows`: the rows of a state lie together, a row is a list of successors. A Markov chain
is the same table with one row a state, so that improving and evaluating are the same loops.

Rows of up to MAX_WIDTH successors are padded to one width: on such short rows the loop control costs more than the
arithmetic, and a fixed width makes a sweep two to three times faster. Longer rows keep their CSR offsets.

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

MAX_WIDTH = 6
"""Rows up to this length are padded to a common width; `_expectation` has one branch for each."""

SWEEPS_PER_ROUND = 6
"""The work of a round of `evaluate`, in sweeps: two symmetric preconditioner steps and two products."""

PARALLEL_FROM = 150_000
"""Entries of a table from which several cores beat one: handing out the pieces takes some 40 microseconds."""


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


# The helpers below take arrays, not the table: taking a field out of it in a loop costs a reference count each time.


@njit(inline="always")
def _expectation(width, start, to, p, row, v):
    """Σ_k p[k] v[to[k]] over one row."""
    if width == 1:
        return p[row] * v[to[row]]
    if width == 2:
        k = 2 * row
        return p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]]
    if width == 3:
        k = 3 * row
        return p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]] + p[k + 2] * v[to[k + 2]]
    if width == 4:
        k = 4 * row
        return (p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]]) + (p[k + 2] * v[to[k + 2]] + p[k + 3] * v[to[k + 3]])
    if width == 5:
        k = 5 * row
        return (
            (p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]])
            + (p[k + 2] * v[to[k + 2]] + p[k + 3] * v[to[k + 3]])
            + p[k + 4] * v[to[k + 4]]
        )
    if width == 6:
        k = 6 * row
        return (
            (p[k] * v[to[k]] + p[k + 1] * v[to[k + 1]])
            + (p[k + 2] * v[to[k + 2]] + p[k + 3] * v[to[k + 3]])
            + (p[k + 4] * v[to[k + 4]] + p[k + 5] * v[to[k + 5]])
        )
    # Four running sums: an addition need not wait for the one before it.
    k, end = start[row], start[row + 1]
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
def _best_row(first, width, start, to, p, reward, discount, s, v):
    """(value, row) of the best row of state s; the first of equals."""
    best, choice = -np.inf, first[s]
    for row in range(first[s], first[s + 1]):
        q = reward[row] + discount * _expectation(width, start, to, p, row, v)
        if q > best:
            best, choice = q, row
    return best, choice


@njit(_bounds(_rows, nb.float64, _floats, _floats, _ints, nb.int64, nb.int64), cache=True, nogil=True)
def _bellman_block(rows, discount, v, out, choice, begin, end):
    first, width, start, to, p, reward = rows
    low, high = np.inf, -np.inf
    for s in range(begin, end):
        best, row = _best_row(first, width, start, to, p, reward, discount, s, v)
        out[s] = best
        choice[s] = row
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high


def bellman(rows: Rows, discount: float, v: np.ndarray, out: np.ndarray, choice: np.ndarray) -> tuple[float, float]:
    """out = B v from the old values only, with the greedy rows; returns (min, max) of out - v."""
    ranges = in_pieces(_bellman_block, rows, discount, v, out, choice, size=v.size, entries=rows.probability.size)
    return min(low for low, _ in ranges), max(high for _, high in ranges)


@njit(_bounds(_rows, _floats, _floats, nb.int64, nb.int64), cache=True, nogil=True)
def _chain_block(chain, v, out, begin, end):
    _, width, start, to, p, reward = chain
    low, high = np.inf, -np.inf
    for s in range(begin, end):
        out[s] = reward[s] + _expectation(width, start, to, p, s, v)
        low = min(low, out[s] - v[s])
        high = max(high, out[s] - v[s])
    return low, high


def chain_backup(chain: Rows, v: np.ndarray, out: np.ndarray) -> tuple[float, float]:
    """out = r + T v for a chain, one row a state with the discount inside; returns (min, max) of out - v."""
    return _chain_block(chain, v, out, 0, v.size)


_sweeps_signature = nb.types.Tuple((nb.float64, nb.int64))(
    _rows, _floats, _ints, nb.boolean, nb.int64, nb.float64, nb.int64, nb.int64
)


@njit(_sweeps_signature, cache=True, nogil=True)
def _sweeps_block(rows, v, choice, backward, most, enough, begin, end):
    first, width, start, to, p, reward = rows
    change, count = np.inf, 0
    while count < most and change > enough:
        change = 0.0
        for i in range(end - begin):
            s = end - 1 - i if backward else begin + i
            best, row = _best_row(first, width, start, to, p, reward, 1.0, s, v)
            change = max(change, abs(best - v[s]))
            v[s] = best
            choice[s] = row
        backward = not backward
        count += 1
    return change, count


def sweeps(
    rows: Rows,
    v: np.ndarray,
    choice: np.ndarray,
    backward: bool,
    most: int = 1,
    enough: float = 0.0,
    side_by_side: bool = False,
) -> tuple[float, int]:
    """Bellman sweeps in place (Gauss-Seidel), there and back, with discounts inside the table.

    At most `most` of them, until the largest change is `enough` or less. Side by side, every core sweeps its own
    stretch of states and sees the others as they were before: the result does not depend on timing, and a lower bound
    stays one. Returns (largest change in the last sweep, number of sweeps).
    """
    pieces = threads.count() if side_by_side and rows.probability.size * most >= PARALLEL_FROM else 1
    if pieces == 1:
        return _sweeps_block(rows, v, choice, backward, most, enough, 0, v.size)

    def stretch(begin: int, end: int) -> tuple[np.ndarray, float, int]:
        own = v.copy()
        change, count = _sweeps_block(rows, own, choice, backward, most, enough, begin, end)
        return own[begin:end], change, count

    edges = list(pairwise(v.size * i // pieces for i in range(pieces + 1)))
    done = threads.run(stretch, edges)
    for (begin, end), (own, _, _) in zip(edges, done, strict=True):
        v[begin:end] = own
    return max(change for _, change, _ in done), max(count for _, _, count in done)


@njit(nb.void(_rows, _ints, nb.float64, _rows, nb.int64, nb.int64), cache=True, nogil=True)
def _take_rows(rows, choice, discount, chain, begin, end):
    _, width, start, to, p, reward = rows
    _, _, new_start, new_to, new_p, new_reward = chain
    for s in range(begin, end):
        row = choice[s]
        k = s * width if width else new_start[s]
        j = row * width if width else start[row]
        for _ in range(width if width else start[row + 1] - start[row]):
            new_to[k] = to[j]
            new_p[k] = discount * p[j]
            k += 1
            j += 1
        new_reward[s] = reward[row]


def take_rows(rows: Rows, choice: np.ndarray, discount: float, chain: Rows) -> None:
    """Copy one row of each state into `chain`, the discount multiplied in; its `start` is already filled."""
    in_pieces(_take_rows, rows, choice, discount, chain, size=choice.size, entries=chain.probability.size)


def in_pieces(loop: Callable[..., Any], *arguments: Any, size: int, entries: int) -> list[Any]:
    """Run a loop over range(size), which handles so many entries, on as many cores as pay."""
    pieces = threads.count() if entries >= PARALLEL_FROM else 1
    edges = pairwise(size * i // pieces for i in range(pieces + 1))
    return threads.run(loop, [(*arguments, *edge) for edge in edges])


@njit(nb.void(_rows, _floats, _floats), cache=True)
def _symmetric_sweeps(chain, right, x):
    """x = M^-1 right: a sweep forward and one backward from zero, on chain rewards `right` (symmetric Gauss-Seidel)."""
    _, width, start, to, p, _ = chain
    S = x.size
    for s in range(S):
        x[s] = 0.0
    for s in range(S):
        x[s] = right[s] + _expectation(width, start, to, p, s, x)
    for s in range(S - 1, -1, -1):
        x[s] = right[s] + _expectation(width, start, to, p, s, x)


@njit(nb.types.Tuple((nb.int64, nb.float64))(_rows, _floats, nb.float64, nb.int64), cache=True)
def evaluate(chain, v, target, most):
    """Solve v = r + T v for a chain by BiCGSTAB, right-preconditioned with symmetric Gauss-Seidel sweeps.

    The sweeps settle what flows along the numbering (a deterministic chain in good order is solved by the first), the
    Krylov part what diffuses or mixes slowly: each is hopeless where the other shines. Stops when the largest residual
    is at most `target`, after `most` rounds, or when the recurrence breaks down; v is the best iterate, never a worse
    one than was given. Returns (rounds, largest residual).
    """
    _, width, start, to, p, reward = chain
    S = v.size
    residual, shadow = np.empty(S), np.empty(S)
    direction, image = np.zeros(S), np.zeros(S)
    y, z, t = np.empty(S), np.empty(S), np.empty(S)
    x = v.copy()
    best = 0.0
    for s in range(S):
        residual[s] = reward[s] + _expectation(width, start, to, p, s, x) - x[s]
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
            image[s] = y[s] - _expectation(width, start, to, p, s, y)
            against += shadow[s] * image[s]
        if against == 0.0:
            break
        alpha = rho / against
        for s in range(S):
            residual[s] -= alpha * image[s]
        _symmetric_sweeps(chain, residual, z)
        ts = tt = 0.0
        for s in range(S):
            t[s] = z[s] - _expectation(width, start, to, p, s, z)
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

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

SWEEPS_PER_ROUND = 6
"""The work of a round of `evaluate`, in sweeps: two symmetric preconditioner steps and two products."""

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
_unsigned = np.uintp
ONE, TWO, THREE, FOUR = (np.uintp(n) for n in (1, 2, 3, 4))
"""Numbers that keep an unsigned index unsigned."""


# The helpers below take arrays, not the table: taking a field out of it in a loop costs a reference count each time.


@njit(inline="always")
def _term(to, p, k, v):
    return p[k] * v[to[k]]


@njit(inline="always")
def _expectation(start, to, p, row, v):
    """Σ_k p[k] v[to[k]] over one row. Most rows are short, and on those the control of a loop would cost the most."""
    k = _unsigned(start[row])
    n = _unsigned(start[row + ONE]) - k
    if n == FOUR:
        return (_term(to, p, k, v) + _term(to, p, k + ONE, v)) + (_term(to, p, k + TWO, v) + _term(to, p, k + THREE, v))
    if n == THREE:
        return (_term(to, p, k, v) + _term(to, p, k + ONE, v)) + _term(to, p, k + TWO, v)
    if n == TWO:
        return _term(to, p, k, v) + _term(to, p, k + ONE, v)
    if n == ONE:
        return _term(to, p, k, v)
    # Four running sums: an addition need not wait for the one before it.
    a = b = c = d = 0.0
    for _ in range(n >> TWO):
        a += _term(to, p, k, v)
        b += _term(to, p, k + ONE, v)
        c += _term(to, p, k + TWO, v)
        d += _term(to, p, k + THREE, v)
        k += FOUR
    for _ in range(n & THREE):
        a += _term(to, p, k, v)
        k += ONE
    return (a + b) + (c + d)


@njit(inline="always")
def _best_row(first, start, to, p, reward, discount, s, v):
    """(value, row) of the best row of state s; the first of equals."""
    row, end = _unsigned(first[s]), _unsigned(first[s + ONE])
    best, choice = -np.inf, row
    while row < end:
        q = reward[row] + discount * _expectation(start, to, p, row, v)
        better = q > best
        best = q if better else best
        choice = row if better else choice
        row += ONE
    return best, choice


@njit(_bounds(_rows, nb.float64, _floats, _floats, _ints, nb.int64, nb.int64), cache=True, nogil=True)
def _bellman_block(rows, discount, v, out, choice, begin, end):
    first, start, to, p, reward = rows
    low, high = np.inf, -np.inf
    for s in range(_unsigned(begin), _unsigned(end)):
        best, row = _best_row(first, start, to, p, reward, discount, s, v)
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
    _, start, to, p, reward = chain
    low, high = np.inf, -np.inf
    for s in range(_unsigned(begin), _unsigned(end)):
        out[s] = reward[s] + _expectation(start, to, p, s, v)
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
    first, start, to, p, reward = rows
    change, count = np.inf, 0
    while count < most and change > enough:
        change = 0.0
        for i in range(end - begin):
            s = _unsigned(end - 1 - i if backward else begin + i)
            best, row = _best_row(first, start, to, p, reward, 1.0, s, v)
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


@njit(nb.int64(_rows, _ints, nb.float64, _rows), cache=True)
def take_rows(rows, choice, discount, chain):
    """Copy one row of each state into `chain`, which has room, the discount multiplied in; returns its longest row."""
    _, start, to, p, reward = rows
    _, new_start, new_to, new_p, new_reward = chain
    k, longest = _unsigned(0), _unsigned(0)
    new_start[0] = 0
    for s in range(_unsigned(choice.size)):
        row = _unsigned(choice[s])
        j, end = _unsigned(start[row]), _unsigned(start[row + ONE])
        longest = max(longest, end - j)
        while j < end:
            new_to[k] = to[j]
            new_p[k] = discount * p[j]
            k += ONE
            j += ONE
        new_start[s + ONE] = k
        new_reward[s] = reward[row]
    return longest


def in_pieces(loop: Callable[..., Any], *arguments: Any, size: int, entries: int) -> list[Any]:
    """Run a loop over range(size), which handles so many entries, on as many cores as pay."""
    pieces = threads.count() if entries >= PARALLEL_FROM else 1
    edges = pairwise(size * i // pieces for i in range(pieces + 1))
    return threads.run(loop, [(*arguments, *edge) for edge in edges])


@njit(nb.void(_rows, _floats, _floats), cache=True)
def _symmetric_sweeps(chain, right, x):
    """x = M^-1 right: a sweep forward and one backward from zero, on chain rewards `right` (symmetric Gauss-Seidel)."""
    _, start, to, p, _ = chain
    S = x.size
    for s in range(_unsigned(S)):
        x[s] = 0.0
    for s in range(_unsigned(S)):
        x[s] = right[s] + _expectation(start, to, p, s, x)
    for i in range(S):
        s = _unsigned(S - 1 - i)
        x[s] = right[s] + _expectation(start, to, p, s, x)


@njit(nb.types.Tuple((nb.int64, nb.float64))(_rows, _floats, nb.float64, nb.int64), cache=True)
def evaluate(chain, v, target, most):
    """Solve v = r + T v for a chain by BiCGSTAB, right-preconditioned with symmetric Gauss-Seidel sweeps.

    The sweeps settle what flows along the numbering (a deterministic chain in good order is solved by the first), the
    Krylov part what diffuses or mixes slowly: each is hopeless where the other shines. Stops when the largest residual
    is at most `target`, after `most` rounds, or when the recurrence breaks down; v is the best iterate, never a worse
    one than was given. Returns (rounds, largest residual).
    """
    _, start, to, p, reward = chain
    S = v.size
    residual, shadow = np.empty(S), np.empty(S)
    direction, image = np.zeros(S), np.zeros(S)
    y, z, t = np.empty(S), np.empty(S), np.empty(S)
    x = v.copy()
    best = 0.0
    for s in range(_unsigned(S)):
        residual[s] = reward[s] + _expectation(start, to, p, s, x) - x[s]
        shadow[s] = residual[s]
        best = max(best, abs(residual[s]))
    rho = alpha = omega = 1.0
    rounds = 0
    while rounds < most and best > target:
        rounds += 1
        rho_new = 0.0
        for s in range(_unsigned(S)):
            rho_new += shadow[s] * residual[s]
        if rho_new == 0.0 or omega == 0.0 or not np.isfinite(rho_new):
            break
        beta = (rho_new / rho) * (alpha / omega)
        rho = rho_new
        for s in range(_unsigned(S)):
            direction[s] = residual[s] + beta * (direction[s] - omega * image[s])
        _symmetric_sweeps(chain, direction, y)
        against = 0.0
        for s in range(_unsigned(S)):
            image[s] = y[s] - _expectation(start, to, p, s, y)
            against += shadow[s] * image[s]
        if against == 0.0:
            break
        alpha = rho / against
        for s in range(_unsigned(S)):
            residual[s] -= alpha * image[s]
        _symmetric_sweeps(chain, residual, z)
        ts = tt = 0.0
        for s in range(_unsigned(S)):
            t[s] = z[s] - _expectation(start, to, p, s, z)
            ts += t[s] * residual[s]
            tt += t[s] * t[s]
        omega = ts / tt if tt > 0.0 else 0.0
        size = 0.0
        for s in range(_unsigned(S)):
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
    """v = r + T v exactly, for a chain whose states have at most one successor: walk to the end, or once round a loop.

    Returns False, with v unfinished, when a loop does not lose value (discount 1).
    """
    _, start, to, p, reward = chain
    S = v.size
    unseen, on_path, known = 0, 1, 2
    mark = np.zeros(S, np.int8)
    path = np.empty(S, np.uint32)
    for origin in range(_unsigned(S)):
        if mark[origin] != unseen:
            continue
        length, s, kept = _unsigned(0), origin, 0.0
        while mark[s] == unseen:
            mark[s] = on_path
            path[length] = s
            length += ONE
            k = _unsigned(start[s])
            kept = p[k] if k < start[s + ONE] else 0.0
            if kept == 0.0:
                break
            s = _unsigned(to[k])
        if kept != 0.0 and mark[s] == on_path:
            gathered, decay, t = 0.0, 1.0, s
            while True:
                k = _unsigned(start[t])
                gathered += decay * reward[t]
                decay *= p[k]
                t = _unsigned(to[k])
                if t == s:
                    break
            if decay >= 1.0:
                return False
            v[s] = gathered / (1.0 - decay)
            mark[s] = known
        while length > 0:
            length -= ONE
            t = _unsigned(path[length])
            if mark[t] == on_path:
                k = _unsigned(start[t])
                v[t] = reward[t] + (p[k] * v[to[k]] if k < start[t + ONE] and p[k] != 0.0 else 0.0)
                mark[t] = known
    return True

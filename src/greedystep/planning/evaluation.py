"""The value of a policy: v = r + T v on the Markov chain that it makes of a model.

Three ways, each for what it does best: a deterministic chain is walked along its paths; one whose states lead only to
near neighbours is solved by elimination; any other by BiCGSTAB, which settles what diffuses or mixes slowly, helped by
sweeps in place, which settle what flows along the numbering. (Each of the last two is hopeless where the other shines.)
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numba import njit

from greedystep.planning.kernels import ONE, ROWS_TYPE, Rows, expectation, unsigned

SWEEPS_PER_ROUND = 5
"""The work of a round of BiCGSTAB, in sweeps of the chain."""
BAND_WORTH = 200
"""Elimination pays while it takes at most so many operations for every entry of the chain."""
SMALLEST_PIVOT = 1e-12

_ints, _floats = nb.uint32[::1], nb.float64[::1]


class Evaluator:
    """Evaluates policies of one table; all chains are made in the same room."""

    def __init__(self, rows: Rows):
        self._rows = rows
        self._wide = False  # once a policy leads far, others will too
        states = rows.first.size - 1
        longest = int(np.diff(rows.start).max(initial=0))
        room = min(states * longest, rows.probability.size)
        self._chain = Rows(
            np.arange(states + 1, dtype=np.uint32),
            np.empty(states + 1, np.uint32),
            np.empty(room, np.uint32),
            np.empty(room),
            np.empty(states),
        )

    def chain(self, choice: np.ndarray, discount: float) -> Rows:
        """The chain of the chosen rows, valid until the next one; probabilities times `discount`."""
        take_rows(self._rows, choice, discount, False, self._chain)
        return self._chain

    def evaluate(self, choice: np.ndarray, v: np.ndarray, target: float, most: int, discount: float = 1.0) -> float:
        """Bring v to the value of the policy, in at most `most` rounds where that takes rounds.

        `target` is what may be left of the residual. Returns the work, in sweeps of the chain.
        """
        chain = self._chain
        longest = int(take_rows(self._rows, choice, discount, True, chain))
        if longest <= 1 and evaluate_deterministic(chain, v):
            return 3.0
        if not self._wide:
            below, above = reach(chain)
            work = below * (2 * above + 1)
            self._wide = work > BAND_WORTH * longest
            if not self._wide and eliminate(chain, v, below, above):
                return 1.0 + work / longest
        rounds, _ = bicgstab(chain, v, target, most)
        return 1.0 + SWEEPS_PER_ROUND * rounds


@njit(nb.int64(ROWS_TYPE, _ints, nb.float64, nb.boolean, ROWS_TYPE), cache=True)
def take_rows(rows, choice, discount, solve_loops, chain):
    """Copy one row of each state into `chain`, which has room, the discount multiplied in; returns its longest row.

    If asked to, solve a step that may stay where it is for its own value, v = r + p v + ..., as layout.py does.
    """
    _, start, to, p, reward = rows
    _, new_start, new_to, new_p, new_reward = chain
    k, longest = unsigned(0), unsigned(0)
    new_start[0] = 0
    for s in range(unsigned(choice.size)):
        row = unsigned(choice[s])
        begin, end = unsigned(start[row]), unsigned(start[row + ONE])
        longest = max(longest, end - begin)
        stays = 0.0
        for j in range(begin, end):
            stays += discount * p[j] if to[j] == s else 0.0
        solvable = solve_loops and 0.0 < stays < 1.0
        scale = 1.0 / (1.0 - stays) if solvable else 1.0
        for j in range(begin, end):
            new_to[k] = to[j]
            new_p[k] = 0.0 if to[j] == s and solvable else scale * discount * p[j]
            k += ONE
        new_start[s + ONE] = k
        new_reward[s] = scale * reward[row]
    return longest


@njit(nb.boolean(ROWS_TYPE, _floats), cache=True)
def evaluate_deterministic(chain, v):
    """v = r + T v exactly, for a chain whose states have at most one successor: walk to the end, or once round a loop.

    Returns False, with v unfinished, when a loop does not lose value (discount 1).
    """
    _, start, to, p, reward = chain
    S = v.size
    unseen, on_path, known = 0, 1, 2
    mark = np.zeros(S, np.int8)
    path = np.empty(S, np.uint32)
    for origin in range(unsigned(S)):
        if mark[origin] != unseen:
            continue
        length, s, kept = unsigned(0), origin, 0.0
        while mark[s] == unseen:
            mark[s] = on_path
            path[length] = s
            length += ONE
            k = unsigned(start[s])
            kept = p[k] if k < start[s + ONE] else 0.0
            if kept == 0.0:
                break
            s = unsigned(to[k])
        if kept != 0.0 and mark[s] == on_path:
            gathered, decay, t = 0.0, 1.0, s
            while True:
                k = unsigned(start[t])
                gathered += decay * reward[t]
                decay *= p[k]
                t = unsigned(to[k])
                if t == s:
                    break
            if decay >= 1.0:
                return False
            v[s] = gathered / (1.0 - decay)
            mark[s] = known
        while length > 0:
            length -= ONE
            t = unsigned(path[length])
            if mark[t] == on_path:
                k = unsigned(start[t])
                v[t] = reward[t] + (p[k] * v[to[k]] if k < start[t + ONE] and p[k] != 0.0 else 0.0)
                mark[t] = known
    return True


@njit(nb.types.UniTuple(nb.int64, 2)(ROWS_TYPE), cache=True)
def reach(chain):
    """How far a state leads (down, up) in the numbering."""
    _, start, to, p, _ = chain
    below = above = 0
    for s in range(unsigned(start.size - 1)):
        for k in range(unsigned(start[s]), unsigned(start[s + ONE])):
            if p[k] > 0.0:
                step = np.int64(to[k]) - np.int64(s)
                below, above = max(below, -step), max(above, step)
    return below, above


@njit(nb.boolean(ROWS_TYPE, _floats, nb.int64, nb.int64), cache=True)
def eliminate(chain, v, below, above):
    """v = (I - T)^-1 r exactly, by Gaussian elimination inside the band; no pivots are sought, for I - T needs none.

    Returns False, and v as it was, if a pivot vanishes: with discount 1 a policy may have no value.
    """
    _, start, to, p, reward = chain
    S, width = v.size, below + above + 1
    band, x = np.zeros((S, width)), reward[:S].copy()
    for s in range(S):
        band[s, below] = 1.0
        for k in range(start[s], start[s + 1]):
            if p[k] > 0.0:
                band[s, below + np.int64(to[k]) - s] -= p[k]
    for s in range(S):
        pivot = band[s, below]
        if pivot < SMALLEST_PIVOT:
            return False
        for i in range(s + 1, min(s + below + 1, S)):
            column = below + s - i
            factor = band[i, column] / pivot
            if factor != 0.0:
                for j in range(1, above + 1):
                    band[i, column + j] -= factor * band[s, below + j]
                x[i] -= factor * x[s]
    for s in range(S - 1, -1, -1):
        total = x[s]
        for j in range(1, min(above, S - 1 - s) + 1):
            total -= band[s, below + j] * v[s + j]
        v[s] = total / band[s, below]
    return True


@njit(nb.types.Tuple((nb.int64, nb.float64))(ROWS_TYPE, _floats, nb.float64, nb.int64), cache=True)
def bicgstab(chain, v, target, most):
    """Solve v = r + T v by BiCGSTAB, preconditioned with symmetric sweeps in place.

    With T = L + U, what leads down and up in the numbering, the sweeps divide by (I - L)(I - U). Split in two,
    A' = (I - L)^-1 (I - L - U) (I - U)^-1, that costs no more than the product itself (Eisenstat 1981):
    A' x = t + (I - L)^-1 (x - t) with t = (I - U)^-1 x, one sweep down and one up. Each begins with zeros, so that a
    sweep over whole rows sees only the half that it has passed.

    Stops when the largest residual, (I - L)^-1 (r + T v - v), is at most `target`, after `most` rounds, or when the
    recurrence breaks down; v is the best iterate, never a worse one than was given. Returns (rounds, largest residual).
    """
    _, start, to, p, reward = chain
    S = unsigned(v.size)
    residual, shadow, direction, image = np.zeros(S), np.empty(S), np.zeros(S), np.zeros(S)
    down, up = np.empty(S), np.empty(S)
    y, best_y = np.zeros(S), np.zeros(S)
    best = rho_next = 0.0
    for s in range(S):
        own = reward[s] + expectation(start, to, p, s, v) - v[s]
        residual[s] = own + expectation(start, to, p, s, residual)
        shadow[s] = residual[s]
        best = max(best, abs(residual[s]))
        rho_next += residual[s] * residual[s]
    given = best
    rho = alpha = omega = 1.0
    rounds = 0
    while rounds < most and best > target:
        rounds += 1
        if rho_next == 0.0 or omega == 0.0 or not np.isfinite(rho_next):
            break
        beta = (rho_next / rho) * (alpha / omega)
        rho = rho_next
        down[:] = 0.0
        up[:] = 0.0
        for i in range(S):
            s = S - ONE - i
            direction[s] = residual[s] + beta * (direction[s] - omega * image[s])
            down[s] = direction[s] + expectation(start, to, p, s, down)
        against = 0.0
        for s in range(S):
            up[s] = direction[s] - down[s] + expectation(start, to, p, s, up)
            image[s] = down[s] + up[s]
            against += shadow[s] * image[s]
        if against == 0.0:
            break
        alpha = rho / against
        down[:] = 0.0
        up[:] = 0.0
        for i in range(S):
            s = S - ONE - i
            residual[s] -= alpha * image[s]
            down[s] = residual[s] + expectation(start, to, p, s, down)
        along = square = 0.0
        for s in range(S):
            up[s] = residual[s] - down[s] + expectation(start, to, p, s, up)
            down[s] += up[s]
            along += down[s] * residual[s]
            square += down[s] * down[s]
        omega = along / square if square > 0.0 else 0.0
        size = rho_next = 0.0
        for s in range(S):
            y[s] += alpha * direction[s] + omega * residual[s]
            residual[s] -= omega * down[s]
            size = max(size, abs(residual[s]))
            rho_next += shadow[s] * residual[s]
        if not np.isfinite(size):
            break
        if size < best:
            best = size
            best_y[:] = y
    if best < given:
        down[:] = 0.0
        for i in range(S):
            s = S - ONE - i
            down[s] = best_y[s] + expectation(start, to, p, s, down)
            v[s] += down[s]
    return rounds, best

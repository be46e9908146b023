"""Policy evaluation: solve v = r + T v for the Markov chain of a policy.

Three solvers, each for what it does best. A deterministic chain is followed along its paths. A banded one, whose states
lead only to near neighbours, is solved by elimination. All others are solved by BiCGSTAB, which handles slow diffusion
and mixing, preconditioned with Gauss-Seidel sweeps, which handle what flows along the numbering. Where an exact value
is wanted and BiCGSTAB does not get there, elimination in nested dissection order does (elimination.py).
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numba import njit

from greedystep.planning import kernels
from greedystep.planning.elimination import solve_sparse
from greedystep.planning.kernels import FLOATS, INTS, ONE, TABLE_TYPE, UNIT, TransitionTable, expectation, unsigned
from greedystep.signals import CHUNK, Deadline

SWEEPS_PER_ROUND = 5  # the work of a round of BiCGSTAB, in sweeps of the chain
REDUCTION = 1e-10  # of the residual, after which BiCGSTAB restarts: rounding makes its recurrence drift from it
ROUNDS = 500  # rounds after which BiCGSTAB restarts
PATIENCE = 12  # restarts that do not halve the residual after which evaluation stops
BAND_WORTH = 200  # operations per entry of the chain up to which banded elimination pays
SMALLEST_PIVOT = 1e-12


class PolicyEvaluator:
    """Evaluates policies of one transition table, each given by its rows `choice` [S]; all share one buffer."""

    def __init__(self, table: TransitionTable, deadline: Deadline | None = None):
        self._rows, self._deadline = table, deadline or Deadline()
        self._wide = False  # once the chain of one policy is not banded, the others are not expected to be
        states = table.first.size - 1
        longest = int(np.diff(table.start).max(initial=0))
        room = min(states * longest, table.probability.size)
        self._chain = TransitionTable(
            np.arange(states + 1, dtype=np.uint32),
            np.empty(states + 1, np.uint32),
            np.empty(room, np.uint32),
            np.empty(room),
            np.empty(states),
        )

    def chain(self, choice: np.ndarray, discount: float) -> TransitionTable:
        """Return the Markov chain of the rows `choice` [S], probabilities times `discount`; valid until the next."""
        extract_chain(self._rows, choice, discount, False, self._chain)
        return self._chain

    def evaluate(self, choice: np.ndarray, v: np.ndarray, target: float, most: int, discount: float = 1.0) -> float:
        """Iterate v [S] towards the value of the policy, to a residual of `target` or for `most` rounds of BiCGSTAB.

        Returns the work, in sweeps of the chain.
        """
        work, _ = self._evaluate_directly(choice, v, discount)
        if work > 0.0:
            return work
        rounds, _ = bicgstab(self._chain, v, target, most, self._deadline)
        return 1.0 + SWEEPS_PER_ROUND * rounds

    def evaluate_exactly(self, choice: np.ndarray, v: np.ndarray, discount: float) -> float:
        """Iterate v [S] to the value of the policy, until rounding explains the residual that is left.

        BiCGSTAB does it where a chain mixes, elimination where it does not. Where both fail, which takes a large chain
        with hardly any discount and much fill-in, v is what they and more and more sweeps reach. Returns the work of
        the rounds, in sweeps of the chain.
        """
        work, longest = self._evaluate_directly(choice, v, discount)
        if work > 0.0:
            return work
        chain = self._chain
        largest_reward, smallest, vain, rounds, eliminated = float(np.abs(chain.reward).max()), np.inf, 0, 0, False
        out, same = np.empty_like(v), np.empty(v.size, np.uint32)
        while True:
            self._deadline.check()
            low, high = kernels.chain_backup(chain, v, out)
            residual, noise = max(-low, high), UNIT * (largest_reward + float(np.abs(v).max()))
            vain = vain + 1 if residual > 0.5 * smallest else 0
            smallest = min(smallest, residual)
            if not residual > (longest + 4) * noise or vain > PATIENCE:
                return work
            if (vain > 0 or rounds >= ROUNDS) and not eliminated:
                eliminated = True
                if solve_sparse(chain, v, self._deadline):
                    continue
            for i in range(2**vain if vain > 0 else 0):  # slow, but sweeps contract whatever the chain is like
                kernels.sweep(chain, v, same, bool(i % 2))
                self._deadline.check()
            rounds, _ = bicgstab(chain, v, max(noise, REDUCTION * residual), ROUNDS, self._deadline)
            work += 1.0 + SWEEPS_PER_ROUND * rounds

    def _evaluate_directly(self, choice: np.ndarray, v: np.ndarray, discount: float) -> tuple[float, int]:
        """Solve for v if the chain is deterministic or banded; return (work, 0 if not solved; longest row's length)."""
        chain = self._chain
        longest = int(extract_chain(self._rows, choice, discount, True, chain))
        if longest <= 1 and solve_deterministic(chain, v):
            return 3.0, longest
        if not self._wide:
            below, above = map(int, bandwidth(chain))
            work = below * (2 * above + 1)
            self._wide = work > BAND_WORTH * longest
            if not self._wide and solve_banded(chain, v, below, above, self._deadline):
                return 1.0 + work / longest, longest
        return 0.0, longest


@njit(nb.int64(TABLE_TYPE, INTS, nb.float64, nb.boolean, TABLE_TYPE), cache=True)
def extract_chain(table, choice, discount, solve_loops, chain):
    """Copy the row choice[s] of each state into `chain`, times the discount; return the length of the longest row.

    With `solve_loops`, a self-loop v = r + p v + ... is solved for v, as in transition_tables.py.
    """
    _, start, to, p, reward = table
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


@njit(nb.boolean(TABLE_TYPE, FLOATS), cache=True)
def solve_deterministic(chain, v):
    """Solve v = r + T v exactly for a chain with at most one successor per state: follow paths and close loops.

    Returns False, with v unfinished, if a loop has no discount.
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


@njit(nb.types.UniTuple(nb.int64, 2)(TABLE_TYPE), cache=True)
def bandwidth(chain):
    """Return the lower and upper bandwidth of the chain."""
    _, start, to, p, _ = chain
    below = above = 0
    for s in range(unsigned(start.size - 1)):
        for k in range(unsigned(start[s]), unsigned(start[s + ONE])):
            if p[k] > 0.0:
                step = np.int64(to[k]) - np.int64(s)
                below, above = max(below, -step), max(above, step)
    return below, above


def solve_banded(chain: TransitionTable, v: np.ndarray, below: int, above: int, deadline: Deadline) -> bool:
    """Solve v = r + T v by Gaussian elimination inside the band, without pivoting, which I - T does not need.

    Returns False, and v as it was, if a pivot vanishes: with discount 1 a policy may have no value.
    """
    entries = v.size * (1 + below * (above + 1))
    if entries <= CHUNK:
        return _solve_banded_at_once(chain, v, below, above)
    band, x = np.zeros((v.size, below + above + 1)), np.empty(v.size)
    for begin, end in deadline.chunks(v.size, entries):
        if not _solve_banded(chain, v, below, above, band, x, begin, end):
            return False
    return True


_banded_signature = nb.boolean(TABLE_TYPE, FLOATS, nb.int64, nb.int64, nb.float64[:, ::1], FLOATS, nb.int64, nb.int64)


@njit(_banded_signature, cache=True)
def _solve_banded(chain, v, below, above, band, x, begin, end):
    """Eliminate states begin .. end - 1; the call with the first state fills the band, that with the last writes v."""
    _, start, to, p, reward = chain
    S = v.size
    if begin == 0:
        for s in range(S):
            x[s] = reward[s]
            band[s, below] = 1.0
            for k in range(start[s], start[s + 1]):
                if p[k] > 0.0:
                    band[s, below + np.int64(to[k]) - s] -= p[k]
    for s in range(begin, end):
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
    if end == S:
        for s in range(S - 1, -1, -1):
            total = x[s]
            for j in range(1, min(above, S - 1 - s) + 1):
                total -= band[s, below + j] * v[s + j]
            v[s] = total / band[s, below]
    return True


@njit(nb.boolean(TABLE_TYPE, FLOATS, nb.int64, nb.int64), cache=True)
def _solve_banded_at_once(chain, v, below, above):
    """Solve a small model in one call, to save the overhead of several."""
    S = v.size
    return _solve_banded(chain, v, below, above, np.zeros((S, below + above + 1)), np.empty(S), 0, S)


def bicgstab(chain: TransitionTable, v: np.ndarray, target: float, most: int, deadline: Deadline) -> tuple[int, float]:
    """Solve v = r + T v by BiCGSTAB, preconditioned with symmetric sweeps in place.

    With T = L + U, what leads down and up in the numbering, the sweeps divide by (I - L)(I - U). Split in two,
    A' = (I - L)^-1 (I - L - U) (I - U)^-1, that costs no more than the product itself (Eisenstat 1981):
    A' x = t + (I - L)^-1 (x - t) with t = (I - U)^-1 x, one sweep down and one up. Each begins with zeros, so that a
    sweep over whole rows sees only the half that it has passed.

    Stops when the largest residual, (I - L)^-1 (r + T v - v), is at most `target`, after `most` rounds, or when the
    recurrence breaks down; v is the best iterate, never a worse one than was given, also when the deadline interrupts.
    Returns (rounds, largest residual).
    """
    at_once = CHUNK // (SWEEPS_PER_ROUND * max(int(chain.start[-1]), 1))
    if at_once > most:
        rounds, left = _bicgstab_at_once(chain, v, target, most)
        return int(rounds), float(left)
    room, numbers = np.empty((8, v.size)), np.zeros(8)
    while not _bicgstab(chain, v, target, most, at_once, room, numbers):
        at_once = max(1, at_once)  # a large chain has its first residual in a call of its own
        try:
            deadline.check()
        except BaseException:
            _bicgstab(chain, v, target, 0, 1, room, numbers)
            raise
    return int(numbers[0]), float(numbers[1])


@njit(nb.boolean(TABLE_TYPE, FLOATS, nb.float64, nb.int64, nb.int64, nb.float64[:, ::1], FLOATS), cache=True)
def _bicgstab(chain, v, target, most, at_once, room, numbers):
    """Run the next `at_once` rounds of BiCGSTAB; return whether they were the last, and if so update v.

    `room` [8, S] and `numbers`, zeros at first, hold the state between calls; numbers[0] counts rounds.
    """
    _, start, to, p, reward = chain
    S = unsigned(v.size)
    residual, shadow, direction, image = room[0], room[1], room[2], room[3]
    down, up, y, best_y = room[4], room[5], room[6], room[7]
    rounds, best, given = np.int64(numbers[0]), numbers[1], numbers[2]
    rho, rho_next, alpha, omega = numbers[3], numbers[4], numbers[5], numbers[6]
    if numbers[7] == 0.0:
        numbers[7] = 1.0  # begun
        room[:] = 0.0
        rho = alpha = omega = 1.0
        for s in range(S):
            own = reward[s] + expectation(start, to, p, s, v) - v[s]
            residual[s] = own + expectation(start, to, p, s, residual)
            shadow[s] = residual[s]
            best = max(best, abs(residual[s]))
            rho_next += residual[s] * residual[s]
        given = best
    last = False
    for _ in range(at_once):
        last = True  # unless the round comes to its end
        if rounds >= most or not best > target:
            break
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
        last = False
    numbers[:7] = np.array([rounds, best, given, rho, rho_next, alpha, omega])
    if last and best < given:
        down[:] = 0.0
        for i in range(S):
            s = S - ONE - i
            down[s] = best_y[s] + expectation(start, to, p, s, down)
            v[s] += down[s]
    return last


@njit(nb.types.Tuple((nb.int64, nb.float64))(TABLE_TYPE, FLOATS, nb.float64, nb.int64), cache=True)
def _bicgstab_at_once(chain, v, target, most):
    """Run all rounds of a small model in one call, to save the overhead of several."""
    numbers = np.zeros(8)
    _bicgstab(chain, v, target, most, most + 1, np.empty((8, v.size)), numbers)
    return np.int64(numbers[0]), numbers[1]

"""Compiled loops over blocks of states, for models whose rows come from a table, a function or arrays.

The loops are written once, as plain functions. `specialised` compiles them for one kind of model: it gives their global
names `sweep`, `list_reads` and `row` a meaning. (A function as an argument would be called, not inlined, and keep numba
from caching the loop.) `rows` is whatever those functions read: a table, or the arguments of a row function.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numba as nb
import numpy as np
from numba import njit

from greedystep.planning.kernels import FLAGS, FLOATS, LONG_INTS, ONE, TABLE_TYPE, unsigned

END = -1
"""The successor that means: the episode ends."""
INNER_REDUCTION = 0.1  # a block is left once a sweep changes it by less than this share of the first sweep's change


def specialised(loop: Callable, name: str, signature: Any = None, *, cache: bool = True, **functions: Any) -> Any:
    """Compile the loop with its global names `functions` bound to these compiled functions and constants."""
    source: Any = loop
    bound = FunctionType(source.__code__, {**source.__globals__, **functions}, name, source.__defaults__)
    bound.__qualname__, bound.__module__ = name, source.__module__
    options: dict[str, Any] = {"cache": cache, "nogil": True}
    return njit(bound, **options) if signature is None else njit(signature, **options)(bound)


sweep: Any = None
list_reads: Any = None
row: Any = None
ACTIONS = 0
"""Names that `specialised` binds."""


@njit(nogil=True, inline="always")
def solved_loop(rest, stays, value):
    """Return q of q = rest + stays q, where an action stays with probability `stays`, times the discount."""
    return rest / (1.0 - stays) if stays < 1.0 else rest + stays * value


def visit_blocks(
    rows, discount, v, w, size, readers, pending, others, visited, threshold, backward, inner, begin, end, at, most
):
    """Sweep the next blocks with pending > threshold in place in w; return (next block, sweeps, largest change).

    Blocks begin .. end - 1 are this thread's: it reads their values from w, which it updates, and all others from v,
    which nobody changes meanwhile. `at` is the next block to look at; after `most` visits the loop returns. A block is
    swept up to `inner` times in a row, while it is in the cache; `visited` [blocks] is set where it was.

    pending [blocks] bounds how much the backup of a block may differ from its values. A visited block adds its change,
    discounted, to that of its readers (start, block); those of other threads get theirs in `others`.
    """
    start, reader = readers
    step = -1 if backward else 1
    first, last = begin * size, min(v.size, end * size)
    visits, sweeps, largest = 0, 0, 0.0
    before = np.empty(size)
    while begin <= at < end and visits < most:
        block = at
        at += step
        if not pending[block] > threshold:
            continue
        visits += 1
        visited[block] = True
        low, high = block * size, min(v.size, block * size + size)
        before[: high - low] = w[low:high]
        down, change, at_first = backward, 0.0, 0.0
        for i in range(inner):
            change = sweep(rows, discount, v, w, first, last, low, high, down)
            sweeps += 1
            at_first = change if i == 0 else at_first
            if change <= max(0.5 * threshold, INNER_REDUCTION * at_first):
                break
            down = not down
        net = 0.0
        for s in range(low, high):
            net = max(net, abs(w[s] - before[s - low]))
        largest = max(largest, at_first)
        pending[block] = discount * change
        for k in range(start[block], start[block + 1]):
            other = reader[k]
            if begin <= other < end:
                pending[other] += discount * net
            else:
                others[other] += discount * net
    return at, sweeps, largest


def list_read_blocks(rows, size, begin, end, states, seen, start, found):
    """List the blocks that each of the blocks begin .. end - 1 leads to, other than itself, in `found`.

    start[block + 1] is set to where the list of a block ends. Returns False as soon as `found` is full.
    """
    for block in range(begin, end):
        seen[block] = block
        low, high = block * size, min(states, block * size + size)
        start[block + 1] = list_reads(rows, size, block, low, high, seen, found, start[block])
        if start[block + 1] < 0:
            return False
    return True


@njit(nb.void(FLOATS, FLOATS, FLAGS, nb.int64), cache=True, nogil=True)
def copy_blocks(w, v, visited, size):
    """Copy the visited blocks of w into v, and mark none as visited."""
    for block in range(visited.size):
        if visited[block]:
            visited[block] = False
            for s in range(block * size, min(v.size, block * size + size)):
                v[s] = w[s]


# -- rows in a transition table ---------------------------------------------------------------------------------------


@njit(nogil=True)
def _sweep_table(table, discount, v, w, begin, end, low, high, down):
    """Sweep states low .. high - 1 in place in w, self-loops solved; return the largest change.

    Values of successors in begin .. end - 1 are read from w, others from v.
    """
    first, start, to, p, reward = table
    begin, width = unsigned(begin), unsigned(end - begin)
    change = 0.0
    for i in range(high - low):
        s = unsigned(high - 1 - i if down else low + i)
        best = -np.inf
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            total, stays = 0.0, 0.0
            for k in range(unsigned(start[row]), unsigned(start[row + ONE])):
                t = unsigned(to[k])
                value = w[t] if t - begin < width else v[t]
                stays += p[k] if t == s else 0.0
                total += 0.0 if t == s else p[k] * value
            q = solved_loop(reward[row] + discount * total, discount * stays, w[s])
            best = q if q > best else best
        change = max(change, abs(best - w[s]))
        w[s] = best
    return change


@njit(nogil=True)
def _list_table_reads(table, size, block, low, high, seen, found, count):
    first, start, to, p, _ = table
    for k in range(start[first[low]], start[first[high]]):
        other = np.int64(to[k]) // size
        if seen[other] != block and p[k] > 0.0:
            if count == found.size:
                return -1
            seen[other] = block
            found[count] = other
            count += 1
    return count


_visit = nb.types.Tuple((nb.int64, nb.int64, nb.float64))(
    *(TABLE_TYPE, nb.float64, FLOATS, FLOATS, nb.int64, nb.types.UniTuple(LONG_INTS, 2), FLOATS, FLOATS, FLAGS),
    *(nb.float64, nb.boolean, nb.int64, nb.int64, nb.int64, nb.int64, nb.int64),
)
_list = nb.boolean(TABLE_TYPE, nb.int64, nb.int64, nb.int64, nb.int64, LONG_INTS, LONG_INTS, LONG_INTS)
visit_table_blocks = specialised(visit_blocks, "visit_table_blocks", _visit, sweep=_sweep_table)
list_table_read_blocks = specialised(list_read_blocks, "list_table_read_blocks", _list, list_reads=_list_table_reads)


# -- rows that a function returns -------------------------------------------------------------------------------------
# row(s, a, *rows) returns (successors, probabilities, reward); ACTIONS is the number of actions.


def sweep_rows(rows, discount, v, w, begin, end, low, high, down):
    """`_sweep_table` for a row function."""
    change = 0.0
    for i in range(high - low):
        s = high - 1 - i if down else low + i
        best = -np.inf
        for a in range(ACTIONS):
            to, p, reward = row(s, a, *rows)
            total, stays = 0.0, 0.0
            for k in range(len(p)):
                t = np.int64(to[k])
                if t == s:
                    stays += p[k]
                elif t >= 0:
                    total += p[k] * (w[unsigned(t)] if begin <= t < end else v[unsigned(t)])
            q = solved_loop(reward + discount * total, discount * stays, w[s])
            best = q if q > best else best
        change = max(change, abs(best - w[s]))
        w[s] = best
    return change


def backup_rows(rows, discount, v, out, choice, begin, end):
    """Compute out = Bv and the greedy actions of states begin .. end - 1; return (min, max) of out - v."""
    low, high = np.inf, -np.inf
    for s in range(begin, end):
        best, action = -np.inf, 0
        for a in range(ACTIONS):
            to, p, reward = row(s, a, *rows)
            total = 0.0
            for k in range(len(p)):
                t = np.int64(to[k])
                if t >= 0:
                    total += p[k] * v[unsigned(t)]
            q = reward + discount * total
            better = q > best
            best = q if better else best
            action = a if better else action
        out[s] = best
        choice[s] = action
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high


def list_row_reads(rows, size, block, low, high, seen, found, count):
    """`_list_table_reads` for a row function."""
    for s in range(low, high):
        for a in range(ACTIONS):
            to, p, _ = row(s, a, *rows)
            for k in range(len(p)):
                t = np.int64(to[k])
                if t >= 0 and p[k] > 0.0 and seen[t // size] != block:
                    if count == found.size:
                        return -1
                    seen[t // size] = block
                    found[count] = t // size
                    count += 1
    return count


FINE, LENGTHS, SUCCESSOR, PROBABILITY, SUM, REWARD, NO_ACTION = range(7)
"""What `check_rows` finds wrong with a row."""


def check_rows(rows, states, slack, begin, end):
    """Check the rows of states begin .. end - 1; return (what is wrong, state, action, numbers of the rows).

    The numbers are the smallest and largest sum of the probabilities of successors, the largest absolute reward and the
    number of entries of the longest row.
    """
    least, most, largest, longest = np.inf, -np.inf, 0.0, 0
    for s in range(begin, end):
        actions = 0
        for a in range(ACTIONS):
            to, p, reward = row(s, a, *rows)
            if len(to) != len(p):
                return LENGTHS, s, a, (least, most, largest, longest)
            if reward == -np.inf:
                continue
            actions += 1
            if not abs(reward) < np.inf:
                return REWARD, s, a, (least, most, largest, longest)
            total, ends = 0.0, 0.0
            for k in range(len(p)):
                t = np.int64(to[k])
                if not END <= t < states:
                    return SUCCESSOR, s, a, (least, most, largest, longest)
                if not p[k] >= 0.0:
                    return PROBABILITY, s, a, (least, most, largest, longest)
                total += p[k] if t >= 0 else 0.0
                ends += p[k] if t < 0 else 0.0
            if not abs(total + ends - 1.0) <= slack:
                return SUM, s, a, (least, most, largest, longest)
            least, most = min(least, total), max(most, total)
            largest, longest = max(largest, abs(reward)), max(longest, len(p))
        if actions == 0:
            return NO_ACTION, s, 0, (least, most, largest, longest)
    return FINE, 0, 0, (least, most, largest, longest)


def values_of_rows(rows, discount, v, q, begin, end):
    """Compute q(s, a) = r + γ Σ p v(s'), -inf for an unavailable action, of states begin .. end - 1 into q [S, A]."""
    for s in range(begin, end):
        for a in range(ACTIONS):
            to, p, reward = row(s, a, *rows)
            total = 0.0
            for k in range(len(p)):
                t = np.int64(to[k])
                if t >= 0:
                    total += p[k] * v[unsigned(t)]
            q[s, a] = reward + discount * total

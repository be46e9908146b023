"""Policy iteration by elimination, for dense models in which something ends, or that do not mix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep.planning.backups import Dense
from greedystep.planning.deadline import Deadline
from greedystep.planning.iterate import Iterate

AT_ONCE = 1500
"""States up to which LAPACK solves in one go, in 0.2 s."""
BLOCK = 256
"""States that are eliminated together in larger models, with a check after every 2 * BLOCK * WORK operations."""
WORK = 4_000_000


def chain_value(
    matrix: np.ndarray, rows: np.ndarray, discount: float, reward: np.ndarray, deadline: Deadline
) -> np.ndarray:
    """v = (I - γ T)^-1 r for the chain T [S, S] of these rows of a dense matrix; LinAlgError if there is no such v.

    Elimination in blocks, so that it can be stopped between them. I - γ T needs no pivots from other blocks: its
    diagonal dominates, and keeps doing so in what is left of it.
    """
    v, left = reward.copy(), np.empty((reward.size, reward.size))
    for begin, end in deadline.pieces(v.size, left.size):
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


def exact_policy_iteration(model: Dense, v: np.ndarray, sweeps: float, deadline: Deadline) -> Iterator[Iterate]:
    """Improve, solve v = r + γ T v for the policy, improve ..."""
    share = 1.0 / model.rows_per_state
    while True:
        backup = model.backup(v)
        sweeps += 1
        yield Iterate(lambda v=backup.out: v, backup, sweeps)
        reward = model.reward[backup.choice]
        try:
            v = chain_value(model.matrix, backup.choice, model.discount, reward, deadline)
        except np.linalg.LinAlgError:
            v = np.full(v.size, np.inf)
        # With discount 1 a policy may never end and have no value: then one step of value iteration.
        if not np.abs(v).max() <= 1e12 * np.abs(reward).max():
            v = backup.out
        sweeps += share * v.size / 3

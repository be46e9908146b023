"""Bellman backups of a model, and sweeps of one of its policies: on compiled tables, or as matrix products.

`Sparse` and `Dense` have the same members: `backup`, `actions_of` (the actions of chosen rows), `policy_sweeps` and
`best_rewards` (a start: B0); `rows_per_state` says what a backup of one policy is worth beside one of the whole model.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning.deadline import Deadline
from greedystep.planning.elimination import eliminate_dense
from greedystep.planning.evaluation import Evaluator
from greedystep.planning.iterate import Backup
from greedystep.planning.kernels import (
    Rows,
    bellman,
    best_rewards,
    careful_bellman,
    careful_dense_bellman,
    chain_backup,
    dense_chain_backup,
)

CAREFUL_FROM = 16
"""Entries of a row, on average, from which it pays to ask first whether the row can be the best."""


class UpperBounds:
    """What the rows of a model can be worth at most, without looking at their entries again.

    If q is the value of a row under v, then under v' it is at most q + γ max(v' - v), times the sum of the row where
    that is not 1. So a row that was far behind need not be computed again before the values have changed by as much.
    """

    def __init__(self, mdp: MDP, v: np.ndarray):
        self.upper = np.where(mdp.available, np.inf, -np.inf).ravel()
        """float64 [S*A]: upper + rise is the bound; inf for a row that was never computed."""
        self.rise = 0.0
        self._discount, self._row_sums = mdp.discount, mdp.row_sums
        self._largest_reward = float(np.abs(mdp.rewards[mdp.available]).max())
        self._v = v.copy()

    def follow(self, v: np.ndarray) -> None:
        """Let the bounds hold for these values; rounding included."""
        least, most = self._row_sums
        highest = float((v - self._v).max())
        self.rise += self._discount * highest * (most if highest > 0 else least)
        self.rise += 1e-12 * (abs(self.rise) + self._largest_reward + float(np.abs(v).max()))
        self._v[:] = v


class Sparse:
    """Backups of a sparse model on its compiled table."""

    def __init__(self, mdp: MDP, rows: Rows):
        self._mdp, self.discount, self.rows = mdp, mdp.discount, rows
        self.rows_per_state = mdp.num_actions
        self._careful = rows.probability.size >= CAREFUL_FROM * rows.reward.size
        self._bounds: UpperBounds | None = None
        self._choice = rows.first[:-1]

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self.rows)

    @property
    def best_rewards(self) -> np.ndarray:
        """max_a r(s, a), [S]."""
        return best_rewards(self.rows)

    def backup(self, v: np.ndarray) -> Backup:
        """Bv, the greedy rows and the range of Bv - v."""
        out = np.empty_like(v)
        if not self._careful:
            choice = np.empty(v.size, np.uint32)
            low, high = bellman(self.rows, self.discount, v, out, choice)
            return Backup(v, out, choice, low, high)
        self._bounds = bounds = self._bounds or UpperBounds(self._mdp, v)
        bounds.follow(v)
        self._choice = choice = self._choice.copy()
        low, high = careful_bellman(self.rows, self.discount, v, out, choice, bounds.upper, bounds.rise)
        return Backup(v, out, choice, low, high)

    def policy_sweeps(self, choice: np.ndarray) -> PolicySweeps:
        """Sweeps of the chain that the chosen rows make."""
        return PolicySweeps(self._evaluator.chain(choice, self.discount))

    def actions_of(self, choice: np.ndarray) -> np.ndarray:
        return choice.astype(np.int64) - self.rows.first[:-1]


class PolicySweeps:
    """Jacobi sweeps of one policy, back and forth between two arrays of its own."""

    def __init__(self, chain: Rows):
        self._chain = chain
        self._out, self._spare = np.empty(chain.reward.size), np.empty(chain.reward.size)

    def sweep(self, v: np.ndarray) -> tuple[np.ndarray, float]:
        """(T v, spread of T v - v); the array is overwritten by the next sweep but one."""
        self._out, self._spare = self._spare, self._out
        low, high = chain_backup(self._chain, v, self._out)
        return self._out, high - low


class Dense:
    """Backups of a dense model: the first by a matrix product, the others only where a row may have become the best."""

    def __init__(self, mdp: MDP):
        self._mdp, self.discount = mdp, mdp.discount
        self.rows_per_state = mdp.num_actions
        self._first = np.arange(mdp.num_states) * mdp.num_actions
        self.best_rewards = mdp.rewards.max(axis=1)
        assert isinstance(mdp.transitions, np.ndarray)
        self._matrix, self._reward = np.ascontiguousarray(mdp.transitions), mdp.rewards.ravel()
        self._bounds: UpperBounds | None = None
        self._choice = self._first.astype(np.uint32)

    def backup(self, v: np.ndarray) -> Backup:
        if self._bounds is None:
            q = self._mdp.backup(v)
            self._bounds = UpperBounds(self._mdp, v)
            self._bounds.upper[:] = q.ravel()
            choice = q.argmax(axis=1)
            out = q[np.arange(v.size), choice]
            self._choice = (self._first + choice).astype(np.uint32)
            return Backup(v, out, self._choice, float((out - v).min()), float((out - v).max()))
        self._bounds.follow(v)
        self._choice, out = self._choice.copy(), np.empty_like(v)
        low, high = careful_dense_bellman(
            self._matrix, self._reward, self.discount, v, out, self._choice, self._bounds.upper, self._bounds.rise
        )
        return Backup(v, out, self._choice, low, high)

    def actions_of(self, choice: np.ndarray) -> np.ndarray:
        return choice.astype(np.int64) - self._first

    def policy_value(self, choice: np.ndarray, deadline: Deadline) -> np.ndarray | None:
        """(I - γ T^π)^-1 r^π by elimination; None if that is singular, or may be but for rounding."""
        reward = self._reward[choice]
        try:
            v = eliminate_dense(self._matrix, choice, self.discount, reward, deadline)
        except np.linalg.LinAlgError:
            return None
        return v if np.abs(v).max() <= 1e12 * np.abs(reward).max() else None

    def policy_sweeps(self, choice: np.ndarray) -> DensePolicySweeps:
        return DensePolicySweeps(self._matrix, self.discount, self._reward, choice)


class DensePolicySweeps:
    """Jacobi sweeps of one policy of a dense model, on the rows where they are."""

    def __init__(self, matrix: np.ndarray, discount: float, reward: np.ndarray, choice: np.ndarray):
        self._parts = matrix, discount, reward, choice

    def sweep(self, v: np.ndarray) -> tuple[np.ndarray, float]:
        out = np.empty_like(v)
        low, high = dense_chain_backup(*self._parts, v, out)
        return out, high - low

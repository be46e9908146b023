"""Bellman backups of a model and sweeps of one of its policies, for sparse and for dense models.

`SparseModel` and `DenseModel` have the same interface: `backup`, `actions_of` (the actions of chosen rows),
`policy_sweep`, `policy_value` and `best_rewards` (the backup of 0, a start); `rows_per_state` relates the cost of a
policy's backup to a full one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import cycle
from typing import NamedTuple

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning.elimination import solve_dense
from greedystep.planning.kernels import (
    TransitionTable,
    bellman,
    best_rewards,
    chain_backup,
    dense_chain_backup,
    policy_backup,
    pruned_bellman,
    pruned_dense_bellman,
)
from greedystep.planning.policy_evaluation import PolicyEvaluator
from greedystep.signals import Deadline

PRUNE_FROM = 16  # average entries per row from which action elimination pays
LARGE = 2**25
"""Transitions (400 MB) from which no second copy of a model is made, nor of the rows of a policy."""


PolicySweep = Callable[[np.ndarray], tuple[np.ndarray, float]]  # v -> (r^π + γ T^π v, the span of the difference)


class BellmanBackup(NamedTuple):
    """Values v, their Bellman backup Bv and the range of Bv - v, from which an error bound is proved."""

    v: np.ndarray  # [S], the values that were backed up
    out: np.ndarray  # [S], Bv
    choice: np.ndarray  # [S], the greedy rows (or actions) of v
    low: float  # the smallest entry of Bv - v
    high: float  # the largest
    error: float = 0.0  # bound on the rounding error of low, high and out, where the backup has one (discount 1)


def greedy_backup(q: np.ndarray, v: np.ndarray) -> BellmanBackup:
    """Return Bv = max_a q [S] with the greedy actions, for q [S, A] = r + γ P v."""
    choice = q.argmax(axis=1)
    out = q[np.arange(v.size), choice]
    return BellmanBackup(v, out, choice, float((out - v).min()), float((out - v).max()))


class Iteration(NamedTuple):
    """What each solver yields after an iteration: values, work so far and residual."""

    values: Callable[[], np.ndarray]  # returns the current values [S], in the model's numbering
    backup: BellmanBackup | None  # a Bellman backup, where the iteration made one
    sweeps: float  # work so far, in backups of the whole model
    change: float = np.nan  # the largest change of a value in this iteration, where there is no backup to tell
    own_residual: float | None = None  # the residual of the solver's own equation, where that is not Bellman's

    @property
    def residual(self) -> float:
        """The largest change of a value by a backup or sweep, or the residual of the solver's own equation."""
        if self.own_residual is not None:
            return self.own_residual
        return self.change if self.backup is None else max(abs(self.backup.low), abs(self.backup.high))


class ActionValueBounds:
    """Upper bounds on the action values of a model, for action elimination (MacQueen 1967).

    If q is the value of a row (s, a) under v, then under v' it is at most q + γ max(v' - v), times the sum of the row
    where that is not 1. So a row far below the best need not be computed again until values have changed by as much.
    """

    def __init__(self, mdp: MDP, v: np.ndarray):
        self.upper = np.where(mdp.available, np.inf, -np.inf).ravel()
        """float64 [S*A]: the bound of each row is upper + rise; inf for a row that was never computed."""
        self._rise = 0.0
        self._discount, self._row_sums = mdp.discount, mdp.row_sums
        self._largest_reward = mdp.largest_reward
        self._v = v.copy()
        self._size = self._size_of(v)

    def at(self, v: np.ndarray) -> tuple[np.ndarray, float]:
        """Update the bounds to the values v, with a margin for rounding; return (upper, rise), which add up to them."""
        least, most = self._row_sums
        highest = float((v - self._v).max())
        self._rise += self._discount * highest * (most if highest > 0 else least)
        # The bounds of rows were rounded when they were computed, at the sizes of then, and are rounded again now.
        before, self._size = self._size, self._size_of(v)
        self._rise += 1e-12 * (before + self._size)
        self._v[:] = v
        return self.upper, self._rise

    def _size_of(self, v: np.ndarray) -> float:
        """Return the size of the numbers whose rounding the margin has to cover, at the values v."""
        return abs(self._rise) + self._largest_reward + float(np.abs(v).max())


class SparseModel:
    """Backups and policy sweeps of a sparse model."""

    def __init__(self, mdp: MDP, table: TransitionTable):
        self._mdp, self.discount, self.table = mdp, mdp.discount, table
        self.rows_per_state = mdp.num_actions
        self._prune = table.probability.size >= PRUNE_FROM * table.reward.size
        self._bounds: ActionValueBounds | None = None
        self._choice = table.first[:-1]

    @cached_property
    def _evaluator(self) -> PolicyEvaluator:
        return PolicyEvaluator(self.table)

    @property
    def best_rewards(self) -> np.ndarray:
        """Return max_a r(s, a), [S]."""
        return best_rewards(self.table)

    def backup(self, v: np.ndarray) -> BellmanBackup:
        """Return Bv with the greedy rows and the range of Bv - v."""
        out, choice = np.empty_like(v), np.empty(v.size, np.uint32)
        if self._prune:
            self._bounds = self._bounds or ActionValueBounds(self._mdp, v)
            self._choice = choice = self._choice.copy()
            low, high = pruned_bellman(self.table, self.discount, v, out, choice, *self._bounds.at(v))
        else:
            low, high = bellman(self.table, self.discount, v, out, choice)
        return BellmanBackup(v, out, choice, low, high)

    def policy_sweep(self, choice: np.ndarray) -> PolicySweep:
        """Return the Jacobi sweep of the policy of rows `choice` [S]; its result is overwritten by the next but one."""
        large = self.table.probability.size >= LARGE
        chain = None if large else self._evaluator.chain(choice, self.discount)
        buffers = cycle((np.empty(choice.size), np.empty(choice.size)))

        def sweep(v: np.ndarray) -> tuple[np.ndarray, float]:
            out = next(buffers)
            if chain is None:
                low, high = policy_backup(self.table, self.discount, choice, v, out)
            else:
                low, high = chain_backup(chain, v, out)
            return out, high - low

        return sweep

    def policy_value(self, choice: np.ndarray, start: np.ndarray, deadline: Deadline) -> np.ndarray | None:
        """Return the value [S] of the policy `choice` (rows [S]) up to rounding, iterating from `start`."""
        v = start.copy()
        PolicyEvaluator(self.table, deadline).evaluate_exactly(choice, v, self.discount)
        return v

    def actions_of(self, choice: np.ndarray) -> np.ndarray:
        actions = choice.astype(np.int64)
        actions -= self.table.first[:-1]  # in place, for large models
        return actions


class DenseModel:
    """Backups and policy sweeps of a dense model; after the first backup, a matrix product, actions are eliminated."""

    def __init__(self, mdp: MDP):
        self._mdp, self.discount = mdp, mdp.discount
        self.rows_per_state = mdp.num_actions
        self._first = np.arange(mdp.num_states) * mdp.num_actions
        self.best_rewards = mdp.rewards.max(axis=1)
        assert isinstance(mdp.transitions, np.ndarray)
        self._matrix, self._reward = np.ascontiguousarray(mdp.transitions), mdp.rewards.ravel()
        self._bounds: ActionValueBounds | None = None
        self._choice = self._first.astype(np.uint32)

    def backup(self, v: np.ndarray) -> BellmanBackup:
        if self._bounds is None:
            q = self._mdp.backup(v)
            self._bounds = ActionValueBounds(self._mdp, v)
            self._bounds.upper[:] = q.ravel()
            backup = greedy_backup(q, v)
            self._choice = (self._first + backup.choice).astype(np.uint32)
            return backup._replace(choice=self._choice)
        self._choice, out = self._choice.copy(), np.empty_like(v)
        rows = (self._matrix, self._reward, self.discount)
        low, high = pruned_dense_bellman(*rows, v, out, self._choice, *self._bounds.at(v))
        return BellmanBackup(v, out, self._choice, low, high)

    def actions_of(self, choice: np.ndarray) -> np.ndarray:
        return choice.astype(np.int64) - self._first

    def policy_value(self, choice: np.ndarray, start: np.ndarray, deadline: Deadline) -> np.ndarray | None:
        """Return (I - γ T^π)^-1 r^π by Gaussian elimination; None if the system is singular, or nearly so."""
        reward = self._reward[choice]
        largest = max(1e12, 2.0 / (1.0 - self.discount)) * np.abs(reward).max()
        try:
            v = solve_dense(self._matrix, choice, self.discount, reward, deadline)
        except np.linalg.LinAlgError:
            return None
        return v if np.abs(v).max() <= largest else None

    def policy_sweep(self, choice: np.ndarray) -> PolicySweep:
        """Return the Jacobi sweep v -> r^π + γ T^π v of the policy `choice` (rows [S])."""

        def sweep(v: np.ndarray) -> tuple[np.ndarray, float]:
            out = np.empty_like(v)
            low, high = dense_chain_backup(self._matrix, self.discount, self._reward, choice, v, out)
            return out, high - low

        return sweep

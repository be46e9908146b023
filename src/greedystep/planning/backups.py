"""Bellman backups of a model, and sweeps of one of its policies: on compiled tables, or as matrix products.

`Sparse` and `Dense` have the same three members: `backup`, `actions_of` (the actions of chosen rows) and
`policy_sweeps`; `rows_per_state` says what a backup of one policy is worth beside one of the whole model.
"""

from __future__ import annotations

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning.iterate import Backup
from greedystep.planning.kernels import Rows, bellman, chain_backup
from greedystep.planning.layout import Chains


class Sparse:
    """Backups of a sparse model on its compiled table."""

    def __init__(self, mdp: MDP, rows: Rows):
        self.discount, self.rows = mdp.discount, rows
        self.rows_per_state = mdp.num_actions
        self._chains = Chains(mdp.num_states)

    def backup(self, v: np.ndarray) -> Backup:
        """Bv, the greedy rows and the range of Bv - v."""
        out, choice = np.empty_like(v), np.empty(v.size, np.uint32)
        low, high = bellman(self.rows, self.discount, v, out, choice)
        return Backup(v, out, choice, low, high)

    def policy_sweeps(self, choice: np.ndarray) -> PolicySweeps:
        """Sweeps of the chain that the chosen rows make."""
        return PolicySweeps(self._chains.of(self.rows, choice, self.discount)[0])

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
    """Backups of a dense model by matrix products."""

    def __init__(self, mdp: MDP):
        self._mdp, self.discount = mdp, mdp.discount
        self.rows_per_state = mdp.num_actions
        self._first = np.arange(mdp.num_states) * mdp.num_actions

    def backup(self, v: np.ndarray) -> Backup:
        q = self._mdp.backup(v)
        choice = q.argmax(axis=1)
        out = q[np.arange(v.size), choice]
        return Backup(v, out, (self._first + choice).astype(np.uint32), float((out - v).min()), float((out - v).max()))

    def actions_of(self, choice: np.ndarray) -> np.ndarray:
        return choice.astype(np.int64) - self._first

    def chain(self, choice: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(γ T^π, r^π)."""
        matrix = self._mdp.transitions
        assert isinstance(matrix, np.ndarray)
        return self.discount * matrix[choice], self._mdp.rewards.ravel()[choice]

    def policy_sweeps(self, choice: np.ndarray) -> DensePolicySweeps:
        return DensePolicySweeps(*self.chain(choice))


class DensePolicySweeps:
    """Jacobi sweeps of one policy of a dense model."""

    def __init__(self, matrix: np.ndarray, reward: np.ndarray):
        self._matrix, self._reward = matrix, reward

    def sweep(self, v: np.ndarray) -> tuple[np.ndarray, float]:
        out = self._reward + self._matrix @ v
        change = out - v
        return out, float(change.max() - change.min())

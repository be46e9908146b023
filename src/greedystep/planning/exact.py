"""Policy iteration with LAPACK, for dense models in which something ends, or that do not mix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep.planning.backups import Dense
from greedystep.planning.iterate import Iterate


def exact_policy_iteration(model: Dense, v: np.ndarray, sweeps: float) -> Iterator[Iterate]:
    """Improve, solve v = r + γ T v for the policy, improve ..."""
    share = 1.0 / model.rows_per_state
    while True:
        backup = model.backup(v)
        sweeps += 1
        yield Iterate(lambda v=backup.out: v, backup, sweeps)
        matrix, reward = model.chain(backup.choice)
        try:
            v = np.linalg.solve(np.eye(v.size) - matrix, reward)
        except np.linalg.LinAlgError:
            v = np.full(v.size, np.inf)
        # With discount 1 a policy may never end and have no value: then one step of value iteration.
        if not np.abs(v).max() <= 1e12 * np.abs(reward).max():
            v = backup.out
        sweeps += share * v.size / 3

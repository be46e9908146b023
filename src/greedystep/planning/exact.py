"""Policy iteration by elimination, for dense models in which something ends, or that do not mix, and for small ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep.planning.backups import Dense
from greedystep.planning.deadline import Deadline
from greedystep.planning.iterate import Iterate
from greedystep.planning.undiscounted import Undiscounted


def exact_policy_iteration(
    model: Dense | Undiscounted, v: np.ndarray, sweeps: float, deadline: Deadline
) -> Iterator[Iterate]:
    """Improve, solve v = r + γ T v for the policy, improve ..."""
    share, seen = 1.0 / model.rows_per_state, set()
    while True:
        backup = model.backup(v)
        sweeps += 1
        yield Iterate(lambda v=backup.out: v, backup, sweeps)
        if backup.choice.tobytes() in seen:  # only policies that are equal but for rounding are left
            return
        value = model.policy_value(backup.choice, deadline)
        if value is not None:
            v = value
            seen.add(backup.choice.tobytes())
        elif isinstance(model, Dense):
            v = backup.out  # a system that rounding has made singular: one step of value iteration
        else:
            return  # every policy ends, but this one has values that float64 cannot hold
        sweeps += share * v.size / 3

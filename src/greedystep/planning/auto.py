"""The fast general solver: which way to go, and from where.

Where nothing ends, policy iteration on the spread (recurrent.py); else, and where that does not get on, policy
iteration in the order of the flow (flowing.py), or by elimination if the model is dense, or small and without discount
(exact.py). All are generators of `Iterate`; the caller decides when to stop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning.backups import Dense, Sparse
from greedystep.planning.deadline import Deadline
from greedystep.planning.exact import exact_policy_iteration
from greedystep.planning.flowing import solve_flowing
from greedystep.planning.iterate import Iterate
from greedystep.planning.layout import final_states
from greedystep.planning.recurrent import solve_recurrent
from greedystep.planning.undiscounted import Undiscounted


def solve_fast(
    mdp: MDP, model: Sparse | Dense, v: np.ndarray | None, tolerance: float, deadline: Deadline
) -> Iterator[Iterate]:
    """Iterate towards v* for as long as asked; `v` is a warm start."""
    sweeps = 0.0
    if mdp.discount < 1 and _nothing_ends(mdp, model):
        last = None
        for last in solve_recurrent(model, model.best_rewards if v is None else v, tolerance, deadline):
            yield last
        assert last is not None
        assert last.backup is not None
        # A constant is free: the middle of what is known is the best place to go on from.
        middle = 0.5 * (last.backup.low + last.backup.high)
        v = last.values() + mdp.discount / (1.0 - mdp.discount) * middle
        sweeps = last.sweeps
    elif v is not None:
        backup = model.backup(v)
        sweeps, v = 1.0, backup.out
        yield Iterate(lambda: backup.out, backup, sweeps)
    if isinstance(model, Dense) or (isinstance(model, Undiscounted) and model.small and model.endless is None):
        yield from exact_policy_iteration(model, model.best_rewards if v is None else v, sweeps, deadline)
    else:
        yield from solve_flowing(mdp, model, v, sweeps, tolerance, deadline)


def _nothing_ends(mdp: MDP, model: Sparse | Dense) -> bool:
    """No step ends the episode and no state is absorbing (those of dense models are not looked for)."""
    return mdp.row_sums[0] >= 1 - 1e-9 and not (isinstance(model, Sparse) and final_states(model.rows).any())

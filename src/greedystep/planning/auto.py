"""The fast general solver: which way to go, and from where.

Where nothing ends, policy iteration on the spread (recurrent.py); else, and where that gets stuck, sweeps in place from
below (flowing.py). Both are generators of `Iterate`; the caller decides when to stop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning.backups import Dense, Sparse
from greedystep.planning.flowing import solve_flowing
from greedystep.planning.iterate import Iterate
from greedystep.planning.layout import final_states
from greedystep.planning.recurrent import exact_policy_iteration, solve_recurrent


def solve_fast(mdp: MDP, model: Sparse | Dense, v: np.ndarray | None, tolerance: float) -> Iterator[Iterate]:
    """Iterate towards v* for as long as asked; `v` is a warm start."""
    start = lower_start(mdp) if v is None else v
    sweeps, last = 0.0, None
    if mdp.discount < 1 and _nothing_ends(mdp, model):
        for last in solve_recurrent(model, start, tolerance):
            yield last
    elif v is not None:
        last = Iterate(lambda: start, model.backup(start), 1.0)
        yield last
    if last is not None:
        start, sweeps = last.values(), last.sweeps
        if mdp.discount < 1:
            # Any v becomes safe to raise by a constant: v + c <= B(v + c).
            backup = model.backup(start)
            start = backup.out + min(backup.low, 0.0) / (1.0 - mdp.discount)
    if isinstance(model, Dense):
        yield from exact_policy_iteration(model, start, sweeps)
    else:
        yield from solve_flowing(mdp, model, start, sweeps, tolerance)


def _nothing_ends(mdp: MDP, model: Sparse | Dense) -> bool:
    """No step ends the episode and no state is absorbing (those of dense models are not looked for)."""
    return mdp.row_sums[0] >= 1 - 1e-9 and not (isinstance(model, Sparse) and final_states(model.rows).any())


def lower_start(mdp: MDP) -> np.ndarray:
    """Bc for a constant c <= Bc: below v* and safe to raise. Without a discount there is none, and B0 is as good."""
    best = mdp.rewards.max(axis=1)
    if mdp.discount == 1.0 or (best.min() > 0 and mdp.row_sums[0] < 1):
        return best
    worst = best.min() / (1.0 - mdp.discount)
    return np.maximum(best + mdp.discount * worst, worst)  # rows that end miss a part of c < 0: Bc is even larger

"""Policy iteration for models in which nothing ends and that soon forget where they came from.

A constant added to all values is free there: it is known in closed form (certificate.py), and only the spread of Bv - v
counts. A few improvements, with sweeps of the greedy policy in between, solve such a model: this is Greedy-Step
iteration with Π = {greedy}. Models that remember, or go round in circles, are left to others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep.planning.backups import Dense, Sparse
from greedystep.planning.deadline import Deadline
from greedystep.planning.iterate import Iterate

PATIENT_SWEEPS, PATIENT_BACKUPS = 30, 4
"""A model does not mix if evaluating a policy takes more sweeps than this, which cost more backups than that."""
TRIED_SWEEPS = 2
"""But so much is tried first: some models need a few sweeps before the spread begins to fall."""
PATIENCE = 12
"""Improvements in vain after which another way is tried."""
CHECK_STATES = 100_000
"""States that sweeps pass between two looks at the clock: a millisecond's work, beside which a look costs nothing."""
MOST_EXACT = 1e-4
"""No policy is evaluated so exactly that less than this share of the spread is left."""


def solve_recurrent(model: Sparse | Dense, v: np.ndarray, tolerance: float, deadline: Deadline) -> Iterator[Iterate]:
    """Improve, evaluate by sweeps as far as it pays, improve ...; gives up if the spread does not fall fast."""
    discount, share = model.discount, 1.0 / model.rows_per_state
    enough = tolerance * (1.0 - discount) / discount
    work, spread, best, vain = 0.0, np.inf, np.inf, 0
    choice = np.full(v.size, v.size * model.rows_per_state, np.uint32)  # of no state
    # The more an improvement costs beside a sweep of one policy, the more of these are worth their while.
    most_forcing = float(np.clip(0.4 * share, 1e-3, 0.1))
    patience = max(PATIENT_SWEEPS, PATIENT_BACKUPS / share)
    first = mixes = True
    rarely = max(1, CHECK_STATES // v.size)
    while vain < PATIENCE:
        backup = model.backup(v)
        work += 1
        yield Iterate(lambda v=backup.out: v, backup, work)
        if not mixes:
            return
        shrunk = min((backup.high - backup.low) / spread, 1.0) if spread > 0 else 1.0
        spread, v = backup.high - backup.low, backup.out
        vain = 0 if spread < 0.9 * best else vain + 1
        best = min(best, spread)
        if first:  # one more improvement before a policy is worth a look
            first = False
            continue
        # As in inexact Newton methods: the better the last improvement went and the fewer actions it changed, the more
        # exactly the next policy is evaluated; never more exactly than the answer needs.
        changed = np.count_nonzero(choice != backup.choice) / v.size
        choice = backup.choice
        forcing = float(np.clip(min(shrunk**2, 0.3 * changed), MOST_EXACT, most_forcing))
        target = max(spread * forcing, enough)
        policy = model.policy_sweeps(choice)
        after, count = spread, 0
        while mixes and after > target:
            v, after = policy.sweep(v)
            count += 1
            if count % rarely == 0:
                deadline.check()
            judged = count >= 5 and count * share >= TRIED_SWEEPS
            mixes = not judged or _sweeps_to_come(spread, after, target, count) < patience
        work += share * (count + 1)


def _sweeps_to_come(first: float, last: float, target: float, count: int) -> float:
    """How many more sweeps reach the target if they go on like the first `count`."""
    if last <= target:
        return 0.0
    return count * np.log(last / target) / np.log(first / last) if last < first else np.inf

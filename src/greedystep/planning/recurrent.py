"""Policy iteration for models in which nothing ends.

A constant added to all values is free there: it is known in closed form (certificate.py), and only the spread of Bv - v
counts. A model that forgets where it came from is solved by a few improvements, with sweeps of the greedy policy in
between: Greedy-Step iteration with Π = {greedy}. Where it remembers, or goes round in circles, BiCGSTAB evaluates the
policies instead; dense models go to LAPACK.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep.planning.backups import Dense, Sparse
from greedystep.planning.iterate import Iterate
from greedystep.planning.kernels import SWEEPS_PER_ROUND, evaluate, evaluate_deterministic, sweeps
from greedystep.planning.layout import Chains, in_order

PATIENT_SWEEPS = 4
"""A model does not mix if evaluating a policy by sweeps would cost more than so many backups of the whole model."""
TRIED_SWEEPS = 2
"""But so much is tried first: some models need a few sweeps before the spread begins to fall."""
PATIENCE = 12
"""Improvements in vain after which another way is tried."""
MOST_EXACT = 1e-4
"""No policy is evaluated so exactly that less than this share of the spread is left."""
KRYLOV_ROUNDS = 20
DEEP_KRYLOV_ROUNDS = 100


def solve_recurrent(model: Sparse | Dense, v: np.ndarray, tolerance: float) -> Iterator[Iterate]:
    """Policy iteration for models in which nothing ends: improve, evaluate as far as it pays, improve ...

    Only the spread of Bv - v counts, for a constant is free. Policies are evaluated by sweeps from the old values while
    these shrink the spread fast (a mixing model), else by BiCGSTAB. Gives up when nothing gets better any more.
    """
    discount, share = model.discount, 1.0 / model.rows_per_state
    enough = tolerance * (1.0 - discount) / discount
    work, spread, best, best_mean, vain = 0.0, np.inf, np.inf, -np.inf, 0
    first, mixes, krylov, choice = True, True, None, np.full(v.size, v.size * model.rows_per_state, np.uint32)
    # The more an improvement costs beside a sweep of one policy, the more of these are worth their while.
    most_forcing = float(np.clip(0.4 * share, 1e-3, 0.1))
    while vain < PATIENCE:
        backup = model.backup(v)
        work += 1
        yield Iterate(lambda v=backup.out: v, backup, work)
        shrunk = min((backup.high - backup.low) / spread, 1.0) if spread > 0 else 1.0
        spread = backup.high - backup.low
        v = backup.out
        # Better policies may at first have a larger spread: a higher mean is progress as well.
        mean = float(v.mean())
        vain = 0 if spread < 0.9 * best or mean > best_mean + 1e-3 * spread else vain + 1
        best, best_mean = min(best, spread), max(best_mean, mean)
        if first:  # one more improvement before a policy is worth a look
            first = False
            continue
        # As in inexact Newton methods: the better the last improvement went and the fewer actions it changed, the more
        # exactly the next policy is evaluated; never more exactly than the answer needs.
        changed = np.count_nonzero(choice != backup.choice) / v.size
        choice = backup.choice
        forcing = float(np.clip(min(shrunk**2, 0.3 * changed), MOST_EXACT, most_forcing))
        target = max(spread * forcing, enough)
        if mixes:
            policy = model.policy_sweeps(choice)
            after, count = spread, 0
            while after > target:
                v, after = policy.sweep(v)
                count += 1
                judged = count >= 5 and count * share >= TRIED_SWEEPS
                mixes = not judged or _sweeps_to_come(spread, after, target, count) * share < PATIENT_SWEEPS
                if not mixes:
                    break
            work += share * (count + 1)
        if not mixes:
            if isinstance(model, Dense):
                return
            krylov = krylov or _Krylov(model)
            most = KRYLOV_ROUNDS if forcing > 0.5 * most_forcing else DEEP_KRYLOV_ROUNDS
            v, rounds = krylov.evaluate(choice, v, 0.5 * target, most)
            work += share * (SWEEPS_PER_ROUND * rounds + 1) + 2


def _sweeps_to_come(first: float, last: float, target: float, count: int) -> float:
    """How many more sweeps reach the target if they go on like the first `count`."""
    if last <= target:
        return 0.0
    return count * np.log(last / target) / np.log(first / last) if last < first else np.inf


class _Krylov:
    """Evaluates policies by BiCGSTAB on the table in sweeping order, for values in the model's own order; deterministic
    ones by walking their paths.

    A sweep there and back in place follows: news from far away would else take one policy for each step of its way.
    """

    def __init__(self, model: Sparse):
        self._order = in_order(model.rows, model.discount)
        self._new_row = np.empty(model.rows.reward.size, np.uint32)
        self._new_row[self._order.row] = np.arange(self._order.row.size, dtype=np.uint32)
        self._spare = np.empty(self._order.state.size, np.uint32)
        self._chains = Chains(self._order.state.size)

    def evaluate(self, choice: np.ndarray, v: np.ndarray, target: float, most: int) -> tuple[np.ndarray, int]:
        """(values of the policy with a residual of at most `target` if `most` rounds suffice, rounds)."""
        order = self._order
        chain, deterministic = self._chains.of(order.rows, self._new_row[choice[order.state]], 1.0)
        w = v[order.state]
        rounds = 0
        if not (deterministic and evaluate_deterministic(chain, w)):
            rounds, _ = evaluate(chain, w, target, most)
        sweeps(order.rows, w, self._spare, False, most=2)
        return w[order.position], rounds


def exact_policy_iteration(model: Dense, v: np.ndarray, sweeps: float) -> Iterator[Iterate]:
    """Policy iteration with LAPACK: for dense models that do not mix."""
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

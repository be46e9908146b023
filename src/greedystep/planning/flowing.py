"""Sweeps in place, for models in which value spreads from where it is earned.

From below (v <= Bv) any update that raises v is safe. So sweep in place, over states ordered by distance to the source
and with self-loops solved: one sweep carries value through the whole model. Between sweeps evaluate the greedy policy:
walk the paths of a deterministic one, else by more sweeps or by BiCGSTAB, whichever pays.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning import kernels
from greedystep.planning.backups import Sparse
from greedystep.planning.iterate import Iterate
from greedystep.planning.kernels import SWEEPS_PER_ROUND, Rows, evaluate, evaluate_deterministic
from greedystep.planning.layout import Chains, Ordered, in_order

SWEEPS_SUFFICE = 0.3
"""Sweeps go on without evaluation while each cuts the change to this share."""
EVALUATION_SWEEPS = 20
FIRST_TRIAL_AFTER = 8
"""Evaluations by sweeps before the first by BiCGSTAB: from a raw start it would only chase noise."""
SLOW_GAIN = 0.5
"""Sweeps are slow when an evaluation gains more than this share of what the one before gained."""
TRIAL_SHARE = 0.25
"""A trial of BiCGSTAB may cost this share of the work done before, within these limits of rounds."""
TRIAL_ROUNDS = (20, 100)


def solve_flowing(mdp: MDP, model: Sparse, v: np.ndarray, sweeps: float, tolerance: float) -> Iterator[Iterate]:
    """Sweeps in place in the order of the flow, and evaluations in between."""
    order = in_order(model.rows, mdp.discount)
    rows, share = order.rows, 1.0 / model.rows_per_state
    w = v[order.state]
    choice = np.empty(w.size, np.uint32)
    target = 0.5 * tolerance * (1.0 - mdp.discount) if mdp.discount < 1 else 1e-3 * tolerance
    evaluator = _Evaluator(order, share)
    change, backward, side_by_side = np.inf, False, False

    while True:
        previous = change
        change, _ = kernels.sweeps(rows, w, choice, backward, side_by_side=side_by_side)
        # The first sweep carries value all the way along the order; only then may stretches be swept side by side.
        backward, side_by_side = not backward, order.side_by_side
        sweeps += 1
        if change <= target:
            backup = model.backup(w[order.position])
            sweeps += 1
            yield Iterate(lambda v=backup.out: v, backup, sweeps)
            target *= 0.2
            if change == 0.0 and backup.high - backup.low == 0.0:
                return
            continue
        yield Iterate(lambda: w[order.position], None, sweeps, change)
        if evaluator.judge(w, change) or change <= SWEEPS_SUFFICE * previous:
            continue
        work, backward = evaluator.evaluate(w, choice, change, target, backward)
        sweeps += work


class _Evaluator:
    """Evaluates greedy policies between sweeps, by more sweeps in place or by BiCGSTAB, whichever has paid more lately.

    What counts is how much a method raises the mean value for its work, the improving sweep included. BiCGSTAB gets a
    trial when sweeps have become slow, goes on while it pays, and has to wait twice as long after each failure. A trial
    that lowered the values is undone.
    """

    def __init__(self, order: Ordered, share: float):
        self._rows, self._side_by_side, self._share = order.rows, order.side_by_side, share
        S = order.state.size
        self._spare, self._saved, self._last_choice = np.empty(S, np.uint32), np.empty(S), np.full(S, -1, np.int64)
        self._chains = Chains(S)
        self._wait = self._backoff = FIRST_TRIAL_AFTER
        self._mean, self._sweep_gain, self._last_gain, self._work = -np.inf, 0.0, np.inf, 0.0
        self._trial: tuple[float, float, float] | None = None

    def evaluate(
        self, w: np.ndarray, choice: np.ndarray, change: float, target: float, backward: bool
    ) -> tuple[float, bool]:
        """Bring w nearer to the value of the policy `choice`; returns (work in full sweeps, next direction)."""
        chain, deterministic = self._chains.of(self._rows, choice, 1.0)
        if deterministic and evaluate_deterministic(chain, w):
            return 3 * self._share, backward
        if self._wait == 0:
            mean = float(w.mean())
            work = self._krylov(chain, w, choice, change, target)
            self._trial = (mean, change, work + 1.0)
        else:
            _, count = kernels.sweeps(
                chain, w, self._spare, backward, EVALUATION_SWEEPS, 0.1 * change, self._side_by_side
            )
            backward = backward if count % 2 == 0 else not backward
            work = self._share * (count + 1)
            mean = float(w.mean())
            self._sweep_gain = (mean - self._mean) / (work + 1.0)
            if self._wait > 1 or abs(self._sweep_gain) > SLOW_GAIN * abs(self._last_gain):
                self._wait -= 1
            self._last_gain, self._mean = self._sweep_gain, mean
        self._work += work + 1.0
        return work, backward

    def _krylov(self, chain: Rows, w: np.ndarray, choice: np.ndarray, change: float, target: float) -> float:
        self._saved[:] = w
        changed = np.count_nonzero(choice != self._last_choice) / w.size
        self._last_choice[:] = choice
        # A policy that still changes in many states is not worth an exact evaluation.
        forcing = min(0.01, max(1e-4, 0.3 * changed))
        # A trial that fails must not cost more than a part of what has been done.
        affordable = TRIAL_SHARE * self._work / (SWEEPS_PER_ROUND * self._share)
        most = int(np.clip(affordable, *TRIAL_ROUNDS))
        rounds, _ = evaluate(chain, w, max(forcing * change, 0.3 * target), most)
        return self._share * (SWEEPS_PER_ROUND * rounds + 1)

    def judge(self, w: np.ndarray, change: float) -> bool:
        """After the sweep that follows a trial: keep or undo it. True if there was one to judge."""
        if self._trial is None:
            if self._mean == -np.inf:
                self._mean = float(w.mean())
            return False
        mean_before, change_before, work = self._trial
        self._trial = None
        gain = (float(w.mean()) - mean_before) / work
        if gain > abs(self._sweep_gain) or change < 0.5 * change_before:
            self._backoff = max(2, self._backoff // 2)
        else:
            self._wait = self._backoff = min(64, 2 * self._backoff)
        if gain < 0 and change > change_before:
            w[:] = self._saved
        self._mean, self._last_gain = float(w.mean()), np.inf
        return True

"""The fast general solver: two ways to iterate, and a probe that chooses.

*Mixing.* In a model that forgets where it came from, Bv - v soon is nearly constant, and a constant is known in closed
form (certificate.py). Greedy-Step iteration with the greedy policy, in its plain form: improve once, evaluate by sweeps
from the old values until the spread of the change has shrunk enough, improve again.

*Flowing.* Elsewhere value spreads from where it is earned: from goals, or through slow diffusion. Starting from below
(v <= Bv), where any update that raises v is safe, sweep in place over states ordered by distance to the source, with
self-loops solved; between sweeps evaluate the greedy policy by what has paid most lately: walking the paths of a
deterministic policy, more sweeps in place, or BiCGSTAB.

Both are generators of `Iterate`; the caller decides when to stop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep.mdp import MDP
from greedystep.planning import kernels
from greedystep.planning.iterate import Backup, Iterate
from greedystep.planning.kernels import Rows, bellman, chain_backup, evaluate, evaluate_deterministic
from greedystep.planning.layout import Ordered, Table, chain_of, in_order

PATIENT_SWEEPS = 6
"""A model does not mix if evaluating a policy by sweeps would cost more than so many backups of the whole model."""
PATIENCE = 12
"""Improvements in vain after which another way is tried."""
SWEEPS_SUFFICE = 0.3
"""Sweeps in place go on without evaluation while each cuts the change to this share."""
EVALUATION_SWEEPS = 20
KRYLOV_ROUNDS = 20
DEEP_KRYLOV_ROUNDS = 100
FIRST_TRIAL_AFTER = 4
"""Evaluations by sweeps before the first by BiCGSTAB, where values flow: from a raw start it would only chase noise."""
TRIAL_SHARE = 0.25
"""A trial of BiCGSTAB may cost this share of the work done before."""
SLOW_GAIN = 0.5
"""Sweeps are slow when an evaluation gains more than this share of what the one before gained."""
SWEEPS_PER_ROUND = 6
"""A round of BiCGSTAB is two symmetric preconditioner sweeps and two products."""


class Sparse:
    """Backups of a sparse model on its compiled table."""

    def __init__(self, mdp: MDP, table: Table):
        self.discount, self.rows = mdp.discount, table.rows
        self.actions_of = table.actions_of
        self.rows_per_state = self.rows.reward.size / mdp.num_states

    def backup(self, v: np.ndarray) -> Backup:
        """Bv, the greedy rows and the range of Bv - v."""
        out, choice = np.empty_like(v), np.empty(v.size, np.int32)
        low, high = bellman(self.rows, self.discount, v, out, choice)
        return Backup(v, out, choice, low, high)

    def policy_sweeps(self, choice: np.ndarray) -> PolicySweeps:
        """Sweeps of the chain that the chosen rows make."""
        return PolicySweeps(chain_of(self.rows, choice, self.discount))


class PolicySweeps:
    """Jacobi sweeps of one policy, back and forth between two arrays."""

    def __init__(self, chain: Rows):
        self.chain = chain
        self._spare = np.empty(chain.reward.size)

    def sweep(self, v: np.ndarray) -> tuple[np.ndarray, float]:
        """(T v, spread of T v - v); v's array is taken for the next result."""
        low, high = chain_backup(self.chain, v, self._spare)
        self._spare, result = v, self._spare
        return result, high - low


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
        return Backup(v, out, (self._first + choice).astype(np.int32), float((out - v).min()), float((out - v).max()))

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


def lower_start(mdp: MDP) -> np.ndarray:
    """Bc for a constant c <= Bc: below v* and safe to raise. Without a discount there is none, and B0 is as good."""
    best = mdp.rewards.max(axis=1)
    if mdp.discount == 1.0 or (best.min() > 0 and mdp.row_sums[0] < 1):
        return best
    worst = best.min() / (1.0 - mdp.discount)
    return np.maximum(best + mdp.discount * worst, worst)  # rows that end miss a part of c < 0: Bc is even larger


def solve_fast(mdp: MDP, model: Sparse | Dense, v: np.ndarray | None, tolerance: float) -> Iterator[Iterate]:
    """Iterate towards v* for as long as asked; `v` is a warm start."""
    start = lower_start(mdp) if v is None else v
    sweeps, last = 0.0, None
    if mdp.row_sums[0] >= 1 - 1e-9 and mdp.discount < 1:
        for last in _recurrent(model, start, tolerance):
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
        yield from _exact_policy_iteration(model, start, sweeps)
    else:
        yield from _flowing(mdp, model, start, sweeps, tolerance)


def _recurrent(model: Sparse | Dense, v: np.ndarray, tolerance: float) -> Iterator[Iterate]:
    """Policy iteration for models in which nothing ends: improve, evaluate as far as it pays, improve ...

    Only the spread of Bv - v counts, for a constant is free. Policies are evaluated by sweeps from the old values while
    these shrink the spread fast (a mixing model), else by BiCGSTAB. Gives up when nothing gets better any more.
    """
    discount, share = model.discount, 1.0 / model.rows_per_state
    enough = tolerance * (1.0 - discount) / discount
    sweeps, spread, best, best_mean, vain = 0.0, np.inf, np.inf, -np.inf, 0
    mixes, krylov, choice = True, None, None
    while vain < PATIENCE:
        backup = model.backup(v)
        sweeps += 1
        yield Iterate(lambda v=backup.out: v, backup, sweeps)
        previous, spread = spread, backup.high - backup.low
        v = backup.out
        # Better policies may at first have a larger spread: a higher mean is progress as well.
        mean = float(v.mean())
        vain = 0 if spread < 0.9 * best or mean > best_mean + 1e-3 * spread else vain + 1
        best, best_mean = min(best, spread), max(best_mean, mean)
        if choice is None:  # one more improvement before the first policy is worth a look
            choice = backup.choice
            continue
        # As in inexact Newton methods: the better the last improvement went and the fewer actions it changed, the more
        # exactly the next policy is evaluated; never more exactly than the answer needs.
        changed = np.count_nonzero(choice != backup.choice) / v.size
        choice = backup.choice
        forcing = min(0.1, max(1e-4, min((spread / previous) ** 2, 0.3 * changed)))
        target = max(spread * forcing, enough)
        if mixes:
            policy = model.policy_sweeps(choice)
            after, count = spread, 0
            while after > target:
                v, after = policy.sweep(v)
                count += 1
                mixes = count < 5 or _sweeps_to_come(spread, after, target, count) * share < PATIENT_SWEEPS
                if not mixes:
                    break
            sweeps += share * (count + 1)
        if not mixes:
            if isinstance(model, Dense):
                return
            krylov = krylov or _Krylov(model)
            most = KRYLOV_ROUNDS if forcing > 0.05 else DEEP_KRYLOV_ROUNDS
            v, rounds = krylov.evaluate(choice, v, 0.5 * target, most)
            sweeps += share * (SWEEPS_PER_ROUND * rounds + 1)


def _sweeps_to_come(first: float, last: float, target: float, count: int) -> float:
    """How many more sweeps reach the target if they go on like the first `count`."""
    if last <= target:
        return 0.0
    return count * np.log(last / target) / np.log(first / last) if last < first else np.inf


class _Krylov:
    """Evaluates policies by BiCGSTAB on the table in sweeping order, for values in the model's own order."""

    def __init__(self, model: Sparse):
        self._order = in_order(model.rows, model.discount)
        self._new_row = np.empty(self._order.row.size, np.int32)
        self._new_row[self._order.row] = np.arange(self._order.row.size, dtype=np.int32)

    def evaluate(self, choice: np.ndarray, v: np.ndarray, target: float, most: int) -> tuple[np.ndarray, int]:
        """(values of the policy with a residual of at most `target` if `most` rounds suffice, rounds)."""
        order = self._order
        chain = chain_of(order.rows, self._new_row[choice[order.state]], 1.0)
        w = v[order.state]
        rounds, _ = evaluate(chain, w, target, most)
        return w[order.position], rounds


def _exact_policy_iteration(model: Dense, v: np.ndarray, sweeps: float) -> Iterator[Iterate]:
    """Policy iteration with LAPACK: for dense models that do not mix."""
    share = 1.0 / model.rows_per_state
    while True:
        backup = model.backup(v)
        sweeps += 1
        yield Iterate(lambda v=backup.out: v, backup, sweeps)
        matrix, reward = model.chain(backup.choice)
        try:
            v = np.linalg.solve(np.eye(v.size) - matrix, reward)
        except np.linalg.LinAlgError:  # discount 1 and a policy that never ends: one step of value iteration
            v = backup.out
        sweeps += share * v.size / 3


def _flowing(mdp: MDP, model: Sparse, v: np.ndarray, sweeps: float, tolerance: float) -> Iterator[Iterate]:
    """Sweeps in place in the order of the flow, and evaluations in between."""
    order = in_order(model.rows, mdp.discount)
    rows, share = order.rows, 1.0 / model.rows_per_state
    w = v[order.state]
    choice = np.empty(w.size, np.int32)
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
        self._spare, self._saved, self._last_choice = np.empty(S, np.int32), np.empty(S), np.full(S, -1, np.int32)
        self._wait = self._backoff = FIRST_TRIAL_AFTER
        self._mean, self._sweep_gain, self._last_gain, self._work = -np.inf, 0.0, np.inf, 0.0
        self._trial: tuple[float, float, float] | None = None

    def evaluate(
        self, w: np.ndarray, choice: np.ndarray, change: float, target: float, backward: bool
    ) -> tuple[float, bool]:
        """Bring w nearer to the value of the policy `choice`; returns (work in full sweeps, next direction)."""
        chain = chain_of(self._rows, choice, 1.0)
        if chain.width == 1 and evaluate_deterministic(chain, w):
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
        most = int(np.clip(affordable, KRYLOV_ROUNDS, DEEP_KRYLOV_ROUNDS))
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

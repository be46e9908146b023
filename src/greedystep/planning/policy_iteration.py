"""Method "auto": three variants of policy iteration, value iteration in blocks, and the rule that chooses among them.

- `span_policy_iteration` for models without termination that mix fast: the span of Bv - v is all that counts.
- `gauss_seidel_policy_iteration` for other sparse models: sweeps in order of distance to the rewards.
- `direct_policy_iteration` for other dense models, and small ones with discount 1: elimination solves each policy.
- `blocked_value_iteration` for models too large to be copied into that order, if their own numbering will do.

All are generators of `Iteration` that go on until nothing changes; the caller stops them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba as nb
import numpy as np
from numba import njit

from greedystep.mdp import MDP
from greedystep.planning import kernels
from greedystep.planning.backups import LARGE, DenseModel, Iteration, SparseModel
from greedystep.planning.blocked_value_iteration import TableBlocks, block_readers, blocked_value_iteration
from greedystep.planning.kernels import FLOATS, INTS, ONE, TABLE_TYPE, unsigned
from greedystep.planning.policy_evaluation import PolicyEvaluator
from greedystep.planning.transition_tables import absorbing_states, reordered_table, reward_distance_order
from greedystep.planning.undiscounted import UndiscountedModel
from greedystep.signals import Deadline

MIXING_SWEEPS, MIXING_BACKUPS = 30, 4
"""A model mixes slowly if evaluating a policy takes more sweeps than this, which cost more full backups than that."""
TRIAL_BACKUPS = 2  # full backups before that is judged: the span of some models begins to fall after a few sweeps
SPAN_PATIENCE = 12  # improvements without a smaller span after which another variant takes over
STATES_PER_CHECK = 100_000  # states swept between two checks of the deadline: about 1 ms of work
SMALLEST_FORCING = 1e-4  # smallest share of the span to which a policy evaluation brings it down

SWEEPS_SUFFICE = 0.3  # sweeps go on without policy evaluation while each cuts the change to this share
FORCING = 0.02  # a policy is evaluated until this share of the last change is left: it is not the last policy
MOST_ROUNDS = 60  # BiCGSTAB rounds per policy evaluation
PATIENCE = 10  # evaluations in vain after which as many sweeps go without one; the pause doubles each time


def auto(
    mdp: MDP, model: SparseModel | DenseModel, v: np.ndarray | None, tolerance: float, deadline: Deadline
) -> Iterator[Iteration]:
    """Iterate towards v* with the variant that suits the model; `v` is a warm start."""
    sweeps = 0.0
    if mdp.discount < 1 and _never_terminates(mdp, model):
        last = None
        for last in span_policy_iteration(model, model.best_rewards if v is None else v, tolerance, deadline):
            yield last
        assert last is not None
        assert last.backup is not None
        # Without termination the bounds are the values plus two constants: go on from their middle.
        middle = 0.5 * (last.backup.low + last.backup.high)
        v = last.values() + mdp.discount / (1.0 - mdp.discount) * middle
        sweeps = last.sweeps
    elif v is not None:
        backup = model.backup(v)
        sweeps, v = 1.0, backup.out
        yield Iteration(lambda: backup.out, backup, sweeps)
    if isinstance(model, DenseModel) or (
        isinstance(model, UndiscountedModel) and model.small and model.improper_start is None
    ):
        yield from direct_policy_iteration(model, model.best_rewards if v is None else v, sweeps, deadline)
        return
    if mdp.discount < 1 and model.table.probability.size >= LARGE:
        blocks = TableBlocks(model, mdp.row_sums)
        readers = block_readers(blocks, mdp.num_states, deadline)
        if readers is not None:
            start = np.zeros(mdp.num_states) if v is None else v
            yield from blocked_value_iteration(blocks, start, readers, sweeps, tolerance, deadline)
            return
    yield from gauss_seidel_policy_iteration(mdp, model, v, sweeps, tolerance, deadline)


def _never_terminates(mdp: MDP, model: SparseModel | DenseModel) -> bool:
    """Return whether no step ends the episode and, in a sparse model, no state is absorbing."""
    return mdp.row_sums[0] >= 1 - 1e-9 and not (isinstance(model, SparseModel) and absorbing_states(model.table).any())


def direct_policy_iteration(
    model: SparseModel | DenseModel | UndiscountedModel, v: np.ndarray, sweeps: float, deadline: Deadline
) -> Iterator[Iteration]:
    """Policy iteration that solves v = r^π + γ T^π v by elimination."""
    share, seen = 1.0 / model.rows_per_state, set()
    while True:
        backup = model.backup(v)
        sweeps += 1
        yield Iteration(lambda v=backup.out: v, backup, sweeps)
        if backup.choice.tobytes() in seen:  # only policies that are equal but for rounding are left
            return
        value = model.policy_value(backup.choice, backup.out, deadline)
        if value is not None:
            v = value
            seen.add(backup.choice.tobytes())
        elif not isinstance(model, UndiscountedModel):
            v = backup.out  # a system that rounding has made singular: one step of value iteration
        else:
            return  # every policy ends, but this one has values that float64 cannot hold
        sweeps += share * v.size / 3


def span_policy_iteration(
    model: SparseModel | DenseModel, v: np.ndarray, tolerance: float, deadline: Deadline
) -> Iterator[Iteration]:
    """Modified policy iteration in the span seminorm, max - min of Bv - v; returns if the span does not fall fast.

    Without termination a constant added to all values is known in closed form (certificate.py), and only the span
    counts. Each policy is swept as long as that pays: Greedy-Step iteration with Π = {greedy policy}.
    """
    discount, share = model.discount, 1.0 / model.rows_per_state
    enough = tolerance * (1.0 - discount) / discount
    work, span, best, vain = 0.0, np.inf, np.inf, 0
    choice = np.full(v.size, v.size * model.rows_per_state, np.uint32)  # no row of any state
    # The more an improvement costs beside a sweep of one policy, the more sweeps are worth it.
    most_forcing = float(np.clip(0.4 * share, 1e-3, 0.1))
    most_sweeps = max(MIXING_SWEEPS, MIXING_BACKUPS / share)
    first = mixes = True
    check_every = max(1, STATES_PER_CHECK // v.size)
    while vain < SPAN_PATIENCE:
        backup = model.backup(v)
        work += 1
        yield Iteration(lambda v=backup.out: v, backup, work)
        if not mixes:
            return
        shrunk = min((backup.high - backup.low) / span, 1.0) if span > 0 else 1.0
        span, v = backup.high - backup.low, backup.out
        vain = 0 if span < 0.9 * best else vain + 1
        best = min(best, span)
        if first:  # one more improvement before a policy is worth evaluating
            first = False
            continue
        # As in inexact Newton methods: the better the last improvement went and the fewer actions it changed, the more
        # exactly the next policy is evaluated; never more exactly than the answer needs.
        changed = np.count_nonzero(choice != backup.choice) / v.size
        choice = backup.choice
        forcing = float(np.clip(min(shrunk**2, 0.3 * changed), SMALLEST_FORCING, most_forcing))
        target = max(span * forcing, enough)
        sweep = model.policy_sweep(choice)
        after, count = span, 0
        while mixes and after > target:
            v, after = sweep(v)
            count += 1
            if count % check_every == 0:
                deadline.check()
            judged = count >= 5 and count * share >= TRIAL_BACKUPS
            mixes = not judged or _remaining_sweeps(span, after, target, count) < most_sweeps
        work += share * (count + 1)


def _remaining_sweeps(first: float, last: float, target: float, count: int) -> float:
    """Extrapolate how many more sweeps reach the span `target`, if `count` sweeps reduced it from `first` to `last`."""
    if last <= target:
        return 0.0
    return count * np.log(last / target) / np.log(first / last) if last < first else np.inf


def gauss_seidel_policy_iteration(
    mdp: MDP, model: SparseModel, v: np.ndarray | None, sweeps: float, tolerance: float, deadline: Deadline
) -> Iterator[Iteration]:
    """Gauss-Seidel sweeps along the order of distance to the rewards and back, with policy evaluations in between.

    Without a start v, one pass along the order gives a first guess (`first_guess`).
    """
    state, position = reward_distance_order(model.table, deadline)
    if v is None:
        v = np.empty(state.size)
        for begin, end in deadline.chunks(state.size, model.table.probability.size):
            first_guess(model.table, mdp.discount, state, position, v, begin, end)
        backup = model.backup(v)
        sweeps += 2
        v = backup.out
        yield Iteration(lambda v=v: v, backup, sweeps)
    table, parallel = reordered_table(model.table, mdp.discount, state, position, deadline)
    evaluator = PolicyEvaluator(table, deadline)
    share = 1.0 / model.rows_per_state
    w, choice = v[state], np.empty(state.size, np.uint32)
    target = 0.5 * tolerance * (1.0 - mdp.discount) if mdp.discount < 1 else 1e-3 * tolerance
    change, backward = np.inf, False
    patience = _Patience()
    while True:
        previous = change
        change = kernels.sweep(table, w, choice, backward, parallel)
        backward = not backward
        sweeps += 1
        if change <= target:
            backup = model.backup(w[position])
            sweeps += 1
            yield Iteration(lambda v=backup.out: v, backup, sweeps)
            target *= 0.2
            if change == 0.0 and backup.high - backup.low == 0.0:
                return
            continue
        yield Iteration(lambda: w[position], None, sweeps, change)
        if change > SWEEPS_SUFFICE * previous and patience.lasts(change):
            sweeps += share * evaluator.evaluate(choice, w, max(FORCING * change, 0.3 * target), MOST_ROUNDS)


class _Patience:
    """Decides when to evaluate the policy exactly; after too many useless evaluations it pauses, each time for longer.

    Sweeps alone always converge. Policies that are evaluated only roughly may in theory cycle.
    """

    def __init__(self) -> None:
        self._best, self._vain, self._pause, self._next_pause = np.inf, 0, 0, PATIENCE

    def lasts(self, change: float) -> bool:
        """Return whether to evaluate the policy now, after a sweep with this largest change of a value."""
        if self._pause > 0:
            self._pause -= 1
            return False
        better = change < 0.5 * self._best
        self._best, self._vain = (change, 0) if better else (self._best, self._vain + 1)
        if self._vain > PATIENCE:
            self._vain, self._pause, self._next_pause = 0, self._next_pause, 2 * self._next_pause
            return False
        return True


@njit(nb.void(TABLE_TYPE, nb.float64, INTS, INTS, FLOATS, nb.int64, nb.int64), cache=True)
def first_guess(table, discount, state, position, v, begin, end):
    """Set v(s) for the states at positions begin .. end - 1 of the order, as if unknown successors were worth v(s) too:

    v(s) = max_a (r + γ Σ_known p v(s')) / (1 - γ Σ_unknown p).

    Exact where the best action leads only to states before it, or back to itself. All states before must be known.
    """
    first, start, to, p, reward = table
    for i in range(unsigned(begin), unsigned(end)):
        s = unsigned(state[i])
        best, best_reward = -np.inf, -np.inf
        for row in range(unsigned(first[s]), unsigned(first[s + ONE])):
            known, others = 0.0, 0.0
            for k in range(unsigned(start[row]), unsigned(start[row + ONE])):
                if position[to[k]] < i:
                    known += p[k] * v[to[k]]
                else:
                    others += p[k]
            rest = 1.0 - discount * others
            if rest > 1e-9:  # with discount 1 an action may lead to nothing known
                best = max(best, (reward[row] + discount * known) / rest)
            best_reward = max(best_reward, reward[row])
        v[s] = best if best > -np.inf else best_reward

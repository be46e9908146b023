"""Value, policy and modified policy iteration, the paper's Algorithm 1 and multi-step, as plain loops.

They are for reading and comparing; policy_iteration.py has the fast solver. Each is a generator of `Iteration` that
goes on until nothing changes; the caller stops it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from greedystep import operators
from greedystep.mdp import MDP
from greedystep.planning.backups import BellmanBackup, DenseModel, Iteration, SparseModel, greedy_backup
from greedystep.planning.undiscounted import UndiscountedModel
from greedystep.signals import Deadline

STALLS = 20  # iterations without a smaller residual after which only rounding is left


def backup_of(mdp: MDP, v: np.ndarray) -> BellmanBackup:
    """Return Bv [S] with the greedy actions of v."""
    return greedy_backup(mdp.backup(v), v)


def value_iteration(mdp: MDP, v: np.ndarray) -> Iterator[Iteration]:
    """Value iteration: v <- B v = max_a r + γ P v."""
    sweeps = 0.0
    while True:
        backup = backup_of(mdp, v)
        sweeps += 1
        yield Iteration(lambda v=backup.out: v, backup, sweeps)
        v = backup.out


def policy_value(
    model: SparseModel | DenseModel, policy: np.ndarray, start: np.ndarray, deadline: Deadline
) -> np.ndarray:
    """Return v^π = (I - γ T^π)^-1 r^π [S] up to rounding; iterative methods begin with `start`.

    SciPy's sparse LU would not do: it fills up where a chain mixes, and cannot be interrupted.
    """
    rows = (np.arange(policy.size) * model.rows_per_state + policy).astype(np.uint32)
    v = model.policy_value(rows, start, deadline)
    if v is None and isinstance(model, UndiscountedModel):
        problem = "whose values float64 cannot hold or tell from infinite ones"
        if model.never_ends(rows):
            problem = "that never ends, which has no value with discount 1"
        raise ValueError(f"method: policy iteration met a policy {problem}; use 'auto' or 'value-iteration'")
    return start if v is None else v


def policy_iteration(
    mdp: MDP, model: SparseModel | DenseModel, v: np.ndarray, deadline: Deadline
) -> Iterator[Iteration]:
    """Policy iteration (Howard 1960): evaluate the greedy policy exactly and improve it, until no action is better."""
    sweeps, policy, states = 0.0, None, np.arange(mdp.num_states)
    largest_reward, seen = float(np.abs(mdp.rewards[mdp.available]).max()), set()
    while True:
        backup = backup_of(mdp, v)
        sweeps += 1
        yield Iteration(lambda v=backup.out: v, backup, sweeps)
        if policy is None:
            policy = backup.choice
        else:
            # Equal actions are not exchanged: rounding would make the policies go round in circles, and may still do so
            # among policies that are equal but for rounding.
            old = mdp.rewards[states, policy] + mdp.discount * (mdp.transitions[states * mdp.num_actions + policy] @ v)
            better = backup.out > old + 2.0**-50 * (largest_reward + float(np.abs(v).max()))
            policy = np.where(better, backup.choice, policy)
            if not better.any() or policy.tobytes() in seen:
                return
        seen.add(policy.tobytes())
        v = policy_value(model, policy, backup.out, deadline)
        sweeps += 1


def modified_policy_iteration(mdp: MDP, v: np.ndarray, horizon: int, deadline: Deadline) -> Iterator[Iteration]:
    """Modified policy iteration (Puterman and Shin 1978): v <- (B^π)^(N-1) B v with π greedy for v, N = horizon."""
    sweeps = 0.0
    while True:
        backup = backup_of(mdp, v)
        sweeps += 1
        yield Iteration(lambda v=backup.out: v, backup, sweeps)
        chain, reward = mdp.under(backup.choice)
        v = backup.out
        for _ in range(horizon - 1):
            v = reward + mdp.discount * (chain @ v)
            deadline.check()
        sweeps += (horizon - 1) / mdp.num_actions


def greedy_step(
    mdp: MDP, q: np.ndarray, policies: list[np.ndarray] | None, horizon: int, tolerance: float, deadline: Deadline
) -> Iterator[Iteration]:
    """Greedy-Step Value Iteration (Algorithm 1): Q <- G Q (Eq. 4); without policies, Π = {greedy policy of Q}."""
    sweeps = 0.0
    work = 1 + (1 if policies is None else len(policies)) * (horizon - 1) / mdp.num_actions
    while True:
        behaviours = [q.argmax(axis=1)] if policies is None else policies
        new = operators.greedy_step(mdp, behaviours, q, horizon, check=deadline.check)
        sweeps += work
        change, q = operators.distance(mdp, new, q), new
        backup = None
        # G contracts by γ to Q*, so this change is small enough for the tolerance: time to prove it.
        if change <= 0.5 * tolerance * (1 - mdp.discount) or change == 0.0:
            backup = backup_of(mdp, q.max(axis=1))
            sweeps += 1
        yield Iteration(lambda q=q: q.max(axis=1), backup, sweeps, change)
        if change == 0.0:
            return


def multi_step(
    mdp: MDP, q: np.ndarray, policies: list[np.ndarray], horizon: int, tolerance: float, deadline: Deadline
) -> Iterator[Iteration]:
    """Multi-step iteration: Q <- max_π (B^π)^(N-1) B Q, to a fixed point that lies below Q* in general (Theorem 6)."""
    rate = mdp.discount**horizon
    solved = tolerance * max(1 - rate, 1e-9)
    sweeps, work, smallest, stalls = 0.0, len(policies) * (1 + (horizon - 1) / mdp.num_actions), np.inf, 0
    while True:
        new = operators.multi_step_optimality(mdp, policies, q, horizon, check=deadline.check)
        sweeps += work
        own, q = operators.distance(mdp, new, q), new
        # The operator contracts: a residual that does not fall is rounding, and will not get smaller.
        stalls = 0 if own < smallest else stalls + 1
        smallest = min(smallest, own)
        done = own <= solved or (stalls >= STALLS and mdp.discount < 1)
        backup = backup_of(mdp, q.max(axis=1)) if done else None
        yield Iteration(lambda q=q: q.max(axis=1), backup, sweeps, own_residual=own)
        if done:
            return

"""The exact operators of the paper's Table 1 on a finite MDP, each as a few sparse products.

Notation: q and every result are [S, A], with -inf where an action is not available; V(s) = max_a q(s, a); Π is a list
of behaviour policies (`policies`), N the `horizon`. B is Bellman's optimality operator, B^π his expectation operator:

    (B q)(s, a)   = r(s, a) + γ Σ_s' p(s' | s, a) V(s')
    (B^π q)(s, a) = r(s, a) + γ Σ_s' p(s' | s, a) Σ_a' π(a' | s') q(s', a')

Everything that follows a policy for several steps uses that (B^π)^(n-1) B q = r + γ P u_n, where

    u_1 = V,    u_n = r^π + γ T^π u_(n-1)        (n-step values of the policy, [S])

so one more step costs one product with the chain T^π [S, S], never a power of it. Products are counted in these units:
one with a chain is 1, one with the whole model is A. The value after the end of an episode is 0: rows of the model
sum to less than one where steps terminate.

Which theorem of the paper holds for which operator, and where one fails, is the subject of docs/theory.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, log
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from greedystep.checks import check_entries, check_float_array, check_int
from greedystep.mdp import MDP, ROW_SUM_TOLERANCE, Policy

LAMBDA_TOLERANCE = 1e-15  # remainder, as a share of the whole, at which the λ-operator's infinite sum is cut

SampledTrajectory = tuple[ArrayLike, ArrayLike, ArrayLike, bool]
"""(states int [T+1], actions int [T], rewards float [T], whether the last step ended the episode)."""


def _no_check() -> None:
    """Do nothing: the default `check`."""


def distance(mdp: MDP, q: np.ndarray, other: np.ndarray) -> float:
    """Return ‖q - other‖∞, the largest absolute difference of two [S, A] over the available actions."""
    available = mdp.available
    return float(np.abs(_table(mdp, q)[available] - _table(mdp, other, "other")[available]).max())


# -- one step ---------------------------------------------------------------------------------------------------------


def bellman(mdp: MDP, q: np.ndarray) -> np.ndarray:
    """Apply the one-step optimality operator: B q = r + γ P max_a q (Eq. 2). A products."""
    return mdp.backup(_greedy_values(mdp, q))


def expectation(mdp: MDP, policy: Policy, q: np.ndarray) -> np.ndarray:
    """Apply the one-step expectation operator: B^π q = r + γ P Σ_a π(a | ·) q(·, a) (Eq. 1). A products."""
    return mdp.backup(_policy_values(mdp, policy, q))


# -- several steps towards the optimum --------------------------------------------------------------------------------


def greedy_step(
    mdp: MDP,
    policies: Sequence[Policy],
    q: np.ndarray,
    horizon: int,
    form: Literal["inside", "outside"] = "inside",
    *,
    check: Callable[[], Any] = _no_check,
) -> np.ndarray:
    """Apply the Greedy-Step operator: follow the best policy of the set for the best number of steps, then be greedy.

        inside:   (G q)(s, a) = r(s, a) + γ Σ_s' p(s' | s, a) max_π max_{1<=n<=N} u_{π,n}(s')
        outside:  (G q)(s, a) = max_π max_{1<=n<=N} ((B^π)^(n-1) B q)(s, a)

    with u_{π,1}(s) = max_a q(s, a) and u_{π,n} = r^π + γ T^π u_{π,n-1}: n - 1 steps of π, then a greedy action. B is
    the Bellman optimality operator, B^π the expectation operator, T^π the transition matrix under π; a product is one
    with T^π or with the transitions of one action.

    `inside` is the definition (Eq. 4): policy and n are chosen in each successor. It takes |Π|(N-1) + A products.
    `outside` is what the proofs and the matrix formula of Section 4 use: one choice for all successors, made with
    A (1 + |Π|(N-1)) products. They agree where transitions are deterministic; otherwise inside >= outside.

    Both are γ-contractions with fixed point Q*. From q <= Q*, `inside` is never slower than B and has the paper's fast
    rate γ^(n+1) where a policy is optimal for the next n steps; docs/theory.md says what fails elsewhere.

    `check` is called before each product; an exception from it ends the computation.
    """
    if form not in ("inside", "outside"):
        raise ValueError(f"form: expected 'inside' or 'outside', got {form!r}")
    policies, horizon = mdp.check_policies(policies), check_int("horizon", horizon)
    best = start = _greedy_values(mdp, q) if form == "inside" else bellman(mdp, q)
    for policy in policies:
        backup = _chain_backup(mdp, policy) if form == "inside" else lambda q, p=policy: mdp.backup(_average(p, q))
        for ahead in _repeated(backup, start, horizon, check):
            best = np.maximum(best, ahead)
    return mdp.backup(best) if form == "inside" else best


def multi_step_optimality(
    mdp: MDP, policies: Sequence[Policy], q: np.ndarray, horizon: int, *, check: Callable[[], Any] = _no_check
) -> np.ndarray:
    """Apply the multi-step optimality operator: max_π (B^π)^(N-1) B q, always N steps (the operator before Lemma 2).

    It contracts by γ^N, but its fixed point is only known to lie below Q*. |Π|(N-1 + A) products. `check` is called
    before each product.
    """
    policies, values, horizon = mdp.check_policies(policies), _greedy_values(mdp, q), check_int("horizon", horizon)
    rollouts = (_last(_repeated(_chain_backup(mdp, policy), values, horizon, check)) for policy in policies)
    return np.max([mdp.backup(ahead) for ahead in rollouts], axis=0)


# -- several steps of one policy --------------------------------------------------------------------------------------


def multi_step_on_policy(mdp: MDP, policy: Policy, q: np.ndarray, horizon: int) -> np.ndarray:
    """Apply the multi-step on-policy operator (B^π)^N q (Eq. 8). It contracts by γ^N to Q^π. N-1 + A products."""
    ahead = _repeated(_chain_backup(mdp, policy), _policy_values(mdp, policy, q), check_int("horizon", horizon))
    return mdp.backup(_last(ahead))


def weighted(mdp: MDP, policy: Policy, q: np.ndarray, weights: Sequence[float] | np.ndarray) -> np.ndarray:
    """Apply the weighted-returns operator Σ_n w_n (B^π)^n q, with weights[n-1] = w_n. len(weights)-1 + A products.

    It contracts by Σ_n w_n γ^n to Q^π. The weights are non-negative and sum to one.
    """
    w = np.asarray(weights, dtype=np.float64)
    if w.ndim != 1 or not _is_distribution(w):
        raise ValueError(f"weights: expected a list of numbers >= 0 that sum to 1, got {weights!r}")
    backup, ahead = _chain_backup(mdp, policy), _policy_values(mdp, policy, q)
    mixture = w[0] * ahead
    for weight in w[1:]:
        ahead = backup(ahead)
        mixture += weight * ahead
    return mdp.backup(mixture)


def lambda_operator(mdp: MDP, policy: Policy, q: np.ndarray, lambda_: float) -> np.ndarray:
    """Apply the λ-operator (1-λ) Σ_{n>=1} λ^(n-1) (B^π)^n q. It contracts by γ(1-λ)/(1-γλ) to Q^π.

    The paper prints λ^n; those weights sum to λ, and Q^π would not be a fixed point.

    The sum equals r + γ P m, where m = (1-λ) Σ_a π q + λ (r^π + γ T^π m) is the fixed point of a γλ-contraction. It is
    iterated until (γλ)^k <= 1e-15, which takes k + A products: 230 for γλ = 0.86, 3437 for γλ = 0.99.
    """
    if not 0 <= lambda_ <= 1 or lambda_ * mdp.discount == 1:
        raise ValueError(f"lambda_: expected a number in [0, 1] (below 1 with discount 1), got {lambda_!r}")
    chain, reward = mdp.under(policy)
    start = mixture = _policy_values(mdp, policy, q)
    rate = mdp.discount * lambda_
    for _ in range(ceil(log(LAMBDA_TOLERANCE) / log(rate)) if rate else 0):
        mixture = (1 - lambda_) * start + lambda_ * (reward + mdp.discount * (chain @ mixture))
    return mdp.backup(mixture)


def multi_step_off_policy(
    mdp: MDP,
    target: Policy,
    behaviours: Sequence[Policy],
    q: np.ndarray,
    horizon: int,
    selection: Sequence[float] | None = None,
) -> np.ndarray:
    """Apply the multi-step off-policy operator with importance sampling, as an exact expectation (Eq. 9).

        E_{π' ~ selection, τ ~ π'} [ Σ_{n<N} γ^n ζ_n r_n + γ^N ζ_N q(s_N, a_N) ],   ζ_n = Π_{t=1}^n (π / π')(a_t | s_t)

    In expectation a ratio π/π' turns π' into π where π' takes the action at all, and loses the action where it does
    not. So the sum over trajectories is Σ_π' selection(π') (B^c)^N q, with c(a | s) = π(a | s) 1[π'(a | s) > 0]. It
    contracts by γ^N; the fixed point is Q^π if every behaviour covers the target, and something else if one does not.
    A (1 + |behaviours|(N-1)) products.

    `selection` holds the probabilities with which the behaviours are drawn; equal ones by default.
    """
    behaviours, horizon = mdp.check_policies(behaviours), check_int("horizon", horizon)
    chance = np.full(len(behaviours), 1 / len(behaviours)) if selection is None else np.asarray(selection, np.float64)
    if chance.shape != (len(behaviours),) or not _is_distribution(chance):
        raise ValueError(f"selection: expected {len(behaviours)} probabilities that sum to 1, got {selection!r}")
    wanted = _probabilities(mdp, mdp.check_policy(target, "target"))
    mixture = np.zeros(mdp.num_states)
    for probability, behaviour in zip(chance, behaviours, strict=True):
        covered = np.where(_probabilities(mdp, behaviour) > 0, wanted, 0.0)
        # B^c on state values: Σ_a c(a | s) (r(s, a) + γ Σ_s' p(s' | s, a) v(s')), [S].
        ahead = _repeated(lambda v, c=covered: _average(c, mdp.backup(v)), _average(covered, _table(mdp, q)), horizon)
        mixture += probability * _last(ahead)
    return mdp.backup(mixture)


# -- the sampled operator ---------------------------------------------------------------------------------------------


def sampled(
    trajectories: Iterable[SampledTrajectory], q: np.ndarray, discount: float, horizon: int | None = None
) -> np.ndarray:
    """Apply the sampled operator Ĝ (Eq. 6) to stored data, without a model: q [S, A] -> [S, A].

        (Ĝ q)(s, a) = max_τ max_{1<=n<=N} Σ_{t<n} γ^t r_t + γ^n V(s_n),    τ: stored segments that begin with (s, a)

    Args:
        trajectories: each (states int [T+1], actions int [T], rewards [T], terminated). Every step begins a segment,
            which reaches to the end of its trajectory; after the last step V bootstraps unless the episode terminated.
        q: [S, A], -inf for unavailable actions. Entries that no trajectory visits are returned as they are.
        discount: γ in (0, 1].
        horizon: N; None looks to the end of each trajectory.

    Unbiased for deterministic models only: elsewhere the maximum over random returns is too high, and more data make it
    worse. N vectorised passes over the data: after the n-th, the best return of up to n steps is known for every step.
    """
    q = np.asarray(q, dtype=np.float64)
    if q.ndim != 2:
        raise ValueError(f"q: expected [S, A], got shape {list(q.shape)}")
    if not 0 < discount <= 1:
        raise ValueError(f"discount: expected a number in (0, 1], got {discount!r}")
    passes = np.inf if horizon is None else check_int("horizon", horizon)
    values = q.max(axis=1)
    seen, best = np.zeros(q.shape, bool), np.full(q.shape, -np.inf)
    for i, trajectory in enumerate(trajectories):
        states, actions, rewards, terminated = _checked_trajectory(trajectory, q.shape, f"trajectories[{i}]")
        bootstrap = values[states[1:]]
        if terminated:
            bootstrap[-1] = 0.0
        returns = np.full(len(actions), -np.inf)
        for _ in range(int(min(passes, len(actions)))):
            returns = rewards + discount * np.maximum(bootstrap, np.append(returns[1:], -np.inf))
        visited = states[:-1], actions
        np.maximum.at(best, visited, returns)
        seen[visited] = True
    return np.where(seen, best, q)


def sampled_limit(mdp: MDP, policies: Sequence[Policy], q: np.ndarray, horizon: int) -> np.ndarray:
    """Apply Ĝ to every trajectory that the policies can produce (Eq. 6): the limit of `sampled` for infinite data.

    Expectations become maxima over what can happen. With w_1 = V, and max_s' over the outcomes of positive probability
    (the end, worth 0, is one where the step may terminate),

        w_n(s) = max(V(s), max_{a: π(a|s)>0} r(s, a) + γ max_s' w_(n-1)(s')),
        (Ĝ q)(s, a) = r(s, a) + γ max_s' max_π w_N(s').

    1 + |Π|(N-1) passes over the model.
    """
    policies, horizon = mdp.check_policies(policies), check_int("horizon", horizon)
    values = _greedy_values(mdp, q)
    best = values
    for policy in policies:
        possible = _probabilities(mdp, policy) > 0
        ahead = values
        for _ in range(horizon - 1):
            ahead = np.maximum(values, _best_case_backup(mdp, ahead).max(axis=1, where=possible, initial=-np.inf))
        best = np.maximum(best, ahead)
    return _best_case_backup(mdp, best)


# -- helpers ----------------------------------------------------------------------------------------------------------


def _repeated(
    backup: Callable[[np.ndarray], np.ndarray], values: np.ndarray, count: int, check: Callable[[], Any] = _no_check
) -> Iterator[np.ndarray]:
    """Yield u_1 = values, u_2, ..., u_count with u_n = backup(u_(n-1)), and stop early at a fixed point.

    All that would follow a fixed point is equal to it, so that a horizon of 2^31 takes no longer than it has to.
    """
    yield values
    for _ in range(count - 1):
        check()
        before, values = values, backup(values)
        if np.array_equal(before, values):
            return
        yield values


def _last(values: Iterator[np.ndarray]) -> np.ndarray:
    return deque(values, maxlen=1).pop()


def _chain_backup(mdp: MDP, policy: Policy) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function v -> r^π + γ T^π v, [S] -> [S]."""
    chain, reward = mdp.under(policy)
    return lambda values: reward + mdp.discount * (chain @ values)


def _best_case_backup(mdp: MDP, values: np.ndarray) -> np.ndarray:
    """Return r(s, a) + γ max_s' v(s') over the possible successors s', [S] -> [S, A]."""
    matrix = sp.csr_array(mdp.transitions)
    rows = np.repeat(np.arange(mdp.rewards.size), np.diff(matrix.indptr))
    possible = matrix.data > 0
    best = np.full(mdp.rewards.size, -np.inf)
    np.maximum.at(best, rows[possible], values[matrix.indices[possible]])
    best = best.reshape(mdp.rewards.shape)
    if mdp.termination is not None:
        best = np.where(mdp.termination > 0, np.maximum(best, 0.0), best)
    return mdp.rewards + mdp.discount * best


def _greedy_values(mdp: MDP, q: np.ndarray) -> np.ndarray:
    return _table(mdp, q).max(axis=1)


def _policy_values(mdp: MDP, policy: Policy, q: np.ndarray) -> np.ndarray:
    """Return Σ_a π(a | s) q(s, a), [S], after checking the policy."""
    return _average(mdp.check_policy(policy), _table(mdp, q))


def _average(policy: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return Σ_a π(a | s) q(s, a), [S], of a checked policy; actions of probability 0 add 0 even where q = -inf."""
    if policy.ndim == 1:
        return q[np.arange(len(q)), policy]
    return (policy * np.where(policy > 0, q, 0.0)).sum(axis=1)


def _probabilities(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    return np.eye(mdp.num_actions)[policy] if policy.ndim == 1 else policy


def _table(mdp: MDP, q: np.ndarray, name: str = "q") -> np.ndarray:
    """Return q as float64 [S, A], -inf exactly where the action is not available; ValueError if its shape is wrong."""
    array = check_float_array(name, q)
    if array.shape != mdp.rewards.shape:
        raise ValueError(f"{name}: expected [S, A] = {list(mdp.rewards.shape)}, got shape {list(array.shape)}")
    wrong, rule = ~np.isfinite(array) & mdp.available, "expected a finite number"
    check_entries(wrong, lambda s, a: f"{name}: the entry of state {s}, action {a} is {array[s, a]}; {rule}")
    return np.where(mdp.available, array, -np.inf)


def _is_distribution(weights: np.ndarray) -> bool:
    return bool((weights >= 0).all() and abs(weights.sum() - 1) <= ROW_SUM_TOLERANCE)


def _checked_trajectory(
    trajectory: SampledTrajectory, shape: tuple[int, ...], name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    states, actions, rewards, terminated = trajectory
    states, actions, rewards = np.asarray(states), np.asarray(actions), np.asarray(rewards, dtype=np.float64)
    T = len(actions)
    if T == 0 or states.shape != (T + 1,) or actions.shape != (T,) or rewards.shape != (T,):
        shapes = ", ".join(str(list(array.shape)) for array in (states, actions, rewards))
        raise ValueError(f"{name}: expected states [T+1], actions [T] and rewards [T] with T >= 1, got {shapes}")
    for array, count, what in ((states, shape[0], "states"), (actions, shape[1], "actions")):
        if not np.issubdtype(array.dtype, np.integer) or array.min() < 0 or array.max() >= count:
            raise ValueError(f"{name}: expected {what} as integers in 0..{count - 1}, got {array}")
    return states, actions, rewards, bool(terminated)

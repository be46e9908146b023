"""Optimality criteria other than the discounted sum: a finite horizon, and the average reward per step."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from greedystep.checks import check_float, check_int, check_memory
from greedystep.mdp import MDP
from greedystep.planning.convergence import COARSE, OVERFLOW, largest
from greedystep.planning.transition_tables import widest_row

FIRST_LOOK = 16  # iteration after which different gains are looked for, and again whenever their number has doubled


class FiniteHorizonSolution(NamedTuple):
    """Optimal values and policy of a finite horizon H, for every time t = 0 .. H; exact up to rounding."""

    v: np.ndarray
    """float64 [H + 1, S]: v[t, s] is the value of state s with H - t steps left; v[H] is 0."""
    policy: np.ndarray
    """int [H, S]: an optimal action at each time and state, the lowest one of equals."""


def solve_finite_horizon(mdp: MDP, horizon: int, discount: float | None = None) -> FiniteHorizonSolution:
    """Solve a finite MDP for the expected (discounted) sum of its next `horizon` rewards, by backward induction.

        v[t](s) = max_a r(s, a) + γ Σ p(s'|s, a) v[t + 1](s'),   v[H] = 0

    Args:
        discount: γ in (0, 1]; by default the model's. 1 needs no terminal states here, since every sum is finite.
    """
    _check_model(mdp)
    horizon = check_int("horizon", horizon)
    gamma = mdp.discount if discount is None else check_float("discount", discount, 0, 1, above=True)
    S, A = mdp.num_states, mdp.num_actions
    check_memory(f"horizon={horizon}", 16 * (horizon + 1) * S)
    v, policy = np.zeros((horizon + 1, S)), np.zeros((horizon, S), np.int64)
    for t in range(horizon - 1, -1, -1):
        q = mdp.rewards + gamma * (mdp.transitions @ v[t + 1]).reshape(S, A)
        policy[t] = q.argmax(axis=1)
        v[t] = q[np.arange(S), policy[t]]
    return FiniteHorizonSolution(v, policy)


class AverageRewardSolution(NamedTuple):
    """The optimal average reward per step, between two bounds, and a policy that attains at least the lower one."""

    gain: float
    """The middle of lower and upper."""
    lower: float
    upper: float
    """The optimal average reward of every state lies in [lower, upper]."""
    bias: np.ndarray
    """float64 [S]: relative values, 0 in state 0."""
    policy: np.ndarray
    """int [S]: greedy for the relative values; its average reward is at least `lower`."""
    iterations: int
    converged: bool
    """Whether upper - lower is within the tolerance."""
    message: str = ""
    """Why the iteration stopped early, in one sentence; else empty."""


def solve_average_reward(
    mdp: MDP, tolerance: float = 1e-6, *, max_iterations: int = 1_000_000, time_limit: float | None = None
) -> AverageRewardSolution:
    """Maximise the long-run average reward per step by relative value iteration; the model's discount is not used.

    For any relative values h and their backup L h = max_a r + P h, the optimal gains of all states lie in
    [min (L h - h), max (L h - h)] (Puterman 1994, theorem 8.5.5). Iteration closes the gap where all states have the
    same optimal gain, for example in unichain models. Elsewhere it stops as soon as two states are proved to have
    different gains: `message` names them, and the bounds hold for all states together. Only half of each change is
    made, which is the backup of (I + P) / 2: that chain has the same gains, halved, and is never periodic.

    Raises:
        ValueError: the model has terminal states: an episode that ends has no average reward.
    """
    _check_model(mdp)
    check_float("tolerance", tolerance, 0, above=True)
    check_int("max_iterations", max_iterations)
    if mdp.termination is not None and mdp.termination.any():
        raise ValueError("mdp: the average reward is for models that never end; this one has terminations")
    S, A = mdp.num_states, mdp.num_actions
    h, start = np.zeros(S), time.monotonic()
    iteration, closed, next_look, message = 0, None, FIRST_LOOK, ""
    row_error = max(abs(mdp.row_sums[0] - 1), abs(mdp.row_sums[1] - 1))
    # Terms of a row's sum, each rounded once when multiplied and once when added, and the two operations around it.
    slack_per_size, largest_reward = (widest_row(mdp) + 4) * np.finfo(float).eps + row_error, mdp.largest_reward
    while True:
        q = mdp.rewards + (mdp.transitions @ h).reshape(S, A)
        policy = q.argmax(axis=1)
        change = q[np.arange(S), policy] - h
        slack = slack_per_size * (largest(h) + largest_reward)
        lower, upper = float(change.min() - slack), float(change.max() + slack)
        iteration += 1
        if upper - lower <= tolerance:
            break
        if not np.isfinite(upper - lower):
            lower, upper, message = -np.inf, np.inf, OVERFLOW
            break
        if iteration == next_look:
            if closed is None:
                closed = _closed_classes(mdp.transitions, np.repeat(np.arange(S), A))
            rows = np.arange(S) * A + policy
            recurrent = _closed_classes(mdp.transitions[rows], np.arange(S))
            message = _different_gains(change, closed, recurrent, 2 * slack + tolerance)
            next_look *= 2
        if change.max() - change.min() <= slack and tolerance < 2 * slack:
            message = COARSE
        elif iteration == max_iterations:
            message = message or f"stopped after {iteration} iterations"
        elif time_limit is not None and time.monotonic() - start > time_limit:
            message = message or f"stopped by the time limit of {time_limit:g} s"
        if message:
            break
        h = h + 0.5 * change
        h -= h[0]
    gain = 0.5 * (lower + upper)
    return AverageRewardSolution(gain, lower, upper, h, policy, iteration, upper - lower <= tolerance, message)


def _check_model(mdp: Any) -> None:
    if not isinstance(mdp, MDP):
        raise TypeError(f"mdp: expected a greedystep MDP, got {type(mdp).__name__}")


def _closed_classes(transitions: Any, state: np.ndarray) -> np.ndarray:
    """Return the closed class of every state, int [S], or -1: sets in which all states reach each other and no other.

    Args:
        state: int [rows], the state of each row of the transitions.
    """
    S = transitions.shape[1]
    matrix = sp.coo_array(transitions)
    possible = matrix.data > 0
    here, there = state[matrix.coords[0][possible]], matrix.coords[1][possible]
    graph = sp.csr_array((np.ones(here.size, bool), (here, there)), shape=(S, S))
    count, label = sp.csgraph.connected_components(graph, connection="strong")
    is_closed = np.ones(count, bool)
    is_closed[label[here[label[here] != label[there]]]] = False
    return np.where(is_closed[label], label, -1)


def _different_gains(change: np.ndarray, closed: np.ndarray, recurrent: np.ndarray, margin: float) -> str:
    """Return a sentence if two states have optimal gains that differ by more than the margin, else "".

    No policy leaves a class that is closed under all actions, so its gain is at most the largest change in it; a class
    that is closed under the greedy policy has at least the smallest change in it. If gains differ, this shows sooner or
    later: states of the smallest gain cannot leave each other, and the greedy policy comes to stay in the largest.
    """
    most, least = np.full(change.size, -np.inf), np.full(change.size, np.inf)
    np.maximum.at(most, closed[closed >= 0], change[closed >= 0])
    np.minimum.at(least, recurrent[recurrent >= 0], change[recurrent >= 0])
    worst, best = np.where(most > -np.inf, most, np.inf).argmin(), np.where(least < np.inf, least, -np.inf).argmax()
    if least[best] - most[worst] <= margin:
        return ""
    low, high = int((closed == worst).argmax()), int((recurrent == best).argmax())
    return (
        f"states have different average rewards: at most {most[worst]:.6g} from state {low}, at least "
        f"{least[best]:.6g} from state {high}; solve the states that state {low} can reach as a model of their own, or "
        "take (1 - γ) v of gs.solve with a discount γ near 1 for the average from each state"
    )

"""The update of every method from one whole episode; q [S, A] is changed in place.

An episode is s_0, a_0, r_0, ..., s_T in an `EpisodeBuffer`, with T = `steps`. If it terminated, nothing follows its
last step; if it was truncated, the last step bootstraps from s_T. V(s) = max_a q(s, a).

All methods act with the table as it was when the episode began and learn when it is over, so that they differ in their
update alone. In a task whose state holds the time no pair occurs twice in an episode, and this equals learning at every
step. Unless a function says otherwise, all targets y_t are computed from the table before the update, and then
q(s_t, a_t) <- q + α (y_t - q) in the order of time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

GREEDY_STEP, Q_LEARNING, BACKWARD_Q_LEARNING, N_STEP_Q, N_STEP_SARSA, EPISODIC_BACKWARD = range(6)
SARSA_LAMBDA, WATKINS, PENG, HARUTYUNYAN, TREE_BACKUP, RETRACE, Q_SIGMA, MONTE_CARLO = range(6, 14)
GREEDY_STEP_STORED, GREEDY_STEP_EXPECTED, MODEL = range(14, 17)  # from more than one episode: `compiled_loops`


class Parameters(NamedTuple):
    """The numeric parameters of all methods; each method uses its own."""

    alpha: float = 1.0
    lambda_: float = 0.9
    n: int = 1
    sigma: float = 0.5
    beta: float = 0.5
    target_epsilon: float = 0.0


@njit(cache=True)
def update(method, parameters, q, buffer, steps, terminated, gamma):
    """Update the table from one episode with the method of that code."""
    if method == GREEDY_STEP:
        greedy_step(q, buffer, steps, terminated, gamma, parameters.n)
    elif method in (Q_LEARNING, BACKWARD_Q_LEARNING):
        one_step(q, buffer, steps, terminated, gamma, parameters.alpha, method == BACKWARD_Q_LEARNING)
    elif method in (N_STEP_Q, N_STEP_SARSA):
        n_step(q, buffer, steps, terminated, gamma, parameters, method == N_STEP_SARSA)
    elif method == EPISODIC_BACKWARD:
        episodic_backward(q, buffer, steps, terminated, gamma, parameters.alpha, parameters.beta)
    else:
        trace(method, q, buffer, steps, terminated, gamma, parameters)


@njit(cache=True)
def diverged(q, buffer, steps):
    """Whether a pair of the episode has a value that is not finite."""
    states, actions = buffer.states, buffer.actions
    nan_if_infinite = 0.0
    for t in range(steps):
        nan_if_infinite += 0.0 * q[states[t], actions[t]]
    return nan_if_infinite != 0.0


# -- reading the table ------------------------------------------------------------------------------------------------


@njit(cache=True)
def max_q(q, s):
    """V(s) = max_a q(s, a)."""
    value = q[s, 0]
    for a in range(1, q.shape[1]):
        value = max(value, q[s, a])
    return value


@njit(cache=True)
def target_policy(q, s, action, epsilon):
    """Return (E_π q(s, .), π(action | s)) of the ε-greedy target policy π; ties share, -inf is unavailable."""
    top, ties, available, total = max_q(q, s), 0, 0, 0.0
    for a in range(q.shape[1]):
        if q[s, a] > -np.inf:
            available += 1
            total += q[s, a]
            if q[s, a] == top:
                ties += 1
    probability = epsilon / available
    if q[s, action] == top:
        probability += (1.0 - epsilon) / ties
    return (1.0 - epsilon) * top + epsilon * total / available, probability


@njit(cache=True)
def move_towards_targets(q, buffer, steps, alpha):
    """q(s_t, a_t) <- q + α (y_t - q) for all steps of the episode."""
    states, actions, targets = buffer.states, buffer.actions, buffer.targets
    for t in range(steps):
        move_towards(q, states[t], actions[t], targets[t], alpha)


@njit(cache=True)
def move_towards(q, s, a, target, alpha):
    """q(s, a) <- q + α (target - q); with α = 1 the target, even where q is -inf."""
    q[s, a] = target if alpha == 1.0 else q[s, a] + alpha * (target - q[s, a])


# -- the methods ------------------------------------------------------------------------------------------------------


@njit(cache=True)
def greedy_step(q, buffer, steps, terminated, gamma, horizon):
    """Greedy-step Q-learning, q(s_t, a_t) <- max(q(s_t, a_t), y_t) with the paper's greedy-step return

        y_t = max over n <= min(N, T - t) of  r_t + γ r_{t+1} + ... + γ^n V(s_{t+n}).

    There is no step size. Keeping the larger value stands for the maximum over all trajectories seen so far, which it
    equals when transitions and rewards are deterministic and the table began at or below the optimal values.
    """
    states, actions, targets = buffer.states, buffer.actions, buffer.targets
    greedy_step_targets(q, buffer, steps, terminated, gamma, horizon)
    for t in range(steps):
        s, a = states[t], actions[t]
        q[s, a] = max(q[s, a], targets[t])


@njit(cache=True)
def greedy_step_targets(q, buffer, steps, terminated, gamma, horizon):
    """y_t of `greedy_step`. For N >= T - t the maximum is the recursion y_t = r_t + γ max(V(s_{t+1}), y_{t+1})."""
    states, rewards, values, targets = buffer.states, buffer.rewards, buffer.values, buffer.targets
    for t in range(steps):
        values[t] = 0.0 if terminated and t == steps - 1 else max_q(q, states[t + 1])
    if horizon >= steps:
        ahead = -np.inf
        for t in range(steps - 1, -1, -1):
            ahead = rewards[t] + gamma * max(values[t], ahead)
            targets[t] = ahead
    else:
        for t in range(steps):
            total, weight, top = 0.0, 1.0, -np.inf
            for k in range(t, min(t + horizon, steps)):
                total += weight * rewards[k]
                weight *= gamma
                if values[k] > -np.inf:  # a state without known actions; 0 * -inf is nan
                    top = max(top, total + weight * values[k])
            targets[t] = top


@njit(cache=True)
def one_step(q, buffer, steps, terminated, gamma, alpha, backward):
    """Q-learning, y_t = r_t + γ V(s_{t+1}), each step from the table that the one before has left.

    First step first; or backward, last step first, which takes a reward at the end to the start within one episode.
    """
    states, actions, rewards = buffer.states, buffer.actions, buffer.rewards
    for i in range(steps):
        t = steps - 1 - i if backward else i
        after = 0.0 if terminated and t == steps - 1 else gamma * max_q(q, states[t + 1])
        move_towards(q, states[t], actions[t], rewards[t] + after, alpha)


@njit(cache=True)
def n_step(q, buffer, steps, terminated, gamma, parameters, sarsa):
    """n-step Q-learning and n-step SARSA, uncorrected, with m = min(n, T - t):

        y_t = r_t + ... + γ^(m-1) r_{t+m-1} + γ^m V(s_{t+m}),   SARSA: γ^m q(s_{t+m}, a_{t+m}).

    Where an episode was truncated there is no a_T, and SARSA takes the expectation over its ε-greedy target policy.
    """
    states, actions, rewards = buffer.states, buffer.actions, buffer.rewards
    values, targets = buffer.values, buffer.targets
    for t in range(steps):
        if t == steps - 1 and terminated:
            values[t] = 0.0
        elif not sarsa:
            values[t] = max_q(q, states[t + 1])
        elif t == steps - 1:
            values[t] = target_policy(q, states[t + 1], 0, parameters.target_epsilon)[0]
        else:
            values[t] = q[states[t + 1], actions[t + 1]]
    for t in range(steps):
        total, weight, last = 0.0, 1.0, min(t + parameters.n, steps) - 1
        for k in range(t, last + 1):
            total += weight * rewards[k]
            weight *= gamma
        targets[t] = total + weight * values[last]
    move_towards_targets(q, buffer, steps, parameters.alpha)


@njit(cache=True)
def episodic_backward(q, buffer, steps, terminated, gamma, alpha, beta):
    """Episodic Backward Update (Lee et al. 2019): going backwards, the action taken next gets a mixed value,

    y_t = r_t + γ max( β y_{t+1} + (1 - β) q(s_{t+1}, a_{t+1}),  max over other a of q(s_{t+1}, a) ).
    """
    states, actions, rewards, targets = buffer.states, buffer.actions, buffer.rewards, buffer.targets
    ahead = 0.0
    for t in range(steps - 1, -1, -1):
        s = states[t + 1]
        if t == steps - 1:
            value = 0.0 if terminated else max_q(q, s)
        else:
            value = -np.inf
            for a in range(q.shape[1]):
                value = max(value, beta * ahead + (1.0 - beta) * q[s, a] if a == actions[t + 1] else q[s, a])
        ahead = rewards[t] + gamma * value
        targets[t] = ahead
    move_towards_targets(q, buffer, steps, alpha)


@njit(cache=True)
def trace(method, q, buffer, steps, terminated, gamma, parameters):
    """The methods with traces, as one recursion with the (v, b, c) of `trace_terms`:

    y_t = r_t + γ [ v_{t+1} + c_{t+1} (y_{t+1} - b_{t+1}) ];  after a truncated last step r_t + γ v_{t+1}.
    """
    states, actions, rewards, targets = buffer.states, buffer.actions, buffer.rewards, buffer.targets
    ahead = 0.0
    for t in range(steps - 1, -1, -1):
        s = states[t + 1]
        if t < steps - 1:
            value, base, weight = trace_terms(method, q, s, actions[t + 1], buffer.behaviour_prob[t + 1], parameters)
            value += weight * (ahead - base)
        elif terminated:
            value = 0.0
        elif method in (WATKINS, PENG, MONTE_CARLO):
            value = max_q(q, s)
        else:
            value = target_policy(q, s, 0, parameters.target_epsilon)[0]
        ahead = rewards[t] + gamma * value
        targets[t] = ahead
    move_towards_targets(q, buffer, steps, parameters.alpha)


@njit(cache=True)
def trace_terms(method, q, s, a, mu, parameters):
    """Return (v, b, c) at the next state s, where action a was taken with probability mu; π is the target policy:

    SARSA(λ)                  q(s, a)    q(s, a)   λ
    Monte Carlo               0          0         1
    Peng's Q(λ)               V(s)       V(s)      λ
    Watkins' Q(λ)             V(s)       V(s)      λ if a is greedy (ties count), else 0
    Harutyunyan's Q^π(λ)      E_π q      q(s, a)   λ
    tree backup               E_π q      q(s, a)   λ π(a | s)
    Retrace                   E_π q      q(s, a)   λ min(1, π(a | s) / μ(a | s))
    Q(σ)                      E_π q      q(s, a)   σ π(a | s) / μ(a | s) + (1 - σ) π(a | s)
    """
    taken, lambda_ = q[s, a], parameters.lambda_
    if method == SARSA_LAMBDA:
        return taken, taken, lambda_
    if method == MONTE_CARLO:
        return 0.0, 0.0, 1.0
    if method in (PENG, WATKINS):
        top = max_q(q, s)
        return top, top, lambda_ if method == PENG or taken == top else 0.0
    value, pi = target_policy(q, s, a, parameters.target_epsilon)
    if method == HARUTYUNYAN:
        return value, taken, lambda_
    if method == TREE_BACKUP:
        return value, taken, lambda_ * pi
    if method == RETRACE:
        return value, taken, lambda_ * min(1.0, pi / mu)
    return value, taken, parameters.sigma * pi / mu + (1.0 - parameters.sigma) * pi

"""The tabular methods: names, options, and the update of each from one whole episode, which changes q [S, A] in place.

An episode is s_0, a_0, r_0, ..., s_T in an `EpisodeBuffer`, with T = `steps`. If it terminated, nothing follows its
last step; if it was truncated, the last step bootstraps from s_T. V(s) = max_a q(s, a).

All methods act with the table as it was when the episode began and learn when it is over, so that they differ in their
update alone. In a task whose state holds the time no pair occurs twice in an episode, and this equals learning at every
step. Unless a function says otherwise, all targets y_t are computed from the table before the update, and then
q(s_t, a_t) <- q + α (y_t - q) in the order of time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from greedystep.checks import check_float, check_int

GREEDY_STEP, Q_LEARNING, BACKWARD_Q_LEARNING, N_STEP_Q, N_STEP_SARSA, EPISODIC_BACKWARD = range(6)
SARSA_LAMBDA, WATKINS, PENG, HARUTYUNYAN, TREE_BACKUP, RETRACE, Q_SIGMA, MONTE_CARLO = range(6, 14)
GREEDY_STEP_STORED, GREEDY_STEP_EXPECTED, MODEL, AUTO = range(14, 18)  # from more than one episode: `learning`

_STEP: dict[str, Any] = {"alpha": 0.1}
_TRACE = _STEP | {"lambda_": 0.9}
_TARGET = {"target_epsilon": 0.0}

METHODS: dict[str, tuple[int, dict[str, Any]]] = {
    "greedy-step": (GREEDY_STEP, {"horizon": None, "form": "running"}),
    "q-learning": (Q_LEARNING, _STEP),
    "backward-q-learning": (BACKWARD_Q_LEARNING, {"alpha": 1.0}),
    "n-step-q": (N_STEP_Q, _STEP | {"n": 5}),
    "n-step-sarsa": (N_STEP_SARSA, _STEP | {"n": 5} | _TARGET),
    "sarsa-lambda": (SARSA_LAMBDA, _TRACE | _TARGET),
    "watkins": (WATKINS, _TRACE),
    "peng": (PENG, _TRACE),
    "harutyunyan": (HARUTYUNYAN, _TRACE | _TARGET),
    "tree-backup": (TREE_BACKUP, _TRACE | _TARGET),
    "retrace": (RETRACE, _TRACE | _TARGET),
    "q-sigma": (Q_SIGMA, _STEP | {"sigma": 0.5} | _TARGET),
    "monte-carlo": (MONTE_CARLO, _STEP),
    "episodic-backward": (EPISODIC_BACKWARD, _STEP | {"beta": 0.5}),
    "model": (MODEL, {}),
    "auto": (AUTO, {}),
}
"""Name -> (code of its update, its options with their defaults).

alpha: step size in (0, 1]. lambda_, sigma, beta: in [0, 1]. n: steps of n-step returns. horizon: greedy-step's N, None
for the whole episode. form: one of FORMS. target_epsilon: ε of the target policy π, 0 for the greedy one (with which
tree backup, Retrace and Watkins' Q(λ) are the same wherever the greedy action is unique).
"""

FORMS = {"running": GREEDY_STEP, "stored": GREEDY_STEP_STORED, "expected": GREEDY_STEP_EXPECTED}
"""The forms of greedy-step.

running: the larger of the old value and the newest episode's greedy-step return. For deterministic environments.
stored: the paper's literal rule; after each episode the returns of all stored ones are computed again with the newest
table, and q(s, a) becomes the largest from (s, a). Values may fall again, and each update costs more than the one
before. For deterministic environments.
expected: the expectation over the next state from the counts of all episodes, with the maximum inside it. Right in
stochastic environments too.
"""

SAMPLED = (GREEDY_STEP, GREEDY_STEP_STORED)
"""Codes of updates that take maxima over sampled returns: right only in deterministic environments."""

NEEDS_BEHAVIOUR_PROB = ("retrace", "q-sigma")  # methods that divide by the behaviour probabilities μ(a | s)

WHOLE_EPISODE = 2**62  # the horizon N that stands for the whole episode


class Parameters(NamedTuple):
    """Numeric options of all methods together; each method uses its own."""

    alpha: float = 1.0
    lambda_: float = 0.9
    n: int = 1
    sigma: float = 0.5
    beta: float = 0.5
    target_epsilon: float = 0.0


def parameters_of(method: str, options: dict[str, Any]) -> tuple[int, Parameters]:
    """Return (code, parameters) of a method and its options; ValueError names an option that is wrong."""
    if method not in METHODS:
        raise ValueError(f"method: {method!r} is not one of {', '.join(METHODS)}")
    code, defaults = METHODS[method]
    for name in options:
        if name not in defaults:
            known = f"only {', '.join(defaults)}" if defaults else "it has none"
            raise ValueError(f"{name}: {method} has no such option, {known}")
    chosen = defaults | options
    if "form" in chosen:
        form = chosen.pop("form")
        if not isinstance(form, str) or form not in FORMS:
            raise ValueError(f"form: expected one of {', '.join(FORMS)}, got {form!r}")
        code = FORMS[form]
    for name in ("alpha", "lambda_", "sigma", "beta", "target_epsilon"):
        if name in chosen:
            chosen[name] = check_float(name, chosen[name], 0, 1, above=name == "alpha")
    for name in ("n", "horizon"):
        if name in chosen:
            value = chosen.pop(name)
            if name == "horizon" and value is None:
                value = WHOLE_EPISODE
            chosen["n"] = min(check_int(name, value), WHOLE_EPISODE)
    return code, Parameters(**chosen)


@njit(cache=True)
def update(method, parameters, q, buffer, steps, terminated, gamma):
    """Update the table q from the buffered episode by the method with this code."""
    if method == GREEDY_STEP:
        greedy_step(q, buffer, steps, terminated, gamma, parameters.n)
    elif method in (Q_LEARNING, BACKWARD_Q_LEARNING):
        one_step(q, buffer, steps, terminated, gamma, parameters.alpha, method == BACKWARD_Q_LEARNING)
    else:
        if method in (N_STEP_Q, N_STEP_SARSA):
            n_step_targets(q, buffer, steps, terminated, gamma, parameters, method == N_STEP_SARSA)
        elif method == EPISODIC_BACKWARD:
            episodic_backward_targets(q, buffer, steps, terminated, gamma, parameters.beta)
        else:
            trace_targets(method, q, buffer, steps, terminated, gamma, parameters)
        for t in range(steps):
            move_towards(q, buffer.states[t], buffer.actions[t], buffer.targets[t], parameters.alpha)


@njit(cache=True)
def is_bounded(q, buffer, steps, allow_minus_inf):
    """Whether q(s, a) of all steps of the episode is finite (or -inf, a dead end, if `allow_minus_inf`)."""
    for t in range(steps):
        value = q[buffer.states[t], buffer.actions[t]]
        if not value < np.inf or (value == -np.inf and not allow_minus_inf):
            return False
    return True


@njit(cache=True)
def max_q(q, s):
    """Return V(s) = max_a q(s, a)."""
    value = q[s, 0]
    for a in range(1, q.shape[1]):
        value = max(value, q[s, a])
    return value


@njit(cache=True)
def target_policy(q, s, action, epsilon):
    """Return (E_π q(s, .), π(action | s)) for the ε-greedy policy π of q; greedy actions share, -inf is unavailable."""
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
def move_towards(q, s, a, target, alpha):
    """Set q(s, a) <- q + α (target - q); with α = 1 the target, even where q is -inf."""
    q[s, a] = target if alpha == 1.0 else q[s, a] + alpha * (target - q[s, a])


@njit(cache=True)
def greedy_step(q, buffer, steps, terminated, gamma, horizon):
    """Update q by greedy-step Q-learning, q(s_t, a_t) <- max(q(s_t, a_t), y_t) with the paper's greedy-step return

        y_t = max over n <= min(N, T - t) of  r_t + γ r_{t+1} + ... + γ^n V(s_{t+n}).

    There is no step size. Keeping the larger value stands for the maximum over all trajectories seen so far, which it
    equals when transitions and rewards are deterministic and the table began at or below the optimal values.
    """
    greedy_step_targets(q, buffer, steps, terminated, gamma, horizon)
    for t in range(steps):
        s, a = buffer.states[t], buffer.actions[t]
        q[s, a] = max(q[s, a], buffer.targets[t])


@njit(cache=True)
def greedy_step_targets(q, buffer, steps, terminated, gamma, horizon):
    """Fill `buffer.targets` with y_t of `greedy_step`; if N >= T - t, y_t = r_t + γ max(V(s_{t+1}), y_{t+1})."""
    states, rewards, values, targets = buffer.states, buffer.rewards, buffer.values, buffer.targets
    for t in range(steps):
        values[t] = 0.0 if terminated and t == steps - 1 else max_q(q, states[t + 1])
    if horizon >= steps:
        ahead = -np.inf
        for t in range(steps - 1, -1, -1):
            targets[t] = ahead = rewards[t] + gamma * max(values[t], ahead)
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
    """Update q by Q-learning, y_t = r_t + γ V(s_{t+1}); each step sees the table as updated by the step before.

    The first step comes first; if `backward` the last, which carries a reward at the end to the start in one episode.
    """
    states, actions, rewards = buffer.states, buffer.actions, buffer.rewards
    for i in range(steps):
        t = steps - 1 - i if backward else i
        after = 0.0 if terminated and t == steps - 1 else gamma * max_q(q, states[t + 1])
        move_towards(q, states[t], actions[t], rewards[t] + after, alpha)


@njit(cache=True)
def n_step_targets(q, buffer, steps, terminated, gamma, parameters, sarsa):
    """Fill `buffer.targets` for uncorrected n-step Q-learning or SARSA, with m = min(n, T - t):

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


@njit(cache=True)
def episodic_backward_targets(q, buffer, steps, terminated, gamma, beta):
    """Fill `buffer.targets` for Episodic Backward Update (Lee et al. 2019), which mixes in the next target:

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
        targets[t] = ahead = rewards[t] + gamma * value


@njit(cache=True)
def trace_targets(method, q, buffer, steps, terminated, gamma, parameters):
    """Fill `buffer.targets` for the methods with traces, by one recursion with the (v, b, c) of `trace_terms`:

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
        targets[t] = ahead = rewards[t] + gamma * value


@njit(cache=True)
def trace_terms(method, q, s, a, mu, parameters):
    """Return (v, b, c) of the recursion in `trace_targets` at the next state s, where action a had probability mu:

    SARSA(λ)                  q(s, a)    q(s, a)   λ
    Monte Carlo               0          0         1
    Peng's Q(λ)               V(s)       V(s)      λ
    Watkins' Q(λ)             V(s)       V(s)      λ if a is greedy (ties count), else 0
    Harutyunyan's Q^π(λ)      E_π q      q(s, a)   λ
    tree backup               E_π q      q(s, a)   λ π(a | s)
    Retrace                   E_π q      q(s, a)   λ min(1, π(a | s) / μ(a | s))
    Q(σ)                      E_π q      q(s, a)   σ π(a | s) / μ(a | s) + (1 - σ) π(a | s)

    with the target policy π.
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

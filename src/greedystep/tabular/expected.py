"""Greedy-step with the expectation over the next state, for worlds with chance."""

from __future__ import annotations

import numpy as np
from numba import njit

from greedystep.envs.toy import END
from greedystep.tabular.counts import NONE
from greedystep.tabular.updates import best


@njit(cache=True)
def expected_greedy_step(q, counts, buffer, steps, gamma, horizon):
    """Greedy-step Q-learning with the maximum inside the expectation, as in the paper's Eq. 4: q(s_t, a_t) <- y_t,

        y_t = r̂(s_t, a_t) + γ Σ_s' p̂(s' | s_t, a_t) m_t(s'),   m_t(s') = max(V(s'), y_{t+1})  at  s' = s_{t+1},
                                                                m_t(s') = V(s')               elsewhere.

    r̂ and p̂ are the means and shares of everything counted so far, this episode included. y_t is what one gets, on
    average, by going on as the episode did for as long as it pays and the world plays along, and being greedy from
    there; so it is never above q* of the counted model when V is not, and never below a one-step backup. Replaying the
    episodes contracts by γ at least, to q* of that model. In a world without chance y_t is the greedy-step return.

    A horizon N allows N - 1 such steps: y of N steps needs y_{t+1} of N - 1. Of a pair that comes twice the larger y
    counts.
    """
    states, actions, targets = buffer.states, buffer.actions, buffer.targets
    if horizon >= steps:
        ahead = -np.inf
        for t in range(steps - 1, -1, -1):
            ahead = targets[t] = _backup_with(q, counts, states, actions, t, ahead, gamma)
    else:
        targets[:steps] = -np.inf
        for _ in range(horizon):
            for t in range(steps):  # forward, so that targets[t + 1] is still that of one step less
                ahead = targets[t + 1] if t + 1 < steps else -np.inf
                targets[t] = _backup_with(q, counts, states, actions, t, ahead, gamma)
    for t in range(steps):
        q[states[t], actions[t]] = -np.inf
    for t in range(steps):
        q[states[t], actions[t]] = max(q[states[t], actions[t]], targets[t])


@njit(cache=True)
def _backup_with(q, counts, states, actions, t, ahead, gamma):
    """The backup of (s_t, a_t) with s_{t+1} worth `ahead` if that is more than its value."""
    row = states[t] * q.shape[1] + actions[t]
    total, edge = 0.0, counts.head[row]
    while edge != NONE:
        successor = counts.successor[edge]
        if successor != END:
            value = best(q, successor)
            total += counts.count[edge] * (max(value, ahead) if successor == states[t + 1] else value)
        edge = counts.next[edge]
    return counts.reward[row] + gamma * (total / counts.visits[row])

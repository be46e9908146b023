"""Updates from transition counts: expected greedy-step, and value iteration that backs up only what has changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from greedystep.envs.toy_task import END
from greedystep.tabular.empirical_model import NONE
from greedystep.tabular.methods import max_q

TOLERANCE = 1e-10  # A state's value is propagated when it has changed by more than this, absolute or relative
MAX_BACKUPS_PER_EDGE = 10_000
"""Most backups per edge (pair and successor) of the counted model: with discount 1 values may grow without bound."""


# -- expected greedy-step ---------------------------------------------------------------------------------------------


@njit(cache=True)
def expected_greedy_step(q, counts, buffer, steps, gamma, horizon):
    """Greedy-step Q-learning with the maximum inside the expectation, as in the paper's Eq. 4: q(s_t, a_t) <- y_t,

        y_t = r̂(s_t, a_t) + γ Σ_s' p̂(s' | s_t, a_t) m_t(s'),   m_t(s') = max(V(s'), y_{t+1})  at  s' = s_{t+1},
                                                                m_t(s') = V(s')               elsewhere.

    r̂ and p̂ are the means and frequencies of all steps counted so far, this episode included. y_t is the expected return
    of repeating the episode's actions for as long as that pays and its states recur, and of being greedy from there; so
    it is never above q* of the counted model when V is not, and never below a one-step backup. Replaying the episodes
    contracts by γ at least, to q* of that model. In a deterministic environment y_t is the greedy-step return.

    A horizon N allows N - 1 such steps: y of N steps needs y_{t+1} of N - 1. If a pair occurs twice, the larger y
    counts.
    """
    states, actions, targets, A = buffer.states, buffer.actions, buffer.targets, q.shape[1]
    if horizon >= steps:
        ahead = -np.inf
        for t in range(steps - 1, -1, -1):
            ahead = targets[t] = backup(q, counts, states[t] * A + actions[t], gamma, states[t + 1], ahead)
    else:
        targets[:steps] = -np.inf
        for _ in range(horizon):
            for t in range(steps):  # forward, so that targets[t + 1] is still that of one step less
                ahead = targets[t + 1] if t + 1 < steps else -np.inf
                targets[t] = backup(q, counts, states[t] * A + actions[t], gamma, states[t + 1], ahead)
    for t in range(steps):
        q[states[t], actions[t]] = -np.inf
    for t in range(steps):
        q[states[t], actions[t]] = max(q[states[t], actions[t]], targets[t])


@njit(cache=True)
def backup(q, counts, row, gamma, recurring, ahead):
    """Return r̂(s, a) + γ Σ_s' p̂(s' | s, a) m(s') of row s*A + a from the counts, m(s') = max_a' q(s', a').

    Where s' is the state `recurring`, m(s') is at least `ahead`.
    """
    total, edge = 0.0, counts.head[row]
    while edge != NONE:
        successor = counts.successor[edge]
        if successor != END:
            value = max_q(q, successor)
            total += counts.count[edge] * (max(value, ahead) if successor == recurring else value)
        edge = counts.next[edge]
    return counts.reward[row] + gamma * (total / counts.visits[row])


# -- value iteration with a queue -------------------------------------------------------------------------------------


class BackupQueue(NamedTuple):
    """States whose changed value has not been propagated to their predecessors yet, first in, first out."""

    propagated: np.ndarray  # float64 [S]: the value that was propagated last
    queued: np.ndarray  # bool [S]: whether the state is in the queue
    ring: np.ndarray  # int32 [S]: the queue as a ring buffer
    head_and_size: np.ndarray  # int64 [2]: where the queue's first entry is in the ring, and the number of entries


@njit(cache=True)
def make_queue(q, counts):
    """Return an empty queue that goes on from what `counts` say was propagated, unless the table has other values now.

    Then the values of the table count as propagated.
    """
    S = len(q)
    for s in range(S):
        value = max_q(q, s)
        if _changed(value, counts.propagated[s]):
            counts.propagated[s] = value
    return BackupQueue(counts.propagated, np.zeros(S, np.bool_), np.empty(S, np.int32), np.zeros(2, np.int64))


@njit(cache=True)
def backup_and_enqueue(q, counts, queue, row, gamma):
    """Set q(s, a) to its backup from the counts; the state joins the queue if its value has changed."""
    A = q.shape[1]
    s = row // A
    q[s, row % A] = backup(q, counts, row, gamma, END, -np.inf)
    if not queue.queued[s] and _changed(max_q(q, s), queue.propagated[s]):
        queue.queued[s] = True
        queue.ring[(queue.head_and_size[0] + queue.head_and_size[1]) % len(queue.ring)] = s
        queue.head_and_size[1] += 1


@njit(cache=True)
def _changed(one, other):
    """Whether two values differ by more than TOLERANCE; -inf, of a state without actions, differs from every number."""
    if one == other:
        return False
    return np.isinf(one) or np.isinf(other) or abs(one - other) > TOLERANCE * max(1.0, abs(one))


@njit(cache=True)
def process_queue(q, counts, queue, gamma):
    """Propagate changed values to predecessors until the queue is empty; return False if that takes too many backups.

    With γ < 1 the entries of the pairs that were seen are then within TOLERANCE max(1, |v|) γ / (1 - γ) of q* of the
    model in which all other entries stay as they are.
    """
    backups_left = MAX_BACKUPS_PER_EDGE * counts.size[0] if gamma == 1.0 else np.iinfo(np.int64).max
    head_and_size = queue.head_and_size
    while head_and_size[1] > 0:
        s = queue.ring[head_and_size[0]]
        head_and_size[0] = (head_and_size[0] + 1) % len(queue.ring)
        head_and_size[1] -= 1
        queue.queued[s] = False
        queue.propagated[s] = max_q(q, s)
        edge = counts.into[s]
        while edge != NONE:
            backup_and_enqueue(q, counts, queue, counts.row[edge], gamma)
            edge = counts.next_into[edge]
            backups_left -= 1
        if backups_left < 0:
            return False
    return True

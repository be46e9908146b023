"""Transition counts of everything seen, and backups on them: the compiled part of `EmpiricalModel`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from greedystep.envs.toy_task import END
from greedystep.tabular.episodes import buffer_for, grown, load_episode
from greedystep.tabular.updates import max_q

NONE = -1
"""The end of a list of edges."""
SAME_REWARD = 1e-9
"""Rewards whose relative difference is at most this count as equal."""


class TransitionCounts(NamedTuple):
    """Visits, mean rewards and successors of all rows s*A + a; an edge is one successor of a row, the end included.

    The edges of a row, and those that lead into a state, are linked lists: a new successor needs no sorting.
    """

    visits: np.ndarray
    """int64 [S*A]: how often the action was taken."""
    reward: np.ndarray
    """float64 [S*A]: the mean reward."""
    varies: np.ndarray
    """bool [S*A]: whether its rewards differed."""
    head: np.ndarray
    """int64 [S*A]: the first edge of the row, or NONE."""
    into: np.ndarray
    """int64 [S]: the first edge that leads into the state, or NONE."""
    row: np.ndarray
    """int64 [capacity]: the row of an edge."""
    successor: np.ndarray
    """int32 [capacity]: the successor of an edge; END where the episode ends."""
    count: np.ndarray
    """int64 [capacity]: how often it was taken."""
    next: np.ndarray
    """int64 [capacity]: the next edge of the same row, or NONE."""
    next_into: np.ndarray
    """int64 [capacity]: the next edge into the same state, or NONE."""
    size: np.ndarray
    """int64 [1]: the number of edges."""


@njit(cache=True)
def with_capacity(counts, more):
    """Return the counts with capacity for so many more edges; they are copied only when it runs out."""
    size = counts.size[0]
    if size + more <= len(counts.row):
        return counts
    capacity = 2 * (size + more)
    return TransitionCounts(
        counts.visits,
        counts.reward,
        counts.varies,
        counts.head,
        counts.into,
        grown(counts.row, capacity),
        grown(counts.successor, capacity),
        grown(counts.count, capacity),
        grown(counts.next, capacity),
        grown(counts.next_into, capacity),
        counts.size,
    )


@njit(cache=True)
def rewards_differ(one, other):
    """Whether two rewards differ by more than rounding."""
    return abs(one - other) > SAME_REWARD * max(abs(one), abs(other))


@njit(cache=True)
def count_step(counts, row, successor, reward):
    """Count one step; there must be capacity for one more edge."""
    n = counts.visits[row] + 1
    mean = counts.reward[row]
    if n > 1 and rewards_differ(reward, mean):
        counts.varies[row] = True
    counts.visits[row] = n
    counts.reward[row] = mean + (reward - mean) / n  # exact while the rewards are equal
    edge = counts.head[row]
    while edge != NONE and counts.successor[edge] != successor:
        edge = counts.next[edge]
    if edge != NONE:
        counts.count[edge] += 1
        return
    edge = counts.size[0]
    counts.size[0] = edge + 1
    counts.row[edge], counts.successor[edge], counts.count[edge] = row, successor, 1
    counts.next[edge], counts.head[row] = counts.head[row], edge
    if successor == END:
        counts.next_into[edge] = NONE
    else:
        counts.next_into[edge], counts.into[successor] = counts.into[successor], edge


@njit(cache=True)
def count_episode(counts, buffer, steps, terminated, num_actions):
    """Count all steps of the buffered episode; there must be capacity for them."""
    for t in range(steps):
        successor = END if terminated and t == steps - 1 else buffer.states[t + 1]
        count_step(counts, buffer.states[t] * num_actions + buffer.actions[t], successor, buffer.rewards[t])


@njit(cache=True)
def count_log(counts, log, num_actions):
    """Return the counts with all logged episodes added."""
    counts, buffer = with_capacity(counts, len(log.actions)), buffer_for(log)
    for episode in range(len(log.terminated)):
        steps, terminated = load_episode(buffer, log, episode)
        count_episode(counts, buffer, steps, terminated, num_actions)
    return counts


@njit(cache=True)
def one_step_backup(q, counts, row, gamma):
    """r̂(s, a) + γ Σ_s' p̂(s' | s, a) max_a' q(s', a'), with the mean rewards and frequencies counted so far."""
    total, edge = 0.0, counts.head[row]
    while edge != NONE:
        if counts.successor[edge] != END:
            total += counts.count[edge] * max_q(q, counts.successor[edge])
        edge = counts.next[edge]
    return counts.reward[row] + gamma * (total / counts.visits[row])

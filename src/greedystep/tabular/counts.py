"""Counts of everything that was seen to happen, and backups on them: compiled, for methods that keep a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from greedystep.envs.toy import END
from greedystep.tabular.episodes import buffer_for, load
from greedystep.tabular.updates import best

NONE = -1
"""The end of a list of edges."""
SAME_REWARD = 1e-9
"""Rewards that differ by less than this share of their size count as equal."""


class Counts(NamedTuple):
    """The model as the compiled loops want it. An edge is one successor of a row s*A + a, the end included.

    The edges of a row, and those that lead into a state, are linked lists: a new successor costs no sorting.
    """

    visits: np.ndarray
    """int64 [S*A]: how often the action was taken."""
    reward: np.ndarray
    """float64 [S*A]: the mean of what it paid."""
    varies: np.ndarray
    """bool [S*A]: whether it paid different amounts."""
    head: np.ndarray
    """int64 [S*A]: the first edge of the row, or NONE."""
    into: np.ndarray
    """int64 [S]: the first edge that leads into the state, or NONE."""
    row: np.ndarray
    """int64 [room]: the row of an edge."""
    successor: np.ndarray
    """int32 [room]: where it leads; END where the episode ends."""
    count: np.ndarray
    """int64 [room]: how often it was taken."""
    next: np.ndarray
    """int64 [room]: the next edge of the same row, or NONE."""
    next_into: np.ndarray
    """int64 [room]: the next edge into the same state, or NONE."""
    size: np.ndarray
    """int64 [1]: how many edges there are."""


@njit(cache=True)
def with_room(counts, more):
    """The same counts with room for so many more edges; they are copied only when it runs out."""
    size, room = counts.size[0], len(counts.row)
    if size + more <= room:
        return counts
    larger = 2 * (size + more)
    return Counts(
        counts.visits,
        counts.reward,
        counts.varies,
        counts.head,
        counts.into,
        _moved(counts.row, size, larger),
        _moved(counts.successor, size, larger),
        _moved(counts.count, size, larger),
        _moved(counts.next, size, larger),
        _moved(counts.next_into, size, larger),
        counts.size,
    )


@njit(cache=True)
def _moved(array, size, room):
    larger = np.empty(room, array.dtype)
    larger[:size] = array[:size]
    return larger


@njit(cache=True)
def rewards_differ(one, other):
    """By more than rounding."""
    return abs(one - other) > SAME_REWARD * max(abs(one), abs(other))


@njit(cache=True)
def count_step(counts, row, successor, reward):
    """One more step; there has to be room for one more edge."""
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
    """All steps of the episode in the buffer; there has to be room for them."""
    for t in range(steps):
        successor = END if terminated and t == steps - 1 else buffer.states[t + 1]
        count_step(counts, buffer.states[t] * num_actions + buffer.actions[t], successor, buffer.rewards[t])


@njit(cache=True)
def count_log(counts, log, num_actions):
    counts, buffer = with_room(counts, len(log.actions)), buffer_for(log)
    for episode in range(len(log.terminated)):
        steps, terminated = load(buffer, log, episode)
        count_episode(counts, buffer, steps, terminated, num_actions)
    return counts


@njit(cache=True)
def backup(q, counts, row, gamma):
    """r̂(s, a) + γ Σ_s' p̂(s' | s, a) max_a' q(s', a'), with the mean reward and the shares of the model."""
    total, edge = 0.0, counts.head[row]
    while edge != NONE:
        if counts.successor[edge] != END:
            total += counts.count[edge] * best(q, counts.successor[edge])
        edge = counts.next[edge]
    return counts.reward[row] + gamma * (total / counts.visits[row])

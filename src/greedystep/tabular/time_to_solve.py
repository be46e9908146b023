"""Time to solve: the episodes until the greedy policy of a method earns 90 % of the optimal return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from greedystep.checks import check_float, check_int
from greedystep.envs import ToyTask, as_task
from greedystep.envs.toy_task import END
from greedystep.tabular.learning import Task, make_learner


def greedy_policy(q: np.ndarray) -> np.ndarray:
    """Return the greedy policy of a table as probabilities, float [S, A]; equally good actions share."""
    greedy = q == q.max(axis=1, keepdims=True)
    return greedy / greedy.sum(axis=1, keepdims=True)


def episodes_to_solve(
    task: Task,
    method: str = "greedy-step",
    *,
    limit: int,
    resolution: float = 0.02,
    epsilon: float = 0.2,
    q: Any = 0.0,
    seed: int | np.random.Generator = 0,
    **options: Any,
) -> int | None:
    """Return the episodes until the greedy policy's exact expected return reaches 90 % of the optimum; None if never.

    `limit` and `resolution` are those of `until_solved`, the other arguments those of `learn`.
    """
    task = as_task(task)
    more = make_learner(task, method, epsilon=epsilon, q=q, seed=seed, **options)
    return until_solved(task, lambda episodes: more(episodes).q, limit=limit, resolution=resolution)


def until_solved(task: Task, more: Callable[[int], np.ndarray], *, limit: int, resolution: float = 0.02) -> int | None:
    """Return the episodes until the greedy policy of any learner solves the task; None if more than `limit`.

    `more(n)` trains the learner for n more episodes and returns its table [S, A]. The policy is evaluated on the exact
    model, after every episode at first and later whenever the number of episodes has grown by the share `resolution`:
    the answer is late by no more than that.
    """
    check_int("limit", limit)
    check_float("resolution", resolution, 0, 1)
    solves, done = make_solved_test(as_task(task)), 0
    while done < limit:
        episodes = min(max(1, int(resolution * done)), limit - done)
        done += episodes
        if solves(more(episodes)):
            return done
    return None


def make_solved_test(task: ToyTask) -> Callable[[np.ndarray], bool]:
    """Return a fast function q [S, A] -> bool that says whether `greedy_policy(q)` solves the task.

    Where states are numbered in the order of time, one forward pass over the states that a policy reaches gives its
    return. Else, or where the horizon may truncate an episode, `ToyTask.solved_by` is used.
    """
    first, cumulative, successor, reward, _ = task.outcomes
    state = np.repeat(np.arange(len(first) - 1), np.diff(first)) // task.num_actions
    in_order = ((successor == END) | (successor > state)).all()
    if not (in_order and _longest(first, successor, task.num_actions) <= task.horizon):
        return lambda q: task.solved_by(greedy_policy(q))
    before = np.concatenate([[0.0], cumulative[:-1]])
    before[first[:-1][np.diff(first) > 0]] = 0.0
    probability = cumulative - before
    enough = task.solved_return - 1e-9 * max(1.0, float(np.abs(reward).max()))

    def solves(q: np.ndarray) -> bool:
        return _greedy_return(q, task.start, first, probability, successor, reward, task.mdp.discount) >= enough

    return solves


@njit(cache=True, nogil=True)
def _longest(first, successor, A):
    """Return the length of the longest episode, given that every successor has a larger number than its state."""
    S = (len(first) - 1) // A
    steps = np.zeros(S, np.int64)
    for s in range(S - 1, -1, -1):
        for k in range(first[s * A], first[s * A + A]):
            steps[s] = max(steps[s], 1 if successor[k] == END else 1 + steps[successor[k]])
    return steps.max()


@njit(cache=True, nogil=True)
def _greedy_return(q, start, first, probability, successor, reward, gamma):
    """Return Σ_s d(s) r^π(s): the expected return of the greedy policy π, where d(s) is its discounted visitation of s.

    Equally good actions share. First state first: d begins as `start`, and each state passes its d to its successors.
    """
    S, A = q.shape
    reached, total = start.copy(), 0.0
    for s in range(S):
        if reached[s] == 0.0:
            continue
        top, ties = q[s].max(), 0
        for a in range(A):
            ties += q[s, a] == top
        for a in range(A):
            if q[s, a] == top:
                for k in range(first[s * A + a], first[s * A + a + 1]):
                    share = reached[s] * probability[k] / ties
                    total += share * reward[k]
                    if successor[k] != END:
                        reached[successor[k]] += gamma * share
    return total

"""How many episodes a method needs until its greedy policy solves a task."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.envs.toy import ToyTask
from greedystep.tabular.loops import learn
from greedystep.tabular.methods import checked_share, checked_whole


def greedy_policy(q: np.ndarray) -> np.ndarray:
    """The greedy policy float [S, A] of a table; ties share, so that no order of the actions can help a method."""
    greedy = q == q.max(axis=1, keepdims=True)
    return greedy / greedy.sum(axis=1, keepdims=True)


def episodes_to_solve(
    task: ToyTask,
    method: str = "greedy-step",
    *,
    limit: int,
    resolution: float = 0.02,
    epsilon: float = 0.2,
    q: Any = 0.0,
    seed: int | np.random.Generator = 0,
    **options: Any,
) -> int | None:
    """Episodes until the exact expected return of the greedy policy reaches 90 % of the optimal one; None if never.

    The policy is judged from the exact model, without noise, after every episode at first and later whenever the number
    of episodes has grown by the share `resolution`: the answer is late by no more than that. The other arguments are
    those of `learn`; `limit` is the number of episodes after which to give up.
    """
    checked_whole("limit", limit)
    checked_share("resolution", resolution)
    random, done = np.random.default_rng(seed), 0
    while done < limit:
        more = min(max(1, int(resolution * done)), limit - done)
        q = learn(task, method, episodes=more, epsilon=epsilon, q=q, seed=random, **options).q
        done += more
        if task.solved_by(greedy_policy(q)):
            return done
    return None

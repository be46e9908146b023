"""The result of playing episodes with an agent, for tables and for networks alike."""

from __future__ import annotations

from typing import Any, NamedTuple

from greedystep.checks import INT32_MAX, check_float, check_int, check_seed

MAX_STEPS = 10_000
"""Steps after which an evaluation stops an episode: a greedy policy can go round in circles for ever."""


class Evaluation(NamedTuple):
    """Returns and lengths of E played episodes, each array [E] (or [L, E] for the episodes of L lanes).

    Each episode counts once, however long it is: a mean over a fixed number of steps would favour short episodes.
    """

    returns: Any
    """Float array: the return of each episode, the sum of its rewards."""
    lengths: Any
    """Int array: the steps of each episode."""
    unfinished: Any
    """Bool array: whether the evaluation's step limit stopped the episode; its return is the sum up to there."""

    @property
    def mean(self) -> float:
        """The mean return over all episodes."""
        return float(self.returns.mean())


def check_arguments(*, seed: int, episodes: int, epsilon: float, limit: int) -> None:
    """Raise ValueError unless these are valid arguments of an evaluation."""
    check_seed(seed)
    check_int("episodes", episodes, 1, INT32_MAX)
    check_float("epsilon", epsilon, 0, 1)
    check_int("limit", limit, 1, INT32_MAX)

"""The result of playing episodes with an agent, for tables and for networks alike."""

from __future__ import annotations

from collections.abc import Callable
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
    overestimation: Any = None
    """Float array: Q(s, a) minus the discounted return that followed, mean over the episode's steps. None where the
    networks' values are not at hand: in environments on the host, for tables and for exported policies."""

    def map(self, function: Callable[[Any], Any]) -> Evaluation:
        """Return the evaluation with a function applied to each of its arrays."""
        return Evaluation(*(None if array is None else function(array) for array in self))

    @property
    def mean(self) -> float:
        """The mean return over all episodes."""
        return float(self.returns.mean())

    @property
    def mean_overestimation(self) -> float | None:
        """The mean of `overestimation` over all steps, so that long episodes count more; None where it is."""
        if self.overestimation is None:
            return None
        return float((self.overestimation * self.lengths).sum() / self.lengths.sum())


def check_arguments(*, seed: int, episodes: int, epsilon: float, limit: int) -> None:
    """Raise ValueError unless these are valid arguments of an evaluation."""
    check_seed(seed)
    check_int("episodes", episodes, 1, INT32_MAX)
    check_float("epsilon", epsilon, 0, 1)
    check_int("limit", limit, 1, INT32_MAX)

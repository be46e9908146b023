"""The result of playing episodes with an agent, for tables and for networks alike."""

from __future__ import annotations

from typing import Any, NamedTuple


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

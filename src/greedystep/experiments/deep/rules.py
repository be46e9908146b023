"""From intervals to verdicts. These rules were written before the runs that they judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from greedystep.experiments.claims import Verdict
from greedystep.experiments.deep.evidence import Evidence
from greedystep.stats import Interval, difference

Found = Mapping[tuple[str, str], Evidence]
"""By task and method; what was not trained is not there."""


def above(interval: Any, bar: float) -> Verdict:
    """Confirmed: the whole interval lies above the bar; refuted: below; partly: the bar is within it.

    Untested where there is no interval, as with a single seed.
    """
    if np.isnan(interval.low) or np.isnan(interval.high):
        return "untested"
    return "confirmed" if interval.low > bar else "refuted" if interval.high < bar else "partly"


def below(interval: Any, bar: float) -> Verdict:
    """The same with the sides exchanged."""
    opposite: dict[Verdict, Verdict] = {"confirmed": "refuted", "refuted": "confirmed"}
    verdict = above(interval, bar)
    return opposite.get(verdict, verdict)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several tasks: all alike, or partly. Untested ones do not count, unless all are."""
    known: set[Verdict] = {verdict for verdict in verdicts if verdict != "untested"}
    if not known:
        return "untested"
    return known.pop() if len(known) == 1 else "partly"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several conditions that must all hold: one refuted refutes, one untested leaves all untested."""
    order: tuple[Verdict, ...] = ("refuted", "untested", "partly", "confirmed")
    given = set(verdicts)
    return next(verdict for verdict in order if verdict in given)


def lead(ours: Sequence[float] | np.ndarray, theirs: Sequence[float] | np.ndarray) -> Interval:
    """How much higher the mean of one's seeds is than the mean of the other's."""
    return difference(np.asarray(ours), np.asarray(theirs), "mean")


def words(interval: Any, digits: str = ".2f") -> str:
    """1.23 (1.01 to 1.45)."""
    numbers = [f"{float(x):{digits}}".replace("inf", "∞") for x in (interval.estimate, interval.low, interval.high)]
    return f"{numbers[0]} ({numbers[1]} to {numbers[2]})"

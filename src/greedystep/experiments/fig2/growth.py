"""How a number of episodes grows with the delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 1000


@dataclass(frozen=True)
class Growth:
    """episodes ~ delay^exponent."""

    exponent: float
    low: float
    """Ends of the 95 % interval of the exponent: trials are drawn anew, with replacement, within every delay."""
    high: float
    exponential: bool
    """Whether log(episodes) is nearer to a straight line in the delay than in its logarithm."""


def growth(rows: Sequence[dict[str, Any]]) -> Growth | None:
    """Of the medians of these rows, one a delay; None with fewer than three delays, or a median that is not known."""
    delays = np.array([row["delay"] for row in rows], float)
    medians = [row["solved"]["median"] for row in rows]
    if len(delays) < 3 or any(median is None for median in medians):
        return None
    random = np.random.default_rng(0)
    drawn = []
    for row in rows:
        trials = np.array([row["limit"] if one is None else one for one in row["solved"]["trials"]], float)
        drawn.append(np.median(random.choice(trials, (RESAMPLES, len(trials))), axis=1))
    logs = np.log(np.array(medians, float))
    power, power_left = _line(np.log(delays), logs)
    _, exponential_left = _line(delays, logs)
    resampled, _ = _line(np.log(delays), np.log(np.array(drawn)))
    low, high = np.quantile(resampled, (0.025, 0.975))
    return Growth(float(power), float(low), float(high), bool(exponential_left < power_left))


def _line(x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """(slope, sum of squared distances) of the best line through y [points] or [points, many]."""
    centred, about = x - x.mean(), y - y.mean(axis=0)
    slope = centred @ about / (centred @ centred)
    return slope, ((about - np.multiply.outer(centred, slope)) ** 2).sum(axis=0)

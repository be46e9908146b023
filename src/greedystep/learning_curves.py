"""Learning curves: from the episodes of a run to a fixed grid of steps, and how much sooner one method gets there.

`steps` are the environment steps of a curve's points, positive and increasing. The last axis of a curve is its points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from greedystep.stats import Statistic, aggregate, percentiles, resample

# -- from episodes to a grid ------------------------------------------------------------------------------------------


def last_episodes(
    ends: ArrayLike, returns: ArrayLike, grid: ArrayLike, episodes: int = 100, counts: ArrayLike | None = None
) -> np.ndarray:
    """The mean return of the last `episodes` episodes that had ended by each step of `grid`; NaN before the first.

    Fewer are averaged while fewer have ended. This is the training curve of the paper's Figure 3, whose text leaves the
    window open, and of Lan et al. (2020), who average 100 episodes.

    Args:
        ends: [rows] the step at which an episode ended, or a chunk of steps with several ends; not decreasing.
        returns: [rows] its return, or the mean return of the chunk's episodes.
        grid: [points] the steps to answer for.
        episodes: the width of the window. It counts the oldest chunk in part, as if its episodes were all alike.
        counts: [rows] episodes of each chunk, 0 where none ended (its return is then not looked at); default 1.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}")
    ended, total, rows = _running_sums(ends, returns, grid, counts)
    first = np.maximum(ended[rows] - episodes, 0)
    return _mean(total[rows] - np.interp(first, ended, total), ended[rows] - first)


def last_steps(
    ends: ArrayLike, returns: ArrayLike, grid: ArrayLike, steps: float, counts: ArrayLike | None = None
) -> np.ndarray:
    """The mean return of the episodes that ended in (g - steps, g] for each g of `grid`; NaN where none did.

    The other arguments are those of `last_episodes`.
    """
    if not steps > 0:
        raise ValueError(f"steps must be positive, got {steps}")
    ended, total, rows = _running_sums(ends, returns, grid, counts)
    before = _running_sums(ends, returns, np.asarray(grid, float) - steps, counts)[2]
    return _mean(total[rows] - total[before], ended[rows] - ended[before])


def _running_sums(
    ends: ArrayLike, returns: ArrayLike, grid: ArrayLike, counts: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Episodes and the sum of their returns in the first k rows, for k = 0, 1, ...; and k by each step of the grid."""
    at, value = np.asarray(ends, float), np.asarray(returns, float)
    number = np.ones(at.shape) if counts is None else np.asarray(counts, float)
    if not at.ndim == value.ndim == number.ndim == 1 or not at.shape == value.shape == number.shape:
        raise ValueError(
            f"ends, returns and counts must be of one length, got {at.shape}, {value.shape}, {number.shape}"
        )
    if (np.diff(at) < 0).any():
        raise ValueError("ends must not decrease")
    some = number > 0
    at, value, number = at[some], value[some], number[some]
    if not np.isfinite(value).all():
        raise ValueError(
            f"returns must be finite, got {value[~np.isfinite(value)][0]} at step {at[~np.isfinite(value)][0]:.0f}"
        )
    ended, total = (np.concatenate([[0.0], np.cumsum(x)]) for x in (number, number * value))
    return ended, total, np.searchsorted(at, np.asarray(grid, float), side="right")


def _mean(total: np.ndarray, number: np.ndarray) -> np.ndarray:
    return np.where(number > 0, total / np.where(number > 0, number, 1.0), np.nan)


# -- what a curve says ------------------------------------------------------------------------------------------------


def area(steps: ArrayLike, curve: ArrayLike) -> np.ndarray:
    """The mean height of a curve over its steps: ∫ curve d steps / (last - first), by trapezoids; NaN gives NaN."""
    at = _checked_steps(steps, curve)
    if len(at) < 2:
        raise ValueError("steps: an area needs at least two points")
    return np.trapezoid(np.asarray(curve, float), at, axis=-1) / (at[-1] - at[0])


def steps_to_level(steps: ArrayLike, curve: ArrayLike, level: ArrayLike) -> np.ndarray:
    """The first of `steps` at which the curve is at or above `level`; infinity where it never is.

    `level` is one number, or one for each curve of a stack [..., points].
    """
    at = _checked_steps(steps, curve)
    reached = np.asarray(curve, float) >= np.asarray(level, float)[..., None]
    return np.where(reached.any(axis=-1), at[reached.argmax(axis=-1)], np.inf)


class TimesFaster(NamedTuple):
    """Other's steps to a level over one's own: 2 means half the samples.

    A method that has not reached the level when its run ends would need at least so many steps, so the ratio is known
    only between `at_least` and `at_most`; the two are equal where both methods arrive. `low` and `high` are the ends of
    the bootstrap interval, with the same care in every resample: 0 or infinity where the runs were too short to tell.
    """

    at_least: float
    at_most: float
    low: float
    high: float
    steps: float
    """Own steps to the level; infinity for never."""
    other_steps: float


def times_faster(
    steps: ArrayLike,
    curves: ArrayLike,
    other_steps: ArrayLike,
    other_curves: ArrayLike,
    level: float | None = None,
    statistic: Statistic = "mean",
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> TimesFaster:
    """How many times fewer steps one method needs than another until the statistic of its runs reaches a level.

    Args:
        steps, other_steps: [points] of each method; grids may differ, and so may lengths of runs.
        curves, other_curves: [runs, points].
        level: default the other method's own final level, taken anew in every resample, since it is as uncertain as the
            curves are ("the same final performance with half the samples").
        statistic: of the runs at each point; the level is sought on that curve.
    """
    own, theirs = np.asarray(curves, float)[:, None], np.asarray(other_curves, float)[:, None]  # [runs, 1 task, points]
    rng = np.random.default_rng(seed)

    def compare(mine: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        goal = other[..., -1] if level is None else np.full(other.shape[:-1], level)
        need, other_need = steps_to_level(steps, mine, goal), steps_to_level(other_steps, other, goal)
        known, other_known = (np.minimum(n, np.max(s)) for n, s in ((need, steps), (other_need, other_steps)))
        return other_known / need, other_need / known, need, other_need

    at_least, at_most, need, other_need = map(float, compare(aggregate(own, statistic), aggregate(theirs, statistic)))
    lower, upper, *_ = compare(resample(own, statistic, resamples, rng), resample(theirs, statistic, resamples, rng))
    low, high = map(float, percentiles(lower, upper, confidence, own, theirs))
    return TimesFaster(at_least, at_most, low, high, need, other_need)


def _checked_steps(steps: ArrayLike, curve: ArrayLike) -> np.ndarray:
    at = np.asarray(steps, float)
    if at.ndim != 1 or np.shape(curve)[-1:] != at.shape:
        raise ValueError(f"steps must be one for each point of the curve {np.shape(curve)}, got {at.shape}")
    if not (at > 0).all() or not (np.diff(at) > 0).all():
        raise ValueError("steps must be positive and increasing")
    return at

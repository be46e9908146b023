"""Learning curves: mean returns of the last episodes on a grid of steps, area, steps to a level, sample efficiency.

`steps` are the environment steps of a curve's points, positive and increasing. The last axis of a curve is its points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from greedystep.stats import Statistic, aggregate, percentiles, resample


def last_episodes(
    ends: ArrayLike, returns: ArrayLike, grid: ArrayLike, episodes: int = 100, counts: ArrayLike | None = None
) -> np.ndarray:
    """Compute the mean return of the last `episodes` episodes that had ended by each step of `grid`.

    NaN before the first episode; fewer episodes are averaged while fewer have ended. This is the training curve of the
    paper's Figure 3, which does not name its window, and of Lan et al. (2020), who average 100 episodes.

    Args:
        ends: [rows] the step at which an episode ended, or the end of a chunk with several episodes; not decreasing.
        returns: [rows] its return, or the mean return of the chunk's episodes.
        grid: [points] environment steps.
        episodes: the width of the window. The oldest chunk may count in part, as if its episodes had equal returns.
        counts: [rows] episodes of each chunk, 0 if none ended (its return is then ignored); default 1.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}")
    at, value = np.asarray(ends, float), np.asarray(returns, float)
    number = np.ones(at.shape) if counts is None else np.asarray(counts, float)
    if not at.ndim == value.ndim == number.ndim == 1 or not at.shape == value.shape == number.shape:
        raise ValueError(
            f"ends, returns and counts must be of one length, got {at.shape}, {value.shape}, {number.shape}"
        )
    if (np.diff(at) < 0).any():
        raise ValueError("ends must not decrease")
    at, value, number = at[number > 0], value[number > 0], number[number > 0]
    if len(bad := np.flatnonzero(~np.isfinite(value))):
        raise ValueError(f"returns must be finite, got {value[bad[0]]} at step {at[bad[0]]:.0f}")
    ended, total = (np.concatenate([[0.0], np.cumsum(x)]) for x in (number, number * value))  # in the first k rows
    rows = np.searchsorted(at, np.asarray(grid, float), side="right")
    first = np.maximum(ended[rows] - episodes, 0)
    total, number = total[rows] - np.interp(first, ended, total), ended[rows] - first
    return np.where(number > 0, total / np.where(number > 0, number, 1.0), np.nan)


def area(steps: ArrayLike, curve: ArrayLike) -> np.ndarray:
    """Compute the area under a curve per step: ∫ curve d steps / (last - first), by trapezoids; NaN gives NaN."""
    at = _checked_steps(steps, curve)
    if len(at) < 2:
        raise ValueError("steps: an area needs at least two points")
    return np.trapezoid(np.asarray(curve, float), at, axis=-1) / (at[-1] - at[0])


def steps_to_level(steps: ArrayLike, curve: ArrayLike, level: ArrayLike) -> np.ndarray:
    """Return the first of `steps` at which the curve is at or above `level`; infinity if it never is.

    `level` is one number, or one per curve of a stack [..., points].
    """
    at = _checked_steps(steps, curve)
    reached = np.asarray(curve, float) >= np.asarray(level, float)[..., None]
    return np.where(reached.any(axis=-1), at[reached.argmax(axis=-1)], np.inf)


class TimesFaster(NamedTuple):
    """How many times fewer steps a method needs to a level than another: the other's steps divided by its own.

    A method that has not reached the level when its run ends needs at least as many steps as the run had, so the ratio
    is known only between `at_least` and `at_most`; the two are equal if both methods reach the level. `low` and `high`
    are the ends of the bootstrap CI, with these bounds in every resample: 0 or infinity if the runs were too short.
    """

    at_least: float
    at_most: float
    low: float
    high: float
    steps: float
    """The method's own steps to the level; infinity if it is never reached."""
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
    """Compute how many times fewer steps one method needs than another until a statistic of its runs reaches a level.

    Args:
        steps, other_steps: [points], environment steps of each method's curve; they may differ in number and length.
        curves, other_curves: [runs, points].
        level: by default the other method's final level, computed in every resample, since it is as uncertain as the
            curves are ("the same final performance with half the samples").
        statistic: statistic of the runs at each point, which must reach the level.
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

"""Slow, obvious references for statistics and learning curves, in plain Python."""

import math
from statistics import fmean, median

import numpy as np
import scipy.stats


def iqm(scores):
    """Drop the lowest and the highest floor(n/4) and average the rest."""
    ordered, drop = sorted(scores), len(scores) // 4
    return fmean(ordered[drop : len(ordered) - drop])


def aggregate(tasks, statistic):
    """`tasks` is a list of lists of runs."""
    if statistic == "iqm":
        return iqm([score for task in tasks for score in task])
    return {"mean": fmean, "median": median}[statistic]([fmean(task) for task in tasks])


def resamples(tasks, number, rng):
    """A list of resampled `tasks`; all draws of one task are made before those of the next."""
    drawn = [rng.integers(len(task), size=(number, len(task))) for task in tasks]
    return [[[task[i] for i in draw[b]] for task, draw in zip(tasks, drawn, strict=True)] for b in range(number)]


def percentile(values, share):
    """Linear between the two nearest in order."""
    ordered, place = sorted(values), share * (len(values) - 1)
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(values) - 1)] - ordered[low])


def expanded_tail(tail, sizes):
    """The expanded percentile of Hesterberg (2015), from SciPy's distributions."""
    truly, resampled = (sum(1 / n for n in sizes), sum((n - 1) / n**2 for n in sizes))
    t = scipy.stats.t(sum(n - 1 for n in sizes)).ppf(1 - tail)
    return scipy.stats.norm.cdf(-t * math.sqrt(truly / resampled))


def win_rate(tasks, others):
    shares = []
    for task, other in zip(tasks, others, strict=True):
        pairs = [1.0 if x > y else 0.5 if x == y else 0.0 for x in task for y in other]
        shares.append(fmean(pairs))
    return fmean(shares)


def last_episodes(ends, returns, g, episodes):
    ended = [value for end, value in zip(ends, returns, strict=True) if end <= g][-episodes:]
    return fmean(ended) if ended else math.nan


def steps_to_level(steps, curve, level):
    return next((step for step, height in zip(steps, curve, strict=True) if height >= level), math.inf)


def ratio_bounds(need, last, other_need, other_last):
    """The least and the largest ratio of other's steps to one's own, if a run that ends too early may take any longer
    time: tried out with its last step and with a very long time."""
    own = [need] if need < math.inf else [last, 1e30]
    other = [other_need] if other_need < math.inf else [other_last, 1e30]
    ratios = [b / a for a in own for b in other]
    return min(ratios), max(ratios)


def random_walk_curves(rng, runs, points):
    return np.cumsum(rng.normal(0.1, 1.0, (runs, points)), axis=1)

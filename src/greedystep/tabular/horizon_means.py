"""The method "auto": mean n-step returns of several horizons for each pair, and the choice of one by its lower bound.

For every pair (s, a) and each horizon n = 1, 2, 4, 8, 16 and the whole episode, the means of the sampled returns

    y_n = r_t + ... + γ^(m-1) r_{t+m-1} + γ^m V(s_{t+m}),   m = min(n, T - t)

are tracked with step size α = visits^-0.6, and so are their variances. With V = max_a q the value of a pair is

    q(s, a) = max( mean_1,  max over n > 1 of  mean_n - 2 sqrt(variance_n α / (2 - α)) )

where α / (2 - α) is the share of the variance that is left in such a mean. So a long return counts where it is known
well enough to be better than one step, and the step, the pessimism and the learning rate follow from the data.

Greedy-step takes the maximum over n of single returns, E[max_n y_n] in the long run, which luck raises above q*. Here
the maximum is taken over expectations, max_n E[y_n], as in the paper's operator: with V = v* no E[y_n] is above q*, and
E[y_1] equals it. All (mean_n) together contract by γ, the step sizes are those of Robbins and Monro (1951) and the
bounds tighten, so that the table converges to q* in stochastic environments too if every pair is visited forever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from greedystep import io
from greedystep.checks import check_memory
from greedystep.tabular.methods import max_q

FINITE_HORIZONS = 5
HORIZONS = FINITE_HORIZONS + 1
"""Number of horizons J: 1, 2, 4, 8, 16 and the whole episode."""
STEP_SIZE_POWER = 0.6  # between 0.5 and 1 as convergence demands; smaller forgets early bootstraps sooner
DEVIATIONS = 2.0


class HorizonStatistics(NamedTuple):
    """What `HorizonMeans` tracks, as arrays for compiled loops."""

    visits: np.ndarray  # int64 [S, A]
    mean: np.ndarray  # float64 [S, A, J]
    variance: np.ndarray  # float64 [S, A, J]
    revisits: np.ndarray  # int64 [1]: how often a pair was visited again
    pooled: np.ndarray  # float64 [J]: recent mean of their variances, which counts as one visit of every pair


def make_statistics(S: int, A: int) -> HorizonStatistics:
    """Return the statistics before the first episode."""
    return HorizonStatistics(
        visits=np.zeros((S, A), np.int64),
        mean=np.zeros((S, A, HORIZONS)),
        variance=np.zeros((S, A, HORIZONS)),
        revisits=np.zeros(1, np.int64),
        pooled=np.zeros(HORIZONS),
    )


class HorizonMeans:
    """Means and variances of the returns of each horizon, for S states and A actions."""

    def __init__(self, num_states: int, num_actions: int):
        self.shape = (num_states, num_actions)
        per_pair = 8 + 16 * HORIZONS
        check_memory(f"num_states={num_states}, num_actions={num_actions}", per_pair * num_states * num_actions)
        self.stats = make_statistics(num_states, num_actions)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return {name in files: array} of everything tracked, to be saved."""
        return self.stats._asdict()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], num_states: int, num_actions: int) -> HorizonMeans:
        """Make the object again from what `arrays` returned; ValueError if something does not fit."""
        means = cls(num_states, num_actions)
        given = {name: io.get_array(arrays, name, x.dtype.kind, x.ndim) for name, x in means.arrays().items()}
        for name, mine in means.arrays().items():
            if given[name].dtype != mine.dtype or given[name].shape != mine.shape:
                raise ValueError(f"{name}: expected {mine.dtype} {list(mine.shape)} in stored means")
            if not np.isfinite(given[name]).all() or (name != "mean" and (given[name] < 0).any()):
                raise ValueError(f"{name}: a number of the stored means lies outside its range")
        means.stats = HorizonStatistics(**{name: np.array(array) for name, array in given.items()})
        return means


@njit(cache=True)
def best_horizon(q, stats, buffer, steps, terminated, gamma):
    """Track the returns of the buffered episode, and assign q(s, a) of its pairs as the module says."""
    states, actions = buffer.states, buffer.actions
    returns = horizon_returns(q, buffer, steps, terminated, gamma)
    for t in range(steps):
        s, a = states[t], actions[t]
        stats.visits[s, a] += 1
        visits = stats.visits[s, a]
        alpha = visits**-STEP_SIZE_POWER
        if visits > 1:
            stats.revisits[0] += 1
        q[s, a] = -np.inf
        for j in range(HORIZONS):
            error = returns[j, t] - stats.mean[s, a, j]
            stats.mean[s, a, j] += alpha * error
            spread = (1.0 - alpha) * error * error
            stats.variance[s, a, j] = (1.0 - alpha) * stats.variance[s, a, j] + alpha * spread
            if visits > 1:
                stats.pooled[j] += stats.revisits[0] ** -STEP_SIZE_POWER * (spread - stats.pooled[j])
            value = stats.mean[s, a, j]
            if j > 0:
                variance = (visits * stats.variance[s, a, j] + stats.pooled[j]) / (visits + 1)
                value -= DEVIATIONS * np.sqrt(variance * alpha / (2.0 - alpha))
            q[s, a] = max(q[s, a], value)


@njit(cache=True)
def horizon_returns(q, buffer, steps, terminated, gamma):
    """Return y_n of every step, [J, T]. Sums of rewards over 2 n steps come from two over n steps."""
    rewards, returns = buffer.rewards, np.empty((HORIZONS, steps))
    values = np.empty(steps + 1)
    for t in range(1, steps + 1):
        values[t] = 0.0 if terminated and t == steps else max_q(q, buffer.states[t])
    sums, n = rewards[:steps].copy(), 1
    for j in range(FINITE_HORIZONS):
        for t in range(steps):
            end = min(t + n, steps)
            returns[j, t] = sums[t] + gamma ** (end - t) * values[end]
        for t in range(steps - n):  # forward: sums[t + n] is still that of n steps
            sums[t] += gamma**n * sums[t + n]
        n *= 2
    ahead = values[steps]
    for t in range(steps - 1, -1, -1):
        returns[FINITE_HORIZONS, t] = ahead = rewards[t] + gamma * ahead
    return returns

"""Warn if greedy-step's sampled forms (`methods.FORMS`) meet stochastic transitions or rewards.

Those forms keep the best return that was ever seen. That is right only in deterministic environments; elsewhere their
values are too high, and more data makes them higher.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numba import njit

from greedystep.envs.toy_task import END
from greedystep.tabular.empirical_model import rewards_differ
from greedystep.tabular.episodes import Episodes, buffer_for, load_episode

UNSEEN = -2  # the successor of a row that has not been seen yet


class StochasticityWarning(UserWarning):
    """A sampled form of greedy-step learns in a stochastic environment, where its values are too high."""


class FirstOutcomes(NamedTuple):
    """The first outcome of every row s*A + a, and the first later one that differs; with 0 rows nothing is checked."""

    successor: np.ndarray  # int32 [S*A]: the successor, END or UNSEEN
    reward: np.ndarray  # float64 [S*A]
    found: np.ndarray  # int64 [2]: the first row that later had another outcome, or -1, and that outcome's successor
    found_reward: np.ndarray  # float64 [1]: the reward of that outcome


def unseen_outcomes(rows: int) -> FirstOutcomes:
    """Return the outcomes of an agent that has seen nothing yet; with 0 rows nothing will be checked."""
    return FirstOutcomes(np.full(rows, UNSEEN, np.int32), np.zeros(rows), np.full(2, -1, np.int64), np.zeros(1))


class StochasticityDetector:
    """Warns once, when an action is first seen to have two different outcomes."""

    def __init__(self, rows: int, num_actions: int, form: str):
        self._num_actions, self._form = num_actions, form
        self.outcomes = unseen_outcomes(rows)

    @property
    def stopped(self) -> bool:
        """Whether nothing is checked any more: the warning was given, or is not needed."""
        return len(self.outcomes.successor) == 0

    def check_log(self, log: Episodes) -> None:
        """Compare the outcomes in logged episodes, and warn if an action had two different ones."""
        if not self.stopped:
            _check_log(self.outcomes, log, self._num_actions)

    def stop(self) -> None:
        """Check nothing from now on."""
        self.outcomes = unseen_outcomes(0)

    def warn(self) -> None:
        """Warn and stop if two different outcomes of an action have been found."""
        row, later = self.outcomes.found.tolist()
        if self.stopped or row < 0:
            return
        (s, a), first = divmod(row, self._num_actions), int(self.outcomes.successor[row])
        if first != later:
            places = ["the end" if place == END else f"state {place}" for place in (first, later)]
            what = f"led to {places[0]} at one time and to {places[1]} at another"
        else:
            what = f"paid {self.outcomes.reward[row]:g} at one time and {self.outcomes.found_reward[0]:g} at another"
        self.stop()
        warnings.warn(
            f"greedy-step in its {self._form} form keeps the best that ever happened, but action {a} of state {s} "
            f"{what}: where such chances matter its values are too high, and more data makes them higher; "
            f'form="expected" or the method "model" take the average instead',
            StochasticityWarning,
            stacklevel=3,
        )


@njit(cache=True)
def check_episode(outcomes, buffer, steps, terminated, num_actions):
    """Compare the outcomes of the buffered episode with the first ones of the same rows, until one differs."""
    if len(outcomes.successor) == 0 or outcomes.found[0] >= 0:
        return
    for t in range(steps):
        row = buffer.states[t] * num_actions + buffer.actions[t]
        successor = END if terminated and t == steps - 1 else buffer.states[t + 1]
        if outcomes.successor[row] == UNSEEN:
            outcomes.successor[row], outcomes.reward[row] = successor, buffer.rewards[t]
        elif outcomes.successor[row] != successor or rewards_differ(outcomes.reward[row], buffer.rewards[t]):
            outcomes.found[0], outcomes.found[1], outcomes.found_reward[0] = row, successor, buffer.rewards[t]
            return


@njit(cache=True)
def _check_log(outcomes, log, num_actions):
    buffer = buffer_for(log)
    for episode in range(len(log.terminated)):
        steps, terminated = load_episode(buffer, log, episode)
        check_episode(outcomes, buffer, steps, terminated, num_actions)

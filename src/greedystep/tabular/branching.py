"""A watch for chance: has one action ever done two different things?

Greedy-step's sampled forms keep the best that ever happened. That is right only where the same action always does the
same; elsewhere they take luck for skill, and more data makes it worse.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numba import njit

from greedystep.envs.toy import END
from greedystep.tabular.counts import rewards_differ
from greedystep.tabular.episodes import Episodes, buffer_for, load

UNSEEN = -2


class BranchingWarning(UserWarning):
    """A sampled greedy-step learns in a world with chance, where its values are too high."""


class Seen(NamedTuple):
    """What every row s*A + a did the first time. A watch that is not needed has no rows."""

    successor: np.ndarray
    """int32 [S*A]: where it led, END or UNSEEN."""
    reward: np.ndarray
    """float64 [S*A]."""
    found: np.ndarray
    """int64 [2]: the first row that did something else later, or -1, and where it led then."""
    other: np.ndarray
    """float64 [1]: what it paid then."""


def make_seen(rows: int) -> Seen:
    """Nothing seen yet."""
    return Seen(np.full(rows, UNSEEN, np.int32), np.zeros(rows), np.full(2, -1, np.int64), np.zeros(1))


class Watch:
    """Warns once, when an action is first seen to do two different things."""

    def __init__(self, rows: int, num_actions: int, form: str):
        self._num_actions, self._form = num_actions, form
        self.seen = make_seen(rows)

    @property
    def over(self) -> bool:
        """Whether there is nothing to watch for, or it has been found and said."""
        return len(self.seen.successor) == 0

    def look_at(self, log: Episodes) -> None:
        """Look through logged episodes."""
        if not self.over:
            _look_at_log(self.seen, log, self._num_actions)

    def stop(self) -> None:
        """Watch no more."""
        self.seen = make_seen(0)

    def warn(self) -> None:
        """Say what was found, if anything, and stop watching."""
        row, after = self.seen.found.tolist()
        if self.over or row < 0:
            return
        (s, a), before = divmod(row, self._num_actions), int(self.seen.successor[row])
        if before != after:
            what = f"led to {_place(before)} at one time and to {_place(after)} at another"
        else:
            what = f"paid {self.seen.reward[row]:g} at one time and {self.seen.other[0]:g} at another"
        self.stop()
        warnings.warn(
            f"greedy-step in its {self._form} form keeps the best that ever happened, but action {a} of state {s} "
            f"{what}: where such chances matter its values are too high, and more data makes them higher; "
            f'form="expected" or the method "model" take the average instead',
            BranchingWarning,
            stacklevel=3,
        )


def _place(successor: int) -> str:
    return "the end" if successor == END else f"state {successor}"


@njit(cache=True)
def look_at_episode(seen, buffer, steps, terminated, num_actions):
    """Remember what every row did first and compare what it does later; nothing if the watch is over."""
    if len(seen.successor) == 0 or seen.found[0] >= 0:
        return
    for t in range(steps):
        row = buffer.states[t] * num_actions + buffer.actions[t]
        successor = END if terminated and t == steps - 1 else buffer.states[t + 1]
        if seen.successor[row] == UNSEEN:
            seen.successor[row], seen.reward[row] = successor, buffer.rewards[t]
        elif seen.successor[row] != successor or rewards_differ(seen.reward[row], buffer.rewards[t]):
            seen.found[0], seen.found[1], seen.other[0] = row, successor, buffer.rewards[t]
            return


@njit(cache=True)
def _look_at_log(seen, log, num_actions):
    buffer = buffer_for(log)
    for episode in range(len(log.terminated)):
        steps, terminated = load(buffer, log, episode)
        look_at_episode(seen, buffer, steps, terminated, num_actions)

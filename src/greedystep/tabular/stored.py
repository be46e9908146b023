"""All episodes so far, kept by the methods that go through them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from greedystep import io
from greedystep.tabular.episodes import Episodes


class Shelf(NamedTuple):
    """`Episodes` with room for more: of each array only the beginning is in use."""

    first: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    chances: np.ndarray
    terminated: np.ndarray
    used: np.ndarray
    """int64 [2]: how many episodes and how many steps there are."""


class StoredEpisodes:
    """Episodes of a world with S states and A actions, one after another."""

    def __init__(self, num_states: int, num_actions: int):
        self.shape = (num_states, num_actions)
        self.shelf = make_shelf(0)

    @property
    def episodes(self) -> Episodes:
        """Those that there are."""
        return Episodes(*taken_down(self.shelf))

    def add(self, log: Episodes) -> StoredEpisodes:
        """Put more behind them."""
        log.check(*self.shape)
        self.shelf = _put_all(self.shelf, log)
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        """All it holds, to be stored under these names."""
        return self.episodes._asdict()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], num_states: int, num_actions: int) -> StoredEpisodes:
        """What `arrays` gave; ValueError if something does not fit."""
        stored = cls(num_states, num_actions)
        log = Episodes(**{k: io.get_array(arrays, k, v.dtype.kind, 1) for k, v in stored.arrays().items()})
        E, K = len(log.terminated), len(log.actions)
        for name, kept in stored.arrays().items():
            length = {"first": E + 1, "states": K + E, "terminated": E}.get(name, K)
            given = getattr(log, name)
            if given.dtype != kept.dtype or given.shape != (length,):
                raise ValueError(f"{name}: expected {kept.dtype} [{length}] in stored episodes")
        if log.first[0] != 0 or log.first[-1] != K or (np.diff(log.first) < 0).any():
            raise ValueError(f"first: expected numbers that rise from 0 to {K} in stored episodes")
        return stored.add(log)


# -- compiled ---------------------------------------------------------------------------------------------------------


@njit(cache=True)
def make_shelf(room):
    """An empty shelf with room for so many steps."""
    return Shelf(
        np.zeros(1, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room),
        np.empty(room),
        np.empty(0, np.bool_),
        np.zeros(2, np.int64),
    )


@njit(cache=True)
def put(shelf, states, actions, rewards, chances, terminated):
    """The shelf, a larger one if need be, with one more episode: T + 1 states and T of the others."""
    episode, low = shelf.used
    high = low + len(actions)
    shelf = _with_room(shelf, episode + 1, high)
    shelf.states[low + episode : high + episode + 1] = states
    shelf.actions[low:high] = actions
    shelf.rewards[low:high] = rewards
    shelf.chances[low:high] = chances
    shelf.terminated[episode] = terminated
    shelf.first[episode + 1] = high
    shelf.used[0], shelf.used[1] = episode + 1, high
    return shelf


@njit(cache=True)
def taken_down(shelf):
    """The arrays of `Episodes`, without the room."""
    episodes, steps = shelf.used
    return (
        shelf.first[: episodes + 1],
        shelf.states[: steps + episodes],
        shelf.actions[:steps],
        shelf.rewards[:steps],
        shelf.chances[:steps],
        shelf.terminated[:episodes],
    )


@njit(cache=True)
def _put_all(shelf, log):
    for episode in range(len(log.terminated)):
        low, high = log.first[episode], log.first[episode + 1]
        states = log.states[low + episode : high + episode + 1]
        shelf = put(
            shelf, states, log.actions[low:high], log.rewards[low:high], log.chances[low:high], log.terminated[episode]
        )
    return shelf


@njit(cache=True)
def _with_room(shelf, episodes, steps):
    first, states, terminated = shelf.first, shelf.states, shelf.terminated
    actions, rewards, chances = shelf.actions, shelf.rewards, shelf.chances
    if episodes > len(terminated):
        first, terminated = _grown(first, 2 * episodes + 1), _grown(terminated, 2 * episodes)
    if steps + episodes > len(states):
        room = 2 * (steps + episodes)
        states, actions = _grown(states, room), _grown(actions, room)
        rewards, chances = _grown(rewards, room), _grown(chances, room)
    return Shelf(first, states, actions, rewards, chances, terminated, shelf.used)


@njit(cache=True)
def _grown(array, room):
    larger = np.empty(room, array.dtype)
    larger[: len(array)] = array
    return larger

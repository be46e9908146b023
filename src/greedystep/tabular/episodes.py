"""Logged episodes as flat arrays (`Episodes`), the buffer of one episode, and a growing store of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from greedystep import io, trajectory
from greedystep.trajectory import Trajectory, check_flags


class Episodes(NamedTuple):
    """A log of E episodes with K steps in total; episode e has the steps first[e] .. first[e + 1] - 1."""

    first: np.ndarray  # int64 [E + 1]
    states: np.ndarray  # int32 [K + E]: T + 1 states per episode, those of episode e from first[e] + e on
    actions: np.ndarray  # int32 [K]
    rewards: np.ndarray  # float64 [K]
    behaviour_prob: np.ndarray  # float64 [K]: μ(a | s), the probability of the action; nan where unknown
    terminated: np.ndarray  # bool [E]: whether the episode terminated; a truncated one bootstraps from its last state

    @classmethod
    def of(cls, episodes: Episodes | Iterable[tuple | Trajectory], name: str = "log") -> Episodes:
        """Make a log of `Trajectory`s, or of tuples (states [T + 1], actions [T], rewards [T], terminated[, μ [T]]).

        A log itself is returned as it is.

        States and actions are whole numbers, also as floats or as columns [T, 1]. `terminated` is one flag, or one per
        step, of which only the last may be true.

        Args:
            name: the log's name in error messages.
        """
        if isinstance(episodes, Episodes):
            return episodes
        if not isinstance(episodes, Iterable) or isinstance(episodes, Trajectory):
            raise ValueError(f"{name}: expected a list of episodes, got {type(episodes).__name__}")
        first, parts = [0], []
        for number, episode in enumerate(episodes):
            columns: Any = episode
            if isinstance(episode, Trajectory):
                columns = episode.observations, episode.actions, episode.rewards, episode.terminated
                columns = (*columns, episode.behaviour_prob)
            where = f"{name}, episode {number}"
            if not isinstance(columns, tuple | list) or len(columns) not in (4, 5):
                got = f"{len(columns)} of them" if isinstance(columns, tuple | list) else type(columns).__name__
                raise ValueError(
                    f"{where}: expected (states, actions, rewards, terminated[, behaviour_prob]), got {got}"
                )
            states, actions, rewards, terminated, *rest = columns
            states, actions = _integers("states", states, where), _integers("actions", actions, where)
            T, rewards = len(actions), _floats("rewards", rewards, where)
            behaviour_prob = _probabilities(rest[0], where) if rest and rest[0] is not None else np.full(T, np.nan)
            if len(states) != T + 1 or len(rewards) != T or len(behaviour_prob) != T:
                raise ValueError(
                    f"{where} has {len(states)} states, {T} actions, {len(rewards)} rewards and "
                    f"{len(behaviour_prob)} behaviour probabilities; expected T + 1, T, T and T"
                )
            if T == 0:
                raise ValueError(f"{where} has no steps")
            first.append(first[-1] + T)
            parts.append((states, actions, rewards, behaviour_prob, [_terminates(terminated, T, where)]))
        if not parts:
            raise ValueError(f"{name}: expected at least one episode")
        states, actions, rewards, behaviour_prob, terminated = map(np.concatenate, zip(*parts, strict=True))
        return cls(
            np.array(first, np.int64),
            states.astype(np.int32),
            actions.astype(np.int32),
            rewards,
            behaviour_prob,
            terminated,
        )

    def check(self, num_states: int, num_actions: int, name: str = "log") -> None:
        """Raise ValueError if a state or action number lies outside the table, or a reward is not finite."""
        E = len(self.terminated)
        for what, numbers, count, first in (
            ("state", self.states, num_states, self.first + np.arange(E + 1)),
            ("action", self.actions, num_actions, self.first),
        ):
            outside = (numbers < 0) | (numbers >= count)
            if outside.any():
                at = int(np.argmax(outside))
                raise ValueError(f"{_place(first, at, name)}: {what} {numbers[at]} is not in 0..{count - 1}")
        if not np.isfinite(self.rewards).all():
            at = int(np.argmin(np.isfinite(self.rewards)))
            raise ValueError(f"{_place(self.first, at, name)}: expected a finite reward, got {self.rewards[at]}")

    @property
    def origins(self) -> np.ndarray:
        """int32 [K]: the state in which each action was taken."""
        number = np.repeat(np.arange(len(self.terminated)), np.diff(self.first))
        return self.states[np.arange(len(self.actions)) + number]

    def check_available(self, available: np.ndarray, name: str = "log") -> None:
        """Raise ValueError if an action was taken that its state does not have; `available` is bool [S, A]."""
        missing = ~available[self.origins, self.actions]
        if missing.any():
            at = int(np.argmax(missing))
            where = _place(self.first, at, name)
            raise ValueError(f"{where}: state {self.origins[at]} does not have action {self.actions[at]}")

    def trajectories(self) -> Iterator[Trajectory]:
        """Yield the episodes one after another."""
        for e, terminated in enumerate(self.terminated.tolist()):
            low, high = self.first[e : e + 2].tolist()
            is_last, chances = np.arange(low, high) == high - 1, self.behaviour_prob[low:high]
            yield Trajectory(
                self.states[low + e : high + e + 1],
                self.actions[low:high],
                self.rewards[low:high],
                is_last & terminated,
                is_last & (not terminated),
                None if np.isnan(chances).any() else chances,
            )


def _place(first: np.ndarray, at: int, name: str) -> str:
    """Return what entry `at` is in words; `first` has the first entry of each episode."""
    episode = int(np.searchsorted(first, at, side="right")) - 1
    return f"{name}, episode {episode}, step {at - int(first[episode])}"


def _column(given: Any) -> np.ndarray:
    """Return an array, of which a column [T, 1] becomes [T]."""
    array = np.asarray(given)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _floats(name: str, given: Any, where: str) -> np.ndarray:
    """Return float64 [T]; ValueError if these are no numbers, one per step."""
    numbers = _column(trajectory.as_array(f"{where}: {name}", given))
    if numbers.ndim != 1:
        raise ValueError(f"{where}: {name}: expected one number per step, got shape {list(numbers.shape)}")
    return numbers.astype(np.float64, copy=False)


def _probabilities(given: Any, where: str) -> np.ndarray:
    """Return behaviour probabilities, float64 [T]; nan where one is unknown."""
    numbers = _floats("behaviour_prob", given, where)
    wrong = (numbers <= 0) | (numbers > 1)
    if wrong.any():
        raise ValueError(f"{where}: behaviour_prob: expected probabilities in (0, 1], got {numbers[wrong.argmax()]}")
    return numbers


def _integers(name: str, given: Any, where: str) -> np.ndarray:
    """Return whole numbers as an array [T]; ValueError if they are none, or too large for int32."""
    numbers = _column(given)
    shape = list(numbers.shape[1:])
    if numbers.size == 0 and numbers.ndim == 1:  # NumPy takes an empty list for real numbers
        return numbers.astype(np.int64)
    if numbers.dtype.kind not in "iuf" or numbers.ndim != 1:
        got = f"{numbers.dtype} {shape or ''}".rstrip()
        raise ValueError(f"{where}: {name} must be integers, one per step, got {got}")
    if numbers.dtype.kind == "f" and (numbers != np.floor(numbers)).any():
        at = int(np.argmax(numbers != np.floor(numbers)))
        raise ValueError(f"{where}: {name} must be integers, got {numbers[at]} in step {at}")
    limits = np.iinfo(np.int32)
    outside = (numbers < limits.min) | (numbers > limits.max)
    if outside.any():
        at = int(np.argmax(outside))
        raise ValueError(f"{where}: {name[:-1]} {numbers[at]} in step {at} is too large for a table")
    return numbers


def _terminates(given: Any, T: int, where: str) -> bool:
    """Return whether an episode of T steps terminates, by one flag or by one flag per step."""
    flags = np.asarray(given)
    check_flags(f"{where}: terminated", flags)
    if flags.ndim == 0:
        return bool(flags)
    if flags.size != T:
        shape = list(flags.shape)
        raise ValueError(f"{where}: terminated: expected one flag, or one per step, {T}, got shape {shape}")
    *before, last = flags.reshape(T).tolist()
    if any(before):
        step = before.index(True)
        raise ValueError(f"{where}: terminated: step {step} of {T} ends the episode; make an episode of each")
    return bool(last)


# -- the buffer of one episode ----------------------------------------------------------------------------------------


class EpisodeBuffer(NamedTuple):
    """Arrays that hold one episode; the last two are scratch space of the updates."""

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    behaviour_prob: np.ndarray
    values: np.ndarray
    targets: np.ndarray


@njit(cache=True)
def make_buffer(horizon):
    """Return an empty buffer for the states, actions and rewards of one episode of up to `horizon` steps."""
    states, actions = np.empty(horizon + 1, np.int32), np.empty(horizon, np.int32)
    return EpisodeBuffer(states, actions, np.empty(horizon), np.empty(horizon), np.empty(horizon), np.empty(horizon))


@njit(cache=True)
def buffer_for(log):
    """Return a buffer for the longest of the logged episodes."""
    return make_buffer(longest_episode(log))


@njit(cache=True)
def longest_episode(log):
    """Return the number of steps of the longest logged episode, 0 if there is none."""
    longest = 0
    for episode in range(len(log.terminated)):
        longest = max(longest, log.first[episode + 1] - log.first[episode])
    return longest


@njit(cache=True)
def load_episode(buffer, log, episode):
    """Copy one logged episode into the buffer; return (number of steps, whether it terminated)."""
    low, high = log.first[episode], log.first[episode + 1]
    steps = high - low
    buffer.states[: steps + 1] = log.states[low + episode : high + episode + 1]
    buffer.actions[:steps] = log.actions[low:high]
    buffer.rewards[:steps] = log.rewards[low:high]
    buffer.behaviour_prob[:steps] = log.behaviour_prob[low:high]
    return steps, log.terminated[episode]


# -- a growing store --------------------------------------------------------------------------------------------------

NAMES_IN_FILES = {"behaviour_prob": "chances"}  # arrays whose name in saved agents differs from that in `Episodes`


class EpisodeStore(NamedTuple):
    """A log of episodes with spare capacity: only the beginning of each array is in use."""

    log: Episodes
    used: np.ndarray  # int64 [2]: the number of episodes and of steps


class StoredEpisodes:
    """A growing log of the episodes of one environment with S states and A actions."""

    def __init__(self, num_states: int, num_actions: int):
        self.shape = (num_states, num_actions)
        self.store = make_store(0)

    @property
    def episodes(self) -> Episodes:
        """All episodes added so far."""
        return used_log(self.store)

    def add(self, log: Episodes) -> StoredEpisodes:
        """Append a log; return the store itself."""
        log.check(*self.shape)
        self.store = _append_log(self.store, log)
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        """Return {name in files: array} of all episodes, to be saved."""
        return {NAMES_IN_FILES.get(name, name): array for name, array in self.episodes._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], num_states: int, num_actions: int) -> StoredEpisodes:
        """Make the store again from what `arrays` returned; ValueError if something does not fit."""
        stored = cls(num_states, num_actions)
        log = Episodes(*(io.get_array(arrays, k, v.dtype.kind, 1) for k, v in stored.arrays().items()))
        E, K = len(log.terminated), len(log.actions)
        for (name, kept), given in zip(stored.arrays().items(), log, strict=True):
            length = {"first": E + 1, "states": K + E, "terminated": E}.get(name, K)
            if given.dtype != kept.dtype or given.shape != (length,):
                raise ValueError(f"{name}: expected {kept.dtype} [{length}] in stored episodes")
        if log.first[0] != 0 or log.first[-1] != K or (np.diff(log.first) < 0).any():
            raise ValueError(f"first: expected numbers that rise from 0 to {K} in stored episodes")
        return stored.add(log)


@njit(cache=True)
def make_store(capacity):
    """Return an empty store with capacity for `capacity` steps."""
    states, actions = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    rewards, behaviour_prob = np.empty(capacity), np.empty(capacity)
    log = Episodes(np.zeros(1, np.int64), states, actions, rewards, behaviour_prob, np.empty(0, np.bool_))
    return EpisodeStore(log, np.zeros(2, np.int64))


@njit(cache=True)
def append_episode(store, buffer, steps, terminated):
    """Return the store with the buffered episode appended."""
    episode, low = store.used
    high = low + steps
    store = _with_capacity(store, episode + 1, high)
    log = store.log
    log.states[low + episode : high + episode + 1] = buffer.states[: steps + 1]
    log.actions[low:high] = buffer.actions[:steps]
    log.rewards[low:high] = buffer.rewards[:steps]
    log.behaviour_prob[low:high] = buffer.behaviour_prob[:steps]
    log.terminated[episode] = terminated
    log.first[episode + 1] = high
    store.used[0], store.used[1] = episode + 1, high
    return store


@njit(cache=True)
def used_log(store):
    """Return the stored episodes as `Episodes`, without the spare capacity."""
    (first, states, actions, rewards, behaviour_prob, terminated), (E, K) = store.log, store.used
    return Episodes(first[: E + 1], states[: K + E], actions[:K], rewards[:K], behaviour_prob[:K], terminated[:E])


@njit(cache=True)
def _append_log(store, log):
    buffer = buffer_for(log)
    for episode in range(len(log.terminated)):
        steps, terminated = load_episode(buffer, log, episode)
        store = append_episode(store, buffer, steps, terminated)
    return store


@njit(cache=True)
def _with_capacity(store, episodes, steps):
    first, states, actions, rewards, behaviour_prob, terminated = store.log
    if episodes > len(terminated):
        first, terminated = grown(first, 2 * episodes + 1), grown(terminated, 2 * episodes)
    if steps + episodes > len(states):
        capacity = 2 * (steps + episodes)
        states, actions = grown(states, capacity), grown(actions, capacity)
        rewards, behaviour_prob = grown(rewards, capacity), grown(behaviour_prob, capacity)
    return EpisodeStore(Episodes(first, states, actions, rewards, behaviour_prob, terminated), store.used)


@njit(cache=True)
def grown(array, capacity):
    """Return a copy of the array with length `capacity`, whose new entries are not initialised."""
    larger = np.empty(capacity, array.dtype)
    larger[: len(array)] = array
    return larger

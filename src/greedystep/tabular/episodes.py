"""Acting: one episode from a task's tables, and logs of many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from greedystep.envs.toy import END, draw
from greedystep.trajectory import Trajectory


class Episodes(NamedTuple):
    """E episodes of K steps in all, one after another. Episode e has steps first[e] .. first[e + 1] - 1."""

    first: np.ndarray
    """int64 [E + 1]."""
    states: np.ndarray
    """int32 [K + E]: T + 1 states an episode, those of episode e from first[e] + e on."""
    actions: np.ndarray
    """int32 [K]."""
    rewards: np.ndarray
    """float64 [K]."""
    chances: np.ndarray
    """float64 [K]: μ(a | s), the probability with which the behaviour chose the action; nan where it is not known."""
    terminated: np.ndarray
    """bool [E]: whether the episode came to its end, or was only cut off (then the last state still has a value)."""

    @classmethod
    def of(cls, episodes: Iterable[tuple | Trajectory]) -> Episodes:
        """From `Trajectory`, or tuples (states [T + 1], actions [T], rewards [T], terminated[, chances [T]])."""
        first, parts = [0], []
        for number, episode in enumerate(episodes):
            states, actions, rewards, terminated, *rest = (
                _columns(episode) if isinstance(episode, Trajectory) else episode
            )
            T = len(actions)
            chances = rest[0] if rest else np.full(T, np.nan)
            if len(states) != T + 1 or len(rewards) != T or len(chances) != T:
                raise ValueError(
                    f"episodes: number {number} has {len(states)} states, {T} actions, {len(rewards)} rewards and "
                    f"{len(chances)} chances; expected T + 1, T, T and T"
                )
            if T == 0:
                raise ValueError(f"episodes: number {number} has no steps")
            numbers = (_whole_numbers("states", states), _whole_numbers("actions", actions))
            first.append(first[-1] + T)
            parts.append((*numbers, rewards, chances, [bool(terminated)]))
        if not parts:
            raise ValueError("episodes: expected at least one")
        states, actions, rewards, chances, terminated = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(
            np.array(first, np.int64),
            states.astype(np.int32),
            actions.astype(np.int32),
            rewards.astype(np.float64),
            chances.astype(np.float64),
            terminated,
        )

    def check(self, num_states: int, num_actions: int) -> None:
        """ValueError if a number lies outside the table."""
        for name, numbers, count in (("state", self.states, num_states), ("action", self.actions, num_actions)):
            outside = (numbers < 0) | (numbers >= count)
            if outside.any():
                raise ValueError(f"episodes: {name} {numbers[np.argmax(outside)]} is not in 0..{count - 1}")
        if not np.isfinite(self.rewards).all():
            raise ValueError("episodes: rewards must be finite")

    @property
    def origins(self) -> np.ndarray:
        """int32 [K]: the state in which each action was taken."""
        number = np.repeat(np.arange(len(self.terminated)), np.diff(self.first))
        return self.states[np.arange(len(self.actions)) + number]

    def check_available(self, available: np.ndarray) -> None:
        """ValueError if an action was taken in a state that does not have it; `available` is bool [S, A]."""
        missing = ~available[self.origins, self.actions]
        if missing.any():
            step = int(np.argmax(missing))
            raise ValueError(f"episodes: state {self.origins[step]} does not have action {self.actions[step]}")


def _columns(one: Trajectory) -> tuple:
    columns = one.observations, one.actions, one.rewards, one.terminated[-1]
    return columns if one.behaviour_prob is None else (*columns, one.behaviour_prob)


def _whole_numbers(name: str, given: Any) -> np.ndarray:
    """As an array [T] or [T + 1], checked before anything is narrowed to int32."""
    numbers = np.asarray(given)
    if not np.issubdtype(numbers.dtype, np.integer) or numbers.ndim != 1:
        shape = list(numbers.shape[1:]) or ""
        raise ValueError(f"episodes: {name} must be whole numbers, one a step, got {numbers.dtype} {shape}".rstrip())
    limits = np.iinfo(np.int32)
    outside = (numbers < limits.min) | (numbers > limits.max)
    if outside.any():
        raise ValueError(f"episodes: {name[:-1]} {numbers[np.argmax(outside)]} is too large for a table")
    return numbers


class World(NamedTuple):
    """A task as the compiled loops want it."""

    outcomes: Any
    start_states: np.ndarray
    start_cumulative: np.ndarray
    discount: float
    horizon: int


class Buffer(NamedTuple):
    """Room for one episode; the last two are scratch space of the updates."""

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    chances: np.ndarray
    values: np.ndarray
    targets: np.ndarray


@njit(cache=True)
def make_buffer(horizon):
    """A `Buffer` for episodes of up to `horizon` steps."""
    return Buffer(
        np.empty(horizon + 1, np.int32),
        np.empty(horizon, np.int32),
        np.empty(horizon),
        np.empty(horizon),
        np.empty(horizon),
        np.empty(horizon),
    )


@njit(cache=True)
def buffer_for(log):
    """A `Buffer` for the longest of the logged episodes."""
    return make_buffer(np.diff(log.first).max())


@njit(cache=True)
def load(buffer, log, episode):
    """One logged episode into the buffer: (number of steps, whether it terminated)."""
    low, high = log.first[episode], log.first[episode + 1]
    steps = high - low
    buffer.states[: steps + 1] = log.states[low + episode : high + episode + 1]
    buffer.actions[:steps] = log.actions[low:high]
    buffer.rewards[:steps] = log.rewards[low:high]
    buffer.chances[:steps] = log.chances[low:high]
    return steps, log.terminated[episode]


@njit(cache=True)
def choose(q, s, epsilon, random):
    """(a, μ(a | s)) of the ε-greedy policy with ties broken at random; -inf marks actions that s does not have.

    One number decides everything: u < ε explores, and u / ε is then uniform again; so is (u - ε) / (1 - ε) among ties.
    """
    best, ties, available = -np.inf, 0, 0
    for a in range(q.shape[1]):
        value = q[s, a]
        if value > -np.inf:
            available += 1
            if value > best:
                best, ties = value, 1
            elif value == best:
                ties += 1
    if ties == 1 and epsilon == 0.0:
        pick = 0
        explore = False
    else:
        u = random.random()
        explore = u < epsilon
        if explore:
            pick = min(int(u / epsilon * available), available - 1)
        else:
            pick = min(int((u - epsilon) / (1.0 - epsilon) * ties), ties - 1)
    action = 0
    for a in range(q.shape[1]):
        value = q[s, a]
        if value == best or (explore and value > -np.inf):
            if pick == 0:
                action = a
                break
            pick -= 1
    chance = epsilon / available
    if q[s, action] == best:
        chance += (1.0 - epsilon) / ties
    return action, chance


@njit(cache=True)
def act(q, world, epsilon, random, buffer):
    """One ε-greedy episode into the buffer: (number of steps, whether it terminated, discounted return)."""
    first, cumulative, successor, mean, noise = world.outcomes
    states, actions, rewards, chances = buffer.states, buffer.actions, buffer.rewards, buffer.chances
    A, gamma = q.shape[1], world.discount
    s = world.start_states[draw(world.start_cumulative, 0, len(world.start_states), random)]
    total, weight = 0.0, 1.0
    for t in range(world.horizon):
        a, chance = choose(q, s, epsilon, random)
        row = s * A + a
        k = draw(cumulative, first[row], first[row + 1], random)
        reward = mean[k]
        if noise[k] > 0:
            reward += noise[k] * random.standard_normal()
        states[t], actions[t], rewards[t], chances[t] = s, a, reward, chance
        total += weight * reward
        weight *= gamma
        s = successor[k]
        if s == END:
            states[t + 1] = 0  # never read: the episode is over
            return t + 1, True, total
    states[world.horizon] = s
    return world.horizon, False, total

"""The loops: act and learn, only act, only learn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from greedystep.envs.toy import ToyTask
from greedystep.tabular.episodes import Episodes, World, act, make_buffer
from greedystep.tabular.methods import NEEDS_CHANCES, checked_share, checked_whole, parameters_of
from greedystep.tabular.updates import BACKWARD_Q_LEARNING, GREEDY_STEP, diverged, update

CURE = "try a smaller alpha, lambda_ or n"


class Learned(NamedTuple):
    """What `learn` has found, and how it went."""

    q: np.ndarray
    """float64 [S, A]; -inf where the state does not have the action."""
    returns: np.ndarray
    """float64 [episodes]: the discounted return of each episode, exploration included."""
    lengths: np.ndarray
    """int64 [episodes]."""


def learn(
    task: ToyTask,
    method: str = "greedy-step",
    *,
    episodes: int,
    epsilon: float = 0.2,
    q: Any = 0.0,
    seed: int | np.random.Generator = 0,
    **options: Any,
) -> Learned:
    """Act ε-greedily, ties broken at random, and learn from every episode when it is over.

    Args:
        method: one of `METHODS`, where its `options` and their defaults stand too.
        epsilon: ε, the share of actions drawn uniformly.
        q: the table to begin with, float [S, A], or one number for all its entries. Greedy-step never lowers a value,
            so it must begin at or below the optimal ones: `task.lowest_return` where rewards are negative.
        seed: the same seed gives the same numbers; a Generator goes on where it is.

    Raises:
        FloatingPointError: the values grew beyond float64, as those of an uncorrected off-policy method may.
    """
    code, parameters = parameters_of(method, options)
    world, table, random = _world(task), starting_table(task, q), np.random.default_rng(seed)
    returns, lengths = np.empty(checked_whole("episodes", episodes)), np.empty(episodes, np.int64)
    done = _learn(code, parameters, table, world, checked_share("epsilon", epsilon), random, returns, lengths)
    if done < episodes:
        raise FloatingPointError(f"{method}: its values have no bound, and left float64 in episode {done}; {CURE}")
    return Learned(table, returns, lengths)


def collect(
    task: ToyTask, *, episodes: int, epsilon: float = 1.0, q: Any = 0.0, seed: int | np.random.Generator = 0
) -> Episodes:
    """Episodes of the ε-greedy policy of a table that does not change; by default, of the uniformly random one."""
    world, table, random = _world(task), starting_table(task, q), np.random.default_rng(seed)
    return Episodes(
        *_collect(table, world, checked_share("epsilon", epsilon), random, checked_whole("episodes", episodes))
    )


def replay(
    log: Episodes, q: Any, method: str = "greedy-step", *, discount: float, sweeps: int = 1, **options: Any
) -> np.ndarray:
    """The table after learning from logged episodes, in their order, `sweeps` times over.

    Args:
        q: the table to begin with, float [S, A]; it is not changed. -inf marks actions that a state does not have.
            Greedy-step, and backward Q-learning with α = 1, may begin with -inf everywhere: then the pairs that the log
            does not show count as unavailable.
        discount: γ.
    """
    code, parameters = parameters_of(method, options)
    table = np.array(q, np.float64, order="C")
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"q: expected a table [S, A], got shape {list(table.shape)}")
    log.check(*table.shape)
    if not 0 < discount <= 1:
        raise ValueError(f"discount: expected a number in (0, 1], got {discount!r}")
    if method in NEEDS_CHANCES and not (log.chances > 0).all():
        raise ValueError(f"log: {method} needs the behaviour's probability of every action")
    assigns = code == GREEDY_STEP or (code == BACKWARD_Q_LEARNING and parameters.alpha == 1.0)
    if not assigns:
        _check_known(log, table, method)
    if not _replay(code, parameters, table, log, float(discount), checked_whole("sweeps", sweeps), assigns):
        raise FloatingPointError(f"{method}: its values have no bound, and left float64; {CURE}")
    return table


def _check_known(log: Episodes, table: np.ndarray, method: str) -> None:
    number = np.repeat(np.arange(len(log.terminated)), np.diff(log.first))
    pairs = table[log.states[np.arange(len(log.actions)) + number], log.actions]
    # The last state of a terminated episode has no value and may hold anything.
    last = log.states[log.first[1:] + np.arange(len(log.terminated))][~log.terminated]
    if not (np.isfinite(pairs).all() and np.isfinite(table[last].max(axis=1)).all()):
        raise ValueError(f"q: {method} cannot begin with infinite values at pairs that the log shows")


def _world(task: ToyTask) -> World:
    states = np.flatnonzero(task.start)
    cumulative = np.cumsum(task.start[states])
    return World(task.outcomes, states, cumulative, float(task.mdp.discount), task.horizon)


def starting_table(task: ToyTask, q: Any) -> np.ndarray:
    """A new table [S, A] of these values, -inf where a state does not have the action."""
    array = np.asarray(q, np.float64)
    if array.shape not in ((), task.mdp.rewards.shape):
        raise ValueError(f"q: expected one number or {list(task.mdp.rewards.shape)}, got shape {list(array.shape)}")
    table = np.where(task.mdp.available, array, -np.inf)
    if not np.isfinite(table[task.mdp.available]).all():
        raise ValueError("q: values of available actions must be finite")
    return table


# numba's cache watches only the file of the function it stores: after an edit of `updates` or `episodes`, delete
# __pycache__ (or touch this file), or these loops go on running the old code.


@njit(cache=True, nogil=True)
def _learn(method, parameters, q, world, epsilon, random, returns, lengths):
    """The number of episodes before the values left float64: all of them, as a rule."""
    buffer = make_buffer(world.horizon)
    for episode in range(len(returns)):
        steps, terminated, total = act(q, world, epsilon, random, buffer)
        update(method, parameters, q, buffer, steps, terminated, world.discount)
        if diverged(q, buffer, steps):
            return episode
        returns[episode], lengths[episode] = total, steps
    return len(returns)


@njit(cache=True)
def _collect(q, world, epsilon, random, episodes):
    buffer = make_buffer(world.horizon)
    first, terminated = np.zeros(episodes + 1, np.int64), np.empty(episodes, np.bool_)
    room = world.horizon + 1
    states, actions = np.empty(room, np.int32), np.empty(room, np.int32)
    rewards, chances = np.empty(room), np.empty(room)
    for episode in range(episodes):
        steps, terminated[episode], _ = act(q, world, epsilon, random, buffer)
        low, high = first[episode], first[episode] + steps
        if high + episode + 1 > room:
            room = 2 * (high + episode + 1)
            states, actions = _grown(states, room), _grown(actions, room)
            rewards, chances = _grown(rewards, room), _grown(chances, room)
        states[low + episode : high + episode + 1] = buffer.states[: steps + 1]
        actions[low:high] = buffer.actions[:steps]
        rewards[low:high] = buffer.rewards[:steps]
        chances[low:high] = buffer.chances[:steps]
        first[episode + 1] = high
    count = first[-1]
    return first, states[: count + episodes], actions[:count], rewards[:count], chances[:count], terminated


@njit(cache=True)
def _grown(array, room):
    larger = np.empty(room, array.dtype)
    larger[: len(array)] = array
    return larger


@njit(cache=True, nogil=True)
def _replay(method, parameters, q, log, gamma, sweeps, may_be_infinite):
    """Whether all values stayed within float64."""
    buffer = make_buffer(np.diff(log.first).max())
    for _ in range(sweeps):
        for episode in range(len(log.terminated)):
            low, high = log.first[episode], log.first[episode + 1]
            steps = high - low
            buffer.states[: steps + 1] = log.states[low + episode : high + episode + 1]
            buffer.actions[:steps] = log.actions[low:high]
            buffer.rewards[:steps] = log.rewards[low:high]
            buffer.chances[:steps] = log.chances[low:high]
            update(method, parameters, q, buffer, steps, log.terminated[episode], gamma)
            if not may_be_infinite and diverged(q, buffer, steps):
                return False
    return True

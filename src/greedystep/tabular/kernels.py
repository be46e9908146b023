"""The compiled loops behind `loops`: act and learn, only act, only learn."""

from __future__ import annotations

import numpy as np
from numba import njit

from greedystep.tabular.empirical import count_episode, with_room
from greedystep.tabular.episodes import act, make_buffer
from greedystep.tabular.planner import back_up, make_agenda, plan
from greedystep.tabular.updates import diverged, update

# numba's cache watches only the file of the function it stores: after an edit of `updates` or `episodes`, delete
# __pycache__ (or touch this file), or these loops go on running the old code.


@njit(cache=True, nogil=True)
def learn_from_episodes(method, parameters, q, world, epsilon, random, returns, lengths):
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
def collect(q, world, epsilon, random, episodes):
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
def replay(method, parameters, q, log, gamma, sweeps, may_be_infinite):
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


# -- methods that plan on the model of what they have seen ------------------------------------------------------------


@njit(cache=True, nogil=True)
def learn_by_planning(q, counts, world, epsilon, random, returns, lengths):
    """(the number of episodes before the values lost their bound, the counts)."""
    buffer, agenda = make_buffer(world.horizon), make_agenda(q)
    for episode in range(len(returns)):
        steps, terminated, total = act(q, world, epsilon, random, buffer)
        counts = with_room(counts, steps)
        count_episode(counts, buffer, steps, terminated, q.shape[1])
        for t in range(steps - 1, -1, -1):
            back_up(q, counts, agenda, buffer.states[t] * q.shape[1] + buffer.actions[t], world.discount)
        if not plan(q, counts, agenda, world.discount):
            return episode, counts
        returns[episode], lengths[episode] = total, steps
    return len(returns), counts


@njit(cache=True, nogil=True)
def replay_by_planning(q, counts, log, gamma):
    """Whether the values have a bound; the log has been counted already."""
    agenda = make_agenda(q)
    for episode in range(len(log.terminated) - 1, -1, -1):
        for k in range(log.first[episode + 1] - 1, log.first[episode] - 1, -1):
            back_up(q, counts, agenda, log.states[k + episode] * q.shape[1] + log.actions[k], gamma)
    return plan(q, counts, agenda, gamma)

"""The compiled loops behind `loops`: act and learn, only act, only learn.

There are three ways to learn: from one episode at a time and the table alone, from counts of everything seen, and from
all episodes again and again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from greedystep.tabular.branching import look_at_episode
from greedystep.tabular.counts import count_episode, with_room
from greedystep.tabular.episodes import Episodes, act, buffer_for, load, make_buffer
from greedystep.tabular.expected import expected_greedy_step
from greedystep.tabular.planner import back_up, make_agenda, plan
from greedystep.tabular.stored import make_shelf, put, taken_down
from greedystep.tabular.updates import MODEL, diverged, greedy_step_targets, update


@njit(cache=True)
def collect(q, world, epsilon, random, episodes):
    """The arrays of `Episodes`."""
    buffer, shelf = make_buffer(world.horizon), make_shelf(world.horizon + 1)
    for _ in range(episodes):
        steps, terminated, _ = act(q, world, epsilon, random, buffer)
        shelf = _put(shelf, buffer, steps, terminated)
    return taken_down(shelf)


@njit(cache=True)
def _put(shelf, buffer, steps, terminated):
    """The shelf with the episode in the buffer."""
    states, actions = buffer.states[: steps + 1], buffer.actions[:steps]
    return put(shelf, states, actions, buffer.rewards[:steps], buffer.chances[:steps], terminated)


# -- from one episode at a time ---------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def learn_from_episodes(method, parameters, q, seen, world, epsilon, random, returns, lengths):
    """The number of episodes before the values left float64: all of them, as a rule."""
    buffer = make_buffer(world.horizon)
    for episode in range(len(returns)):
        steps, terminated, total = act(q, world, epsilon, random, buffer)
        look_at_episode(seen, buffer, steps, terminated, q.shape[1])
        update(method, parameters, q, buffer, steps, terminated, world.discount)
        if diverged(q, buffer, steps):
            return episode
        returns[episode], lengths[episode] = total, steps
    return len(returns)


@njit(cache=True, nogil=True)
def replay_episodes(method, parameters, q, log, gamma, sweeps, may_be_infinite):
    """Whether all values stayed within float64."""
    buffer = buffer_for(log)
    for _ in range(sweeps):
        for episode in range(len(log.terminated)):
            steps, terminated = load(buffer, log, episode)
            update(method, parameters, q, buffer, steps, terminated, gamma)
            if not may_be_infinite and diverged(q, buffer, steps):
                return False
    return True


# -- from counts ------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def learn_from_counts(method, parameters, q, counts, world, epsilon, random, returns, lengths):
    """(the number of episodes before the values lost their bound, the counts)."""
    buffer, agenda = make_buffer(world.horizon), make_agenda(q)
    for episode in range(len(returns)):
        steps, terminated, total = act(q, world, epsilon, random, buffer)
        counts = with_room(counts, steps)
        count_episode(counts, buffer, steps, terminated, q.shape[1])
        if method == MODEL:
            for t in range(steps - 1, -1, -1):
                back_up(q, counts, agenda, buffer.states[t] * q.shape[1] + buffer.actions[t], world.discount)
            bounded = plan(q, counts, agenda, world.discount)
        else:
            expected_greedy_step(q, counts, buffer, steps, world.discount, parameters.n)
            bounded = not diverged(q, buffer, steps)
        if not bounded:
            return episode, counts
        returns[episode], lengths[episode] = total, steps
    return len(returns), counts


@njit(cache=True, nogil=True)
def replay_counts(method, parameters, q, counts, log, gamma, sweeps):
    """Whether the values have a bound; the log has been counted already. Planning comes to its end in one sweep."""
    buffer, agenda, A = buffer_for(log), make_agenda(q), q.shape[1]
    for _ in range(1 if method == MODEL else sweeps):
        for episode in range(len(log.terminated)):
            steps, _ = load(buffer, log, episode)
            if method == MODEL:
                for t in range(steps - 1, -1, -1):
                    back_up(q, counts, agenda, buffer.states[t] * A + buffer.actions[t], gamma)
            else:
                expected_greedy_step(q, counts, buffer, steps, gamma, parameters.n)
                for t in range(steps):
                    if not q[buffer.states[t], buffer.actions[t]] < np.inf:  # -inf is an answer: it leads nowhere
                        return False
    return plan(q, counts, agenda, gamma)


# -- from all episodes again ------------------------------------------------------------------------------------------


@njit(cache=True)
def revalue(q, log, gamma, horizon, buffer, targets):
    """The paper's literal rule, q(s, a) <- the largest greedy-step return of all stored trajectories from (s, a).

    All returns are those of the table as it was; pairs that are not stored keep their values.
    """
    states, actions = log.states, log.actions
    for episode in range(len(log.terminated)):
        steps, terminated = load(buffer, log, episode)
        greedy_step_targets(q, buffer, steps, terminated, gamma, horizon)
        targets[log.first[episode] : log.first[episode + 1]] = buffer.targets[:steps]
    for episode in range(len(log.terminated)):
        for k in range(log.first[episode], log.first[episode + 1]):
            q[states[k + episode], actions[k]] = -np.inf
    for episode in range(len(log.terminated)):
        for k in range(log.first[episode], log.first[episode + 1]):
            s, a = states[k + episode], actions[k]
            q[s, a] = max(q[s, a], targets[k])


@njit(cache=True, nogil=True)
def learn_from_all(parameters, q, shelf, seen, world, epsilon, random, returns, lengths):
    """(the number of episodes before the values left float64, the shelf with all episodes)."""
    buffer, targets = make_buffer(_longest(shelf, world.horizon)), np.empty(0)
    for episode in range(len(returns)):
        steps, terminated, total = act(q, world, epsilon, random, buffer)
        look_at_episode(seen, buffer, steps, terminated, q.shape[1])
        shelf = _put(shelf, buffer, steps, terminated)
        if len(targets) < len(shelf.actions):
            targets = np.empty(len(shelf.actions))
        revalue(q, Episodes(*taken_down(shelf)), world.discount, parameters.n, buffer, targets)
        if diverged(q, buffer, steps):
            return episode, shelf
        returns[episode], lengths[episode] = total, steps
    return len(returns), shelf


@njit(cache=True)
def _longest(shelf, least):
    """Of the episodes on the shelf, at least `least`."""
    for episode in range(shelf.used[0]):
        least = max(least, shelf.first[episode + 1] - shelf.first[episode])
    return least


@njit(cache=True, nogil=True)
def replay_all(parameters, q, log, gamma, sweeps):
    """Whether the values have a bound; `log` is all that is stored."""
    buffer, targets = buffer_for(log), np.empty(len(log.actions))
    for _ in range(sweeps):
        revalue(q, log, gamma, parameters.n, buffer, targets)
    for episode in range(len(log.terminated)):
        for k in range(log.first[episode], log.first[episode + 1]):
            if not q[log.states[k + episode], log.actions[k]] < np.inf:
                return False
    return True

"""The compiled loops behind `learning`: act and learn, act only, learn only.

Methods learn from the newest episode alone, from transition counts, or from all stored episodes again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from greedystep.tabular.acting import simulate_episode
from greedystep.tabular.episodes import (
    Episodes,
    append_episode,
    buffer_for,
    load_episode,
    make_buffer,
    make_store,
    used_arrays,
)
from greedystep.tabular.model_updates import backup_and_enqueue, expected_greedy_step, make_queue, process_queue
from greedystep.tabular.stochasticity_warning import check_episode
from greedystep.tabular.transition_counts import count_episode, with_capacity
from greedystep.tabular.updates import MODEL, diverged, greedy_step_targets, update


@njit(cache=True)
def collect(q, simulator, epsilon, random, episodes):
    """Simulate episodes with a fixed table; return the arrays of `Episodes`."""
    buffer, store = make_buffer(simulator.horizon), make_store(simulator.horizon + 1)
    for _ in range(episodes):
        steps, terminated, _ = simulate_episode(q, simulator, epsilon, random, buffer)
        store = _append_buffer(store, buffer, steps, terminated)
    return used_arrays(store)


@njit(cache=True)
def _append_buffer(store, buffer, steps, terminated):
    """Return the store with the buffered episode appended."""
    states, actions = buffer.states[: steps + 1], buffer.actions[:steps]
    return append_episode(store, states, actions, buffer.rewards[:steps], buffer.behaviour_prob[:steps], terminated)


# -- from the newest episode ------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def learn_from_episodes(method, parameters, q, first_outcomes, simulator, epsilon, random, returns, lengths):
    """Act and learn; return the number of episodes before the values diverged, usually all."""
    buffer = make_buffer(simulator.horizon)
    for episode in range(len(returns)):
        steps, terminated, total = simulate_episode(q, simulator, epsilon, random, buffer)
        check_episode(first_outcomes, buffer, steps, terminated, q.shape[1])
        update(method, parameters, q, buffer, steps, terminated, simulator.discount)
        if diverged(q, buffer, steps):
            return episode
        returns[episode], lengths[episode] = total, steps
    return len(returns)


@njit(cache=True, nogil=True)
def replay_episodes(method, parameters, q, log, gamma, sweeps, may_be_infinite):
    """Learn from a log; return whether all values stayed finite."""
    buffer = buffer_for(log)
    for _ in range(sweeps):
        for episode in range(len(log.terminated)):
            steps, terminated = load_episode(buffer, log, episode)
            update(method, parameters, q, buffer, steps, terminated, gamma)
            if not may_be_infinite and diverged(q, buffer, steps):
                return False
    return True


# -- from transition counts -------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def learn_from_counts(method, parameters, q, counts, simulator, epsilon, random, returns, lengths):
    """Act and learn with a model; return (the number of episodes before the values diverged, the counts)."""
    buffer, queue = make_buffer(simulator.horizon), make_queue(q)
    for episode in range(len(returns)):
        steps, terminated, total = simulate_episode(q, simulator, epsilon, random, buffer)
        counts = with_capacity(counts, steps)
        count_episode(counts, buffer, steps, terminated, q.shape[1])
        if method == MODEL:
            for t in range(steps - 1, -1, -1):
                backup_and_enqueue(
                    q, counts, queue, buffer.states[t] * q.shape[1] + buffer.actions[t], simulator.discount
                )
            bounded = process_queue(q, counts, queue, simulator.discount)
        else:
            expected_greedy_step(q, counts, buffer, steps, simulator.discount, parameters.n)
            bounded = not diverged(q, buffer, steps)
        if not bounded:
            return episode, counts
        returns[episode], lengths[episode] = total, steps
    return len(returns), counts


@njit(cache=True, nogil=True)
def replay_counts(method, parameters, q, counts, log, gamma, sweeps):
    """Learn from a log that has been counted already; return whether the values stayed bounded."""
    buffer, queue, A = buffer_for(log), make_queue(q), q.shape[1]
    for _ in range(1 if method == MODEL else sweeps):  # planning converges in one sweep
        for episode in range(len(log.terminated)):
            steps, _ = load_episode(buffer, log, episode)
            if method == MODEL:
                for t in range(steps - 1, -1, -1):
                    backup_and_enqueue(q, counts, queue, buffer.states[t] * A + buffer.actions[t], gamma)
            else:
                expected_greedy_step(q, counts, buffer, steps, gamma, parameters.n)
                for t in range(steps):
                    if not q[buffer.states[t], buffer.actions[t]] < np.inf:  # -inf is allowed: a dead end
                        return False
    return process_queue(q, counts, queue, gamma)


# -- from all stored episodes -----------------------------------------------------------------------------------------


@njit(cache=True)
def assign_best_returns(q, log, gamma, horizon, buffer, targets):
    """The paper's literal rule: q(s, a) <- the largest greedy-step return of all stored trajectories from (s, a).

    All returns are computed from the table before the update; pairs that are not stored keep their values.
    """
    states, actions = log.states, log.actions
    for episode in range(len(log.terminated)):
        steps, terminated = load_episode(buffer, log, episode)
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
def learn_from_all(parameters, q, store, first_outcomes, simulator, epsilon, random, returns, lengths):
    """Act and learn from all episodes so far; return (episodes before the values diverged, the store)."""
    buffer, targets = make_buffer(_longest(store, simulator.horizon)), np.empty(0)
    for episode in range(len(returns)):
        steps, terminated, total = simulate_episode(q, simulator, epsilon, random, buffer)
        check_episode(first_outcomes, buffer, steps, terminated, q.shape[1])
        store = _append_buffer(store, buffer, steps, terminated)
        if len(targets) < len(store.actions):
            targets = np.empty(len(store.actions))
        assign_best_returns(q, Episodes(*used_arrays(store)), simulator.discount, parameters.n, buffer, targets)
        if diverged(q, buffer, steps):
            return episode, store
        returns[episode], lengths[episode] = total, steps
    return len(returns), store


@njit(cache=True)
def _longest(store, least):
    """Return the length of the longest stored episode, at least `least`."""
    for episode in range(store.used[0]):
        least = max(least, store.first[episode + 1] - store.first[episode])
    return least


@njit(cache=True, nogil=True)
def replay_all(parameters, q, log, gamma, sweeps):
    """Learn from all stored episodes; return whether the values stayed bounded."""
    buffer, targets = buffer_for(log), np.empty(len(log.actions))
    for _ in range(sweeps):
        assign_best_returns(q, log, gamma, parameters.n, buffer, targets)
    for episode in range(len(log.terminated)):
        for k in range(log.first[episode], log.first[episode + 1]):
            if not q[log.states[k + episode], log.actions[k]] < np.inf:
                return False
    return True

"""Acting on the tables of a task: the ε-greedy policy and the simulation of one episode, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from greedystep.checks import check_memory
from greedystep.envs.toy_task import END, Outcomes, ToyTask

BYTES_PER_STEP = 40  # bytes of an `EpisodeBuffer` per step; it holds the longest episode


class Simulator(NamedTuple):
    """Tables of a task from which compiled loops simulate episodes."""

    outcomes: Outcomes
    start_states: np.ndarray  # int64: the states with a positive start probability
    start_cumulative: np.ndarray  # float64: their cumulative probabilities
    discount: float
    horizon: int


def make_simulator(task: ToyTask) -> Simulator:
    """Return the simulator of a task; MemoryError if its longest episode does not fit in memory."""
    check_episode_memory(task)
    states = np.flatnonzero(task.start)
    return Simulator(task.outcomes, states, np.cumsum(task.start[states]), float(task.mdp.discount), task.horizon)


def check_episode_memory(task: ToyTask) -> None:
    """Raise MemoryError if the longest episode of the task does not fit in memory."""
    check_memory(f"horizon={task.horizon}", BYTES_PER_STEP * task.horizon)


@njit(cache=True)
def draw(cumulative, low, high, random):
    """Draw an index from low..high-1 with these cumulative probabilities; a single one uses no random number."""
    k = low
    if high - low > 1:
        u = random.random()
        while k < high - 1 and u >= cumulative[k]:
            k += 1
    return k


@njit(cache=True)
def epsilon_greedy(q, s, epsilon, random):
    """Sample an action from the ε-greedy policy; return (a, μ(a | s)). Ties are broken at random; -inf is unavailable.

    One uniform number u decides: u < ε explores, and u / ε is then uniform again; so is (u - ε) / (1 - ε) among ties.
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
    probability = epsilon / available
    if q[s, action] == best:
        probability += (1.0 - epsilon) / ties
    return action, probability


@njit(cache=True)
def simulate_episode(q, simulator, epsilon, random, buffer):
    """Simulate one ε-greedy episode into the buffer; return (steps, whether it terminated, discounted return)."""
    first, cumulative, successor, mean, noise = simulator.outcomes
    states, actions, rewards, behaviour_prob = buffer.states, buffer.actions, buffer.rewards, buffer.behaviour_prob
    A, gamma = q.shape[1], simulator.discount
    s = simulator.start_states[draw(simulator.start_cumulative, 0, len(simulator.start_states), random)]
    total, weight = 0.0, 1.0
    for t in range(simulator.horizon):
        a, probability = epsilon_greedy(q, s, epsilon, random)
        row = s * A + a
        k = draw(cumulative, first[row], first[row + 1], random)
        reward = mean[k]
        if noise[k] > 0:
            reward += noise[k] * random.standard_normal()
        states[t], actions[t], rewards[t], behaviour_prob[t] = s, a, reward, probability
        total += weight * reward
        weight *= gamma
        s = successor[k]
        if s == END:
            states[t + 1] = 0  # never read: the episode is over
            return t + 1, True, total
    states[simulator.horizon] = s
    return simulator.horizon, False, total

"""The compiled loop of RUDDER: act, store, train the LSTM periodically, learn from redistributed returns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from greedystep.tabular.acting import simulate_episode
from greedystep.tabular.episodes import make_buffer
from greedystep.tabular.rudder_lstm import adam_step, add_gradient, initial_parameters, make_workspace, predict

UNITS, RATE, DECAY, BATCH = 16, 1e-2, 1e-6, 8
"""The LSTM's units, Adam's learning rate and weight decay, episodes per update."""
CAPACITY, WARM_UP, TRAIN_EVERY = 2048, 256, 25
"""Episodes that are kept, before the first training, and between two trainings."""
START_ERROR, GOOD_ERROR, ERROR_RATE = 0.3, 0.15, 0.01
"""The running mean of the squared error: its start, where training stops, its step size."""
FIRST_UPDATES, MORE_UPDATES = 1000, 100
"""The most updates of the first training and of a later one: noisy returns may never be predicted well enough."""

STORED, SEEN, TRAINED, UPDATES, VARIED = range(5)
SCALE, ERROR = range(2)  # indices into `RudderState.numbers` and `RudderState.levels`


class RudderState(NamedTuple):
    """The newest episodes, the network and its optimiser."""

    states: np.ndarray  # int32 [CAPACITY, T + 1]
    actions: np.ndarray  # int32 [CAPACITY, T]
    lengths: np.ndarray  # int64 [CAPACITY]
    returns: np.ndarray  # float64 [CAPACITY]
    theta: np.ndarray  # float64 [P]: the parameters of the network
    first: np.ndarray  # float64 [P]: Adam's mean of the gradient
    second: np.ndarray  # float64 [P]: Adam's mean of the squared gradient
    numbers: np.ndarray  # int64 [5]: episodes STORED and SEEN, times TRAINED, UPDATES of θ, whether returns VARIED
    levels: np.ndarray  # float64 [2]: the SCALE of returns and the running mean of the squared ERROR, in scaled units


def make_state(horizon: int, parameters: int) -> RudderState:
    """Return the state of an untrained learner without episodes."""
    return RudderState(
        np.zeros((CAPACITY, horizon + 1), np.int32),
        np.zeros((CAPACITY, horizon), np.int32),
        np.zeros(CAPACITY, np.int64),
        np.zeros(CAPACITY),
        np.zeros(parameters),
        np.zeros(parameters),
        np.zeros(parameters),
        np.zeros(5, np.int64),
        np.array([1.0, START_ERROR]),
    )


@njit(cache=True, nogil=True)
def learn_episodes(state, q, features, simulator, epsilon, alpha, random, returns):
    """Act and learn for as many episodes as `returns` has entries."""
    buffer, numbers = make_buffer(simulator.horizon), state.numbers
    work, x = make_workspace_and_inputs(simulator.horizon, q.shape[1], features)
    for episode in range(len(returns)):
        steps, _, total = simulate_episode(q, simulator, epsilon, random, buffer)
        returns[episode] = total
        _store_episode(state, buffer, steps, total)
        ready = numbers[STORED] > WARM_UP and numbers[VARIED] > 0
        if ready and (numbers[TRAINED] == 0 or numbers[SEEN] % TRAIN_EVERY == 0):
            _train(state, q.shape[1], features, simulator.horizon, work, x, random)
        if numbers[TRAINED] > 0:
            encode_episode(buffer.states, buffer.actions, steps, simulator.horizon, features, x)
            redistribute_return(state, x, steps, total, work, buffer.targets)
            for t in range(steps):
                s, a = buffer.states[t], buffer.actions[t]
                q[s, a] += alpha * (buffer.targets[t] - q[s, a])


@njit(cache=True, nogil=True)
def make_workspace_and_inputs(horizon, num_actions, features):
    """Return a workspace and the inputs x [T, F] of one episode."""
    return make_workspace(horizon, UNITS), np.empty((horizon, num_actions + features.shape[1] + 1))


@njit(cache=True, nogil=True)
def _store_episode(state, buffer, steps, total):
    """Store the buffered episode in place of the oldest."""
    numbers = state.numbers
    if numbers[STORED] > 0 and total != state.returns[(numbers[SEEN] - 1) % CAPACITY]:
        numbers[VARIED] = 1
    place = numbers[SEEN] % CAPACITY
    state.states[place, : steps + 1] = buffer.states[: steps + 1]
    state.actions[place, :steps] = buffer.actions[:steps]
    state.lengths[place], state.returns[place] = steps, total
    numbers[SEEN] += 1
    numbers[STORED] = min(numbers[SEEN], CAPACITY)


@njit(cache=True, nogil=True)
def encode_episode(states, actions, steps, horizon, features, x):
    """Fill x_t: the action one-hot, the change of the features (0 at the end), the share of the horizon elapsed."""
    A, K = x.shape[1] - features.shape[1] - 1, features.shape[1]
    for t in range(steps):
        x[t, :A] = 0.0
        x[t, actions[t]] = 1.0
        for f in range(K):
            x[t, A + f] = features[states[t + 1], f] - features[states[t], f] if t < steps - 1 else 0.0
        x[t, A + K] = (t + 1) / horizon


@njit(cache=True, nogil=True)
def _train(state, num_actions, features, horizon, work, x, random):
    """Update the LSTM on random batches until the running error is low enough, or the most updates are done."""
    numbers, levels = state.numbers, state.levels
    if numbers[TRAINED] == 0:
        known = state.returns[: numbers[STORED]]
        levels[SCALE] = known.std()
        state.theta[:] = initial_parameters(x.shape[1], UNITS, known.mean() / levels[SCALE], random)
    gradient = np.empty_like(state.theta)
    for _ in range(FIRST_UPDATES if numbers[TRAINED] == 0 else MORE_UPDATES):
        gradient[:] = 0.0
        error = 0.0
        for _ in range(BATCH):
            e = int(random.random() * numbers[STORED])
            encode_episode(state.states[e], state.actions[e], state.lengths[e], horizon, features, x)
            error += add_gradient(state.theta, x, state.lengths[e], state.returns[e] / levels[SCALE], work, gradient)
        gradient /= BATCH
        error /= BATCH
        numbers[UPDATES] += 1
        adam_step(state.theta, gradient, state.first, state.second, numbers[UPDATES], RATE, DECAY)
        levels[ERROR] += ERROR_RATE * (error - levels[ERROR])
        if error > 2.0 * levels[ERROR]:
            levels[ERROR] = error  # the network has more to learn than the running mean says
        if levels[ERROR] < GOOD_ERROR:
            break
    numbers[TRAINED] += 1


@njit(cache=True, nogil=True)
def redistribute_return(state, x, steps, total, work, rewards):
    """Write R_t of the episode with inputs x and return `total` into `rewards`."""
    predict(state.theta, x, steps, work)
    scale, g = state.levels[SCALE], work.predictions
    missing = (total - scale * g[steps - 1]) / steps
    for t in range(steps):
        rewards[t] = scale * (g[t] - (g[t - 1] if t > 0 else 0.0)) + missing

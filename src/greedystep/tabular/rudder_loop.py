"""RUDDER's loop: act, store, train the LSTM now and then, learn from redistributed returns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from greedystep.tabular.episodes import act, make_buffer
from greedystep.tabular.rudder_lstm import adam, add_gradient, fresh, make_workspace, predict

UNITS, RATE, DECAY, BATCH = 16, 1e-2, 1e-6, 8
"""Of the LSTM: units, step and weight decay of Adam, episodes an update."""
ROOM, WARM_UP, EVERY = 2048, 256, 25
"""Episodes that are kept, that come before the first training, and between two trainings."""
START_ERROR, GOOD_ERROR, ERROR_RATE = 0.3, 0.15, 0.01
"""The running mean of the squared error: where it begins, where training stops, its step."""
FIRST_UPDATES, MORE_UPDATES = 1000, 100
"""Where the first training and a later one end at the latest: noisy returns may never be predicted well enough."""

STORED, SEEN, TRAINED, UPDATES, VARIED = range(5)
SCALE, ERROR = range(2)
"""Places in `Store.numbers` and `Store.levels`."""


class Store(NamedTuple):
    """The last episodes, the network and its optimiser."""

    states: np.ndarray
    """int32 [ROOM, T + 1]."""
    actions: np.ndarray
    """int32 [ROOM, T]."""
    lengths: np.ndarray
    """int64 [ROOM]."""
    returns: np.ndarray
    """float64 [ROOM]."""
    theta: np.ndarray
    """float64 [P]: the network."""
    first: np.ndarray
    """float64 [P]: Adam's mean of the gradient."""
    second: np.ndarray
    """float64 [P]: and of its square."""
    numbers: np.ndarray
    """int64 [5]: episodes STORED and SEEN, times TRAINED, UPDATES of θ, whether returns VARIED."""
    levels: np.ndarray
    """float64 [2]: the SCALE of returns and the running mean of the squared ERROR, in scaled units."""


def make_store(horizon: int, parameters: int) -> Store:
    """An empty one."""
    return Store(
        np.zeros((ROOM, horizon + 1), np.int32),
        np.zeros((ROOM, horizon), np.int32),
        np.zeros(ROOM, np.int64),
        np.zeros(ROOM),
        np.zeros(parameters),
        np.zeros(parameters),
        np.zeros(parameters),
        np.zeros(5, np.int64),
        np.array([1.0, START_ERROR]),
    )


@njit(cache=True, nogil=True)
def go_on(store, q, features, world, epsilon, alpha, random, returns):
    """So many more episodes as there is room for their returns."""
    buffer, numbers = make_buffer(world.horizon), store.numbers
    work, x = make_room(world.horizon, q.shape[1], features)
    for episode in range(len(returns)):
        steps, _, total = act(q, world, epsilon, random, buffer)
        returns[episode] = total
        _keep(store, buffer, steps, total)
        ready = numbers[STORED] > WARM_UP and numbers[VARIED] > 0
        if ready and (numbers[TRAINED] == 0 or numbers[SEEN] % EVERY == 0):
            _train(store, q.shape[1], features, world.horizon, work, x, random)
        if numbers[TRAINED] > 0:
            encode(buffer.states, buffer.actions, steps, world.horizon, features, x)
            share_out(store, x, steps, total, work, buffer.targets)
            for t in range(steps):
                s, a = buffer.states[t], buffer.actions[t]
                q[s, a] += alpha * (buffer.targets[t] - q[s, a])


@njit(cache=True, nogil=True)
def make_room(horizon, num_actions, features):
    """A workspace, and the inputs x [T, F] of one episode."""
    return make_workspace(horizon, UNITS), np.empty((horizon, num_actions + features.shape[1] + 1))


@njit(cache=True, nogil=True)
def _keep(store, buffer, steps, total):
    """Store an episode in the place of the oldest."""
    numbers = store.numbers
    if numbers[STORED] > 0 and total != store.returns[(numbers[SEEN] - 1) % ROOM]:
        numbers[VARIED] = 1
    place = numbers[SEEN] % ROOM
    store.states[place, : steps + 1] = buffer.states[: steps + 1]
    store.actions[place, :steps] = buffer.actions[:steps]
    store.lengths[place], store.returns[place] = steps, total
    numbers[SEEN] += 1
    numbers[STORED] = min(numbers[SEEN], ROOM)


@njit(cache=True, nogil=True)
def encode(states, actions, steps, horizon, features, x):
    """x_t: the action, one-hot; how it changed the features (the end changes none); the share of the time gone."""
    A, K = x.shape[1] - features.shape[1] - 1, features.shape[1]
    for t in range(steps):
        x[t, :A] = 0.0
        x[t, actions[t]] = 1.0
        for f in range(K):
            x[t, A + f] = features[states[t + 1], f] - features[states[t], f] if t < steps - 1 else 0.0
        x[t, A + K] = (t + 1) / horizon


@njit(cache=True, nogil=True)
def _train(store, num_actions, features, horizon, work, x, random):
    """Updates on random batches until the running error is good, or patience is at its end."""
    numbers, levels = store.numbers, store.levels
    if numbers[TRAINED] == 0:
        known = store.returns[: numbers[STORED]]
        levels[SCALE] = known.std()
        store.theta[:] = fresh(x.shape[1], UNITS, known.mean() / levels[SCALE], random)
    gradient = np.empty_like(store.theta)
    for _ in range(FIRST_UPDATES if numbers[TRAINED] == 0 else MORE_UPDATES):
        gradient[:] = 0.0
        error = 0.0
        for _ in range(BATCH):
            e = int(random.random() * numbers[STORED])
            encode(store.states[e], store.actions[e], store.lengths[e], horizon, features, x)
            error += add_gradient(store.theta, x, store.lengths[e], store.returns[e] / levels[SCALE], work, gradient)
        gradient /= BATCH
        error /= BATCH
        numbers[UPDATES] += 1
        adam(store.theta, gradient, store.first, store.second, numbers[UPDATES], RATE, DECAY)
        levels[ERROR] += ERROR_RATE * (error - levels[ERROR])
        if error > 2.0 * levels[ERROR]:
            levels[ERROR] = error  # a surprise: the network has more to learn than it seemed
        if levels[ERROR] < GOOD_ERROR:
            break
    numbers[TRAINED] += 1


@njit(cache=True, nogil=True)
def share_out(store, x, steps, total, work, shares):
    """R_t of the episode with inputs x and return `total`, into `shares`."""
    predict(store.theta, x, steps, work)
    scale, g = store.levels[SCALE], work.predictions
    missing = (total - scale * g[steps - 1]) / steps
    for t in range(steps):
        shares[t] = scale * (g[t] - (g[t - 1] if t > 0 else 0.0)) + missing

"""RUDDER (Arjona-Medina et al. 2019) on the toy tasks: an LSTM learns which step earned the return.

Every episode is stored. An LSTM (`rudder_lstm`) learns to predict the return G of an episode from its steps, after each
of them. How much a step has changed the prediction is its share of the return:

    R_t = g_t - g_{t-1} + (G - g_{T-1}) / T,   g_{-1} = 0,   so that Σ_t R_t = G exactly (return equality),

and the table learns this immediate reward alone, q(s_t, a_t) <- q + α (R_t - q): if the redistribution is optimal, no
reward is left to expect afterwards. The table stays as it is until the first training, so with equal entries the
episodes until then are uniformly random.

This is a reconstruction, since the code of RUDDER's own artificial tasks is not published. From its published
demonstration on the watch-repair task: network, loss, buffer and training rule (the constants below). From its paper: a
step's input is its action with the change of state that this action made, and the correction for return equality. Ours:
returns are scaled by their standard deviation at the first training (the demonstration's 10 suits its own task), a
training ends after FIRST_UPDATES or MORE_UPDATES if the error stays too high, α = 0.1, and `features_of`. There is no
lessons buffer and no safe exploration, neither of which its artificial tasks used as far as we know.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from greedystep import models
from greedystep.checks import check_float, check_int
from greedystep.envs import ToyTask, as_task
from greedystep.tabular.acting import make_simulator, simulate_episode
from greedystep.tabular.episodes import make_buffer
from greedystep.tabular.learning import Task, initial_table
from greedystep.tabular.rudder_lstm import (
    adam_step,
    add_gradient,
    initial_parameters,
    make_workspace,
    num_parameters,
    predict,
)
from greedystep.tabular.time_to_solve import until_solved

UNITS, RATE, DECAY, BATCH = 16, 1e-2, 1e-6, 8
"""The LSTM's units, Adam's learning rate and weight decay, episodes per update."""
CAPACITY, WARM_UP, TRAIN_EVERY = 2048, 256, 25
"""Episodes kept; before the first training (which also waits until two returns differ); between two trainings."""
START_ERROR, GOOD_ERROR, ERROR_RATE = 0.3, 0.15, 0.01
"""Running mean of the squared error: its initial value, the value at which training stops, its step size."""
FIRST_UPDATES, MORE_UPDATES = 1000, 100
"""Most updates of the first training and of a later one, since noisy returns may never be predicted well enough."""


class Rudder:
    """A RUDDER learner on one toy task.

    Args:
        task: with discount 1, since undiscounted returns are redistributed: a name, a `ToyTask` or its environment.
        features: float [S, K], features of states, whose changes the LSTM sees; `features_of(task)` by default.
        epsilon: share of random actions while learning.
        q: the table to begin with, float [S, A], or one number.
        alpha: step size of the table.
        seed: seed of all random numbers.
    """

    q: np.ndarray
    """float64 [S, A]: the expected redistributed reward of each action."""

    def __init__(
        self,
        task: Task,
        features: np.ndarray | None = None,
        *,
        epsilon: float = 0.2,
        q: Any = 0.0,
        alpha: float = 0.1,
        seed: int | np.random.Generator = 0,
    ):
        task = as_task(task)
        if task.mdp.discount != 1.0:
            raise ValueError(f"task: RUDDER redistributes undiscounted returns, {task.name} has {task.mdp.discount}")
        self.features = features_of(task) if features is None else np.ascontiguousarray(features, np.float64)
        if self.features.ndim != 2 or len(self.features) != task.num_states:
            got = list(self.features.shape)
            raise ValueError(f"features: expected [{task.num_states}, K] for {task.name}, got {got}")
        self.q, self.episodes = initial_table(task.mdp.available, q), 0
        self._simulator, self._random = make_simulator(task), np.random.default_rng(seed)
        self._epsilon = check_float("epsilon", epsilon, 0, 1)
        self._alpha = check_float("alpha", alpha, 0, 1, above=True)
        inputs = task.num_actions + self.features.shape[1] + 1
        self._state = make_state(task.horizon, num_parameters(inputs, UNITS))

    def learn(self, episodes: int) -> np.ndarray:
        """Act and learn for `episodes` more episodes; return their returns, float [episodes]."""
        returns = np.empty(check_int("episodes", episodes))
        how = self._simulator, self._epsilon, self._alpha, self._random
        learn_episodes(self._state, self.q, self.features, *how, returns)
        self.episodes += episodes
        return returns

    def redistribute(self, states: Any, actions: Any, total: float) -> np.ndarray:
        """Return the redistributed rewards R_t, float [T], of a terminated episode: states [T], actions [T], return."""
        if not self._state.numbers[TRAINED]:
            raise ValueError("redistribute: the network has not been trained yet")
        buffer = make_buffer(len(actions))
        buffer.states[:-1], buffer.actions[:] = states, actions
        work, x = make_workspace_and_inputs(len(actions), self.q.shape[1], self.features)
        encode_episode(buffer.states, buffer.actions, len(actions), self._simulator.horizon, self.features, x)
        redistribute_return(self._state, x, len(actions), total, work, buffer.targets)
        return buffer.targets


def rudder_episodes_to_solve(
    task: Task, *, limit: int, resolution: float = 0.02, seed: int | np.random.Generator = 0, **options: Any
) -> int | None:
    """Return what `episodes_to_solve` does, for a RUDDER learner; `options` are those of `Rudder`."""
    learner = Rudder(task, seed=seed, **options)

    def more(episodes: int) -> np.ndarray:
        learner.learn(episodes)
        return learner.q

    return until_solved(task, more, limit=limit, resolution=resolution)


def features_of(task: ToyTask) -> np.ndarray:
    """Return features of states, float [S, K]: the choice in Choice; row, column and pending reward in Trace Back.

    The time is an input of its own. Other tasks have no such description here: give `features` yourself.
    """
    if task.name == "toy/choice":
        chosen = np.zeros((task.num_states, 1))
        chosen[1::2], chosen[2::2] = 1.0, -1.0
        return chosen
    if task.name == "toy/trace-back":
        side = 3 * task.horizon // 4
        centre = np.array([side // 2, side // 2])
        cells = np.stack(np.divmod(np.arange(side * side), side), axis=1)
        early = np.vstack([centre, np.clip(centre + models.MOVES, 0, side - 1)])
        place = np.vstack([early, np.tile(cells, (2 * (task.horizon - 2), 1))]) / side
        pending = np.concatenate([np.zeros(5), np.tile(np.repeat([0.0, 1.0], side * side), task.horizon - 2)])
        return np.column_stack([place, pending])
    raise ValueError(f"features: {task.name} has none of its own; give float [{task.num_states}, K]")


# -- compiled loops ---------------------------------------------------------------------------------------------------

STORED, SEEN, TRAINED, UPDATES, VARIED = range(5)
SCALE, ERROR = range(2)  # indices into `RudderState.numbers` and `RudderState.levels`


class RudderState(NamedTuple):
    """What a RUDDER learner keeps: the newest episodes, the network and its optimiser."""

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
    """Return the state of a learner that has no episodes and whose network is not initialised."""
    states, actions = np.zeros((CAPACITY, horizon + 1), np.int32), np.zeros((CAPACITY, horizon), np.int32)
    theta, first, second = np.zeros((3, parameters))
    lengths, returns, numbers = np.zeros(CAPACITY, np.int64), np.zeros(CAPACITY), np.zeros(5, np.int64)
    return RudderState(states, actions, lengths, returns, theta, first, second, numbers, np.array([1.0, START_ERROR]))


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
    """Return a workspace of the LSTM and an array for the inputs x [T, F] of one episode."""
    return make_workspace(horizon, UNITS), np.empty((horizon, num_actions + features.shape[1] + 1))


@njit(cache=True, nogil=True)
def _store_episode(state, buffer, steps, total):
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
    """Fill the inputs x_t: one-hot action, change of the features (0 at the end), share of the horizon elapsed."""
    A, K = x.shape[1] - features.shape[1] - 1, features.shape[1]
    for t in range(steps):
        x[t, :A] = 0.0
        x[t, actions[t]] = 1.0
        for f in range(K):
            x[t, A + f] = features[states[t + 1], f] - features[states[t], f] if t < steps - 1 else 0.0
        x[t, A + K] = (t + 1) / horizon


@njit(cache=True, nogil=True)
def _train(state, num_actions, features, horizon, work, x, random):
    """Update the LSTM on random batches until the running error is low enough, or the most updates are made."""
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

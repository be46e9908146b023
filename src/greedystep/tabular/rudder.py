"""RUDDER (Arjona-Medina et al. 2019) on the toy tasks: an LSTM learns which step earned the return.

Every episode is stored. An LSTM (`rudder_lstm`) learns to predict the return G of an episode from its steps, after each
of them. How much a step has changed the prediction is its share of the return:

    R_t = g_t - g_{t-1} + (G - g_{T-1}) / T,   g_{-1} = 0,   so that Σ_t R_t = G exactly (return equality),

and the table learns this immediate reward alone, q(s_t, a_t) <- q + α (R_t - q): if the redistribution is optimal, no
reward is left to expect afterwards.

This is a reconstruction. The code of RUDDER's own artificial tasks is not published. Network, loss, buffer and training
rule follow its published demonstration on the watch-repair task: 16 units, Adam with step 0.01 and weight decay 1e-6,
batches of 8 from the last 2048 episodes, first training after 256 episodes once two different returns were seen, then
every 25 episodes until a running mean of the squared error is below 0.15. As in RUDDER's paper, and not in that
demonstration, a step's input is its action with the change of state that this action made, and the correction for
return equality is there. Ours are: returns are scaled by their standard deviation at the first training (the
demonstration's 10 suits its own task), a training ends after 1000 updates at first and 100 later on if the error stays
higher, α = 0.1, and the features below. There is no lessons buffer and no safe exploration, neither of which its
artificial tasks used as far as we know.

The table stays as it is until the first training, so with equal entries the first 256 episodes are uniformly random.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep import models
from greedystep.checks import check_float, check_int
from greedystep.envs import ToyTask, as_task
from greedystep.tabular.acting import make_simulator
from greedystep.tabular.episodes import make_buffer
from greedystep.tabular.learning import Task, initial_table
from greedystep.tabular.rudder_loop import (
    TRAINED,
    UNITS,
    encode_episode,
    learn_episodes,
    make_state,
    make_workspace_and_inputs,
    redistribute_return,
)
from greedystep.tabular.rudder_lstm import num_parameters
from greedystep.tabular.time_to_solve import until_solved


class Rudder:
    """A RUDDER learner on one toy task.

    Args:
        task: with discount 1, since undiscounted returns are redistributed: a name, a `ToyTask` or its environment.
        features: float [S, K], what the LSTM sees of a state, by its changes; `features_of(task)` by default.
        epsilon: share of random actions while learning.
        q: the table to begin with, float [S, A], or one number.
        alpha: step size of the table.
        seed: of everything random.
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
            raise ValueError(
                f"features: expected [{task.num_states}, K] for {task.name}, got {list(self.features.shape)}"
            )
        self.q, self.episodes = initial_table(task.mdp.available, q), 0
        self._simulator, self._random = make_simulator(task), np.random.default_rng(seed)
        self._epsilon, self._alpha = (
            check_float("epsilon", epsilon, 0, 1),
            check_float("alpha", alpha, 0, 1, above=True),
        )
        inputs = task.num_actions + self.features.shape[1] + 1
        self._state = make_state(task.horizon, num_parameters(inputs, UNITS))

    def learn(self, episodes: int) -> np.ndarray:
        """Act and learn for so many more episodes; return their returns, float [episodes]."""
        returns = np.empty(check_int("episodes", episodes))
        learn_episodes(
            self._state, self.q, self.features, self._simulator, self._epsilon, self._alpha, self._random, returns
        )
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
    """`episodes_to_solve` for RUDDER; `options` are those of `Rudder`."""
    learner = Rudder(task, seed=seed, **options)

    def more(episodes: int) -> np.ndarray:
        learner.learn(episodes)
        return learner.q

    return until_solved(task, more, limit=limit, resolution=resolution)


def features_of(task: ToyTask) -> np.ndarray:
    """Return the LSTM's features of a state: the choice in Choice; row, column and pending reward in Trace Back.

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

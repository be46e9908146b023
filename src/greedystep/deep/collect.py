"""Play episodes with trained networks and keep every step: datasets made by our own agents."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.checks import INT32_MAX, check_float, check_int, check_seed
from greedystep.deep.env_spec import AnyEnvironment
from greedystep.deep.lane_devices import one_lane
from greedystep.deep.train_loop import epsilon_greedy
from greedystep.deep.trainer import Trainer
from greedystep.envs.core import Environment
from greedystep.envs.host import HostEnvironment
from greedystep.envs.host_envs import HostEnvs
from greedystep.envs.host_evaluation import SIDE_BY_SIDE
from greedystep.evaluation import MAX_STEPS
from greedystep.trajectory import Trajectory


def collect(
    trainer: Trainer,
    episodes: int = 100,
    epsilon: float = 0.0,
    *,
    lane: int = 0,
    seed: int = 0,
    limit: int = MAX_STEPS,
    env: AnyEnvironment | None = None,
) -> list[Trajectory]:
    """Play whole episodes with the ε-greedy policy of one lane, and return them with their behaviour probabilities.

    Args:
        lane: which of the trainer's side-by-side trainings plays.
        limit: steps after which an episode is truncated.
        env: another environment to play in, of the same observations and actions.
    """
    check_int("episodes", episodes, 1, INT32_MAX)
    check_int("limit", limit, 1, INT32_MAX)
    check_int("lane", lane, 0, len(trainer.seeds) - 1)
    epsilon, seed = check_float("epsilon", epsilon, 0, 1), check_seed(seed)
    params = one_lane(trainer.params, lane)

    @jax.jit
    def act(key: jax.Array, observations: jax.Array) -> tuple[jax.Array, jax.Array]:
        return epsilon_greedy(key, trainer.learner.acting_q(params, observations), jnp.float32(epsilon))

    env, count = env or trainer.env, min(episodes, SIDE_BY_SIDE)
    if isinstance(env, HostEnvironment):
        count = env.fixed_num_envs or count
        players: Any = OnHost(env.open(count), seed)
    else:
        players = OnDevice(env, count, seed)
    try:
        with trainer.env_lent():
            return play(players, act, episodes, limit, jax.random.key(seed))
    finally:
        if isinstance(env, HostEnvironment) and env.fixed_num_envs is None:
            players.envs.close()


def play(players: Any, act: Any, episodes: int, limit: int, key: jax.Array) -> list[Trajectory]:
    """Play whole episodes, each player its share of them, so that short ones do not count more.

    Args:
        players: N environments, `OnHost` or `OnDevice`.
        act: the policy: (key, observations [N, ...]) -> actions [N] and their probabilities [N].
    """
    n = players.count
    left = [episodes // n + (i < episodes % n) for i in range(n)]
    seen, found = players.start(), []
    columns: list[list[tuple]] = [[] for _ in range(n)]
    while any(left):
        key, use = jax.random.split(key)
        action, probability = map(np.asarray, act(use, seen))
        reward, terminated, truncated, last = players.step(action)
        over = terminated | truncated | (np.array([len(column) + 1 for column in columns]) >= limit)
        for i in range(n):
            columns[i].append((seen[i], action[i], reward[i], probability[i]))
            if over[i]:
                if left[i]:
                    found.append(_trajectory(columns[i], last[i], bool(terminated[i])))
                    left[i] -= 1
                columns[i] = []
        seen = players.restart(over) if over.any() else last
    return found


def _trajectory(steps: list[tuple], last: np.ndarray, terminated: bool) -> Trajectory:
    seen, action, reward, probability = (np.array(column) for column in zip(*steps, strict=True))
    is_last = np.arange(len(steps)) == len(steps) - 1
    ends = (is_last & terminated, is_last & (not terminated))
    return Trajectory(np.concatenate([seen, last[None]]), action, reward, *ends, behaviour_prob=probability)


class OnHost:
    """Gymnasium environments, stepped on the host, for `play`."""

    def __init__(self, envs: HostEnvs, seed: int):
        if not envs.can_restore:
            raise ValueError("env: it resets itself, so that its episodes cannot be counted; give another one")
        self.envs, self.count, self._seed = envs, envs.num_envs, seed

    def start(self) -> np.ndarray:
        return self.envs.reset([(self._seed, i) for i in range(self.count)])

    def step(self, action: np.ndarray) -> tuple:
        step = self.envs.step(action, reset=False)
        self._last = step.last
        return step.reward, step.terminated, step.truncated, step.last

    def restart(self, over: np.ndarray) -> np.ndarray:
        first = self.envs.begin_episodes(over)
        return np.where(over.reshape(-1, *[1] * (first.ndim - 1)), first, self._last)


class OnDevice:
    """Copies of a compiled environment, stepped on the device, for `play`."""

    def __init__(self, env: Environment, count: int, seed: int):
        self.count, self._key = count, jax.random.fold_in(jax.random.key(seed), 1)
        self._reset = jax.jit(lambda key: jax.vmap(env.reset)(jax.random.split(key, count)))
        self._step = jax.jit(
            lambda key, states, action: jax.vmap(env.step)(jax.random.split(key, count), states, action)
        )
        self._observe = jax.jit(jax.vmap(env.observe))

    def _next_key(self) -> jax.Array:
        self._key, use = jax.random.split(self._key)
        return use

    def start(self) -> np.ndarray:
        self._states = self._reset(self._next_key())
        return np.asarray(self._observe(self._states))

    def step(self, action: np.ndarray) -> tuple:
        self._states, step = self._step(self._next_key(), self._states, jnp.asarray(action))
        return (*map(np.asarray, step), np.asarray(self._observe(self._states)))

    def restart(self, over: np.ndarray) -> np.ndarray:
        def choose(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(over.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        self._states = jax.tree.map(choose, self._reset(self._next_key()), self._states)
        return np.asarray(self._observe(self._states))

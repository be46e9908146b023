"""The DQN agent: make it by the name of its environment, learn, predict, evaluate, save and load."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from greedystep import envs
from greedystep.checks import INT32_MAX, check_int, check_seed
from greedystep.deep import offline
from greedystep.deep.config import Returns
from greedystep.deep.device_memory import check_device_memory, largest_intermediate
from greedystep.deep.evaluator import MAX_STEPS, Evaluator
from greedystep.deep.networks import MakeNetwork
from greedystep.deep.presets import Preset, env_options, make_config
from greedystep.deep.trainer import DivergedError, Row, Trainer
from greedystep.envs.core import Environment
from greedystep.envs.toy_task import ToyTask
from greedystep.evaluation import Evaluation
from greedystep.replay import ReplayBuffer
from greedystep.trajectory import Trajectory

PIECES = 50
"""Approximate number of pieces of `fit_in_pieces`."""


class DQN:
    """A deep Q-network agent in one environment.

    Args:
        env: the name of an environment (with the time limit of the experiments), or an environment.
        returns: the return estimator of the targets; "greedy-step" lets the data choose the bootstrapping step.
        preset: source of the settings that are not given: "paper", or "fast" for GPUs.
        seed: seed of all random numbers. A saved and loaded agent continues exactly as if it had not been stopped.
        network: makes the networks instead of the default ones: (key, observation spec, number of actions) -> a
            callable pytree, for example an Equinox module.
        settings: any other field of `DQNConfig`, such as `ensemble=6`.
    """

    def __init__(
        self,
        env: str | Environment | ToyTask,
        returns: Returns = "greedy-step",
        *,
        preset: Preset = "paper",
        seed: int = 0,
        network: MakeNetwork | None = None,
        **settings: Any,
    ):
        env = _environment(env)
        pictures = len(env.observation.shape) == 3
        config = make_config(env.name, preset, pictures=pictures, returns=returns, **settings)
        self._set_trainer(Trainer(config, env, [seed], network=network))

    def _set_trainer(self, trainer: Trainer) -> None:
        self.trainer, self.env, self.config = trainer, trainer.env, trainer.config
        self._min_q = jax.jit(trainer.learner.min_q)
        self._evaluator = Evaluator(trainer.learner, trainer.env)

    @property
    def steps(self) -> int:
        """Environment steps so far."""
        return int(self.trainer.state.step)

    @property
    def networks(self) -> Any:
        """The arrays of the online networks, each with a leading axis [M]."""
        return jax.tree.map(lambda x: x[0], self.trainer.params)

    def learn(self, steps: int, on_chunk: Callable[[list[Row]], Any] | None = None) -> list[Row]:
        """Train for `steps` MORE steps and return the metrics rows; `on_chunk` gets those of each chunk."""
        return self.trainer.run(steps, on_chunk)

    def fit(self, dataset: Iterable[Trajectory], updates: int = 10_000, *, seed: int = 0) -> DQN:
        """Learn from logged trajectories alone, with that many updates; the agent's own replay buffer is not used."""
        for _ in self.fit_in_pieces(dataset, updates, seed=seed):
            pass
        return self

    def fit_in_pieces(
        self, dataset: Iterable[Trajectory], updates: int = 10_000, *, seed: int = 0
    ) -> Iterator[tuple[int, float]]:
        """Fit piece by piece; yield the updates so far and the mean loss of the latest piece.

        The agent has learned all updates reported so far. If a loss is not finite, it is restored to its state before
        the first one, and DivergedError raised.
        """
        updates, seed = check_int("updates", updates, 0, INT32_MAX), check_seed(seed)
        learner, observation = self.trainer.learner, self.env.observation
        trajectories = offline.check_dataset(learner, dataset)
        buffer, replay = ReplayBuffer.from_trajectories(trajectories, observation.shape, observation.dtype)
        fit = jax.jit(partial(offline.fit, learner, buffer))
        before, period = self.trainer.state, offline.updates_per_period(self.config)
        state, hyperparams = jax.tree.map(lambda x: x[0], (before.lanes.learner, self.trainer.hyperparams))
        piece, key = period * max(1, updates // (PIECES * period)), jax.random.key(seed)
        traced = fit.trace(replay, state, hyperparams, key, jnp.int32(0), jnp.int32(updates))
        check_device_memory(f"batch_size={self.config.batch_size}", largest_intermediate(traced))
        for begin in range(0, updates, piece):
            end = min(begin + piece, updates)
            state, key, loss = fit(replay, state, hyperparams, key, jnp.int32(begin), jnp.int32(end))
            if not jnp.isfinite(loss):
                self.trainer.state = before
                raise DivergedError(
                    "the loss was not finite: try a smaller learning_rate; the agent is as it was before"
                )
            lane = before.lanes._replace(learner=jax.tree.map(lambda x: x[None], state))
            self.trainer.state = before._replace(lanes=lane)
            yield end, float(loss)

    def values(self, observations: Any) -> np.ndarray:
        """Return the Q-values that the agent acts on, the minimum over its networks: [..., A]."""
        shape, dtype = self.env.observation.shape, self.env.observation.dtype
        observations = np.asarray(observations)
        if observations.shape[observations.ndim - len(shape) :] != shape:
            raise ValueError(f"observations: expected shape {shape}, or many of them, got {observations.shape}")
        if observations.dtype.kind not in "biuf":
            raise ValueError(f"observations: expected real numbers, got {observations.dtype}")
        batch = observations.shape[: observations.ndim - len(shape)]
        q = self._min_q(self.networks, jnp.asarray(observations.reshape(-1, *shape), dtype))
        return np.asarray(q).reshape(*batch, q.shape[-1])

    def predict(self, observations: Any) -> Any:
        """Return the greedy action of an observation, or of an array of them; ties go to the lowest action."""
        actions = self.values(observations).argmax(axis=-1)
        return int(actions) if np.ndim(actions) == 0 else actions

    def evaluate(
        self, episodes: int = 100, epsilon: float = 0.0, *, seed: int = 0, limit: int = MAX_STEPS
    ) -> Evaluation:
        """Play episodes side by side without learning from them, with a fraction `epsilon` of random actions.

        Args:
            limit: steps after which an episode is stopped: a greedy policy can go round in circles for ever.
        """
        played = self._evaluator(self.trainer.params, seed, episodes=episodes, epsilon=epsilon, limit=limit)
        return Evaluation(*(lanes[0] for lanes in played))

    def save(self, path: str | os.PathLike) -> None:
        """Write the agent and its replay buffer to one file; an older file is replaced once the new one is complete."""
        path = Path(os.path.realpath(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            os.replace(self.trainer.save(folder), path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        env: str | Environment | ToyTask | None = None,
        *,
        lane: int = 0,
        network: MakeNetwork | None = None,
    ) -> DQN:
        """Load a file of `save`, or one lane of a checkpoint; pass `env` and `network` only if they are your own."""
        agent = cls.__new__(cls)
        agent._set_trainer(Trainer.load(path, None if env is None else _environment(env), lane=lane, network=network))
        return agent


def _environment(env: Any) -> Environment:
    """Return the environment of that name, with the time limit of the experiments, or the given environment."""
    if isinstance(env, str):
        env = envs.make(env, **env_options(env))
    if isinstance(env, ToyTask):
        env = env.as_env()
    if not isinstance(env, Environment):
        raise ValueError(f"env: expected a name or an environment of greedystep, got {type(env).__name__}")
    return env

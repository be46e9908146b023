"""The thin face of deep learning: make an agent by the name of its environment, learn, ask, save, load."""

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

from greedystep import checkpoint, envs, io
from greedystep.checks import INT32_MAX, check_int, check_seed
from greedystep.deep import offline
from greedystep.deep.device_memory import check_device_memory, largest_intermediate
from greedystep.deep.greedy_play import MAX_STEPS, Evaluator
from greedystep.deep.networks import MakeNetwork
from greedystep.deep.presets import env_options, make_config
from greedystep.deep.trainer import DivergedError, Row, Trainer
from greedystep.envs.core import Environment
from greedystep.envs.toy_task import ToyTask
from greedystep.evaluation import Evaluation
from greedystep.replay import Store
from greedystep.tabular import TabularAgent
from greedystep.tabular.table_run import KIND as TABLE
from greedystep.tabular.table_run import load_agent as table_of_run
from greedystep.trajectory import Trajectory

PIECES = 50
"""Of `fit_in_pieces`, about."""


class DQN:
    """One agent in one environment.

    Args:
        env: the name of an environment (with the time limit of the experiments), or an environment.
        returns: how targets are made: "greedy-step" lets the data choose how far to look before bootstrapping;
            `greedystep.deep.config.DQNConfig` names all others and every further setting.
        preset: "paper", or "fast" for GPUs; the settings that are not given.
        seed: of everything random. A saved and loaded agent goes on exactly as if it had not been stopped.
        network: makes the networks instead of the default ones: (key, observation, number of actions) -> a callable
            pytree, for example an Equinox module.
    """

    def __init__(
        self,
        env: str | Environment | ToyTask,
        returns: str = "greedy-step",
        *,
        preset: str = "paper",
        seed: int = 0,
        network: MakeNetwork | None = None,
        **settings: Any,
    ):
        env = _environment(env)
        pictures = len(env.observation.shape) == 3
        config = make_config(env.name, preset, pictures=pictures, returns=returns, **settings)
        self._take(Trainer(config, env, [seed], network=network))

    def _take(self, trainer: Trainer) -> None:
        self.trainer, self.env, self.config = trainer, trainer.env, trainer.config
        self._values = jax.jit(trainer.learner.values)
        self._evaluator = Evaluator(trainer.learner, trainer.env)

    @property
    def steps(self) -> int:
        """Environment steps so far."""
        return int(self.trainer.state.step)

    @property
    def networks(self) -> Any:
        """The arrays of the online networks, each with a leading axis [M]."""
        return jax.tree.map(lambda x: x[0], self.trainer.state.lanes.knowledge.networks)

    def learn(self, steps: int, on_chunk: Callable[[list[Row]], Any] | None = None) -> list[Row]:
        """Act and learn for so many MORE steps; rows of metrics, which `on_chunk` gets as soon as they are there."""
        return self.trainer.run(steps, on_chunk)

    def fit(self, dataset: Iterable[Trajectory], updates: int = 10_000, *, seed: int = 0) -> DQN:
        """Learn from logged trajectories alone, with so many updates; what the agent has stored itself is not used."""
        for _ in self.fit_in_pieces(dataset, updates, seed=seed):
            pass
        return self

    def fit_in_pieces(
        self, dataset: Iterable[Trajectory], updates: int = 10_000, *, seed: int = 0
    ) -> Iterator[tuple[int, float]]:
        """`fit` for those who want to watch it: the updates so far, and the mean loss of those since the last time.

        The agent has learned what is told. If a loss is not finite, it is again as it was before all of them.
        """
        updates, seed = check_int("updates", updates, 0, INT32_MAX), check_seed(seed)
        learner, observation = self.trainer.learner, self.env.observation
        store, replay = Store.holding(offline.checked(learner, dataset), observation.shape, observation.dtype)
        fit = jax.jit(partial(offline.fit, learner, store))
        before, period = self.trainer.state, offline.updates_a_period(self.config)
        lane, numbers = jax.tree.map(lambda x: x[0], (before.lanes.knowledge, self.trainer.numbers))
        piece, key = period * max(1, updates // (PIECES * period)), jax.random.key(seed)
        traced = fit.trace(replay, lane, numbers, key, jnp.int32(0), jnp.int32(updates))
        check_device_memory(f"batch_size={self.config.batch_size}", largest_intermediate(traced))
        for begin in range(0, updates, piece):
            end = min(begin + piece, updates)
            lane, key, loss = fit(replay, lane, numbers, key, jnp.int32(begin), jnp.int32(end))
            if not jnp.isfinite(loss):
                self.trainer.state = before
                raise DivergedError(
                    "the loss was not finite: try a smaller learning_rate; the agent is as it was before"
                )
            knowledge = jax.tree.map(lambda x: x[None], lane)
            self.trainer.state = before._replace(lanes=before.lanes._replace(knowledge=knowledge))
            yield end, float(loss)

    def values(self, observations: Any) -> np.ndarray:
        """The action values that the agent acts on, the minimum over its networks: [..., A]."""
        shape, dtype = self.env.observation.shape, self.env.observation.dtype
        seen = np.asarray(observations)
        if seen.shape[seen.ndim - len(shape) :] != shape:
            raise ValueError(f"observations: expected shape {shape}, or many of them, got {seen.shape}")
        batch = seen.shape[: seen.ndim - len(shape)]
        q = self._values(self.networks, jnp.asarray(seen.reshape(-1, *shape), dtype))
        return np.asarray(q).reshape(*batch, q.shape[-1])

    def predict(self, observations: Any) -> Any:
        """The greedy action of an observation, or of an array of them; of equal ones the lowest."""
        actions = self.values(observations).argmax(axis=-1)
        return int(actions) if np.ndim(actions) == 0 else actions

    def evaluate(
        self, episodes: int = 100, epsilon: float = 0.0, *, seed: int = 0, limit: int = MAX_STEPS
    ) -> Evaluation:
        """Play episodes side by side without learning from them, with a share `epsilon` of random actions.

        Args:
            limit: steps after which an episode is stopped, since some could go on for ever.
        """
        networks = self.trainer.state.lanes.knowledge.networks
        played = self._evaluator(networks, seed, episodes=episodes, epsilon=epsilon, limit=limit)
        return Evaluation(*(of_lanes[0] for of_lanes in played))

    def save(self, path: str | os.PathLike) -> None:
        """Write one file with everything, replay included; an older file is replaced once the new one is complete."""
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
        """Read what `save` wrote, or one lane of a checkpoint. `env` and `network` are needed only for one's own."""
        agent = cls.__new__(cls)
        agent._take(Trainer.load(path, None if env is None else _environment(env), lane=lane, network=network))
        return agent


def load(path: str | os.PathLike, env: Any = None, *, lane: int = 0, network: MakeNetwork | None = None) -> Any:
    """Any agent that greedystep saved: a `DQN` or a `TabularAgent`, from its file or from the folder of its run.

    Args:
        env: needed where the file cannot say how to make its environment, or where Gymnasium would have to import a
            module for it ("module:name"): then name that environment here, or give it.
        lane, network: of networks only: which training of several, and what made the networks if that is one's own.
    """
    path = Path(path)
    try:
        is_networks = _holds_networks(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"no such agent file: {path}") from None
    if is_networks:
        return DQN.load(_newest(path) if path.is_dir() else path, env, lane=lane, network=network)
    if lane or network is not None:
        raise ValueError(f"{'lane' if lane else 'network'}: {path} is a table, which has none")
    return table_of_run(path, env) if path.is_dir() else TabularAgent.load(path, env)


def _holds_networks(path: Path) -> bool:
    """Whether a file or the folder of a run is of a `DQN`; all others are taken for tables."""
    if path.is_dir():
        config = path / "config.json"
        content = io.read_json(config) if config.exists() else None
        return not (isinstance(content, dict) and content.get("kind") == TABLE)
    with io.open_regular_file(path) as file:
        return file.read(len(checkpoint.MAGIC)) == checkpoint.MAGIC


def _newest(folder: Path) -> Path:
    newest = checkpoint.latest(folder / "checkpoints")
    if newest is None:
        raise ValueError(f"{folder} is not the folder of a run: there is no checkpoint in its checkpoints/")
    return newest


def _environment(env: Any) -> Environment:
    """The environment of that name, with the time limit of the experiments, or the one that was given."""
    if isinstance(env, str):
        env = envs.make(env, **env_options(env))
    if isinstance(env, ToyTask):
        env = env.as_env()
    if not isinstance(env, Environment):
        raise ValueError(f"env: expected a name or an environment of greedystep, got {type(env).__name__}")
    return env

"""d3rlpy's DQN, CQL and behaviour cloning on our logs, with the networks and the updates of our own methods."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import Any

import jax
import numpy as np

from greedystep.deep.collect import OnDevice, play
from greedystep.deep.config import DQNConfig
from greedystep.deep.presets import make_config, offline_settings
from greedystep.envs.core import Environment
from greedystep.experiments.deep.training import EVALUATION_SEED
from greedystep.experiments.offline.logs import LIMIT, OfflineTask
from greedystep.trajectory import Trajectory

PEER = "d3rlpy"
METHODS = {"DQN": "DQNConfig", "CQL": "DiscreteCQLConfig", "BC": "DiscreteBCConfig"}
"""Methods by the names of their settings in d3rlpy; what is not set below is d3rlpy's default."""


def peer_is_installed() -> bool:
    """Return whether d3rlpy can be imported."""
    return find_spec(PEER) is not None


def fit_peer(task: OfflineTask, name: str, log: Sequence[Trajectory]) -> dict[str, Any]:
    """Fit a method to a log; return the mean return of each seed in greedy play, and the microseconds per update."""
    peer, torch = import_module(PEER), import_module("torch")
    import_module("structlog").configure(
        wrapper_class=import_module("structlog").make_filtering_bound_logger(logging.ERROR)
    )
    torch.set_num_threads(1)  # faster than two for networks of this size
    env, config = task.make_env(), make_config(task.env, "paper", **offline_settings({}))
    data = peer.dataset.ReplayBuffer(
        peer.dataset.InfiniteBuffer(),
        episodes=[_episode(peer, one) for one in log],
        action_space=peer.ActionSpace.DISCRETE,
        action_size=env.num_actions,
    )
    how = {"batch_size": config.batch_size, "learning_rate": config.learning_rate}
    how["encoder_factory"] = _encoder(peer, env, config)
    if name != "BC":
        how |= {"gamma": config.discount, "target_update_interval": config.target_period}
    returns, spent = [], []
    for seed in range(task.seeds):
        peer.seed(seed)
        learner = getattr(peer.algos, METHODS[name])(**how).create(device="cpu:0")
        epoch = {"n_steps": task.updates, "n_steps_per_epoch": task.updates, "show_progress": False}
        quiet = {"save_interval": task.updates, "logger_adapter": peer.logging.NoopAdapterFactory()}
        begin = time.perf_counter()
        with redirect_stdout(StringIO()):
            learner.fit(data, **epoch, **quiet)
        spent.append(1e6 * (time.perf_counter() - begin) / task.updates)
        returns.append(_greedy_play(learner, task, env))
    return {"returns": returns, "microseconds": float(np.median(spent))}


def _encoder(peer: Any, env: Environment, config: DQNConfig) -> Any:
    """Return d3rlpy's description of our hidden layers: for images, first 16 filters of 3 x 3."""
    if len(env.observation.shape) == 1:
        return peer.models.VectorEncoderFactory(list(config.hidden))
    (hidden,) = config.hidden
    return peer.models.PixelEncoderFactory(filters=[[16, 3, 1]], feature_size=hidden)


def _episode(peer: Any, one: Trajectory) -> Any:
    actions, rewards = one.actions[:, None], one.rewards[:, None].astype(np.float32)
    return peer.dataset.Episode(_observations(one.observations[:-1]), actions, rewards, bool(one.terminated[-1]))


def _observations(seen: np.ndarray) -> np.ndarray:
    """Return observations [B, ...] as d3rlpy takes them: float32, images with their channels first."""
    return np.asarray(np.moveaxis(seen, -1, 1) if seen.ndim == 4 else seen, np.float32)


def _greedy_play(learner: Any, task: OfflineTask, env: Any) -> float:
    def act(key: jax.Array, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return learner.predict(_observations(np.asarray(seen))), np.ones(len(seen))

    players = OnDevice(env, task.episodes, EVALUATION_SEED)
    played = play(players, act, task.episodes, LIMIT, jax.random.key(EVALUATION_SEED))
    return float(np.mean([one.rewards.sum() for one in played]))

"""Fit one method to a log with several seeds as lanes of one program, then let it play greedily."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.datasets import Dataset
from greedystep.deep import offline
from greedystep.deep.evaluator import Evaluator
from greedystep.deep.heads import HeadPolicy
from greedystep.deep.learner import Learner
from greedystep.deep.presets import make_config
from greedystep.deep.targets import LaneHyperparams
from greedystep.experiments.deep.suite import Setting
from greedystep.experiments.deep.training import EVALUATION_SEED
from greedystep.experiments.offline.logs import LIMIT, OfflineTask
from greedystep.replay import ReplayBuffer
from greedystep.runs.ray_workers import Report
from greedystep.trajectory import Trajectory

PIECES = 20
"""Approximate number of pieces of a fit, between which progress is told."""


class LaneFit:
    """The compiled fit of one method on one task; logs of equal `rows` share the program.

    Args:
        rows: rows of the replay buffer, at least the steps and episodes of each log together.
    """

    def __init__(self, task: OfflineTask, setting: Setting, rows: int):
        self.task, self._rows, self._env = task, rows, task.make_env()
        self.config = make_config(task.env, "paper", **setting)
        self._learner = Learner(self.config, self._env.observation, self._env.num_actions)
        self._seeds = np.arange(task.seeds, dtype=np.uint32)
        spec = self._env.observation
        self._buffer = ReplayBuffer(rows, 1, spec.shape, spec.dtype)
        self._fit = offline.LogFit(self._learner, self._buffer)
        self._evaluate = Evaluator(self._learner, self._env)

    def run(self, log: Sequence[Trajectory], on_piece: Callable[[int], Any] = lambda updates: None) -> dict[str, Any]:
        """Fit all seeds to a log; return what a part holds of it (`fit_parts.FIT`), and the losses.

        `returns` are mean returns in greedy play, one per seed; `microseconds` is the time per update and seed.

        Args:
            on_piece: called with the updates of a piece, of one seed, when they are made. If it raises, the fit stops.
        """
        spec, total = self._env.observation, self.task.updates
        cloned = offline.all_updates(self.config, total) - total
        chooses_head = self.config.returns == "auto"
        data = held_out = Dataset.of(log)
        if chooses_head:
            data, held_out = data.split(offline.HELD_OUT_EVERY)
        _, replay = ReplayBuffer.from_episodes(data, data.steps, len(data), spec.shape, spec.dtype, rows=self._rows)
        keys = jax.vmap(jax.random.key)(self._seeds)
        states = jax.jit(jax.vmap(self._learner.init))(keys)
        states = offline.standardise(states, self._buffer, replay)
        numbers = (getattr(self.config, name) or 0.0 for name in LaneHyperparams._fields)
        hyperparams = LaneHyperparams(*(jnp.full(len(self._seeds), number, jnp.float32) for number in numbers))
        self._fit.compile(replay, states, hyperparams, keys)
        done, seconds, loss, started = 0, 0.0, np.zeros(len(self._seeds)), time.perf_counter()
        for piece in self._fit.pieces(replay, states, hyperparams, keys, total, count=PIECES):
            states, loss = piece.states, np.asarray(piece.loss)
            seconds += time.perf_counter() - started
            learned = max(piece.done - cloned, 0)
            on_piece(learned - done)
            done, started = learned, time.perf_counter()
        policies = states.params
        if chooses_head:
            explained = jax.vmap(offline.head_scorer(self._learner, held_out))(states.params)
            policies = HeadPolicy(states.params, explained.argmax(axis=-1))
        played = self._evaluate(policies, EVALUATION_SEED, episodes=self.task.episodes, limit=LIMIT)
        return {
            "returns": np.asarray(played.returns).mean(axis=1).tolist(),
            "loss": [float(x) if np.isfinite(x) else None for x in loss],
            "microseconds": 1e6 * seconds / (total * len(self._seeds)),
            "device": jax.devices()[0].device_kind,
        }


def fit_in_worker(
    task: OfflineTask, setting: Setting, rows: int, log: Sequence[Trajectory], *, folder: None, report: Report
) -> dict[str, Any]:
    """Do what `LaneFit.run` does in a worker of a cluster; it keeps no files."""
    done = 0

    def on_piece(updates: int) -> None:
        nonlocal done
        done += updates
        report(done, task.title)

    return LaneFit(task, setting, rows).run(log, on_piece)

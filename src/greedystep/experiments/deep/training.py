"""Lanes that share a program, trained side by side, and what is kept of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import jax
import numpy as np

from greedystep import envs, provenance
from greedystep.deep.config import RETURN_OPTIONS, DQNConfig
from greedystep.deep.env_spec import spec_of
from greedystep.deep.greedy_play import Evaluator
from greedystep.deep.presets import make_config
from greedystep.deep.train_metrics import NEVER, ChunkMetrics
from greedystep.deep.trainer import Row, Trainer
from greedystep.experiments.deep.evidence import PHASE, only_end
from greedystep.experiments.deep.methods import Setting
from greedystep.experiments.deep.tasks import TASKS
from greedystep.experiments.deep.underway import Underway

CURVES = ("episode_return", "episodes", "mean_q", "mean_n", "overestimation")
"""Columns of metrics that are kept."""
VARYING = ("learning_rate", "lambda_", "gate", "epsilon_end")
"""Settings in which lanes of one program may differ."""
EVALUATION_SEED = 1_000


@dataclass(frozen=True)
class Lane:
    """One training: of a task, with a setting, from a seed."""

    task: str
    preset: str
    setting: Setting
    seed: int

    @cached_property
    def config(self) -> DQNConfig:
        return make_config(TASKS[self.task].env, self.preset, **self.setting)

    @cached_property
    def env(self) -> Any:
        return envs.make(TASKS[self.task].env, **TASKS[self.task].env_options)

    @cached_property
    def name(self) -> str:
        """Equal for equal trainings, whatever experiment asks for them, and however long they are."""
        return provenance.config_hash(self._identity | {"seed": self.seed})

    @cached_property
    def program(self) -> str:
        """Equal for lanes that can be trained side by side."""
        config = {name: value for name, value in self._identity["config"].items() if name not in VARYING}
        return provenance.config_hash(self._identity | {"config": config})

    @cached_property
    def _identity(self) -> dict[str, Any]:
        config = {name: value for name, value in dataclasses.asdict(self.config).items() if name != "log_every"}
        return {"env": spec_of(self.env), "config": config}


@dataclass(frozen=True)
class Length:
    """How long to train, and how finely to look."""

    steps: int
    points: int = 200
    """Rows of metrics; at most so many are kept."""
    episodes: int = 100
    """Episodes of greedy play after training; 0 for none."""
    only_end: bool = False
    """Of the curve only its end is looked at, and kept in full."""


class StoppedError(Exception):
    """Somebody else failed or was interrupted, and this training shall stop."""


class PatientTrainer(Trainer):
    """A lane that diverges is a result here, and must not end the others. On a GPU it waits for its turn."""

    diverged: dict[int, int]
    """By lane: the step at which its loss was first not finite."""

    def _check(self, metrics: ChunkMetrics) -> None:
        for lane, step in enumerate(metrics.diverged):
            if step != NEVER:
                self.diverged.setdefault(lane, int(step) * self.config.num_envs)

    def _run_chunk(self, steps: int) -> list[Row]:
        self.compile()  # while others compute
        with nullcontext() if jax.default_backend() == "cpu" else GPU:
            return super()._run_chunk(steps)


GPU = Lock()
"""A program fills it. So one chunk runs at a time, and speeds are those of programs that run alone."""


def train(
    lanes: Sequence[Lane],
    length: Length,
    on_chunk: Callable[[int, float], None] = lambda steps, speed: None,
    half_way: Path | None = None,
) -> list[dict[str, Any]]:
    """Train lanes of one program; one record each.

    Args:
        on_chunk: told how many steps all lanes together have made since it was last told, and how many a second. If it
            raises, the training stops, to go on later.
        half_way: where this training is kept while it is not finished, and found again.
    """
    first, config = lanes[0], lanes[0].config
    every = -(-length.steps // (length.points * config.num_envs)) * config.num_envs
    own = [
        name for name in VARYING if name in RETURN_OPTIONS.get(config.returns, {}) or name not in ("lambda_", "gate")
    ]
    trainer = PatientTrainer(
        dataclasses.replace(config, log_every=every),
        first.env,
        [lane.seed for lane in lanes],
        lane_hyperparams={name: [getattr(lane.config, name) for lane in lanes] for name in own},
    )
    rows = _run(trainer, length.steps, on_chunk, Underway(half_way, trainer))
    played = _play(trainer, length.episodes)
    return [
        _record(lane, [row for row in rows if row["lane"] == i], length)
        | {"evaluation": played[i], "diverged": trainer.diverged.get(i), "seconds": trainer.seconds}
        for i, lane in enumerate(lanes)
    ]


def _run(trainer: PatientTrainer, steps: int, on_chunk: Callable[[int, float], None], underway: Underway) -> list[Row]:
    """To the end, from wherever it stopped."""
    before = underway.restore()
    rows: list[Row] = before.get("rows", [])
    trainer.diverged = {int(lane): step for lane, step in before.get("diverged", {}).items()}
    done, lanes = 0, len(trainer.seeds)
    for chunk in trainer.chunks(steps - int(trainer.state.step)):
        rows += chunk
        try:
            on_chunk((chunk[0]["step"] - done) * lanes, chunk[0]["steps_per_second"])
        except BaseException:
            underway.save(rows, diverged=_by_text(trainer.diverged))
            raise
        underway.save_now_and_then(rows, diverged=_by_text(trainer.diverged))
        done = chunk[0]["step"]
    return rows


def _by_text(steps: Mapping[int, int]) -> dict[str, int]:
    """With keys as JSON has them."""
    return {str(lane): step for lane, step in steps.items()}


def _play(trainer: Trainer, episodes: int) -> list[float | None]:
    """The mean return of greedy play in each lane."""
    if not episodes:
        return [None] * len(trainer.seeds)
    networks = trainer.params
    played = Evaluator(trainer.learner, trainer.env)(networks, EVALUATION_SEED, episodes=episodes)
    return [float(mean) for mean in played.returns.mean(axis=1)]


def _record(lane: Lane, rows: Sequence[Row], length: Length) -> dict[str, Any]:
    phase = min(PHASE, length.steps // 5)
    learning = [row["steps_per_second"] for row in rows if row["mean_q"] is not None]
    # Many environments side by side make a whole number of rounds, a few steps more than asked for.
    curve = {"step": [min(row["step"], length.steps) for row in rows]} | {name: _column(rows, name) for name in CURVES}
    return {
        "name": lane.name,
        "task": lane.task,
        "preset": lane.preset,
        "setting": lane.setting,
        "seed": lane.seed,
        "env": lane._identity["env"],
        "steps": length.steps,
        "curve": only_end(curve) if length.only_end else curve,
        "phase": phase,
        "n_first": _histogram(row for row in rows if row["step"] <= phase),
        "n_last": _histogram(row for row in rows if row["step"] > rows[-1]["step"] - phase),
        "steps_per_second": float(np.median(learning)) if learning else None,
        "device": jax.devices()[0].device_kind,
    }


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[float | int | None]:
    """Six digits are enough for a curve; what is not finite is not known."""
    values = (row[name] for row in rows)
    return [x if x is None or isinstance(x, int) else float(f"{x:.6g}") if np.isfinite(x) else None for x in values]


def _histogram(rows: Any) -> list[int]:
    return np.sum([np.zeros(16, int), *(row["n_histogram"] for row in rows)], axis=0).tolist()

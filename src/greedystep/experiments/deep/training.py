"""Train runs that share a compiled program side by side (as its lanes), and record what experiments keep of each."""

from __future__ import annotations

import dataclasses
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np

from greedystep import checkpoint, envs, provenance, schema
from greedystep.deep.config import DQNConfig, described, is_used
from greedystep.deep.env_spec import spec_of
from greedystep.deep.evaluator import Evaluator
from greedystep.deep.lane_hyperparams import LARGEST_IN_CONFIG
from greedystep.deep.learner import Learner
from greedystep.deep.presets import make_config
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.trainer import Row, Trainer
from greedystep.experiments.deep.method_runs import PHASE, only_end
from greedystep.experiments.deep.suite import TASKS, Setting
from greedystep.runs.ray_workers import Report

CURVES = ("episode_return", "episodes", "mean_q", "mean_n", "overestimation")
"""Metrics columns that are recorded."""
VARYING = LaneHyperparams._fields
"""Settings that may differ between runs (lanes) of one compiled program; ensemble only where kernels train it."""
EVALUATION_SEED, GREEDY_EPISODES = 1_000, 20
"""Seed of evaluations, and number of episodes of each of those along a training."""
SAVE_EVERY, SAVING = 60.0, 0.05
"""Seconds between two checkpoints of an unfinished training, at least, and the largest share of time to save them."""
SO_FAR = {"rows": [{"step": schema.Int(), "lane": schema.Int(), "n_histogram": [schema.Int()]}], "diverged": dict}
"""Schema of what the checkpoint of an unfinished training holds besides the trainer's state."""
GPU = Lock()
"""Lock of the GPU: one training at a time has it from beginning to end. So measured speeds are those of running alone,
and if the work stops, at most one training is unfinished."""


@dataclass(frozen=True)
class RunSpec:
    """One training run: a task, a setting and a seed."""

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
        """Hash of what is trained: equal for equal runs, whichever experiment needs them and however long."""
        return provenance.config_hash(self.identity | {"seed": self.seed})

    @cached_property
    def lane_config(self) -> DQNConfig:
        """The config of a lane among others: one-step returns are n-step returns with n = 1, and share a program."""
        config = self.config
        return dataclasses.replace(config, returns="n-step", n=1) if config.returns == "one-step" else config

    @cached_property
    def program(self) -> str:
        """Hash of the compiled program: runs with equal hashes can be trained side by side."""
        config = {name: x for name, x in _what_is_trained(self.lane_config).items() if name not in self._varying}
        return provenance.config_hash(self.identity | {"config": config})

    @cached_property
    def _varying(self) -> tuple[str, ...]:
        """The settings in which lanes beside this one may differ.

        Those with fewer networks than others cost no time only in the kernels, which leave the absent ones out.
        """
        learner = Learner(self.lane_config, self.env.observation, self.env.num_actions)
        by_kernels = learner.can_leave_out and learner.kernel_shape is not None
        return VARYING if by_kernels else tuple(name for name in VARYING if name != "ensemble")

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The environment and the settings that decide the training: what its hashes are made of."""
        return {"env": spec_of(self.env), "config": _what_is_trained(self.config)}


def _what_is_trained(config: DQNConfig) -> dict[str, Any]:
    """Return the settings that decide a training: all but how often it is logged."""
    return {name: value for name, value in described(config).items() if name != "log_every"}


@dataclass(frozen=True)
class Budget:
    """The length of a training run in steps, its number of metrics rows, and the greedy episodes at its end."""

    steps: int
    points: int = 200
    """Largest number of metrics rows."""
    episodes: int = 100
    """Episodes of greedy play after training; 0 for none."""
    only_end: bool = False
    """Whether only the end of the curve is recorded in full."""
    greedy_points: int = 0
    """Evaluations with greedy play along the training, evenly spaced; 0 for none."""


def train(
    runs: Sequence[RunSpec],
    budget: Budget,
    on_chunk: Callable[[int, float], None] = lambda steps, speed: None,
    checkpoints: Path | None = None,
) -> list[dict[str, Any]]:
    """Train runs that share a compiled program, and return one record per run.

    Args:
        on_chunk: called after each chunk with the steps of all runs together since the last call, and their number per
            second. If it raises, the training stops, to go on later.
        checkpoints: the folder in which this training has its checkpoints while it is not finished.
    """
    config = runs[0].lane_config
    every = -(-budget.steps // (budget.points * config.num_envs)) * config.num_envs
    hyperparams = {
        name: [getattr(run.lane_config, name) for run in runs] for name in VARYING if is_used(name, config.returns)
    }
    so_far = PartialTraining([], {})
    largest = {name: max(hyperparams[name]) for name in LARGEST_IN_CONFIG if name in hyperparams}
    trainer = Trainer(
        dataclasses.replace(config, log_every=every, **largest),
        runs[0].env,
        [run.seed for run in runs],
        lane_hyperparams=hyperparams,
        on_diverged=so_far.on_diverged,
    )
    evaluator = Evaluator(trainer.learner, trainer.env)
    trainer.compile(budget.steps)  # before the GPU is waited for
    played: list[float | None] = [None] * len(runs)
    with nullcontext() if jax.default_backend() == "cpu" else GPU:
        _run(trainer, budget, on_chunk, so_far, checkpoints, evaluator)
        if budget.episodes:
            evaluation = evaluator(trainer.params, EVALUATION_SEED, episodes=budget.episodes)
            played = [float(mean) for mean in evaluation.returns.mean(axis=1)]
    return [
        _record(run, [row for row in so_far.rows if row["lane"] == lane], budget)
        | {"evaluation": played[lane], "diverged": so_far.diverged.get(str(lane))}
        | {"seconds": trainer.seconds, "device": provenance.device_names(trainer.devices)}
        for lane, run in enumerate(runs)
    ]


def train_in_worker(runs: Sequence[RunSpec], budget: Budget, *, folder: Path, report: Report) -> list[dict[str, Any]]:
    """Do what `train` does in a worker of a cluster, with its checkpoints in `folder`."""
    done = 0

    def on_chunk(steps: int, speed: float) -> None:
        nonlocal done
        done += steps
        report(done, f"{speed:,.0f} steps/s")

    return train(runs, budget, on_chunk, folder)


def _run(
    trainer: Trainer,
    budget: Budget,
    on_chunk: Callable[[int, float], None],
    so_far: PartialTraining,
    folder: Path | None,
    evaluator: Evaluator,
) -> None:
    """Train, from the checkpoint if there is one; save one now and then, and if `on_chunk` raises."""
    so_far.restore(trainer, folder)
    done, lanes = 0, len(trainer.seeds)
    saved, pause = time.monotonic(), SAVE_EVERY
    due = _points_before(int(trainer.state.step), budget)
    for chunk in trainer.chunks(budget.steps - int(trainer.state.step)):
        if due < (due := _points_before(chunk[0]["step"], budget)):
            _play_greedily(trainer, evaluator, chunk)
        so_far.rows.extend(chunk)
        try:
            on_chunk((chunk[0]["step"] - done) * lanes, chunk[0]["steps_per_second"])
        except BaseException:
            so_far.save(trainer, folder)
            raise
        if (begun := time.monotonic()) - saved > pause:
            so_far.save(trainer, folder)
            saved = time.monotonic()
            pause = max(SAVE_EVERY, (saved - begun) / SAVING)  # many lanes are gigabytes
        done = chunk[0]["step"]


def _points_before(step: int, budget: Budget) -> int:
    """Return how many evaluations with greedy play are due within these steps."""
    return min(step, budget.steps) * budget.greedy_points // budget.steps


def _play_greedily(trainer: Trainer, evaluator: Evaluator, chunk: Sequence[Row]) -> None:
    """Play greedily with the networks of each lane, and add what came of it to their rows."""
    played = evaluator(trainer.params, EVALUATION_SEED, episodes=GREEDY_EPISODES)
    for row in chunk:
        own = played.map(lambda x, lane=row["lane"]: x[lane])
        row["greedy_return"], row["greedy_overestimation"] = own.mean, own.mean_overestimation


class PartialTraining(NamedTuple):
    """Records of an unfinished training so far, which its checkpoint holds beside the trainer's state."""

    rows: list[Row]
    diverged: dict[str, int]
    """{lane as text: the step at which its loss was first not finite}."""

    def on_diverged(self, lane: int, step: int) -> None:
        """Record that one lane (one of the seeds trained side by side) diverged; the other lanes train on."""
        self.diverged.setdefault(str(lane), step)

    def save(self, trainer: Trainer, folder: Path | None) -> None:
        """Save a checkpoint of this training in `folder`, and delete older ones."""
        if folder is not None:
            trainer.save(folder, so_far=self._asdict())
            checkpoint.prune(folder, keep=1)

    def restore(self, trainer: Trainer, folder: Path | None) -> None:
        """Continue from the checkpoint in `folder`, if there is one; warn of a damaged one and remove it."""
        if folder is None:
            return
        try:
            found = checkpoint.latest(folder)
            if found is None:
                return
            before = schema.check(checkpoint.read_about(found), {"so_far": SO_FAR}, str(found))["so_far"]
            trainer.restore(found)
        except ValueError as problem:
            warnings.warn(f"{problem}; this training begins again", RuntimeWarning, stacklevel=2)
            shutil.rmtree(folder)
            return
        self.rows.extend(before["rows"])
        self.diverged.update(before["diverged"])


def _record(run: RunSpec, rows: Sequence[Row], budget: Budget) -> dict[str, Any]:
    phase = min(PHASE, budget.steps // 5)
    learning = [row["steps_per_second"] for row in rows if row["mean_q"] is not None]
    # Many environments side by side make a whole number of rounds, a few steps more than asked for.
    curve = {"step": [min(row["step"], budget.steps) for row in rows]} | {name: _column(rows, name) for name in CURVES}
    if "head_episodes" in rows[0]:
        curve["head_episodes"] = [[round(x, 1) for x in row["head_episodes"]] for row in rows]
    played = [row for row in rows if "greedy_return" in row]
    greedy = {"step": [min(row["step"], budget.steps) for row in played]}
    greedy |= {name: _column(played, f"greedy_{name}") for name in ("return", "overestimation")}
    return {
        **{name: getattr(run, name) for name in ("name", "task", "preset", "setting", "seed")},
        "env": run.identity["env"],
        "steps": budget.steps,
        "curve": only_end(curve) if budget.only_end else curve,
        **({"greedy": greedy} if played else {}),
        "phase": phase,
        "n_first": _histogram(row for row in rows if row["step"] <= phase),
        "n_last": _histogram(row for row in rows if row["step"] > rows[-1]["step"] - phase),
        "steps_per_second": float(np.median(learning)) if learning else None,
    }


def _column(rows: Sequence[Row], name: str) -> list[float | int | None]:
    """Return a metrics column rounded to six digits, with None for what is not finite."""
    values = (row[name] for row in rows)
    return [x if x is None or isinstance(x, int) else float(f"{x:.6g}") if np.isfinite(x) else None for x in values]


def _histogram(rows: Any) -> list[int]:
    return np.sum([np.zeros(16, int), *(row["n_histogram"] for row in rows)], axis=0).tolist()

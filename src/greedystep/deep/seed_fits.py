"""Fits to logged data that differ in their seed alone, here or in the workers of a cluster, under one folder.

FOLDER/config.json        what is fitted
FOLDER/seed0.agent        a finished agent per seed
FOLDER/half-way/seed1/    the checkpoint of a fit that is not finished
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any, NamedTuple

from greedystep import checkpoint, schema
from greedystep.datasets import Dataset
from greedystep.deep import offline
from greedystep.deep.agent import DQN
from greedystep.deep.env_spec import as_environment
from greedystep.deep.presets import offline_settings
from greedystep.io import jsonable, os_error_context, read_json, write_json
from greedystep.provenance import config_hash, provenance
from greedystep.runs.job_queue import StoppedError, run_jobs
from greedystep.runs.progress import ReportProgress
from greedystep.runs.ray_workers import MOST_WAITING, RayWorkers, Report

CONFIG, HALF_WAY, AGENT = "config.json", "half-way", "agent"
SAVE_EVERY = 60.0
"""Seconds between two checkpoints of a fit."""
EVALUATION_EPISODES = 100
SO_FAR = {"updates_made": schema.Int(0), "loss": schema.Float()}
"""Schema of what the checkpoint of an unfinished fit holds besides the trainer's state."""


@dataclass(frozen=True)
class FitConfig:
    """Settings that decide the numbers of a fit, besides the data and the seed."""

    env: str | None
    """The environment that the data come from; None: spaces follow from the data."""
    updates: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment."""
    preset: str = "paper"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the agent that replace the preset's."""
    eval_env: str | None = None
    """An environment in which the fitted agent plays."""

    def make_agent(self, data: Dataset, seed: int) -> DQN:
        """Make the agent, not fitted yet; ValueError if the data do not fit it."""
        how: dict[str, Any] = {"preset": self.preset, "seed": seed, **offline_settings(dict(self.settings))}
        if self.env is None:
            agent = DQN.from_dataset(data, **how)
        else:
            agent = DQN(as_environment(self.env, **self.options), **how)
        for _ in offline.checked(agent.trainer.learner, data, getattr(agent.env, "first_action", 0)):
            pass
        return agent


class SeedFitResult(NamedTuple):
    """How the fit of one seed ended."""

    seed: int
    loss: float
    """Mean loss of the last piece."""
    mean_return: float | None
    """Mean return of EVALUATION_EPISODES episodes in `eval_env`; None without one."""


def fit_seed(config: FitConfig, data: Dataset, seed: int, *, folder: Path, report: Report) -> SeedFitResult:
    """Fit one agent, from the checkpoint in `folder` if there is one, and save it there."""
    agent = config.make_agent(data, seed)
    agent.choose_conservatism()
    begin, found, loss = 0, checkpoint.latest(folder), float("nan")
    if found is not None:
        agent.trainer.restore(found)
        before = schema.check(checkpoint.read_about(found), SO_FAR, str(found))
        begin, loss = before["updates_made"], before["loss"]
    saved, total = time.monotonic(), offline.all_updates(agent.config, config.updates)
    for done, loss in agent.fit_in_pieces(data, config.updates, seed=seed, begin=begin):
        try:
            report(done / total * config.updates, f"{done:,} of {total:,} updates, loss {loss:.4g}")
            is_stopped = False
        except StoppedError:
            is_stopped = True
        if is_stopped or time.monotonic() - saved > SAVE_EVERY:
            agent.trainer.save(folder, updates_made=done, loss=loss)
            saved = time.monotonic()
        if is_stopped:
            raise StoppedError
    agent.save(folder / AGENT)
    played = None if config.eval_env is None else agent.evaluate(EVALUATION_EPISODES, env=config.eval_env).mean
    return SeedFitResult(seed, loss, None if played is None else float(played))


def fit_seeds(
    config: FitConfig,
    data: Dataset,
    seeds: Sequence[int],
    folder: Path,
    workers: RayWorkers | None,
    report: ReportProgress,
) -> list[SeedFitResult]:
    """Fit one agent per seed, side by side where there are `workers`, and return how they ended, in order of the seeds.

    What an earlier call with the same config and data has finished in `folder` is not fitted again, and what it began
    goes on.
    """
    left = [seed for seed in seeds if not agent_file(folder, seed).exists()]
    done: dict[int, float] = dict.fromkeys(set(seeds) - set(left), config.updates)
    stop, lock, results = Event(), Lock(), []
    shared = None if workers is None else workers.put(data)

    def on_report(seed: int, updates: float, what: str) -> None:
        if stop.is_set():
            raise StoppedError
        with lock:
            done[seed] = updates
            report(sum(done.values()) / (len(seeds) * config.updates), f"seed {seed}: {what}")

    def fit_one(seed: int) -> SeedFitResult:
        half_way = folder / HALF_WAY / f"seed{seed}"
        half_way.mkdir(parents=True, exist_ok=True)
        if workers is None:
            result = fit_seed(config, data, seed, folder=half_way, report=partial(on_report, seed))
        else:
            how = {"folder": half_way, "on_report": partial(on_report, seed), "should_stop": stop.is_set}
            result = workers.call(f"seed {seed}", fit_seed, config, shared, seed, **how)
        (half_way / AGENT).replace(agent_file(folder, seed))
        shutil.rmtree(half_way, ignore_errors=True)
        return result

    run_jobs(
        (partial(fit_one, seed) for seed in left), 1 if workers is None else MOST_WAITING, results.append, stop.set
    )
    shutil.rmtree(folder / HALF_WAY, ignore_errors=True)
    return sorted(results)


def agent_file(folder: Path, seed: int) -> Path:
    """Return the file of the agent of a seed."""
    return folder / f"seed{seed}.agent"


def begin_folder(folder: Path, config: FitConfig, data: Dataset) -> None:
    """Write what is fitted to the folder; ValueError if it holds something else."""
    about = jsonable({"fit": asdict(config), "data": {"name": data.name, "steps": data.steps, "episodes": len(data)}})
    path = folder / CONFIG
    if path.exists():
        before = schema.check(read_json(path), {"provenance": {"config_hash": str}}, str(path))
        if before["provenance"]["config_hash"] != config_hash(about):
            raise ValueError(f"out: {folder} holds fits with other settings or data; choose another folder")
    elif any(file.suffix not in (".lock", ".part") and file.name != ".lock" for file in folder.iterdir()):
        raise ValueError(f"out: {folder} is not empty; choose another folder")
    else:
        with os_error_context(f"cannot write {path}"):
            write_json(path, about | {"provenance": provenance(about)})

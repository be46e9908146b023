"""Search for good settings with Optuna (the extra `tune`): a study in a folder that can be resumed.

    FOLDER/study.journal     the study of Optuna: one JSON object per line, no pickle
    FOLDER/trial0/           the run of a trial (see `dqn_run`), one lane per seed; checkpoints until it is finished
    FOLDER/tune.json         all trials, the best settings, and how much each setting mattered

A trial that was stopped or killed goes on from the last checkpoint of its run. The score of a trial is the mean return
of the last episodes of training, over its seeds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any

import numpy as np

from greedystep import schema
from greedystep.checks import check_int
from greedystep.deep.divergence import DivergedError
from greedystep.deep.dqn_run import CHECKPOINTS, DQNRunConfig
from greedystep.deep.seed_runs import train_seed
from greedystep.extras import importing_extra
from greedystep.io import jsonable, read_json, write_json
from greedystep.learning_curves import last_episodes
from greedystep.metrics import read_metrics
from greedystep.provenance import config_hash, provenance
from greedystep.runs.job_queue import StoppedError, run_jobs
from greedystep.runs.progress import ReportProgress, WorkProgress
from greedystep.runs.ray_workers import MOST_WAITING, RayWorkers
from greedystep.runs.resumable_run import METRICS

JOURNAL, CONFIG, RESULTS = "study.journal", "config.json", "tune.json"
NAME = "greedystep"
"""Name of the study within its journal."""
MOST_TRIALS = 1_000_000
SCORED_EPISODES = 100
"""Episodes at the end of training whose mean return is the score."""


def _near(config: Any, name: str, share: float) -> int:
    """Return a share of a setting of the preset, rounded to a multiple of num_envs."""
    return max(1, round(share * getattr(config, name) / config.num_envs)) * config.num_envs


def _returns(trial: Any, config: Any) -> dict[str, Any]:
    chosen = trial.suggest_categorical("returns", ["one-step", "n-step", "lambda", "greedy-step"])
    if chosen == "n-step":
        return {"returns": chosen, "n": trial.suggest_int("n", 2, 10)}
    if chosen == "lambda":
        return {"returns": chosen, "lambda_": trial.suggest_float("lambda", 0.3, 0.95)}
    return {"returns": chosen}


Suggest = Callable[[Any, Any], dict[str, Any]]
"""(a trial of Optuna, the preset's config) -> settings of `DQNConfig`."""
SPACE: dict[str, Suggest] = {
    "learning_rate": lambda trial, config: {
        "learning_rate": trial.suggest_float(
            "learning_rate", config.learning_rate / 30, config.learning_rate * 10, log=True
        )
    },
    "returns": _returns,
    "ensemble": lambda trial, config: {"ensemble": trial.suggest_categorical("ensemble", [1, 2, 4])},
    "target_period": lambda trial, config: {
        "target_period": trial.suggest_categorical(
            "target_period", sorted({_near(config, "target_period", share) for share in (0.25, 1.0, 4.0)})
        )
    },
    "batch_size": lambda trial, config: {
        "batch_size": trial.suggest_categorical(
            "batch_size", [config.batch_size, 2 * config.batch_size, 4 * config.batch_size]
        )
    },
    "epsilon_end": lambda trial, config: {"epsilon_end": trial.suggest_float("epsilon_end", 0.005, 0.2, log=True)},
    "discount": lambda trial, config: {"discount": 1 - trial.suggest_float("one_minus_discount", 0.001, 0.1, log=True)},
}
"""Setting -> its range, around the preset's value where that has a scale."""
DEFAULT_SEARCH = ("learning_rate", "returns", "ensemble", "target_period")


@dataclass(frozen=True)
class TuneConfig:
    """What a study searches, and what stays fixed."""

    env: str
    options: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "paper"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the agent that all trials share."""
    search: tuple[str, ...] = DEFAULT_SEARCH
    steps: int = 100_000
    """Environment steps per trial and seed."""
    seeds: tuple[int, ...] = (0, 1)

    def __post_init__(self) -> None:
        for name in self.search:
            if name not in SPACE:
                raise ValueError(f"search: expected names among {', '.join(SPACE)}, got {name!r}")
            if name in self.settings:
                raise ValueError(f"search: {name} is given, so it cannot be searched as well")
        self.run_config()

    def run_config(self, **changes: Any) -> DQNRunConfig:
        """Return the config of a trial's run with these settings."""
        how = {**self.settings, **changes}
        return DQNRunConfig.from_preset(
            self.env, self.preset, options=dict(self.options), seeds=self.seeds, steps=self.steps, **how
        )

    def suggest(self, trial: Any) -> DQNRunConfig:
        """Return the config that Optuna suggests for a trial."""
        base, found = self.run_config().agent, {}
        for name in self.search:
            found |= SPACE[name](trial, base)
        return self.run_config(**found)


def import_optuna() -> Any:
    """Return the module `optuna`; MissingExtraError names the extra."""
    with importing_extra("tune", ["optuna"]):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class Tuning:
    """A study in a folder, new or begun before with the same config.

    The caller holds the lock of the folder.
    """

    def __init__(self, folder: Path, config: TuneConfig):
        self._optuna = import_optuna()
        self.folder, self.config, self._about = folder, config, jsonable(vars(config))
        self._check_folder()
        self._lock = Lock()

    def _check_folder(self) -> None:
        path = self.folder / CONFIG
        if path.exists():
            before = schema.check(read_json(path), {"provenance": {"config_hash": str}}, str(path))
            if before["provenance"]["config_hash"] != config_hash(self._about):
                raise ValueError(f"out: {self.folder} holds a study of something else; choose another folder")
        elif any(not file.name.startswith(".") for file in self.folder.iterdir()):
            raise ValueError(f"out: {self.folder} is not empty and holds no study; choose another folder")
        else:
            write_json(path, {"kind": "tune", "config": self._about, "provenance": provenance(self._about)})

    def _study(self) -> Any:
        """Open the study. The sampler begins anew with each command, so its seed is the number of trials so far."""
        optuna = self._optuna
        backend = optuna.storages.journal.JournalFileBackend(os.fspath(self.folder / JOURNAL))
        storage = optuna.storages.JournalStorage(backend)
        study = optuna.create_study(storage=storage, study_name=NAME, direction="maximize", load_if_exists=True)
        study.sampler = optuna.samplers.TPESampler(seed=len(study.trials), constant_liar=True)
        return study

    def run(self, trials: int, workers: RayWorkers | None, report: ReportProgress) -> dict[str, Any]:
        """Make as many trials as `trials` finished ones lack, side by side where there are `workers`.

        One that fails (its loss diverges, or no episode ends) counts as made, as in Optuna; another call makes up for
        it.

        Returns:
            What is in tune.json.
        """
        check_int("trials", trials, 1, MOST_TRIALS)
        study, states = self._study(), self._optuna.trial.TrialState
        begun = [trial.number for trial in study.trials if trial.state == states.RUNNING]
        left = trials - sum(trial.state == states.COMPLETE for trial in study.trials)
        jobs: list[int | None] = [*begun, *[None] * max(0, left - len(begun))][: max(0, left)]
        cost = self.config.steps * len(self.config.seeds)
        progress, stop = WorkProgress(report, cost * len(jobs)), Event()
        progress.advance(0, f"{trials - max(0, left)} of {trials} trials are finished already")

        def make_one(number: int | None) -> None:
            self._make_trial(study, number, workers, progress, stop)

        threads = 1 if workers is None else min(MOST_WAITING, workers.cluster.num_workers)
        run_jobs((partial(make_one, number) for number in jobs), threads, on_failure=stop.set)
        return self.results(study)

    def _make_trial(
        self, study: Any, number: int | None, workers: RayWorkers | None, progress: WorkProgress, stop: Event
    ) -> None:
        states = self._optuna.trial.TrialState
        with self._lock:
            config = None
            if number is not None:
                try:
                    config = self.config.suggest(self._optuna.trial.FixedTrial(study.trials[number].params))
                except ValueError:  # it was killed before all of its settings were chosen
                    study.tell(number, state=states.FAIL)
            if config is None:
                trial = study.ask()
                config, number = self.config.suggest(trial), int(trial.number)
        folder, counted = self.folder / f"trial{number}", 0.0

        def on_report(done: float, what: str) -> None:
            nonlocal counted
            if stop.is_set():
                raise StoppedError
            new, counted = done * len(self.config.seeds) - counted, done * len(self.config.seeds)
            progress.advance(new, f"trial {number}: {what}")

        try:
            arguments = (config, False, None)
            if workers is None:
                train_seed(*arguments, folder=folder, report=on_report)
            else:
                how = {"folder": folder, "on_report": on_report, "should_stop": stop.is_set}
                workers.call(f"trial {number}", train_seed, *arguments, **how)
            score = _score(folder, self.config.steps)
        except DivergedError:
            score = None
        with self._lock:
            study.tell(number, score, states.FAIL if score is None else states.COMPLETE)
        progress.advance(self.config.steps * len(self.config.seeds) - counted, f"trial {number} is done")
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)  # of hundreds of trials they would fill the disk

    def results(self, study: Any) -> dict[str, Any]:
        """Return, and write to tune.json, all trials, the best one, and how much each setting mattered."""
        states = self._optuna.trial.TrialState
        done = [trial for trial in study.trials if trial.state == states.COMPLETE]
        best = max(done, key=lambda trial: trial.value, default=None)
        found = {
            "trials": [_summary(trial) | {"state": trial.state.name.lower()} for trial in study.trials],
            "best": None if best is None else _summary(best),
            "importance": self._importance(study, done),
        }
        about = {"config": self._about, **jsonable(found), "provenance": provenance(self._about)}
        write_json(self.folder / RESULTS, about)
        return about

    def _importance(self, study: Any, done: Sequence[Any]) -> dict[str, float]:
        """Return the share of each setting in what separates good trials from the rest (PED-ANOVA); {} if too few."""
        if len({trial.value for trial in done}) < 2:
            return {}
        shared = set.intersection(*(set(trial.params) for trial in done))
        evaluator = self._optuna.importance.PedAnovaImportanceEvaluator()
        found = self._optuna.importance.get_param_importances(study, evaluator=evaluator, params=sorted(shared))
        return {name: float(share) for name, share in found.items()}


def _summary(trial: Any) -> dict[str, Any]:
    return {"number": trial.number, "score": trial.value, "params": trial.params}


def _score(folder: Path, steps: int) -> float | None:
    """Return the mean return of the last episodes over the lanes of a run; None if no episode ended in one of them."""
    scores = []
    for lane in read_metrics(folder / METRICS).values():
        columns = (lane[name] for name in ("step", "episode_return", "episodes"))
        step, returns, episodes = columns
        scores.append(last_episodes(step, np.nan_to_num(returns), [steps * 2], SCORED_EPISODES, episodes)[0])
    score = float(np.mean(scores))
    return score if np.isfinite(score) else None

"""A training run in a folder: config.json, metrics.jsonl, checkpoints/, and TensorBoard's events when asked.

Rows are on the disk before the checkpoint of their step is. So whenever a run is killed, its last checkpoint has all
its rows; later rows are dropped when it goes on, and written again. The first checkpoint is of step 0 and older than
any row: rows without a checkpoint mean that it was lost. One process at a time writes to the folder.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from greedystep import checkpoint, envs, schema
from greedystep.checks import LARGEST_SEED, check_whole
from greedystep.deep import presets
from greedystep.deep.config import DQNConfig
from greedystep.deep.trainer import Row, Trainer, config_from_json, most_steps
from greedystep.io import jsonable, read_json, reading, saying, write_json
from greedystep.metrics import MetricsFile, check_metrics
from greedystep.provenance import provenance
from greedystep.runs.lock import FOLDER_LOCK, WriterLock, lock_folder
from greedystep.runs.restart import METRICS, ask_for_restart, begin_without_state, set_aside
from greedystep.signals import deferred
from greedystep.tensorboard import EventFiles

KIND = "dqn"
CHECKPOINTS = "checkpoints"
SAVE_EVERY = 60.0
"""Seconds between checkpoints, at the least."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the numbers of a run."""

    env: str
    agent: DQNConfig
    options: dict[str, Any] = field(default_factory=dict)
    """Of the environment."""
    preset: str = "paper"
    """Where the agent's settings come from; what was changed stands in `agent`."""
    seeds: tuple[int, ...] = (0,)
    """One for each lane."""
    steps: int = 1_000_000
    """Environment steps of each lane, in all."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", check_whole("steps", self.steps, 1, most_steps(self.agent)))

    @classmethod
    def from_preset(
        cls,
        env: str,
        preset: str = "paper",
        *,
        options: dict[str, Any] | None = None,
        seeds: tuple[int, ...] = (0,),
        steps: int = 1_000_000,
        **changes: Any,
    ) -> RunConfig:
        """The preset's settings for this environment, with changes."""
        options = presets.env_options(env) | (options or {})
        pictures = len(envs.make(env, **options).observation.shape) == 3
        agent = presets.make_config(env, preset, pictures=pictures, **changes)
        return cls(env, agent, options, preset, seeds, steps)

    def make_env(self) -> Any:
        return envs.make(self.env, **self.options)

    def trainer(self) -> Trainer:
        """A new one, before its first step."""
        return Trainer(self.agent, self.make_env(), self.seeds)

    def as_json(self) -> dict[str, Any]:
        return jsonable(dataclasses.asdict(self))


class Progress(NamedTuple):
    """What is told after each chunk."""

    step: int
    episode_return: float
    """Mean over lanes of the chunk's episodes; NaN if none ended."""
    steps_per_second: float
    """All lanes together."""


class Run:
    """A folder in which agents learn; made by `start` or `resume`.

    It is the only writer of its folder until `train` has ended or `close` is called.
    """

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        trainer: Trainer,
        lock: WriterLock,
        *,
        tensorboard: bool = False,
        resume_at: int | None = None,
        restart: bool = False,
    ):
        self.folder, self.config, self.trainer = folder, config, trainer
        self._lock, self._tensorboard = lock, tensorboard
        self._resume_at, self._restart, self._saved = resume_at, restart, resume_at
        if tensorboard:
            EventFiles(folder)  # complains now rather than in the middle if its package is missing

    @classmethod
    def start(cls, folder: Path, config: RunConfig, *, tensorboard: bool = False) -> Run:
        """A new run. Nothing but the lock is written yet: bad settings leave no trace.

        InUseError, a ValueError, if another process writes to the folder.
        """
        with ExitStack() as on_failure:
            lock = on_failure.enter_context(lock_folder(folder))
            if any(file.name != FOLDER_LOCK and file.suffix != ".part" for file in folder.iterdir()):
                raise ValueError(f"out: {folder} is not empty; resume the run in it, or choose another folder")
            trainer = config.trainer()
            trainer.check_memory()
            run = cls(folder, config, trainer, lock, tensorboard=tensorboard)
            on_failure.pop_all()
            return run

    @classmethod
    def resume(cls, folder: Path, steps: int | None = None, *, restart: bool = False, env: str | None = None) -> Run:
        """A run that was stopped or killed, or is to go on beyond its end, to `steps` in all.

        A run whose checkpoints are all damaged or missing cannot go on: ValueError says so. InUseError, a ValueError
        too, if another process writes to the folder.

        Args:
            restart: begin again at step 0; earlier rows and checkpoints are kept under other names.
            env: the run's own environment, for who wants to be sure; another one is an error.
        """
        config, tensorboard = read_config(folder)
        if env is not None and env != config.env:
            raise ValueError(f"env: {folder} is a run in {config.env!r}, got {env!r}")
        if steps is not None:
            config = dataclasses.replace(config, steps=steps)
        with ExitStack() as on_failure:
            lock = on_failure.enter_context(lock_folder(folder))
            found = None if restart else _checkpoint_to_go_on_from(folder)
            if not restart:
                check_metrics(folder / METRICS)
            trainer = config.trainer()
            if found is not None:
                trainer.restore(found)
            done = int(trainer.state.step)
            if steps is not None and steps < done:
                raise ValueError(f"steps: {folder} has {done} already, got {steps}")
            resume_at = None if found is None else done
            run = cls(folder, config, trainer, lock, tensorboard=tensorboard, resume_at=resume_at, restart=restart)
            on_failure.pop_all()
            return run

    def close(self) -> None:
        """Let others write to the folder, if `train` is not called or has ended."""
        self._lock.release()

    @property
    def step(self) -> int:
        """Environment steps of each lane so far."""
        return int(self.trainer.state.step)

    @property
    def finished(self) -> bool:
        return self.step >= self.config.steps

    def train(self, save_every: float = SAVE_EVERY) -> Generator[Progress, None, None]:
        """Train to the end; whenever it stops being asked, everything so far is saved.

        After an error (a full disk, a loss that is not finite) nothing is saved: the last checkpoint stands.
        """
        if not self._lock.held:
            raise ValueError(f"{self.folder}: this run has ended or was closed; Run.resume goes on with it")
        with self._lock, ExitStack() as files:
            with deferred():
                metrics = files.enter_context(self._begin())
            yield from self._train(metrics, save_every)

    def _begin(self) -> MetricsFile:
        """Write the settings and the first checkpoint."""
        if self._restart:
            set_aside(self.folder, CHECKPOINTS, METRICS)
        config = self.config.as_json()
        about = {"kind": KIND, "config": config, "tensorboard": self._tensorboard, "provenance": provenance(config)}
        with saying(f"cannot write {self.folder / 'config.json'}"):
            write_json(self.folder / "config.json", about)
        self._save()
        events = self.folder / "tensorboard" if self._tensorboard else None
        resume_at = 0 if self._restart else self._resume_at
        return MetricsFile(self.folder / METRICS, resume_at=resume_at, tensorboard=events)

    def _train(self, metrics: MetricsFile, save_every: float) -> Generator[Progress, None, None]:
        chunks, saved = self.trainer.chunks(self.config.steps - self.step), time.perf_counter()
        try:
            while not self.finished:
                with deferred():
                    rows = next(chunks)
                    metrics.append(rows)
                    if time.perf_counter() - saved > save_every:
                        self._save(metrics)
                        saved = time.perf_counter()
                yield _progress(rows)
        except Exception:
            raise
        except BaseException:
            with deferred():
                self._save(metrics)
            raise
        with deferred():
            self._save(metrics)

    def _save(self, metrics: MetricsFile | None = None) -> None:
        """Write a checkpoint if there is none of this step; rows go first."""
        if self.step == self._saved:
            return
        if metrics is not None:
            metrics.sync()
        self.trainer.save(self.folder / CHECKPOINTS, run=self.config.as_json())
        checkpoint.prune(self.folder / CHECKPOINTS)
        self._saved = self.step


def _checkpoint_to_go_on_from(folder: Path) -> Path | None:
    """None, with a warning, if the run was stopped before its first one; ValueError if all are damaged or missing."""
    try:
        found = checkpoint.latest(folder / CHECKPOINTS)
    except checkpoint.DamagedCheckpointError as problem:
        raise ask_for_restart(folder, str(problem)) from None
    if found is None:
        begin_without_state(folder, f"checkpoint in {CHECKPOINTS}/")
    return found


def trained(path: Path) -> Trainer:
    """The trainer of a run as its last checkpoint left it, or of a saved agent's file; to be asked and not to go on."""
    if path.is_file():
        with reading(path) as file:
            if file.read(2) == b"PK":
                raise ValueError(
                    f"{path} is an archive of arrays, as tables are kept in; expected an agent with networks"
                )
        return Trainer.load(path)
    trainer, found = read_config(path)[0].trainer(), checkpoint.latest(path / CHECKPOINTS)
    if found is not None:
        trainer.restore(found)
    if not trainer.state.step:
        raise ValueError(f"{path} has no checkpoint yet")
    return trainer


def _progress(rows: list[Row]) -> Progress:
    known = [row["episode_return"] for row in rows if row["episode_return"] is not None]
    return Progress(rows[0]["step"], float(np.mean(known)) if known else np.nan, rows[0]["steps_per_second"])


CONTENT = {
    "kind": schema.OneOf(KIND),
    "config": {
        "env": str,
        "agent": dict,
        "options": dict,
        "preset": str,
        "seeds": [schema.Whole(0, LARGEST_SEED)],
        "steps": schema.Whole(1),
    },
    "tensorboard": bool,
}
"""Of config.json."""


def read_config(folder: Path) -> tuple[RunConfig, bool]:
    """The run's settings, and whether it writes TensorBoard's events; ValueError says why a folder is no run."""
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} holds no run (it has no config.json)")
    content = read_json(path)
    try:
        config = schema.check(content, CONTENT, "it")["config"]
        agent, seeds = config_from_json(config["agent"]), tuple(config["seeds"])
        made = schema.build(RunConfig, config | {"agent": agent, "seeds": seeds}, "config")
        made.make_env()  # so that a name or an option that is wrong is the file's fault, too
    except (ValueError, MemoryError) as problem:
        raise ValueError(f"{path} is not the configuration of a DQN run ({problem})") from None
    return made, content["tensorboard"]

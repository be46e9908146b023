"""A training run in a folder: config.json, metrics.jsonl, checkpoints/, and TensorBoard's events when asked.

Rows are on the disk before the checkpoint of their step is. So whenever a run is killed, its last checkpoint has all
its rows; later rows are dropped when it goes on, and written again.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from greedystep import checkpoint, envs
from greedystep.checks import check_whole
from greedystep.deep import presets
from greedystep.deep.config import DQNConfig
from greedystep.deep.train import Row, Trainer, most_steps
from greedystep.metrics import MetricsFile
from greedystep.record import jsonable, provenance, read_json, saying, write_json
from greedystep.tensorboard import EventFiles
from greedystep.undisturbed import undisturbed

KIND = "dqn"
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
        pictures = len(envs.make_env(env, **options).observation.shape) == 3
        agent = presets.make_config(env, preset, pictures=pictures, **changes)
        return cls(env, agent, options, preset, seeds, steps)

    def make_env(self) -> Any:
        return envs.make_env(self.env, **self.options)

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
    """A folder in which agents learn; made by `start` or `resume`."""

    def __init__(
        self, folder: Path, config: RunConfig, trainer: Trainer, *, tensorboard: bool = False, resumed: bool = False
    ):
        self.folder, self.config, self.trainer = folder, config, trainer
        self._tensorboard, self._resumed = tensorboard, resumed
        self._saved = self.step if resumed else -1
        if tensorboard:
            EventFiles(folder)  # complains now rather than in the middle if its package is missing

    @classmethod
    def start(cls, folder: Path, config: RunConfig, *, tensorboard: bool = False) -> Run:
        """A new run. Nothing is written yet: bad settings leave no trace."""
        if folder.exists() and not all(file.suffix == ".part" for file in folder.iterdir()):
            raise ValueError(f"out: {folder} is not empty; resume the run in it, or choose another folder")
        trainer = config.trainer()
        trainer.check_memory()
        return cls(folder, config, trainer, tensorboard=tensorboard)

    @classmethod
    def resume(cls, folder: Path, steps: int | None = None) -> Run:
        """A run that was stopped or killed, or is to go on beyond its end, to `steps` in all."""
        config, tensorboard = read_config(folder)
        if steps is not None:
            config = dataclasses.replace(config, steps=steps)
        trainer = config.trainer()
        if (path := checkpoint.latest(folder / "checkpoints")) is not None:
            trainer.restore(path)
        if steps is not None and steps < trainer.state.step:
            raise ValueError(f"steps: {folder} has {trainer.state.step} already, got {steps}")
        return cls(folder, config, trainer, tensorboard=tensorboard, resumed=True)

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
        config = self.config.as_json()
        about = {"kind": KIND, "config": config, "tensorboard": self._tensorboard, "provenance": provenance(config)}
        with saying(f"cannot write {self.folder / 'config.json'}"):
            write_json(self.folder / "config.json", about)
        events = self.folder / "tensorboard" if self._tensorboard else None
        resume_at = self.step if self._resumed else None
        with MetricsFile(self.folder / "metrics.jsonl", resume_at=resume_at, tensorboard=events) as metrics:
            chunks, saved = self.trainer.chunks(self.config.steps - self.step), time.perf_counter()
            try:
                while not self.finished:
                    with undisturbed():
                        rows = next(chunks)
                        metrics.append(rows)
                        if time.perf_counter() - saved > save_every:
                            self._save(metrics)
                            saved = time.perf_counter()
                    yield _progress(rows)
            except Exception:
                raise
            except BaseException:
                with undisturbed():
                    self._save(metrics)
                raise
            with undisturbed():
                self._save(metrics)

    def _save(self, metrics: MetricsFile) -> None:
        if self.step == self._saved:
            return
        metrics.sync()
        self.trainer.save(self.folder / "checkpoints", run=self.config.as_json())
        checkpoint.prune(self.folder / "checkpoints")
        self._saved = self.step


def trained(path: Path) -> Trainer:
    """The trainer of a run as its last checkpoint left it, or of a saved agent's file; to be asked and not to go on."""
    if path.is_file():
        return Trainer.load(path)
    run = Run.resume(path)
    if not run.step:
        raise ValueError(f"{path} has no checkpoint yet")
    return run.trainer


def _progress(rows: list[Row]) -> Progress:
    known = [row["episode_return"] for row in rows if row["episode_return"] is not None]
    return Progress(rows[0]["step"], float(np.mean(known)) if known else np.nan, rows[0]["steps_per_second"])


def read_config(folder: Path) -> tuple[RunConfig, bool]:
    """The run's settings, and whether it writes TensorBoard's events; ValueError says why a folder is no run."""
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} holds no run (it has no config.json)")
    content = read_json(path)
    try:
        if content["kind"] != KIND:
            raise TypeError(f"its kind is {content['kind']!r}")
        config: dict[str, Any] = dict(content["config"])
        agent: dict[str, Any] = dict(config["agent"])
        agent["hidden"], config["seeds"] = tuple(agent["hidden"]), tuple(config["seeds"])
        config["agent"] = DQNConfig(**agent)
        return RunConfig(**config), bool(content["tensorboard"])
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"{path} is not the configuration of a DQN run ({problem})") from None

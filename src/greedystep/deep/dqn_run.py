"""Training runs of deep agents in a folder (see `runs.resumable_run`), whose state is in checkpoints/."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import checkpoint, envs, schema
from greedystep.checks import LARGEST_SEED, check_int
from greedystep.deep import presets
from greedystep.deep.config import DQNConfig
from greedystep.deep.divergence import DivergedError
from greedystep.deep.env_spec import AnyEnvironment, as_environment, config_for
from greedystep.deep.trainer import Trainer, most_steps
from greedystep.deep.trainer_description import config_from_json
from greedystep.envs.gymnasium_ids import check_registered
from greedystep.envs.gymnasium_rules import EnvironmentFailedError
from greedystep.envs.host import Vectorization
from greedystep.io import jsonable, open_regular_file
from greedystep.metrics import EventFiles, Row
from greedystep.runs.lock import FOLDER_LOCK, WriterLock
from greedystep.runs.resumable_run import (
    CONFIG,
    RunFolder,
    RunProgress,
    ask_for_restart,
    check_resumable,
    locked,
    read_run_config,
)

KIND = "dqn"
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class DQNRunConfig:
    """Settings that decide the numbers of a run: environment, agent, seeds and length."""

    env: str
    agent: DQNConfig
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the environment."""
    preset: str = "paper"
    """Name of the preset that the agent's settings come from; `agent` holds the result, with all changes."""
    seeds: tuple[int, ...] = (0,)
    """Seeds, one per lane (training side by side)."""
    steps: int = 1_000_000
    """Environment steps per lane in the whole run."""
    vectorization: Vectorization = "sync"
    """How copies of a Gymnasium environment are stepped."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", check_int("steps", self.steps, 1, most_steps(self.agent)))

    @classmethod
    def from_preset(
        cls,
        env: str,
        preset: str = "paper",
        *,
        options: dict[str, Any] | None = None,
        seeds: tuple[int, ...] = (0,),
        steps: int = 1_000_000,
        vectorization: Vectorization = "sync",
        **changes: Any,
    ) -> DQNRunConfig:
        """Make the settings from a preset for this environment; `changes` replace settings of the agent."""
        options = presets.env_options(env) | (options or {})
        agent = config_for(as_environment(env, **options), preset, **changes)
        return cls(env, agent, options, preset, seeds, steps, vectorization)

    def make_env(self) -> AnyEnvironment:
        """Make the environment of the run."""
        return as_environment(self.env, vectorization=self.vectorization, **self.options)

    def trainer(self) -> Trainer:
        """Make a new trainer with these settings, at step 0."""
        return Trainer(self.agent, self.make_env(), self.seeds)

    def as_json(self) -> dict[str, Any]:
        return jsonable(dataclasses.asdict(self))


class DQNRun(RunFolder):
    """A run folder of deep agents, one per seed, whose state is the checkpoints of a `Trainer`."""

    UNIT, STATE, SAVE_EVERY = "steps", CHECKPOINTS, 60.0
    FAILURES = (DivergedError, MemoryError, EnvironmentFailedError)
    SAVED_FAILURES = (EnvironmentFailedError,)

    def __init__(self, folder: Path, config: DQNRunConfig, trainer: Trainer, lock: WriterLock, **how: bool):
        self.config, self.trainer = config, trainer
        super().__init__(folder, lock, **how)
        if self._tensorboard:
            EventFiles(folder)  # complains now rather than in the middle if its package is missing

    @classmethod
    def start(cls, folder: Path, config: DQNRunConfig, *, tensorboard: bool = False) -> DQNRun:
        """Make a new run in `folder`. Nothing but its lock is written yet, so that bad settings leave no trace.

        InUseError, a ValueError, if another process writes to the folder.
        """
        with locked(folder) as lock:
            if any(file.name != FOLDER_LOCK and file.suffix != ".part" for file in folder.iterdir()):
                raise ValueError(f"out: {folder} is not empty; resume the run in it, or choose another folder")
            trainer = config.trainer()
            trainer.check_memory()
            return cls(folder, config, trainer, lock, tensorboard=tensorboard, is_saved=False)

    @classmethod
    def resume(cls, folder: Path, steps: int | None = None, *, restart: bool = False, env: str | None = None) -> DQNRun:
        """Continue a run that was stopped or killed, or extend a finished one to `steps` steps in total.

        If all its checkpoints are damaged or missing, ValueError says so. InUseError, a ValueError too, if another
        process writes to the folder.

        Args:
            restart: begin again at step 0; earlier rows and checkpoints are kept under other names.
            env: the name that the run's environment must have; any other is an error.
        """
        config, tensorboard = read_config(folder, env)
        if steps is not None:
            config = dataclasses.replace(config, steps=steps)
        with locked(folder) as lock:
            found = None if restart else _newest_checkpoint(folder)
            if not restart:
                check_resumable(folder, f"checkpoint in {CHECKPOINTS}/" if found is None else None)
            trainer = config.trainer()
            if found is not None:
                trainer.restore(found)
            done = int(trainer.state.step)
            if steps is not None and steps < done:
                raise ValueError(f"steps: {folder} has {done} already, got {steps}")
            how = {"tensorboard": tensorboard, "restart": restart, "is_saved": found is not None}
            return cls(folder, config, trainer, lock, **how)

    def close(self) -> None:
        """Close the environments that were made, and release the folder for other writers."""
        self.trainer.close()
        super().close()

    @property
    def done(self) -> int:
        return int(self.trainer.state.step)

    @property
    def steps(self) -> int:
        return self.done

    @property
    def total(self) -> int:
        return self.config.steps

    def describe(self) -> dict[str, Any]:
        return {"kind": KIND, "config": self.config.as_json(), "tensorboard": self._tensorboard}

    def chunks(self) -> Iterator[tuple[Sequence[Row], RunProgress]]:
        if (tell := self.on_progress) is not None:
            self.trainer.on_progress = lambda step, speed: tell(RunProgress(step, np.nan, speed))
        for rows in self.trainer.chunks(self.total - self.done):
            known = [row["episode_return"] for row in rows if row["episode_return"] is not None]
            yield rows, RunProgress(self.done, float(np.mean(known)) if known else np.nan, rows[0]["steps_per_second"])

    def save_state(self) -> None:
        self.trainer.save(self.folder / CHECKPOINTS, run=self.config.as_json())
        checkpoint.prune(self.folder / CHECKPOINTS)


def _newest_checkpoint(folder: Path) -> Path | None:
    """Return the newest intact checkpoint, None if the run has none; ValueError if all of them are damaged."""
    try:
        return checkpoint.latest(folder / CHECKPOINTS)
    except checkpoint.DamagedCheckpointError as problem:
        raise ask_for_restart(folder, str(problem)) from None


def trained(path: Path, named: str | None = None) -> Trainer:
    """Return the trainer of a run folder at its last checkpoint, or of a saved agent's file; writes nothing.

    Args:
        named: an environment that the user has named: if it is that of the agent, a module may be imported for it.
    """
    if path.is_file():
        with open_regular_file(path) as file:
            if file.read(2) == b"PK":
                raise ValueError(
                    f"{path} is an archive of arrays, as tables are kept in; expected an agent with networks"
                )
        return Trainer.load(path, named=named)
    trainer, found = read_config(path, named=named)[0].trainer(), checkpoint.latest(path / CHECKPOINTS)
    if found is not None:
        trainer.restore(found)
    if not trainer.state.step:
        raise ValueError(f"{path} has no checkpoint yet")
    return trainer


CONTENT: dict[str, schema.Schema] = {
    "kind": str,
    "config": {
        "env": str,
        "agent": dict,
        "options": dict,
        "preset": str,
        "seeds": [schema.Int(0, LARGEST_SEED)],
        "steps": schema.Int(1),
    },
    "tensorboard": bool,
}
"""Schema of config.json, besides its provenance."""


def read_config(
    folder: Path, env: str | None = None, *, kind: str = KIND, named: str | None = None
) -> tuple[DQNRunConfig, bool]:
    """Return a run's settings and whether it writes TensorBoard's events; ValueError says why a folder is no run.

    Args:
        kind: the "kind" that the folder must say it is.
        env: the name that the run's environment must have. Without it, an environment whose id imports a module
            ("module:name") is refused: a folder that somebody sent must not decide what is imported.
        named: an environment that the user has named, which may be that of the run or not.
    """
    content = read_run_config(folder)
    try:
        config = schema.check(content, CONTENT | {"kind": schema.OneOf(kind)}, "it")["config"]
        agent, seeds = config_from_json(config["agent"]), tuple(config["seeds"])
        made = schema.build(DQNRunConfig, config | {"agent": agent, "seeds": seeds}, "config")
    except (ValueError, MemoryError) as problem:
        raise ValueError(f"{folder / CONFIG} is not the configuration of a DQN run ({problem})") from None
    if env is not None and env != made.env:
        raise ValueError(f"env: {folder} is a run in {made.env!r}, got {env!r}")
    if made.env not in (env, named) and not envs.is_own_name(made.env):
        check_registered(made.env, folder)
    try:
        made.make_env()  # so that a name or an option that is wrong is the file's fault, too
    except (ValueError, MemoryError) as problem:
        raise ValueError(f"{folder / CONFIG} is not the configuration of a DQN run ({problem})") from None
    return made, content["tensorboard"]

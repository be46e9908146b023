"""Callbacks of `DQN.learn`: functions of the agent and its newest metrics rows, called after every chunk.

    def print_return(agent, rows):
        print(agent.steps, rows[0]["episode_return"])

    agent.learn(100_000, callback=[print_return, gs.callbacks.StopAtReturn(475)])

A callback that returns False ends training; anything else goes on. If one raises, the agent keeps what it has learned.
Chunks are `log_every` steps long.
"""

from __future__ import annotations

import csv
import inspect
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from greedystep.checks import check_float, check_int, short_repr
from greedystep.metrics import TAGS, EventFiles, tagged

if TYPE_CHECKING:
    from greedystep.deep.agent import DQN

Rows = Sequence[dict[str, Any]]
Callback = Callable[["DQN", Rows], Any]


@dataclass
class KeepBest:
    """Evaluates the greedy policy every `every` steps, and saves the agent whenever its mean return is the best so far.

    Args:
        path: the file of the best agent.
        every: steps between two evaluations, rounded up to whole chunks.
        env: another environment to play in; by default the agent's own.
    """

    path: str | os.PathLike
    every: int = 10_000
    episodes: int = 10
    env: Any = None
    seed: int = 0
    best: float = -np.inf
    history: list[tuple[int, float]] = field(default_factory=list)
    """(steps, mean return) of every evaluation."""
    _next: int = 0

    def __post_init__(self) -> None:
        check_int("every", self.every)
        check_int("episodes", self.episodes)

    def __call__(self, agent: DQN, rows: Rows) -> None:
        if agent.steps < self._next:
            return
        self._next = agent.steps + self.every
        mean = agent.evaluate(self.episodes, seed=self.seed, env=self.env).mean
        self.history.append((agent.steps, mean))
        if mean > self.best:
            self.best = mean
            agent.save(self.path)


@dataclass
class Checkpoint:
    """Saves the agent every `every` steps to FOLDER/agent-STEPS, which `gs.load` reads."""

    folder: str | os.PathLike
    every: int = 50_000
    _next: int = 0

    def __post_init__(self) -> None:
        check_int("every", self.every)

    def __call__(self, agent: DQN, rows: Rows) -> None:
        if agent.steps >= self._next:
            self._next = agent.steps + self.every
            agent.save(Path(self.folder) / f"agent-{agent.steps}")


@dataclass
class StopAtReturn:
    """Ends training once the mean return of the episodes of one chunk, exploration included, reaches a threshold."""

    threshold: float

    def __post_init__(self) -> None:
        check_float("threshold", self.threshold, -np.inf)

    def __call__(self, agent: DQN, rows: Rows) -> bool:
        return not any(row["episode_return"] is not None and row["episode_return"] >= self.threshold for row in rows)


@dataclass
class StopWithoutProgress:
    """Ends training after `patience` consecutive chunks (of `log_every` steps) without a new best mean return."""

    patience: int = 10
    best: float = -np.inf
    _waited: int = 0

    def __post_init__(self) -> None:
        check_int("patience", self.patience)

    def __call__(self, agent: DQN, rows: Rows) -> bool:
        found = [row["episode_return"] for row in rows if row["episode_return"] is not None]
        if found and max(found) > self.best:
            self.best, self._waited = max(found), 0
        else:
            self._waited += 1
        return self._waited < self.patience


@dataclass
class TensorBoard:
    """Writes TensorBoard's event files (the extra `tensorboard`), with CleanRL's tags: charts/episodic_return, ..."""

    folder: str | os.PathLike
    _events: EventFiles | None = None

    def __call__(self, agent: DQN, rows: Rows) -> None:
        if self._events is None:
            self._events = EventFiles(self.folder)
            weakref.finalize(self, self._events.close)
        self._events.append(rows)


@dataclass
class CSV:
    """Appends rows to a CSV file: global_step, then CleanRL's tags (charts/episodic_return, losses/td_loss, ...).

    What is null in a row, such as the mean return where no episode ended, is an empty cell. A file that is there
    already keeps its rows and columns.
    """

    path: str | os.PathLike

    def __post_init__(self) -> None:
        self._columns()  # a file of something else is refused before the training

    def __call__(self, agent: DQN, rows: Rows) -> None:
        path, columns, is_new = Path(self.path), self._columns(), False
        cells = [{"global_step": row["step"]} | tagged(row) for row in rows]
        if not columns:
            scalars = [name for name, value in rows[0].items() if not isinstance(value, str | list)]
            tags = [*tagged(dict.fromkeys(scalars, 0)), *TAGS.values()]  # later rows may also have an evaluation
            columns, is_new = list(dict.fromkeys(["global_step", *tags])), True
            path.parent.mkdir(parents=True, exist_ok=True)
        if unknown := [name for row in cells for name in row if name not in columns]:
            raise ValueError(f"path: {path} has no column {unknown[0]}; choose another file")
        with open(path, "a", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            if is_new:
                writer.writeheader()
            writer.writerows(cells)

    def _columns(self) -> list[str]:
        """Return the columns of the file, [] if there is none yet; ValueError if it holds something else."""
        path = Path(self.path)
        if not path.exists():
            return []
        with open(path, newline="", errors="replace") as file:
            columns = next(csv.reader(file), [])
        if columns and columns[0] != "global_step":
            raise ValueError(
                f"path: expected a new file or one whose first column is global_step, got {path}, which begins with "
                f"{short_repr(columns[0])}"
            )
        return columns


class WandB:
    """Logs to Weights & Biases, which has to be installed, with CleanRL's tags.

    Args:
        options: arguments of `wandb.init`, such as `project`; the settings of the agent go to its `config`.
    """

    def __init__(self, **options: Any):
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise ValueError("wandb: Weights & Biases is not installed: pip install wandb") from None
        self._wandb, self._options, self._run = wandb, options, None

    def __call__(self, agent: DQN, rows: Rows) -> None:
        if self._run is None:
            config = {"env": agent.env.name} | asdict(agent.config) | self._options.pop("config", {})
            self._run = self._wandb.init(config=config, **self._options)
        for row in rows:
            self._run.log(tagged(row), step=row["step"])

    def finish(self) -> None:
        """End the run; otherwise it ends with the program."""
        if self._run is not None:
            self._run.finish()
            self._run = None


def check_callbacks(callback: Any) -> list[Callback]:
    """Return one callback, several or None as a list; ValueError says which is none."""
    if callback is None:
        return []
    several = isinstance(callback, Iterable) and not isinstance(callback, str) and not callable(callback)
    callbacks: list[Any] = list(callback) if several else [callback]
    for one in callbacks:
        expected = "callback: expected a function of (agent, rows) or a list of them, got "
        if isinstance(one, type):
            raise ValueError(f"{expected}the class {one.__name__}; make one: {one.__name__}(...)")
        if not callable(one):
            raise ValueError(f"{expected}{short_repr(one)}")
        if not _takes_two(one):
            raise ValueError(f"{expected}one of other arguments: {getattr(one, '__name__', short_repr(one))}")
    return callbacks


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # it does not say what it takes
        return True
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True


def call_all(callbacks: Sequence[Callback], agent: DQN, rows: Rows) -> bool:
    """Call all callbacks; return whether training goes on."""
    answers = [one(agent, rows) for one in callbacks]
    return not any(isinstance(answer, bool | np.bool_) and not answer for answer in answers)

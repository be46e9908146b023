"""A training run of a tabular agent in a folder: config.json, metrics.jsonl, agent.npz.

The agent is saved before the first row: rows without an agent mean that it was lost. One process at a time writes to
the folder.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from greedystep import envs, schema
from greedystep.checks import check_whole
from greedystep.io import read_json, write_json
from greedystep.memory import check_memory
from greedystep.metrics import MetricsFile, check_metrics
from greedystep.provenance import provenance
from greedystep.runs.lock import WriterLock, lock_folder
from greedystep.runs.restart import METRICS, ask_for_restart, begin_without_state, set_aside
from greedystep.signals import deferred
from greedystep.tabular.methods import parameters_of
from greedystep.tabular.tabular_agent import TabularAgent

KIND = "tabular"
AGENT = "agent.npz"
ROWS = 100
"""Rows of metrics in a whole run, each over the same number of episodes."""
BYTES_PER_EPISODE = 80
"""Of a row that is being collected: a float and an int of Python, and their places in two lists."""
PIECE = 0.2
"""Seconds of learning, about, between two looks at the clock and at Ctrl-C."""
SAVE_EVERY = 2.0
"""Seconds between saves, at the least."""
AGENT_OPTIONS = ("discount", "limit")
"""Options of a Gymnasium environment that are the agent's; all others are for `gymnasium.make`."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the numbers of a run."""

    env: str
    options: dict[str, Any] = field(default_factory=dict)
    method: str = "greedy-step"
    method_options: dict[str, Any] = field(default_factory=dict)
    epsilon: float = 0.2
    initial: float | None = None
    seed: int = 0
    episodes: int = 1000

    def env_and_rules(self) -> tuple[Any, dict[str, Any]]:
        """(the environment, the agent's own options about it)."""
        if self.env.startswith("toy/"):
            return envs.make_task(self.env, **self.options), {}
        rules = {name: value for name, value in self.options.items() if name in AGENT_OPTIONS}
        made_with = {name: value for name, value in self.options.items() if name not in AGENT_OPTIONS}
        if not made_with:
            return self.env, rules
        from greedystep.tabular.gymnasium_task import make_gymnasium

        return make_gymnasium(self.env, **made_with), rules

    def agent(self) -> TabularAgent:
        """A new one."""
        parameters_of(self.method, self.method_options)  # before `env` or `seed` could be taken for one of them
        env, rules = self.env_and_rules()
        how: Any = {"seed": self.seed, "epsilon": self.epsilon, "q": self.initial, **rules, **self.method_options}
        return TabularAgent(env, self.method, **how)


class Progress(NamedTuple):
    """What is told between two pieces of learning."""

    episodes: int
    """Done so far."""
    episode_return: float
    """The mean of the last piece, exploration included."""


class Run:
    """A folder in which an agent learns; made by `start` or `resume`.

    It is the only writer of its folder until `train` has ended or `close` is called.
    """

    def __init__(
        self, folder: Path, config: RunConfig, agent: TabularAgent, lock: WriterLock, *, restart: bool = False
    ):
        self.folder, self.config, self.agent = folder, config, agent
        self._lock, self._restart = lock, restart

    @classmethod
    def start(cls, folder: Path, config: RunConfig) -> Run:
        """A new run. Nothing but the lock is written yet: bad settings leave no trace.

        InUseError, a ValueError, if another process writes to the folder.
        """
        _check_episodes(config)
        with ExitStack() as on_failure:
            lock = on_failure.enter_context(lock_folder(folder))
            for name in ("config.json", METRICS, AGENT):
                if (folder / name).exists():
                    raise ValueError(f"out: {folder} holds another run; resume it, or choose another folder")
            run = cls(folder, config, config.agent(), lock)
            on_failure.pop_all()
            return run

    @classmethod
    def resume(cls, folder: Path, episodes: int | None = None, *, restart: bool = False, env: str | None = None) -> Run:
        """A run that was stopped, or is to go on beyond its end, to `episodes` in all.

        A run whose agent.npz is damaged or missing cannot go on: ValueError says so. InUseError, a ValueError too, if
        another process writes to the folder.

        Args:
            restart: begin again at step 0; earlier rows and the earlier agent are kept under other names.
            env: the run's own environment, which has to be named where making it imports a module.
        """
        config = read_config(folder, env)
        if episodes is not None:
            config = dataclasses.replace(config, episodes=episodes)
            _check_episodes(config)
        with ExitStack() as on_failure:
            lock = on_failure.enter_context(lock_folder(folder))
            agent = config.agent() if restart else _agent_to_go_on_with(folder, config)
            if not restart:
                check_metrics(folder / METRICS)
            if episodes is not None and episodes < agent.episodes:
                raise ValueError(f"episodes: {folder} has {agent.episodes} already, got {episodes}")
            run = cls(folder, config, agent, lock, restart=restart)
            on_failure.pop_all()
            return run

    def close(self) -> None:
        """Let others write to the folder, if `train` is not called or has ended."""
        self._lock.release()

    @property
    def finished(self) -> bool:
        return self.agent.episodes >= self.config.episodes

    def train(self) -> Generator[Progress, None, None]:
        """Learn to the end, in pieces; whenever it stops being asked, everything so far is saved.

        Rows come at fixed numbers of episodes, so that they do not depend on the speed of the machine.
        """
        if not self._lock.held:
            raise ValueError(f"{self.folder}: this run has ended or was closed; Run.resume goes on with it")
        with self._lock, ExitStack() as files:
            with deferred():
                metrics = files.enter_context(self._begin())
            yield from self._train(metrics)

    def _begin(self) -> MetricsFile:
        """Write the settings and the agent as it is now."""
        if self._restart:
            set_aside(self.folder, AGENT, METRICS)
        config = dataclasses.asdict(self.config)
        write_json(self.folder / "config.json", {"kind": KIND, "config": config, "provenance": provenance(config)})
        self.agent.save(self.folder / AGENT)
        return MetricsFile(self.folder / METRICS, resume_at=self.agent.steps)

    def _train(self, metrics: MetricsFile) -> Generator[Progress, None, None]:
        every = _episodes_per_row(self.config.episodes)
        row, began, saved = _Row(), time.perf_counter(), time.perf_counter()
        try:
            for episodes in self._pieces(every):
                with deferred():
                    learned = self.agent.learn(episodes)
                    row.add(learned.returns, learned.lengths)
                    if self.agent.episodes % every == 0 or self.finished:
                        metrics.append([self._row(row, time.perf_counter() - began)])
                        row = _Row()
                        if time.perf_counter() - saved > SAVE_EVERY:
                            self._save(metrics)
                            saved = time.perf_counter()
                yield Progress(self.agent.episodes, float(learned.returns.mean()))
        except FloatingPointError:
            raise  # the table is of no use: what was saved before stays
        except BaseException:
            with deferred():
                if row.returns:
                    metrics.append([self._row(row, time.perf_counter() - began)])
                self._save(metrics)
            raise
        with deferred():
            self._save(metrics)

    def _pieces(self, every: int) -> Iterator[int]:
        """Numbers of episodes, each about PIECE seconds' worth and none beyond the next row."""
        size = 1
        while not self.finished:
            left = min(every - self.agent.episodes % every, self.config.episodes - self.agent.episodes)
            began = time.perf_counter()
            yield min(size, left)
            took = time.perf_counter() - began
            size = 2 * size if took < PIECE / 2 else max(1, size // 2) if took > 2 * PIECE else size

    def _row(self, row: _Row, seconds: float) -> dict[str, Any]:
        return {
            "step": self.agent.steps,
            "lane": 0,
            "seed": self.config.seed,
            "episodes": self.agent.episodes,
            "episode_return": float(np.mean(row.returns)),
            "episode_length": float(np.mean(row.lengths)),
            "wall_seconds": seconds,
        }

    def _save(self, metrics: MetricsFile) -> None:
        metrics.sync()
        self.agent.save(self.folder / AGENT)


def _agent_to_go_on_with(folder: Path, config: RunConfig) -> TabularAgent:
    """A new one, with a warning, if the run was stopped before its first save; ValueError if it is lost or damaged."""
    if not (folder / AGENT).exists():
        begin_without_state(folder, AGENT)
        return config.agent()
    env, _ = config.env_and_rules()
    try:
        return TabularAgent.load(folder / AGENT, env)
    except ValueError as problem:
        raise ask_for_restart(folder, str(problem)) from None


class _Row:
    """What a row of metrics will be made of."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self.lengths: list[int] = []

    def add(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        self.returns += returns.tolist()
        self.lengths += lengths.tolist()


def _check_episodes(config: RunConfig) -> None:
    """A number of episodes whose rows of metrics fit in memory while they are collected."""
    every = _episodes_per_row(check_whole("episodes", config.episodes))
    check_memory(f"episodes={config.episodes}", BYTES_PER_EPISODE * every)


def _episodes_per_row(episodes: int) -> int:
    return -(-episodes // ROWS)


def load_agent(folder: Path, env: Any = None) -> TabularAgent:
    """The agent of a run as it was saved last.

    Args:
        env: as in `Run.resume`, or an environment to be used instead of the run's.
    """
    config = read_config(folder, env)
    if not (folder / AGENT).exists():
        raise ValueError(f"{folder} has saved no agent yet (it has no {AGENT})")
    return TabularAgent.load(folder / AGENT, config.env_and_rules()[0] if isinstance(env, str | None) else env)


CONTENT = {
    "kind": schema.OneOf(KIND),
    "config": {
        "env": str,
        "options": dict,
        "method": str,
        "method_options": dict,
        "epsilon": schema.Real(0, 1),
        "initial": schema.Maybe(schema.Real()),
        "seed": schema.Whole(),
        "episodes": schema.Whole(1),
    },
}
"""Of config.json."""


def read_config(folder: Path, env: Any = None) -> RunConfig:
    """The run's settings; ValueError says why a folder is no run of a table, or not one in `env`, if that is named."""
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"resume: {folder} holds no run (it has no config.json)")
    content = read_json(path)
    try:
        schema.check(content, CONTENT, "it")
        config = schema.build(RunConfig, content["config"], "config")
    except ValueError as problem:
        raise ValueError(f"{path} is not the configuration of a tabular run ({problem})") from None
    if isinstance(env, str) and env != config.env:
        raise ValueError(f"env: {folder} is a run in {config.env!r}, got {env!r}")
    if env is None and not config.env.startswith("toy/"):
        from greedystep.tabular.gymnasium_task import check_registered

        check_registered(config.env, path)
    return config

"""A training run of a tabular agent in a folder: config.json, metrics.jsonl, agent.npz."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from greedystep import envs
from greedystep.checks import check_whole
from greedystep.memory import check_memory
from greedystep.metrics import MetricsFile
from greedystep.record import provenance, read_json, write_json
from greedystep.tabular.agent import TabularAgent
from greedystep.undisturbed import undisturbed

KIND = "tabular"
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
            return envs.make(self.env, **self.options), {}
        rules = {name: value for name, value in self.options.items() if name in AGENT_OPTIONS}
        made_with = {name: value for name, value in self.options.items() if name not in AGENT_OPTIONS}
        if not made_with:
            return self.env, rules
        from greedystep.tabular.gym_world import made

        return made(self.env, **made_with), rules

    def agent(self) -> TabularAgent:
        """A new one."""
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
    """A folder in which an agent learns; made by `start` or `resume`."""

    def __init__(self, folder: Path, config: RunConfig, agent: TabularAgent):
        self.folder, self.config, self.agent = folder, config, agent

    @classmethod
    def start(cls, folder: Path, config: RunConfig) -> Run:
        """A new run. Nothing is written yet: bad settings leave no trace."""
        _check_episodes(config)
        for name in ("config.json", "metrics.jsonl", "agent.npz"):
            if (folder / name).exists():
                raise ValueError(f"out: {folder} holds another run; resume it, or choose another folder")
        return cls(folder, config, config.agent())

    @classmethod
    def resume(cls, folder: Path, episodes: int | None = None) -> Run:
        """A run that was stopped, or is to go on beyond its end, to `episodes` in all."""
        config = _read_config(folder)
        if episodes is not None:
            config = dataclasses.replace(config, episodes=episodes)
            _check_episodes(config)
        if (folder / "agent.npz").exists():
            env, _ = config.env_and_rules()
            agent = TabularAgent.load(folder / "agent.npz", env)
        else:  # stopped before its first save
            agent = config.agent()
        if episodes is not None and episodes < agent.episodes:
            raise ValueError(f"episodes: {folder} has {agent.episodes} already, got {episodes}")
        return cls(folder, config, agent)

    @property
    def finished(self) -> bool:
        return self.agent.episodes >= self.config.episodes

    def train(self) -> Generator[Progress, None, None]:
        """Learn to the end, in pieces; whenever it stops being asked, everything so far is saved.

        Rows come at fixed numbers of episodes, so that they do not depend on the speed of the machine.
        """
        config = dataclasses.asdict(self.config)
        write_json(self.folder / "config.json", {"kind": KIND, "config": config, "provenance": provenance(config)})
        every = _episodes_per_row(self.config.episodes)
        row, began, saved = _Row(), time.perf_counter(), time.perf_counter()
        with MetricsFile(self.folder / "metrics.jsonl", resume_at=self.agent.steps) as metrics:
            try:
                for episodes in self._pieces(every):
                    with undisturbed():
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
                if row.returns:
                    metrics.append([self._row(row, time.perf_counter() - began)])
                self._save(metrics)
                raise
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
        self.agent.save(self.folder / "agent.npz")


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


def _read_config(folder: Path) -> RunConfig:
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"resume: {folder} holds no run (it has no config.json)")
    content = read_json(path)
    try:
        if content["kind"] != KIND:
            raise TypeError(f"its kind is {content['kind']!r}")
        return RunConfig(**content["config"])
    except (KeyError, TypeError) as problem:
        raise ValueError(f"{path} is not the configuration of a tabular run ({problem})") from None

"""Training runs of tabular agents in a folder (see `runs.resumable_run`), with the agent in agent.npz."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import envs, schema
from greedystep.checks import check_int, check_memory
from greedystep.metrics import Row
from greedystep.runs.lock import WriterLock
from greedystep.runs.resumable_run import (
    CONFIG,
    METRICS,
    RunFolder,
    RunProgress,
    ask_for_restart,
    check_resumable,
    locked,
    read_run_config,
)
from greedystep.tabular.methods import parameters_of
from greedystep.tabular.tabular_agent import TabularAgent

KIND = "tabular"
AGENT = "agent.npz"
ROWS = 100  # rows of metrics in a whole run, each over the same number of episodes
BYTES_PER_EPISODE = 80
"""Memory per episode until its metrics row is complete: a Python float and int, and their places in two lists."""
CHUNK = 0.2  # seconds of learning, about, between two looks at the clock and at Ctrl-C
AGENT_OPTIONS = ("discount", "limit")
"""Options of a Gymnasium environment that go to the agent; all others go to `gymnasium.make`."""


@dataclass(frozen=True)
class TabularRunConfig:
    """Settings that decide the numbers of a run: environment, method, seed and length."""

    env: str
    options: dict[str, Any] = field(default_factory=dict)
    method: str = "greedy-step"
    method_options: dict[str, Any] = field(default_factory=dict)
    epsilon: float = 0.2
    initial: float | None = None
    seed: int = 0
    episodes: int = 1000

    def env_and_rules(self) -> tuple[Any, dict[str, Any]]:
        """Return the environment, and those of its options that are arguments of the agent (discount, limit)."""
        if self.env.startswith("toy/"):
            return envs.make_task(self.env, **self.options), {}
        rules = {name: value for name, value in self.options.items() if name in AGENT_OPTIONS}
        made_with = {name: value for name, value in self.options.items() if name not in AGENT_OPTIONS}
        if not made_with:
            return self.env, rules
        from greedystep.envs.gymnasium_ids import make_gymnasium

        return make_gymnasium(self.env, **made_with), rules

    def agent(self) -> TabularAgent:
        """Make a new agent with these settings."""
        parameters_of(self.method, self.method_options)  # before `env` or `seed` could be taken for one of them
        env, rules = self.env_and_rules()
        how: Any = {"seed": self.seed, "epsilon": self.epsilon, "q": self.initial, **rules, **self.method_options}
        return TabularAgent(env, self.method, **how)


class TabularRun(RunFolder):
    """A run folder of a tabular agent, whose state is agent.npz."""

    UNIT, STATE, SAVE_EVERY = "episodes", AGENT, 2.0
    FAILURES = (FloatingPointError,)

    def __init__(self, folder: Path, config: TabularRunConfig, agent: TabularAgent, lock: WriterLock, **how: bool):
        self.config, self.agent = config, agent
        self._returns: list[float] = []
        self._lengths: list[int] = []
        super().__init__(folder, lock, **how)

    @classmethod
    def start(cls, folder: Path, config: TabularRunConfig) -> TabularRun:
        """Make a new run in `folder`. Nothing but its lock is written yet, so that bad settings leave no trace.

        InUseError, a ValueError, if another process writes to the folder.
        """
        _check_episodes(config)
        with locked(folder) as lock:
            if any((folder / name).exists() for name in (CONFIG, METRICS, AGENT)):
                raise ValueError(f"out: {folder} holds another run; resume it, or choose another folder")
            return cls(folder, config, config.agent(), lock, is_saved=False)

    @classmethod
    def resume(
        cls, folder: Path, episodes: int | None = None, *, restart: bool = False, env: str | None = None
    ) -> TabularRun:
        """Continue a run that was stopped, or extend a finished one to `episodes` episodes in total.

        If its agent.npz is damaged or missing, ValueError says so. InUseError, a ValueError too, if another process
        writes to the folder.

        Args:
            restart: begin again at step 0; earlier rows and the earlier agent are kept under other names.
            env: the run's own environment, which has to be named where making it imports a module.
        """
        config = read_config(folder, env)
        if episodes is not None:
            config = dataclasses.replace(config, episodes=episodes)
            _check_episodes(config)
        with locked(folder) as lock:
            agent = None if restart else _saved_agent(folder, config)
            if not restart:
                check_resumable(folder, AGENT if agent is None else None)
            is_saved = agent is not None
            agent = agent or config.agent()
            if episodes is not None and episodes < agent.episodes:
                raise ValueError(f"episodes: {folder} has {agent.episodes} already, got {episodes}")
            return cls(folder, config, agent, lock, is_saved=is_saved, restart=restart)

    @property
    def done(self) -> int:
        return self.agent.episodes

    @property
    def total(self) -> int:
        return self.config.episodes

    @property
    def steps(self) -> int:
        return self.agent.steps

    def describe(self) -> dict[str, Any]:
        return {"kind": KIND, "config": dataclasses.asdict(self.config)}

    def save_state(self) -> None:
        self.agent.save(self.folder / AGENT)

    def chunks(self) -> Iterator[tuple[Sequence[Row], RunProgress]]:
        """Learn in chunks of about CHUNK seconds; metrics rows come at fixed numbers of episodes, at any speed."""
        every, size = _episodes_per_row(self.total), 1
        self._began = time.perf_counter()
        while not self.finished:
            began = time.perf_counter()
            learned = self.agent.learn(min(size, every - self.done % every, self.total - self.done))
            took = time.perf_counter() - began
            size = 2 * size if took < CHUNK / 2 else max(1, size // 2) if took > 2 * CHUNK else size
            self._returns += learned.returns.tolist()
            self._lengths += learned.lengths.tolist()
            is_row = self.done % every == 0 or self.finished
            yield self.unfinished_rows() if is_row else (), RunProgress(self.done, float(learned.returns.mean()))

    def unfinished_rows(self) -> Sequence[Row]:
        if not self._returns:
            return ()
        row = {
            "step": self.agent.steps,
            "lane": 0,
            "seed": self.config.seed,
            "episodes": self.agent.episodes,
            "episode_return": float(np.mean(self._returns)),
            "episode_length": float(np.mean(self._lengths)),
            "wall_seconds": time.perf_counter() - self._began,
        }
        self._returns, self._lengths = [], []
        return [row]


def _saved_agent(folder: Path, config: TabularRunConfig) -> TabularAgent | None:
    """Return the saved agent, None if the run has none; ValueError if it is damaged."""
    if not (folder / AGENT).exists():
        return None
    env, _ = config.env_and_rules()
    try:
        return TabularAgent.load(folder / AGENT, env)
    except ValueError as problem:
        raise ask_for_restart(folder, str(problem)) from None


def _check_episodes(config: TabularRunConfig) -> None:
    """Raise MemoryError unless the episodes of one metrics row fit in memory while they are collected."""
    every = _episodes_per_row(check_int("episodes", config.episodes))
    check_memory(f"episodes={config.episodes}", BYTES_PER_EPISODE * every)


def _episodes_per_row(episodes: int) -> int:
    return -(-episodes // ROWS)


def load_agent(folder: Path, env: Any = None) -> TabularAgent:
    """Return the agent of a run as it was saved last.

    Args:
        env: as in `TabularRun.resume`, or an environment to be used instead of the run's.
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
        "epsilon": schema.Float(0, 1),
        "initial": schema.Nullable(schema.Float()),
        "seed": schema.Int(),
        "episodes": schema.Int(1),
    },
}
"""Schema of config.json, besides its provenance."""


def read_config(folder: Path, env: Any = None) -> TabularRunConfig:
    """Return a run's settings; ValueError if the folder holds no run of a table, or one in another `env`."""
    content = read_run_config(folder)
    try:
        schema.check(content, CONTENT, "it")
        config = schema.build(TabularRunConfig, content["config"], "config")
    except ValueError as problem:
        raise ValueError(f"{folder / CONFIG} is not the configuration of a tabular run ({problem})") from None
    if isinstance(env, str) and env != config.env:
        raise ValueError(f"env: {folder} is a run in {config.env!r}, got {env!r}")
    if env is None and not config.env.startswith("toy/"):
        from greedystep.envs.gymnasium_ids import check_registered

        check_registered(config.env, folder / CONFIG)
    return config

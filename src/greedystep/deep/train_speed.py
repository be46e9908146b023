"""Times the training loop of deep agents, for the benchmark of training and for the paper's claim about its cost."""

from __future__ import annotations

import math
import time
from typing import Any, Protocol

from greedystep.deep.dqn_run import DQNRunConfig
from greedystep.deep.trainer import Trainer

NO_LOGGING = 64 * 10**7
"""Steps between two rows of metrics: more than any timed run has."""


class Timed(Protocol):
    """A learner whose training can be timed."""

    period: int
    """Steps between two target network updates."""

    def time(self, steps: int) -> float:
        """Train for so many steps per lane and return the seconds it took."""
        ...


class TimedTrainer:
    """A compiled and warmed-up trainer of some lanes of one agent."""

    def __init__(self, env: str, preset: str, lanes: int, **settings: Any) -> None:
        config = DQNRunConfig.from_preset(env, preset, seeds=tuple(range(lanes)), log_every=NO_LOGGING, **settings)
        self.trainer: Trainer = config.trainer()
        self.period = config.agent.target_period
        begin = time.perf_counter()
        self.trainer.run(config.agent.warmup + self.period)
        first = time.perf_counter() - begin
        self.compile_seconds = max(0.0, first - self.time(self.period))

    def time(self, steps: int) -> float:
        """Train for so many steps per lane and return the seconds it took."""
        begin = time.perf_counter()
        self.trainer.run(steps)
        return time.perf_counter() - begin


def steps_lasting(learner: Timed, seconds: float) -> int:
    """Return how many steps take about that long; whole periods, so that every run has its share of target updates."""
    return learner.period * max(1, math.ceil(seconds / learner.time(learner.period)))

"""Times the training loop of deep agents, for the benchmark of training and for the paper's claim about its cost."""

from __future__ import annotations

import math
import time
from typing import Any, Protocol

from greedystep.deep.dqn_run import DQNRunConfig
from greedystep.deep.trainer import Trainer

NO_LOGGING = 64 * 10**7
"""A `log_every` (steps between two metrics rows) beyond the length of any timed run."""


class Timed(Protocol):
    """A learner whose training can be timed, ours or another library's."""

    period: int
    """Steps between two target network updates."""

    def time(self, steps: int) -> float:
        """Train for `steps` steps per lane and return the seconds this took."""
        ...


class TimedTrainer:
    """A trainer, compiled and warmed up, that reports how long training takes."""

    def __init__(self, env: str, preset: str, lanes: int, **settings: Any) -> None:
        config = DQNRunConfig.from_preset(env, preset, seeds=tuple(range(lanes)), log_every=NO_LOGGING, **settings)
        # What is timed need not learn anything: values that diverge are no concern here.
        self.trainer = Trainer(config.agent, config.make_env(), config.seeds, on_diverged=lambda lane, step: None)
        self.period = config.agent.target_period
        begin = time.perf_counter()
        self.trainer.run(config.agent.warmup + self.period)
        first = time.perf_counter() - begin
        self.compile_seconds = max(0.0, first - self.time(self.period))

    def time(self, steps: int) -> float:
        """Train for `steps` steps per lane and return the seconds this took."""
        begin = time.perf_counter()
        self.trainer.run(steps)
        return time.perf_counter() - begin


def steps_lasting(learner: Timed, seconds: float) -> int:
    """Return how many steps take about `seconds`, rounded to whole periods between target network updates."""
    return learner.period * max(1, math.ceil(seconds / learner.time(learner.period)))

"""The tasks of offline learning and their logs: steps of an agent of our own, with all, some or none of them random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import envs, provenance, trajectory
from greedystep.deep.collect import collect
from greedystep.deep.presets import env_options, make_config
from greedystep.deep.trainer import Trainer
from greedystep.envs.core import Environment
from greedystep.trajectory import Trajectory

KINDS: dict[str, tuple[float, ...]] = {
    "random": (1.0,),
    "mixed": (0.0, 0.25, 0.5, 0.75, 1.0),
    "expert": (0.0,),
}
"""Kind of log -> the fractions ε of random actions, each in an equal number of steps."""
LIMIT = 2_000
"""Steps after which an episode of a log, or of greedy play, is cut off."""
FIRST_EPISODES = 16


@dataclass(frozen=True)
class OfflineTask:
    """An environment, the agent whose steps are logged, and how much others learn from the log."""

    title: str
    env: str
    preset: str
    """Settings of the agent that is logged; it has the default rule."""
    training: int
    """Its environment steps."""
    steps: int
    """Steps of each log."""
    updates: int
    """Updates of each method on a log."""
    seeds: int = 5
    episodes: int = 100
    """Episodes of greedy play of each seed."""
    kinds: tuple[str, ...] = tuple(KINDS)

    def make_env(self) -> Environment:
        """Make the environment."""
        return envs.make(self.env, **env_options(self.env))

    @property
    def log_hash(self) -> str:
        """A hash of all that decides the logs."""
        about = {"env": self.env, "preset": self.preset, "training": self.training, "steps": self.steps}
        return provenance.config_hash(about | {"kinds": {kind: KINDS[kind] for kind in self.kinds}})[:8]

    @property
    def as_settings(self) -> dict[str, Any]:
        """The settings by name, for results."""
        return asdict(self) | env_options(self.env)


def make_logs(task: OfflineTask, folder: Path | None = None) -> dict[str, list[Trajectory]]:
    """Train the agent and return its logs by kind; with a folder they are kept there, and read if they are there."""
    paths = {kind: folder / f"{task.log_hash}-{kind}.npz" for kind in task.kinds} if folder is not None else {}
    if paths and all(path.exists() for path in paths.values()):
        return {kind: trajectory.load(path) for kind, path in paths.items()}
    config = make_config(task.env, task.preset, returns="lambda", ensemble=2)
    trainer = Trainer(config, task.make_env())
    if any(epsilon < 1 for kind in task.kinds for epsilon in KINDS[kind]):
        trainer.run(task.training)
    logs = {}
    for kind in task.kinds:
        share = -(-task.steps // len(KINDS[kind]))
        parts = [_collect_steps(trainer, epsilon, share, seed) for seed, epsilon in enumerate(KINDS[kind])]
        logs[kind] = cut_to([one for part in parts for one in part], task.steps)
        if paths:
            paths[kind].parent.mkdir(parents=True, exist_ok=True)
            trajectory.save(paths[kind], logs[kind])
    return logs


def _collect_steps(trainer: Trainer, epsilon: float, steps: int, seed: int) -> list[Trajectory]:
    """Play whole episodes that have `steps` steps together; the last one is cut short."""
    found: list[Trajectory] = []
    while (have := sum(map(len, found))) < steps:
        wanted = FIRST_EPISODES if not found else 1 + int(1.2 * (steps - have) * len(found) / have)
        found += collect(trainer, wanted, epsilon, seed=1_000 * seed + len(found), limit=LIMIT)
    return cut_to(found, steps)


def cut_to(log: Sequence[Trajectory], steps: int) -> list[Trajectory]:
    """Return the first `steps` steps of a log; an episode that is cut short counts as truncated."""
    kept: list[Trajectory] = []
    for one in log:
        left = steps - sum(map(len, kept))
        if left <= 0:
            break
        if len(one) > left:
            last = np.arange(left) == left - 1
            behaviour_prob = None if one.behaviour_prob is None else one.behaviour_prob[:left]
            columns = one.actions[:left], one.rewards[:left], np.zeros(left, bool), last, behaviour_prob
            one = Trajectory(one.observations[: left + 1], *columns)
        kept.append(one)
    return kept


def behaviour_return(log: Sequence[Trajectory]) -> float:
    """The mean return of the whole episodes of a log; of the last one, cut short, only if there is no other."""
    whole = list(log[:-1]) or list(log)
    return float(np.mean([one.rewards.sum() for one in whole]))

"""Choice with noise on the irrelevant steps: who still chooses right after a fixed number of episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from greedystep.experiments.fig2.contestants import CONTESTANTS, EPSILON
from greedystep.experiments.fig2.delayed import about, learner, make, trials_of
from greedystep.experiments.fig2.pieces import Batch
from greedystep.tabular import greedy_policy

METHODS = ("greedy-step", "backward", "model", "monte-carlo", "watkins", "rudder")


def plan(scale: dict[str, Any]) -> list[Batch]:
    """All levels of noise and methods; a trial finds whether the greedy policy is right at the end."""
    delay, episodes = scale["noisy_delay"], scale["noisy_episodes"]
    batches = []
    for noise in scale["noise"]:
        for method in METHODS:
            trials = trials_of(scale, "choice", method)
            settings = {"task": "choice", "delay": delay, "noise": noise, **about("choice", method)}
            batches.append(
                Batch(
                    name=f"choice-{delay}-noise-{noise:g}-{method}",
                    label=f"Choice, noise {noise:g}: {CONTESTANTS[method].label}",
                    settings=settings | {"epsilon": EPSILON, "episodes": episodes},
                    trials=trials,
                    cost=delay * episodes * (150 if method == "rudder" else 1),  # noise keeps its network in training
                    prepare=partial(_prepare, delay, noise, method, episodes),
                    is_whole=lambda found: isinstance(found, bool),
                )
            )
    return batches


def _prepare(delay: int, noise: float, method: str, episodes: int) -> Callable[[int], bool]:
    task = make("choice", delay, noise=noise)

    def right(seed: int) -> bool:
        table, _ = learner(task, method, seed=seed, epsilon=EPSILON)(episodes)
        return bool(task.solved_by(greedy_policy(table)))

    return right


def rows(batches: Sequence[Batch], found: Sequence[list[Any]]) -> list[dict[str, Any]]:
    """One row a batch: the share of trials that choose right."""
    made = []
    for batch, trials in zip(batches, found, strict=True):
        what = {key: batch.settings[key] for key in ("noise", "method", "delay", "episodes")}
        made.append({**what, "trials": len(trials), "right": float(np.mean(trials))})
    return made

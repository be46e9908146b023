"""Grid World from logged random walks: how good a policy becomes with the size of the grid.

A log of a few uniformly random episodes, -1 a step; every method sees the same log. All tables begin at the lowest
possible return, so that an action that the log does not show is never preferred; Q-learning also takes part from 0,
where such actions look best. Quality is (J - J_low) / (J* - J_low) with the exact expected return J of the greedy
policy and J_low the return of never arriving: 1 is optimal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from greedystep import envs
from greedystep.envs import ToyTask
from greedystep.experiments.fig2.delayed import summary
from greedystep.experiments.fig2.pieces import Batch
from greedystep.tabular import Episodes, collect, greedy_policy, replay

GOOD = 0.9
"""The quality up to which passes over the log are counted."""
PASSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""After these a policy is judged; a method that is not good after the last is given up."""


@dataclass(frozen=True)
class Pupil:
    """A method that learns from the log."""

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    from_zero: bool = False


PUPILS = {
    "greedy-step": Pupil("Greedy-Step", "greedy-step"),
    "forward": Pupil("Q-learning, α = 1", "q-learning", {"alpha": 1.0}),
    "q-learning": Pupil("Q-learning, α = 0.1", "q-learning", {"alpha": 0.1}),
    "forward-zero": Pupil("Q-learning, α = 1, from 0", "q-learning", {"alpha": 1.0}, from_zero=True),
    "backward": Pupil("backward Q-learning", "backward-q-learning"),
    "episodic-backward": Pupil("Episodic Backward Update", "episodic-backward", {"alpha": 1.0}),
    "model": Pupil("value iteration on the model", "model"),
}
Q_LEARNING = ("forward", "q-learning", "forward-zero")
"""The paper's rival, whose step size and start it does not tell."""


def quality(task: ToyTask, q: np.ndarray) -> float:
    low = task.lowest_return
    return (_expected_return(task, greedy_policy(q)) - low) / (task.optimal_return - low)


def _expected_return(task: ToyTask, policy: np.ndarray) -> float:
    """`ToyTask.expected_return`, compiled: the backups of a large grid would keep all other threads waiting."""
    chain, reward = task.mdp.under(policy)
    chain = sp.csr_array(chain)
    values = _backups(chain.indptr, chain.indices, chain.data, reward, task.mdp.discount, task.horizon)
    return float(task.start @ values)


@njit(cache=True, nogil=True)
def _backups(first, successor, probability, reward, gamma, horizon):
    """v <- r + γ T v, `horizon` times from zero, or until nothing changes any more."""
    values, before = np.zeros(len(reward)), np.zeros(len(reward))
    for _ in range(horizon):
        values, before = before, values
        changed = False
        for s in range(len(reward)):
            ahead = 0.0
            for k in range(first[s], first[s + 1]):
                ahead += probability[k] * before[successor[k]]
            values[s] = reward[s] + gamma * ahead
            changed |= values[s] != before[s]
        if not changed:
            break
    return values


def lesson(task: ToyTask, log: Episodes, pupil: Pupil) -> tuple[float, int | None]:
    """(quality after one pass over the log, passes until it is good or None)."""
    table = np.full(task.mdp.rewards.shape, 0.0 if pupil.from_zero else task.lowest_return)
    first, done = 0.0, 0
    for passes in PASSES:
        again: Any = {"discount": task.mdp.discount, "sweeps": passes - done, **pupil.options}
        table, done = replay(log, table, pupil.method, **again), passes
        reached = quality(task, table)
        if passes == 1:
            first = reached
        if reached >= GOOD:
            return first, passes
    return first, None


def plan(scale: dict[str, Any]) -> list[Batch]:
    """One batch a size; in a trial all methods learn from the same log."""
    pupils = {name: asdict(pupil) for name, pupil in PUPILS.items()}
    return [
        Batch(
            name=f"grid-world-{size}",
            label=f"Grid World, size {size}",
            settings={"task": "grid-world", "size": size, "logged": scale["logged"], "pupils": pupils}
            | {"good": GOOD, "passes": PASSES},
            trials=scale["offline_trials"],
            cost=5e3 * size**2,
            prepare=partial(_prepare, size, scale["logged"]),
            is_whole=_is_trial,
        )
        for size in scale["sizes"]
    ]


def _prepare(size: int, logged: int) -> Callable[[int], dict[str, tuple[float, int | None]]]:
    task = envs.make_task("toy/grid-world", size=size)
    assert task.optimal_return < 0  # worked out here, before several threads ask for it

    def one(seed: int) -> dict[str, tuple[float, int | None]]:
        log = collect(task, episodes=logged, seed=seed)
        return {name: lesson(task, log, pupil) for name, pupil in PUPILS.items()}

    return one


def _is_trial(found: Any) -> bool:
    """For every method a quality and passes or None."""
    return isinstance(found, dict) and set(found) == set(PUPILS) and all(map(_is_lesson, found.values()))


def _is_lesson(found: Any) -> bool:
    if not (isinstance(found, list) and len(found) == 2):
        return False
    return isinstance(found[0], float) and (found[1] is None or found[1] in PASSES)


def rows(batches: Sequence[Batch], found: Sequence[list[Any]]) -> list[dict[str, Any]]:
    """One row a size and method: the quality of every trial after one pass, and the passes until it is good."""
    made = []
    for batch, trials in zip(batches, found, strict=True):
        for name in PUPILS:
            qualities = [trial[name][0] for trial in trials]
            made.append(
                {
                    "size": batch.settings["size"],
                    "method": name,
                    "quality": qualities,
                    "mean_quality": float(np.mean(qualities)),
                    "limit": PASSES[-1],
                    "passes": summary([trial[name][1] for trial in trials]),
                }
            )
    return made

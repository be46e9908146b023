"""Grid World offline: the quality of policies learned from logged random walks, by the size of the grid.

A log holds a few uniformly random episodes, with -1 per step; every method learns from the same log. All tables begin
at the lowest possible return, so that an action that is not in the log is never preferred; Q-learning is also run from
0, where such actions look best. Quality is (J - J_low) / (J* - J_low) with the exact expected return J of the greedy
policy and J_low the return of never arriving: 1 is optimal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from greedystep import envs
from greedystep.envs import ToyTask
from greedystep.experiments.fig2.delayed import summary
from greedystep.experiments.fig2.trial_store import Batch
from greedystep.tabular import Episodes, collect, greedy_policy, replay

GOOD = 0.9
"""Quality at which a method stops passing over the log."""
PASSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of passes after which the policy is evaluated."""


@dataclass(frozen=True)
class OfflineMethod:
    """A method that learns from a log, with its settings."""

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    from_zero: bool = False


OFFLINE_METHODS = {
    "greedy-step": OfflineMethod("Greedy-Step", "greedy-step"),
    "forward": OfflineMethod("Q-learning, α = 1", "q-learning", {"alpha": 1.0}),
    "q-learning": OfflineMethod("Q-learning, α = 0.1", "q-learning", {"alpha": 0.1}),
    "forward-zero": OfflineMethod("Q-learning, α = 1, from 0", "q-learning", {"alpha": 1.0}, from_zero=True),
    "backward": OfflineMethod("backward Q-learning", "backward-q-learning"),
    "episodic-backward": OfflineMethod("Episodic Backward Update", "episodic-backward", {"alpha": 1.0}),
    "model": OfflineMethod("value iteration on the model", "model"),
}
Q_LEARNING = ("forward", "q-learning", "forward-zero")
"""Q-learning, the paper's baseline, in variants, since the paper gives neither step size nor initial values."""


def quality(task: ToyTask, q: np.ndarray) -> float:
    """Return the quality of the greedy policy of q: 0 if it never arrives, 1 if optimal."""
    low = task.lowest_return
    return (_expected_return(task, greedy_policy(q)) - low) / (task.optimal_return - low)


def _expected_return(task: ToyTask, policy: np.ndarray) -> float:
    """Compute `ToyTask.expected_return` in compiled code, which releases the interpreter for other threads."""
    chain, reward = task.mdp.under(policy)
    chain = sp.csr_array(chain)
    values = _backups(chain.indptr, chain.indices, chain.data, reward, task.mdp.discount, task.horizon)
    return float(task.start @ values)


@njit(cache=True, nogil=True)
def _backups(first, successor, probability, reward, gamma, horizon):
    """Iterate v <- r + γ T v from zero, `horizon` times or until nothing changes."""
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


def learn_from_log(task: ToyTask, log: Episodes, how: OfflineMethod) -> tuple[float, int | None]:
    """Return the quality after one pass over the log, and the passes until it is GOOD; None if it never is."""
    table = np.full(task.mdp.rewards.shape, 0.0 if how.from_zero else task.lowest_return)
    first, done = 0.0, 0
    for passes in PASSES:
        again: Any = {"discount": task.mdp.discount, "sweeps": passes - done, **how.options}
        table, done = replay(log, table, how.method, **again), passes
        reached = quality(task, table)
        if passes == 1:
            first = reached
        if reached >= GOOD:
            return first, passes
    return first, None


def plan(scale: dict[str, Any]) -> list[Batch]:
    """Return one batch per size; in a trial all methods learn from the same log."""
    methods = {name: asdict(how) for name, how in OFFLINE_METHODS.items()}
    return [
        Batch(
            name=f"grid-world-{size}",
            label=f"Grid World, size {size}",
            settings={"task": "grid-world", "size": size, "logged": scale["logged"], "pupils": methods}
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
    assert task.optimal_return < 0  # computed here, before several threads ask for it

    def one(seed: int) -> dict[str, tuple[float, int | None]]:
        log = collect(task, episodes=logged, seed=seed)
        return {name: learn_from_log(task, log, how) for name, how in OFFLINE_METHODS.items()}

    return one


def _is_trial(found: Any) -> bool:
    def is_pair(one: Any) -> bool:
        return isinstance(one, list) and len(one) == 2 and isinstance(one[0], float) and one[1] in (None, *PASSES)

    return isinstance(found, dict) and set(found) == set(OFFLINE_METHODS) and all(map(is_pair, found.values()))


def rows(batch: Batch, trials: list[Any]) -> list[dict[str, Any]]:
    """Return one row per method: qualities after one pass, and passes until GOOD."""
    made = []
    for name in OFFLINE_METHODS:
        qualities, passes = zip(*(trial[name] for trial in trials), strict=True)
        about = {"size": batch.settings["size"], "method": name, "limit": PASSES[-1]}
        quality = {"quality": list(qualities), "mean_quality": float(np.mean(qualities))}
        made.append(about | quality | {"passes": summary(passes)})
    return made

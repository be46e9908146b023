"""Choice and Trace Back: episodes until the task is solved, and until its best return was seen for the first time.

The second number bounds the first from below for every learner: what was never seen cannot be known. Where the two are
equal, exploration alone explains the figure, and no update could have done better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from greedystep import envs
from greedystep.envs import ToyTask
from greedystep.experiments.fig2.contestants import CONTESTANTS, EPSILON, NAMES
from greedystep.experiments.fig2.pieces import Batch
from greedystep.tabular import METHODS, Rudder, until_solved
from greedystep.tabular.learning import make_learner

CHOICE = {"best": 1.0, "other": 0.5}
"""Both choices pay, or a learner could not be caught by the wrong one."""

BAND = (0.4, 0.6)
"""The quantiles between which a figure shades, RUDDER's and the paper's."""


class Trial(NamedTuple):
    solved: int | None
    """Episodes until the greedy policy was good; None: not within the limit."""
    seen: int | None
    """Episodes until one of them earned a return that a solution earns."""


@cache
def make(task: str, delay: int, **options: Any) -> ToyTask:
    """Choice or Trace Back, its optimum worked out: the trials of all methods share it, in several threads."""
    made = envs.make_task(f"toy/{task}", delay=delay, **(CHOICE if task == "choice" else {}), **options)
    assert made.optimal_return > 0
    return made


def trial(task: ToyTask, method: str, *, seed: int, limit: int, epsilon: float = EPSILON) -> Trial:
    """One trial; the same seed gives every method the same luck for as long as they act alike."""
    seen, done = None, 0
    more = learner(task, method, seed=seed, epsilon=epsilon)

    def go_on(episodes: int) -> np.ndarray:
        nonlocal seen, done
        table, returns = more(episodes)
        good = np.flatnonzero(returns >= task.solved_return)
        if seen is None and len(good):
            seen = done + int(good[0]) + 1
        done += episodes
        return table

    return Trial(until_solved(task, go_on, limit=limit, resolution=resolution_of(method)), seen)


def resolution_of(method: str) -> float:
    """How late, as a share of the episodes, a solution may be noticed."""
    return 0.02 if CONTESTANTS[method].pace == "slow" else 0.001


def learner(task: ToyTask, method: str, *, seed: int, epsilon: float) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """A function that lets the method have so many more episodes and returns its table and their returns."""
    contestant = CONTESTANTS[method]
    if contestant.method is None:
        rudder = Rudder(task, seed=seed, epsilon=epsilon)

        def rudder_go_on(episodes: int) -> tuple[np.ndarray, np.ndarray]:
            returns = rudder.learn(episodes)
            return rudder.q, returns

        return rudder_go_on
    more = make_learner(task, contestant.method, epsilon=epsilon, q=0.0, seed=seed, **contestant.options)

    def go_on(episodes: int) -> tuple[np.ndarray, np.ndarray]:
        learned = more(episodes)
        return learned.q, learned.returns

    return go_on


# -- what is run ------------------------------------------------------------------------------------------------------


def plan(task: str, scale: dict[str, Any]) -> list[Batch]:
    """All methods at all delays."""
    batches = []
    for delay in scale["delays"][task]:
        for method, contestant in CONTESTANTS.items():
            trials = trials_of(scale, task, method)
            label = f"{NAMES[task]}, delay {delay}: {contestant.label}"
            batches.append(_batch(task, delay, method, EPSILON, scale["limit"], trials, label))
    return batches


def plan_exploration(scale: dict[str, Any]) -> list[Batch]:
    """Greedy-Step on Trace Back with other shares of random actions."""
    batches = []
    for delay in scale["delays"]["trace-back"]:
        for epsilon in scale["epsilons"]:
            label = f"{NAMES['trace-back']}, delay {delay}: ε = {epsilon:g}"
            trials = scale["trials"]["fast"]
            batches.append(_batch("trace-back", delay, "greedy-step", epsilon, scale["limit"], trials, label))
    return batches


def trials_of(scale: dict[str, Any], task: str, method: str) -> int:
    """How many trials; in Choice every method is fast but RUDDER, whose network takes its time everywhere."""
    return scale["trials"]["fast" if task == "choice" and method != "rudder" else CONTESTANTS[method].pace]


def _batch(task: str, delay: int, method: str, epsilon: float, limit: int, trials: int, label: str) -> Batch:
    settings = {"task": task, "delay": delay, **about(task, method), "epsilon": epsilon, "limit": limit}
    return Batch(
        name="-".join([task, str(delay), method, *([f"epsilon-{epsilon:g}"] if epsilon != EPSILON else [])]),
        label=label,
        settings=settings | {"resolution": resolution_of(method)},
        trials=trials,
        cost=_steps(task, delay, method, limit),
        prepare=lambda: partial(_seeded, make(task, delay), method, limit, epsilon),
        is_whole=_is_trial,
    )


def about(task: str, method: str) -> dict[str, Any]:
    """What decides a learner's numbers besides the delay, its exploration and its seed."""
    contestant = CONTESTANTS[method]
    pays = CHOICE if task == "choice" else {}
    if contestant.method is None:
        return {"method": method, **pays}
    _, defaults = METHODS[contestant.method]
    return {"method": method, **pays, "update": contestant.method, **defaults, **contestant.options}


def _seeded(task: ToyTask, method: str, limit: int, epsilon: float, seed: int) -> Trial:
    return trial(task, method, seed=seed, limit=limit, epsilon=epsilon)


def _steps(task: str, delay: int, method: str, limit: int) -> float:
    """What a trial costs, in steps of a tabular learner, rounded from measured ones."""
    if method == "rudder":
        return 1e5 * delay  # a thousand episodes, and its network costs a hundred times as much as a table
    slow = 1e3 * delay**2 if task == "trace-back" else 2e1 * delay
    return delay * min({"fast": 1e2, "medium": 1e3, "slow": slow}[CONTESTANTS[method].pace], limit)


def _is_trial(found: Any) -> bool:
    """Two numbers of episodes or None."""
    if not (isinstance(found, list) and len(found) == len(Trial._fields)):
        return False
    return all(one is None or (type(one) is int and one >= 1) for one in found)


# -- what was found ---------------------------------------------------------------------------------------------------


def rows(batches: Sequence[Batch], found: Sequence[list[Any]]) -> list[dict[str, Any]]:
    """One row a batch of `plan` or `plan_exploration`."""
    made = []
    for batch, trials in zip(batches, found, strict=True):
        what = {key: batch.settings[key] for key in ("task", "delay", "method", "epsilon", "limit")}
        made.append(row(**what, trials=[Trial(*one) for one in trials]))
    return made


def row(task: str, delay: int, method: str, epsilon: float, limit: int, trials: Sequence[Trial]) -> dict[str, Any]:
    """Every trial and what they amount to. A trial that was given up is None and counts as longer than all others."""
    return {
        "task": task,
        "delay": delay,
        "method": method,
        "epsilon": epsilon,
        "limit": limit,
        "censored": sum(one.solved is None for one in trials),
        "solved": summary([one.solved for one in trials]),
        "seen": summary([one.seen for one in trials]),
    }


def summary(episodes: Sequence[int | None]) -> dict[str, Any]:
    """All of them, their median and their band; None where it lies among those that were given up."""
    ordered = sorted(episodes, key=lambda one: np.inf if one is None else one)
    band = {"low": BAND[0], "median": 0.5, "high": BAND[1]}
    return {"trials": list(episodes)} | {name: _quantile(ordered, share) for name, share in band.items()}


def _quantile(ordered: list[int | None], share: float) -> float | None:
    """The number that this share lies below; between two of them, their mean."""
    place = share * len(ordered)
    below, above = ordered[max(int(np.ceil(place - 1e-9)) - 1, 0)], ordered[int(place + 1e-9)]
    return None if below is None or above is None else (below + above) / 2

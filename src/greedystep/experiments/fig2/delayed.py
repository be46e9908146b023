"""Choice and Trace Back: trials that count episodes until the task is solved, and until its best return is first seen.

The second number bounds the first from below for every learner. Where the two are equal, exploration alone explains the
figure, and no update rule could have done better. On Choice with noise, trials find whether the policy is right after a
fixed number of episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from greedystep import envs
from greedystep.envs import ToyTask
from greedystep.experiments.fig2.toy_methods import EPSILON, METHODS, NOISE_METHODS, TASK_TITLES
from greedystep.experiments.fig2.trial_store import Batch
from greedystep.tabular import METHODS as UPDATES
from greedystep.tabular import Rudder, greedy_policy, until_solved
from greedystep.tabular.learning import make_learner

CHOICE = {"best": 1.0, "other": 0.5}
"""Rewards of the two choices; both pay, so that a learner can settle on the wrong one."""

BAND = (0.4, 0.6)
"""Quantiles of the band in figures, as in RUDDER's and the paper's."""


class Trial(NamedTuple):
    """Result of one trial, in episodes; None: not within the limit."""

    solved: int | None
    """Until the greedy policy solved the task."""
    seen: int | None
    """Until an episode first had the return of a solution."""


@cache
def make(task: str, delay: int, **options: Any) -> ToyTask:
    """Make Choice or Trace Back; its optimum is computed here, since several threads share the task."""
    made = envs.make_task(f"toy/{task}", delay=delay, **(CHOICE if task == "choice" else {}), **options)
    assert made.optimal_return > 0
    return made


def trial(task: ToyTask, method: str, *, seed: int, limit: int, epsilon: float = EPSILON) -> Trial:
    """Run one trial; the same seed gives methods the same random numbers for as long as they act alike."""
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
    """Return how late a solution may be noticed, as a share of the episodes."""
    return 0.02 if METHODS[method].pace == "slow" else 0.001


def learner(task: ToyTask, method: str, *, seed: int, epsilon: float) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Return a function that learns for so many more episodes and gives the table and their returns."""
    how = METHODS[method]
    if how.method is None:
        rudder = Rudder(task, seed=seed, epsilon=epsilon)

        def rudder_go_on(episodes: int) -> tuple[np.ndarray, np.ndarray]:
            returns = rudder.learn(episodes)
            return rudder.q, returns

        return rudder_go_on
    more = make_learner(task, how.method, epsilon=epsilon, q=0.0, seed=seed, **how.options)

    def go_on(episodes: int) -> tuple[np.ndarray, np.ndarray]:
        learned = more(episodes)
        return learned.q, learned.returns

    return go_on


# -- batches of trials ------------------------------------------------------------------------------------------------


def plan(task: str, scale: dict[str, Any]) -> list[Batch]:
    """Return the batches of all methods at all delays."""
    batches = []
    for delay in scale["delays"][task]:
        for method, how in METHODS.items():
            trials = trials_of(scale, task, method)
            label = f"{TASK_TITLES[task]}, delay {delay}: {how.label}"
            batches.append(_batch(task, delay, method, EPSILON, scale["limit"], trials, label))
    return batches


def plan_exploration(scale: dict[str, Any]) -> list[Batch]:
    """Return the batches of Greedy-Step on Trace Back with other values of ε."""
    batches = []
    for delay in scale["delays"]["trace-back"]:
        for epsilon in scale["epsilons"]:
            label = f"{TASK_TITLES['trace-back']}, delay {delay}: ε = {epsilon:g}"
            trials = scale["trials"]["fast"]
            batches.append(_batch("trace-back", delay, "greedy-step", epsilon, scale["limit"], trials, label))
    return batches


def plan_noise(scale: dict[str, Any]) -> list[Batch]:
    """Return the batches of all noise levels and methods; a trial finds whether the policy is right at the end."""
    delay, episodes = scale["noisy_delay"], scale["noisy_episodes"]
    return [
        Batch(
            name=f"choice-{delay}-noise-{noise:g}-{method}",
            label=f"Choice, noise {noise:g}: {METHODS[method].label}",
            settings={"task": "choice", "delay": delay, "noise": noise, **about("choice", method)}
            | {"epsilon": EPSILON, "episodes": episodes},
            trials=trials_of(scale, "choice", method),
            cost=delay * episodes * (150 if method == "rudder" else 1),  # noise keeps its network in training
            prepare=partial(_prepare_noise, delay, noise, method, episodes),
            is_whole=lambda found: isinstance(found, bool),
        )
        for noise in scale["noise"]
        for method in NOISE_METHODS
    ]


def _prepare_noise(delay: int, noise: float, method: str, episodes: int) -> Callable[[int], bool]:
    task = make("choice", delay, noise=noise)

    def is_right(seed: int) -> bool:
        table, _ = learner(task, method, seed=seed, epsilon=EPSILON)(episodes)
        return bool(task.solved_by(greedy_policy(table)))

    return is_right


def trials_of(scale: dict[str, Any], task: str, method: str) -> int:
    """Return the number of trials; on Choice every method is fast but RUDDER, which trains a network."""
    return scale["trials"]["fast" if task == "choice" and method != "rudder" else METHODS[method].pace]


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
    """Return the settings of a learner besides delay, exploration and seed."""
    how = METHODS[method]
    pays = CHOICE if task == "choice" else {}
    if how.method is None:
        return {"method": method, **pays}
    _, defaults = UPDATES[how.method]
    return {"method": method, **pays, "update": how.method, **defaults, **how.options}


def _seeded(task: ToyTask, method: str, limit: int, epsilon: float, seed: int) -> Trial:
    return trial(task, method, seed=seed, limit=limit, epsilon=epsilon)


def _steps(task: str, delay: int, method: str, limit: int) -> float:
    """Estimate the cost of a trial in steps of a tabular learner, from measured ones."""
    if method == "rudder":
        return 1e5 * delay  # a thousand episodes, and its network costs a hundred times as much as a table
    slow = 1e3 * delay**2 if task == "trace-back" else 2e1 * delay
    return delay * min({"fast": 1e2, "medium": 1e3, "slow": slow}[METHODS[method].pace], limit)


def _is_trial(found: Any) -> bool:
    """Return whether this, read from a file, is the result of a trial."""
    if not (isinstance(found, list) and len(found) == len(Trial._fields)):
        return False
    return all(one is None or (type(one) is int and one >= 1) for one in found)


# -- results ----------------------------------------------------------------------------------------------------------


def rows(batches: Sequence[Batch], found: Sequence[list[Any]]) -> list[dict[str, Any]]:
    """Return one row per batch of `plan` or `plan_exploration`."""
    made = []
    for batch, trials in zip(batches, found, strict=True):
        what = {key: batch.settings[key] for key in ("task", "delay", "method", "epsilon", "limit")}
        made.append(row(**what, trials=[Trial(*one) for one in trials]))
    return made


def noise_rows(batches: Sequence[Batch], found: Sequence[list[Any]]) -> list[dict[str, Any]]:
    """Return one row per batch of `plan_noise`, with the share of trials that choose right."""
    made = []
    for batch, trials in zip(batches, found, strict=True):
        what = {key: batch.settings[key] for key in ("noise", "method", "delay", "episodes")}
        made.append({**what, "trials": len(trials), "right": float(np.mean(trials))})
    return made


def row(task: str, delay: int, method: str, epsilon: float, limit: int, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return all trials with their summary. An unsolved trial is None and counts as longer than all others."""
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
    """Return the trials, their median and their band; None for a quantile among the unsolved trials."""
    ordered = sorted(episodes, key=lambda one: np.inf if one is None else one)
    band = {"low": BAND[0], "median": 0.5, "high": BAND[1]}
    return {"trials": list(episodes)} | {name: _quantile(ordered, share) for name, share in band.items()}


def _quantile(ordered: list[int | None], share: float) -> float | None:
    """Return a quantile of ordered numbers; the mean of two where it falls between them."""
    place = share * len(ordered)
    below, above = ordered[max(int(np.ceil(place - 1e-9)) - 1, 0)], ordered[int(place + 1e-9)]
    return None if below is None or above is None else (below + above) / 2

"""Choice and Trace Back: episodes until the task is solved, and until its best return was seen for the first time.

The second number bounds the first from below for every learner: what was never seen cannot be known. Where the two are
equal, exploration alone explains the figure, and no update could have done better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from greedystep import envs
from greedystep.envs import ToyTask
from greedystep.experiments.fig2.contestants import CONTESTANTS, EPSILON
from greedystep.experiments.fig2.workers import Workers
from greedystep.tabular import Rudder, greedy_policy, learn, until_solved

CHOICE = {"best": 1.0, "other": 0.5}
"""Both choices pay, or a learner could not be caught by the wrong one."""

BAND = (0.4, 0.6)
"""The quantiles between which a figure shades, RUDDER's and the paper's."""

NOISY = ("greedy-step", "backward", "model", "monte-carlo", "watkins", "rudder")


class Trial(NamedTuple):
    solved: int | None
    """Episodes until the greedy policy was good; None: not within the limit."""
    seen: int | None
    """Episodes until one of them earned a return that a solution earns."""


def make(task: str, delay: int, **options: Any) -> ToyTask:
    """Choice or Trace Back, its optimum worked out (it is asked for by several threads)."""
    made = envs.make(f"toy/{task}", delay=delay, **(CHOICE if task == "choice" else {}), **options)
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

    resolution = 0.02 if CONTESTANTS[method].pace == "slow" else 0.001
    return Trial(until_solved(task, go_on, limit=limit, resolution=resolution), seen)


def learner(task: ToyTask, method: str, *, seed: int, epsilon: float) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """A function that lets the method have so many more episodes and returns its table and their returns."""
    contestant = CONTESTANTS[method]
    if contestant.method is None:
        rudder = Rudder(task, seed=seed, epsilon=epsilon)

        def rudder_go_on(episodes: int) -> tuple[np.ndarray, np.ndarray]:
            returns = rudder.learn(episodes)
            return rudder.q, returns

        return rudder_go_on
    name, options, random = contestant.method, contestant.options, np.random.default_rng(seed)
    table: Any = 0.0
    memory: Any = None

    def go_on(episodes: int) -> tuple[np.ndarray, np.ndarray]:
        nonlocal table, memory
        learned = learn(task, name, episodes=episodes, epsilon=epsilon, q=table, seed=random, memory=memory, **options)
        table, memory = learned.q, learned.memory
        return table, learned.returns

    return go_on


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


def trials_of(scale: dict[str, Any], task: str, method: str) -> int:
    """How many trials; in Choice every method is fast but RUDDER, whose network takes its time everywhere."""
    return scale["trials"]["fast" if task == "choice" and method != "rudder" else CONTESTANTS[method].pace]


def run(task: str, delays: list[int], scale: dict[str, Any], workers: Workers) -> list[dict[str, Any]]:
    """All methods at all delays."""
    rows = []
    for delay in delays:
        made = make(task, delay)
        for method, contestant in CONTESTANTS.items():
            count, limit = trials_of(scale, task, method), scale["limit"]

            def one(seed: int, made: ToyTask = made, method: str = method, limit: int = limit) -> Trial:
                return trial(made, method, seed=seed, limit=limit)

            found = workers.map(one, range(count), f"{task}, delay {delay}: {contestant.label}")
            rows.append(row(task, delay, method, EPSILON, limit, found))
    return rows


def explore(delays: list[int], epsilons: list[float], scale: dict[str, Any], workers: Workers) -> list[dict[str, Any]]:
    """Greedy-Step on Trace Back with other shares of random actions."""
    rows = []
    for delay in delays:
        made = make("trace-back", delay)
        for epsilon in epsilons:

            def one(seed: int, made: ToyTask = made, epsilon: float = epsilon) -> Trial:
                return trial(made, "greedy-step", seed=seed, limit=scale["limit"], epsilon=epsilon)

            found = workers.map(one, range(scale["trials"]["fast"]), f"trace-back, delay {delay}: ε = {epsilon:g}")
            rows.append(row("trace-back", delay, "greedy-step", epsilon, scale["limit"], found))
    return rows


def with_noise(scale: dict[str, Any], workers: Workers) -> list[dict[str, Any]]:
    """Choice with noise on the irrelevant steps: the share of trials whose greedy policy is right at the end."""
    rows = []
    for noise in scale["noise"]:
        made = make("choice", scale["noisy_delay"], noise=noise)
        for method in NOISY:

            def right(seed: int, made: ToyTask = made, method: str = method) -> bool:
                table, _ = learner(made, method, seed=seed, epsilon=EPSILON)(scale["noisy_episodes"])
                return made.solved_by(greedy_policy(table))

            what = f"choice, noise {noise:g}: {CONTESTANTS[method].label}"
            found = workers.map(right, range(trials_of(scale, "choice", method)), what)
            share = {"delay": scale["noisy_delay"], "episodes": scale["noisy_episodes"], "right": float(np.mean(found))}
            rows.append({"noise": noise, "method": method, "trials": len(found), **share})
    return rows

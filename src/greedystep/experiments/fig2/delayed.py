"""Choice and Trace Back: trials that count episodes until the task is solved, and until its best return is first seen.

The second number bounds the first from below for every learner. Where the two are equal, exploration alone explains the
figure, and no update rule could have done better. On Choice with noise, trials find whether the policy is right after a
fixed number of episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from greedystep import envs
from greedystep.envs import ToyTask
from greedystep.experiments.fig2.trial_store import Batch
from greedystep.tabular import METHODS as UPDATES
from greedystep.tabular import Rudder, greedy_policy, until_solved
from greedystep.tabular.learning import make_learner

CHOICE = {"best": 1.0, "other": 0.5}
"""Rewards of the two choices; both are positive, so that a learner can settle on the wrong one."""

BAND = (0.4, 0.6)
"""Quantiles of the band around medians in figures, as in RUDDER's and the paper's."""

TASK_TITLES = {"trace-back": "Trace Back", "choice": "Choice"}

EPSILON = 0.2
"""Share of random actions, the same for all methods; other actions are greedy, ties broken at random."""

STEP, TRACE = 0.1, 0.9
"""Default α and λ of every method that has them. Tables begin at 0 in Choice and Trace Back."""


@dataclass(frozen=True)
class ToyMethod:
    """A method of Figure 2 with its settings, and what distinguishes its update."""

    label: str
    target: str
    """The update's target."""
    order: str
    """The order in which an episode's steps are updated."""
    step: str
    """The step size; "max" where the value becomes the maximum of itself and the target."""
    method: str | None = None
    """The method's name in `tabular.METHODS`; None for RUDDER."""
    options: dict[str, Any] = field(default_factory=dict)
    pace: str = "slow"
    """Typical episodes to solve, which decide the number of trials: fast, about 100; medium, about 1000; slow, more."""


METHODS = {
    "greedy-step": ToyMethod("Greedy-Step", "best n-step return", "all at once", "max", "greedy-step", pace="fast"),
    "rudder": ToyMethod("RUDDER", "redistributed return", "all at once", "0.1", pace="medium"),
    "watkins": ToyMethod("Watkins' Q(λ)", "λ-return, cut", "all at once", "0.1", "watkins"),
    "peng": ToyMethod("Peng's Q(λ)", "λ-return", "all at once", "0.1", "peng"),
    "sarsa-lambda": ToyMethod("SARSA(λ)", "λ-return, on-policy", "all at once", "0.1", "sarsa-lambda"),
    "monte-carlo": ToyMethod("Monte Carlo", "return", "all at once", "0.1", "monte-carlo", pace="medium"),
    "q-learning": ToyMethod("Q-learning", "one step", "forward", "0.1", "q-learning"),
    "forward": ToyMethod("Q-learning, α = 1", "one step", "forward", "1", "q-learning", {"alpha": 1.0}),
    "one-step-max": ToyMethod("Greedy-Step, N = 1", "one step", "all at once", "max", "greedy-step", {"horizon": 1}),
    "backward-slow": ToyMethod(
        "backward Q-learning, α = 0.1", "one step", "backward", "0.1", "backward-q-learning", {"alpha": STEP}
    ),
    "backward": ToyMethod("backward Q-learning", "one step", "backward", "1", "backward-q-learning", pace="fast"),
    "episodic-backward": ToyMethod(
        "Episodic Backward Update", "one step, half mixed", "backward", "1", "episodic-backward", {"alpha": 1.0}
    ),
    "model": ToyMethod("value iteration on the model", "one step", "until nothing changes", "1", "model", pace="fast"),
}
"""The paper's method, those it compares with, and those that separate the operator from the order of updates."""

PAPER_BASELINES = ("rudder", "watkins", "peng", "sarsa-lambda")
"""Methods that the paper compares with: "traditional eligibility trace methods and RUDDER"."""

NOISE_METHODS = ("greedy-step", "backward", "model", "monte-carlo", "watkins", "rudder")
"""Methods that are run on Choice with noise."""

PUBLISHED = {
    "delays": [6, 8, 10, 12, 15, 17, 20, 22, 25],
    "rudder": [838, 844, 846, 840, 1140, 748, 699, 698, 628],
    "watkins": [14661, 28292, 42856, 67485, 107113, 134957, 184685, 229052, None],
    "sarsa-lambda": [8818, 23733, 47565, 78535, 137729, 186423, 270999, 339529, 455089],
}
"""Median episodes of 100 trials on Trace Back by delay, read off the vector graphics of RUDDER's poster
(ml-jku/rudder).
"""


def published(method: str, delay: int) -> int | None:
    """Return the published median episodes on Trace Back; None if there is none."""
    if method not in PUBLISHED or delay not in PUBLISHED["delays"]:
        return None
    return PUBLISHED[method][PUBLISHED["delays"].index(delay)]


# -- one trial --------------------------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """Result of one trial, in episodes; None: not within the limit."""

    solved: int | None
    """Episodes until the greedy policy solved the task."""
    seen: int | None
    """Episodes until one first had the return of a solution."""


@cache
def make(task: str, delay: int, **options: Any) -> ToyTask:
    """Make Choice or Trace Back, with its optimum computed already, since several threads share the task."""
    made = envs.make_task(f"toy/{task}", delay=delay, **(CHOICE if task == "choice" else {}), **options)
    assert made.optimal_return > 0
    return made


def trial(task: ToyTask, method: str, *, seed: int, limit: int, epsilon: float = EPSILON) -> Trial:
    """Run one trial; methods get the same random numbers from the same seed for as long as they act alike."""
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
    """Return how late a solution may be noticed, as a share of the episodes so far."""
    return 0.02 if METHODS[method].pace == "slow" else 0.001


def learner(task: ToyTask, method: str, *, seed: int, epsilon: float) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Return a function n -> (table, returns) that learns for n more episodes."""
    how = METHODS[method]
    if how.method is None:
        rudder = Rudder(task, seed=seed, epsilon=epsilon)
        return lambda episodes: (rudder.q, rudder.learn(episodes))  # the table is changed in place
    more = make_learner(task, how.method, epsilon=epsilon, q=0.0, seed=seed, **how.options)

    def go_on(episodes: int) -> tuple[np.ndarray, np.ndarray]:
        learned = more(episodes)
        return learned.q, learned.returns

    return go_on


# -- batches of trials ------------------------------------------------------------------------------------------------


def plan(task: str, scale: dict[str, Any]) -> list[Batch]:
    """Return the batches of trials of all methods at all delays."""
    return [
        _batch(task, delay, method, EPSILON, scale["limit"], trials_of(scale, task, method))
        for delay in scale["delays"][task]
        for method in METHODS
    ]


def plan_exploration(scale: dict[str, Any]) -> list[Batch]:
    """Return the batches of trials of Greedy-Step on Trace Back with other values of ε."""
    return [
        _batch("trace-back", delay, "greedy-step", epsilon, scale["limit"], scale["trials"]["fast"])
        for delay in scale["delays"]["trace-back"]
        for epsilon in scale["epsilons"]
    ]


def trials_of(scale: dict[str, Any], task: str, method: str) -> int:
    """Return the number of trials of a method; on Choice every method is fast but RUDDER, which trains a network."""
    return scale["trials"]["fast" if task == "choice" and method != "rudder" else METHODS[method].pace]


def _batch(task: str, delay: int, method: str, epsilon: float, limit: int, trials: int) -> Batch:
    def prepare() -> Callable[[int], Trial]:
        made = make(task, delay)
        return lambda seed: trial(made, method, seed=seed, limit=limit, epsilon=epsilon)

    other = f"epsilon-{epsilon:g}" if epsilon != EPSILON else ""
    settings = {"task": task, "delay": delay, **about(task, method), "epsilon": epsilon, "limit": limit}
    return Batch(
        name="-".join(filter(None, [task, str(delay), method, other])),
        label=f"{TASK_TITLES[task]}, delay {delay}: {METHODS[method].label}{other and f', ε = {epsilon:g}'}",
        settings=settings | {"resolution": resolution_of(method)},
        trials=trials,
        cost=_steps(task, delay, method, limit),
        prepare=prepare,
        is_whole=_is_trial,
    )


def plan_noise(scale: dict[str, Any]) -> list[Batch]:
    """Return the batches of trials on Choice with noise; a trial finds whether the policy is right at the end."""
    delay, episodes = scale["noisy_delay"], scale["noisy_episodes"]

    def batch(noise: float, method: str) -> Batch:
        def prepare() -> Callable[[int], bool]:
            task = make("choice", delay, noise=noise)

            def is_right(seed: int) -> bool:
                table, _ = learner(task, method, seed=seed, epsilon=EPSILON)(episodes)
                return bool(task.solved_by(greedy_policy(table)))

            return is_right

        return Batch(
            name=f"choice-{delay}-noise-{noise:g}-{method}",
            label=f"Choice, noise {noise:g}: {METHODS[method].label}",
            settings={"task": "choice", "delay": delay, "noise": noise, **about("choice", method)}
            | {"epsilon": EPSILON, "episodes": episodes},
            trials=trials_of(scale, "choice", method),
            cost=delay * episodes * (150 if method == "rudder" else 1),  # noise keeps its network in training
            prepare=prepare,
            is_whole=lambda found: isinstance(found, bool),
        )

    return [batch(noise, method) for noise in scale["noise"] for method in NOISE_METHODS]


def about(task: str, method: str) -> dict[str, Any]:
    """Return the settings of a learner, without delay, exploration and seed."""
    how = METHODS[method]
    update = {} if how.method is None else {"update": how.method, **UPDATES[how.method][1], **how.options}
    return {"method": method, **(CHOICE if task == "choice" else {}), **update}


def _steps(task: str, delay: int, method: str, limit: int) -> float:
    """Estimate the cost of a trial, in steps of a tabular learner, from measured ones."""
    if method == "rudder":
        return 1e5 * delay  # a thousand episodes, and its network costs a hundred times as much as a table
    slow = 1e3 * delay**2 if task == "trace-back" else 2e1 * delay
    return delay * min({"fast": 1e2, "medium": 1e3, "slow": slow}[METHODS[method].pace], limit)


def _is_trial(found: Any) -> bool:
    if not (isinstance(found, list) and len(found) == len(Trial._fields)):
        return False
    return all(one is None or (type(one) is int and one >= 1) for one in found)


# -- results ----------------------------------------------------------------------------------------------------------


def rows(batch: Batch, trials: list[Any]) -> list[dict[str, Any]]:
    """Return the table row of a batch of `plan` or `plan_exploration`, as a list of one."""
    what = {key: batch.settings[key] for key in ("task", "delay", "method", "epsilon", "limit")}
    return [row([Trial(*one) for one in trials], **what)]


def row(trials: Sequence[Trial], **what: Any) -> dict[str, Any]:
    """Return a table row: `what`, all trials, and their summary. An unsolved trial is None, longer than all others."""
    solved, seen = ([getattr(one, name) for one in trials] for name in Trial._fields)
    return {**what, "censored": solved.count(None), "solved": summary(solved), "seen": summary(seen)}


def noise_rows(batch: Batch, trials: list[bool]) -> list[dict[str, Any]]:
    """Return the table row of a batch of `plan_noise`, as a list of one, with the share of trials that choose right."""
    what = {key: batch.settings[key] for key in ("noise", "method", "delay", "episodes")}
    return [{**what, "trials": len(trials), "right": float(np.mean(trials))}]


def summary(episodes: Sequence[int | None]) -> dict[str, Any]:
    """Return the trials, their median and the ends of their band; None where a quantile falls among unsolved trials."""
    ordered = sorted(episodes, key=lambda one: np.inf if one is None else one)
    band = {"low": BAND[0], "median": 0.5, "high": BAND[1]}
    return {"trials": list(episodes)} | {name: _quantile(ordered, share) for name, share in band.items()}


def _quantile(ordered: list[int | None], share: float) -> float | None:
    """Return a quantile of ordered numbers, the mean of two where it falls between them; None among unsolved trials."""
    place = share * len(ordered)
    below, above = ordered[max(int(np.ceil(place - 1e-9)) - 1, 0)], ordered[int(place + 1e-9)]
    return None if below is None or above is None else (below + above) / 2

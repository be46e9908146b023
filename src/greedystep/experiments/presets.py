"""Beyond the paper: do the presets "paper" (1 environment, batches of 32) and "fast" (64, batches of 512) agree?

Figure 3 uses "fast", which a GPU runs many times as fast. Here the paper's methods are also trained with "paper", with
the options chosen with "fast" and the preset's own learning rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from greedystep.charts import DOTTED, SOLID, Style
from greedystep.experiments import fig3
from greedystep.experiments.claims import Claim, Outcome, judges
from greedystep.experiments.deep import method_runs, protocol
from greedystep.experiments.deep.judging import AllRuns, Estimate, mean_difference
from greedystep.experiments.deep.method_runs import MethodRuns
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.suite import GREEDY, METHODS, PAPER, TASKS
from greedystep.experiments.deep.training import Budget
from greedystep.stats import difference, percentiles, resample

NAME, IN_PARTS = "presets", True
TITLE = "The presets paper and fast side by side"
RESAMPLES = 10_000

FAST = {
    # On MountainCar hardly an episode would have ended by then.
    "quick": TaskProtocol(
        "catcher", "fast", Budget(100_000, points=100, episodes=20), methods=("dqn", GREEDY), suffix=", fast"
    ),
    "paper": replace(fig3.SCALES["paper"][0], budget=Budget(1_000_000), more_seeds=0, suffix=", fast"),
}
SCALES: dict[str, list[TaskProtocol]] = {
    scale: [replace(fast, preset="paper", selection=0, settings_from=fast, suffix=", paper"), fast]
    for scale, fast in FAST.items()
}


def name(method: str, preset: str) -> str:
    """Return the name of a method with a preset."""
    return f"{method}, {preset}"


@judges(
    "presets-agree",
    "Many environments and large batches put the methods in the same order as one environment and batches of 32.",
    "the same order",
    "not in the paper",
)
def agree(runs: Mapping[str, MethodRuns], task: str) -> Outcome:
    """By every pair of methods: is it reversed by the preset, and does the preset change how far they are apart?

    A pair is reversed if each preset has another of the two ahead (95 % CIs). It is changed if the difference of the
    differences, (A - B with fast) - (A - B with paper), has a CI that excludes 0. Refuted if a pair is reversed,
    confirmed if none is even changed, otherwise partly; untested with fewer than two methods.

    The rule was changed after the runs. It looked at pairs that differ with both presets alone, all of which have the
    same order: confirmed. So it left out what makes a pair level with one preset and not with the other.
    """
    methods = [method for method in METHODS if all(name(method, preset) in runs for preset in ("paper", "fast"))]
    if len(methods) < 2:
        return Outcome("untested", "fewer than two methods were trained with both presets")
    reversed_, changed = [], []
    for pair in combinations(methods, 2):
        final = {(m, preset): runs[name(m, preset)].final_return for m in pair for preset in ("paper", "fast")}
        ahead = {mean_difference(*(final[m, preset] for m in pair)).above() for preset in ("paper", "fast")}
        labels = [METHODS[method].label for method in pair]
        if ahead >= {"confirmed", "refuted"}:
            reversed_.append(" and ".join(labels))
        if not (apart := change(*(final[m, preset] for m in pair for preset in ("fast", "paper")))).contains(0.0):
            changed.append(f"{' minus '.join(labels)} changes by {apart:.2g} from paper to fast")
    pairs = len(methods) * (len(methods) - 1) // 2
    steps = runs[name(methods[0], "fast")].steps[-1]
    measured = f"{TASKS[task].title} alone, after {steps:,} steps: of {pairs} pairs {len(reversed_)} are reversed; "
    measured += f"the difference changes in {len(changed)}"
    if GREEDY in methods:
        others = [method for method in methods if method != GREEDY]
        pooled = pooled_change(runs, GREEDY, others)
        measured += f". Greedy-Step DQN minus the mean of the others changes by {pooled:.2g} from paper to fast"
    why = "; ".join([*(f"reversed: {one}" for one in reversed_), *(f"changed: {one}" for one in changed)])
    return Outcome("refuted" if reversed_ else "partly" if changed else "confirmed", measured, why)


def change(a_fast: np.ndarray, a_paper: np.ndarray, b_fast: np.ndarray, b_paper: np.ndarray) -> Estimate:
    """Return (A - B with fast) - (A - B with paper) of mean returns, with its 95 % CI over seeds."""
    # The mean over two "tasks" is half of each sum: A with fast plus B with paper, minus the other two.
    half = difference({"a": a_fast, "b": b_paper}, {"a": a_paper, "b": b_fast}, "mean")
    return Estimate(*(2 * x for x in half))


def pooled_change(runs: Mapping[str, MethodRuns], method: str, others: Sequence[str]) -> Estimate:
    """Return `change` of a method beside the mean of the others, with its 95 % CI over seeds."""
    rng = np.random.default_rng(0)
    seeds = {(m, p): runs[name(m, p)].final_return for m in (method, *others) for p in ("fast", "paper")}

    def pool(means: Mapping[tuple[str, str], Any]) -> Any:
        of_method, *of_others = (means[m, "fast"] - means[m, "paper"] for m in (method, *others))
        return of_method - sum(of_others) / len(others)

    drawn = pool({key: resample(own, "mean", RESAMPLES, rng) for key, own in seeds.items()})
    ends = percentiles(drawn, drawn, 0.95, *seeds.values())
    return Estimate(pool({key: own.mean() for key, own in seeds.items()}), *ends)


def claims(runs: AllRuns) -> list[Claim]:
    """Return the claim of this experiment, judged on its one task."""
    tasks = {task for task, _ in runs} or {FAST["paper"].task}
    return [agree({name: one for (_, name), one in runs.items()}, task) for task in tasks]


# -- the experiment ---------------------------------------------------------------------------------------------------

STYLES: dict[str, Style] = {
    name(method, preset): (fig3.STYLES[method][0], dash)
    for method in PAPER
    for preset, dash in (("fast", SOLID), ("paper", DOTTED))
}

run = protocol.make_run(TITLE, SCALES, claims)
draw = method_runs.make_draw(NAME, STYLES, ("returns", "q", "overestimation"), bands=False)
tables = method_runs.make_tables(NAME, "Methods by preset after equal steps")

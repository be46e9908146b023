"""The paper's Figure 2: Choice, Trace Back and Grid World, and which part of the gains is due to the operator.

    delayed       Choice and Trace Back: the methods, and episodes to solve by delay beside the episodes that
                  exploration alone needs; Greedy-Step with other values of ε; Choice with noise
    grid_world    Grid World: what is learned from logged random walks, by size
    trial_store   one queue of all trials for all cores; trials are kept, so that an interrupted run continues
    toy_claims    the paper's claims, judged by these numbers
    toy_output    figures and tables

"Solved" is RUDDER's rule: the exact expected return of the greedy policy reaches 90 % of the optimal one. Trials that
did not get there within the limit stay in the numbers as None and count as longer than all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from greedystep.experiments.fig2 import delayed, grid_world, toy_claims
from greedystep.experiments.fig2.delayed import EPSILON, PUBLISHED, STEP, TRACE
from greedystep.experiments.fig2.toy_output import CHARTS, charts, draw, tables
from greedystep.experiments.fig2.trial_store import Batch, TrialStore, run_trials
from greedystep.runs.part_store import Parts
from greedystep.runs.progress import ReportProgress

__all__ = ["CHARTS", "IN_PARTS", "NAME", "TASKS", "TITLE", "charts", "draw", "run", "tables"]

NAME, IN_PARTS = "fig2", True
TITLE = "Toy tasks with delayed rewards: episodes to solve, exploration, and the order of updates"

Plan = Callable[[dict[str, Any]], list[Batch]]
Rows = Callable[[Batch, list[Any]], list[dict[str, Any]]]

SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "delays": {"trace-back": [6, 8, 10, 12, 15], "choice": [10, 20, 50]},
        "epsilons": [1.0, 0.5],
        "trials": {"fast": 200, "medium": 16, "slow": 8},
        "limit": 200_000,
        "noise": [0.0, 0.1, 0.5],
        "noisy_delay": 20,
        "noisy_episodes": 500,
        "sizes": [4, 6, 8, 12, 16],
        "logged": 10,
        "offline_trials": 20,
    },
    "paper": {
        "delays": {"trace-back": PUBLISHED["delays"], "choice": [10, 20, 30, 40, 50, 100, 200, 500]},
        "epsilons": [1.0, 0.5, 0.1],
        "trials": {"fast": 100, "medium": 100, "slow": 100},
        "limit": 1_000_000,
        "noise": [0.0, 0.05, 0.1, 0.2, 0.5, 1.0],
        "noisy_delay": 20,
        "noisy_episodes": 2000,
        "sizes": [5, 10, 15, 20, 25, 30, 40],
        "logged": 10,
        "offline_trials": 100,
    },
}
"""Delays; other values of ε; trials by the pace of a method; most episodes of a trial; standard deviations of the noise
on Choice, its delay and episodes; sizes of Grid World, episodes per log, and trials there."""

PARTS: dict[str, tuple[str, Plan, Rows]] = {
    "choice": ("choice", partial(delayed.plan, "choice"), delayed.rows),
    "noise": ("choice", delayed.plan_noise, delayed.noise_rows),
    "trace-back": ("trace-back", partial(delayed.plan, "trace-back"), delayed.rows),
    "exploration": ("trace-back", delayed.plan_exploration, delayed.rows),
    "offline": ("grid-world", grid_world.plan, grid_world.rows),
}
"""Part of the numbers -> its task, the function that plans its trials, and the one that makes table rows of a batch."""

TASKS = tuple(dict.fromkeys(task for task, _, _ in PARTS.values()))


def run(scale: str, progress: ReportProgress, parts: Parts = None, only: Sequence[str] = ()) -> dict[str, Any]:
    settings, kept = SCALES[scale], TrialStore(parts)
    plans = {part: plan(settings) for part, (_, plan, _) in PARTS.items()}
    chosen = [part for part, (task, _, _) in PARTS.items() if not only or task in only]
    run_trials([batch for part in chosen for batch in plans[part]], kept, progress)
    numbers: dict[str, Any] = {"published": PUBLISHED, "missing": []}
    for part, (task, _, rows) in PARTS.items():
        found = [(batch, kept.of(batch)) for batch in plans[part]]
        there = [(batch, trials) for batch, trials in found if trials is not None]
        whole = len(there) == len(found)
        numbers[part] = [row for batch, trials in there for row in rows(batch, trials)] if whole else []
        if not whole:
            numbers["missing"].append(
                f"{part}: {len(found) - len(there)} of {len(found)} batches of trials are missing; "
                f"they come with --only {task}, or without --only"
            )
    numbers["problems"] = kept.problems
    fixed = {"epsilon": EPSILON, "alpha": STEP, "lambda": TRACE, "choice": delayed.CHOICE, "band": delayed.BAND}
    return {
        "title": TITLE,
        "settings": {"scale": scale, **fixed, **settings},
        "numbers": numbers,
        "claims": [asdict(claim) for claim in toy_claims.claims(numbers)],
    }

"""The paper's Figure 2: Choice, Trace Back and Grid World, and how much of it is the operator.

    contestants   the methods, one rule of exploration, and the published numbers
    delayed       Choice and Trace Back: episodes to solve against the delay, beside the episodes that exploration alone
                  needs; Greedy-Step with other shares of random actions
    noise         Choice with noise: who still chooses right
    offline       Grid World: what is learned from logged random walks, against the size
    pieces        one queue of all trials for all cores; trials are kept, so that an interrupted run can go on
    verdicts      the paper's claims, judged by these numbers
    output        tables and figures
    charts        the main figure for the page

"Solved" is RUDDER's rule: the exact expected return of the greedy policy reaches 90 % of the optimal one. Trials that
were given up stay in the numbers as None and count as longer than all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from greedystep.experiments.fig2 import delayed, noise, offline, verdicts
from greedystep.experiments.fig2.charts import CHARTS, charts
from greedystep.experiments.fig2.contestants import EPSILON, PUBLISHED, STEP, TRACE
from greedystep.experiments.fig2.output import draw, tables
from greedystep.experiments.fig2.pieces import Batch, TrialStore, run_trials
from greedystep.runs.progress import ReportProgress

__all__ = ["CHARTS", "IN_PARTS", "NAME", "TASKS", "TITLE", "charts", "draw", "run", "tables"]

NAME, IN_PARTS = "fig2", True
TITLE = "Toy tasks with delayed rewards: episodes to solve, exploration, and the order of updates"

Plan = Callable[[dict[str, Any]], list[Batch]]
Rows = Callable[[list[Batch], list[list[Any]]], list[dict[str, Any]]]

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
"""Delays; shares of random actions besides the common one; trials by the pace of a method; episodes after which a
trial is given up; standard deviations of the noise in Choice, its delay and its episodes; sizes of Grid World, episodes
in a log, and trials there.
"""


PARTS: dict[str, tuple[str, Plan, Rows]] = {
    "choice": ("choice", partial(delayed.plan, "choice"), delayed.rows),
    "noise": ("choice", noise.plan, noise.rows),
    "trace-back": ("trace-back", partial(delayed.plan, "trace-back"), delayed.rows),
    "exploration": ("trace-back", delayed.plan_exploration, delayed.rows),
    "offline": ("grid-world", offline.plan, offline.rows),
}
"""What the numbers consist of: the task it belongs to, what is run for it, and what is made of what was found."""

TASKS = tuple(dict.fromkeys(task for task, _, _ in PARTS.values()))


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    settings, kept = SCALES[scale], TrialStore(parts)
    plans = {part: plan(settings) for part, (_, plan, _) in PARTS.items()}
    chosen = [part for part, (task, _, _) in PARTS.items() if not only or task in only]
    run_trials([batch for part in chosen for batch in plans[part]], kept, progress)
    numbers: dict[str, Any] = {"published": PUBLISHED, "missing": []}
    for part, (task, _, rows) in PARTS.items():
        found = [kept.of(batch) for batch in plans[part]]
        there = [trials for trials in found if trials is not None]
        numbers[part] = rows(plans[part], there) if len(there) == len(found) else []
        if not numbers[part]:
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
        "claims": [asdict(claim) for claim in verdicts.claims(numbers)],
    }

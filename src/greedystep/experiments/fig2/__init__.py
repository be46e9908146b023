"""The paper's Figure 2: Choice, Trace Back and Grid World, and how much of it is the operator.

    contestants   the methods, one rule of exploration, and the published numbers
    delayed       Choice and Trace Back: episodes to solve against the delay, beside the episodes that exploration alone
                  needs; Greedy-Step with other shares of random actions; Choice with noise
    offline       Grid World: what is learned from logged random walks, against the size
    verdicts      the paper's claims, judged by these numbers
    output        tables and figures

"Solved" is RUDDER's rule: the exact expected return of the greedy policy reaches 90 % of the optimal one. Trials that
were given up stay in the numbers as None and count as longer than all others.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from greedystep.experiments import Progress
from greedystep.experiments.fig2 import delayed, offline, verdicts
from greedystep.experiments.fig2.contestants import CONTESTANTS, EPSILON, PUBLISHED, STEP, TRACE
from greedystep.experiments.fig2.output import draw, tables
from greedystep.experiments.fig2.workers import Workers

__all__ = ["NAME", "TITLE", "draw", "run", "tables"]

NAME = "fig2"
TITLE = "Toy tasks with delayed rewards: episodes to solve, exploration, and the order of updates"

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


def run(scale: str, progress: Progress) -> dict[str, Any]:
    settings = SCALES[scale]
    delays = settings["delays"]
    batches = (
        sum(map(len, delays.values())) * len(CONTESTANTS)
        + len(delays["trace-back"]) * len(settings["epsilons"])
        + len(settings["noise"]) * len(delayed.NOISY)
        + len(settings["sizes"])
    )
    with Workers(progress, batches) as workers:
        numbers = {
            "choice": delayed.run("choice", delays["choice"], settings, workers),
            "offline": offline.run(settings, workers),
            "noise": delayed.with_noise(settings, workers),
            "exploration": delayed.explore(delays["trace-back"], settings["epsilons"], settings, workers),
            "trace-back": delayed.run("trace-back", delays["trace-back"], settings, workers),
            "published": PUBLISHED,
        }
    fixed = {"epsilon": EPSILON, "alpha": STEP, "lambda": TRACE, "choice": delayed.CHOICE, "band": delayed.BAND}
    return {
        "title": TITLE,
        "settings": {"scale": scale, **fixed, **settings},
        "numbers": numbers,
        "claims": [asdict(claim) for claim in verdicts.claims(numbers)],
    }

"""Beyond the paper: does Greedy-Step DQN mistake chance for skill?

Where the same actions can end well or badly, the largest of several returns is often the luckiest. MinAtar repeats the
last action with probability 0.1 (sticky actions). Breakout and Space Invaders have no other chance than how a game
begins. So DQN and Greedy-Step DQN are trained with and without sticky actions, both with the settings chosen with them.
The rules were written before any run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from greedystep.experiments import fig3
from greedystep.experiments.claims import Claim
from greedystep.experiments.deep import plots, protocol
from greedystep.experiments.deep.compared_methods import GREEDY
from greedystep.experiments.deep.judging import AllRuns, Outcome, combine, mean_difference, missing_runs
from greedystep.experiments.deep.method_runs import final_table
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.tasks import steady
from greedystep.experiments.deep.training import Length
from greedystep.experiments.deep.training_store import Store
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "luck", True
TITLE = "DQN and Greedy-Step DQN with and without sticky actions"
GAMES = ("breakout", "space-invaders")
TASKS = tuple(name for game in GAMES for name in (game, steady(game)))
BOTH = ("dqn", GREEDY)

SCALES: dict[str, list[TaskProtocol]] = {
    "quick": [TaskProtocol("breakout", "fast", Length(25_000, episodes=20), seeds=2, methods=BOTH)],
    "paper": [
        TaskProtocol(game, "fast", Length(2_000_000), seeds=3, selection=1_000_000, methods=BOTH) for game in GAMES
    ],
}
"""With sticky actions; each is trained again without them."""


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store = Store(parts)
    protocols = [
        each for one in SCALES[scale] for each in (one, replace(one, task=steady(one.task), settings_from=one))
    ]
    protocol.train_methods(store, progress, protocols, only)
    runs, numbers = protocol.collect(store, protocols, protocol.method_entries)
    return protocol.result(TITLE, scale, protocols, numbers, claims(runs))


# -- claims -----------------------------------------------------------------------------------------------------------


def claims(runs: AllRuns) -> list[Claim]:
    """Both claims; neither is the paper's."""
    return [
        _on_each_game(runs, lambda game: _excess(runs, game)).claim(
            "luck-for-skill",
            "Greedy-Step DQN over-estimates because it takes luck for skill: without sticky actions its "
            "over-estimation (Q minus behaviour return) exceeds DQN's by less.",
            "not in the paper",
            "less",
        ),
        _on_each_game(runs, lambda game: _lead(runs, game)).claim(
            "luck-ahead",
            "Where nothing is left to chance, Greedy-Step DQN is ahead of DQN.",
            "not in the paper",
            "more than 0",
        ),
    ]


def _excess(runs: AllRuns, game: str) -> Outcome:
    """Confirmed if over-estimation minus DQN's, with sticky actions minus without, has a 95 % CI above 0."""
    excess = {}
    for task in (game, steady(game)):
        ours, theirs = (runs[task, method].final_overestimation for method in (GREEDY, "dqn"))
        seeds = min(len(ours), len(theirs))
        excess[task] = ours[:seeds] - theirs[:seeds]
    gap = mean_difference(excess[game], excess[steady(game)])
    measured = f"over-estimation minus DQN's: {excess[game].mean():.2f} with, {excess[steady(game)].mean():.2f} without"
    return Outcome(gap.above(), f"{measured}, a difference of {gap}")


def _lead(runs: AllRuns, game: str) -> Outcome:
    """Confirmed if the final return minus DQN's, without sticky actions, has a 95 % CI above 0."""
    sticky, without = (
        mean_difference(runs[task, GREEDY].final_return, runs[task, "dqn"].final_return)
        for task in (game, steady(game))
    )
    return Outcome(without.above(), f"final return minus DQN's: {without} without, {sticky} with")


def _on_each_game(runs: AllRuns, judge: Callable[[str], Outcome]) -> Outcome:
    """Judge the games that were trained with and without sticky actions."""
    outcomes = {}
    for game in GAMES:
        missing = [
            f"{which}: {what}"
            for which, task in (("with sticky actions", game), ("without", steady(game)))
            if (what := missing_runs(runs, task, BOTH))
        ]
        outcomes[game] = Outcome("untested", ", ".join(missing)) if missing else judge(game)
    return combine(outcomes)


# -- output -----------------------------------------------------------------------------------------------------------


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    quantities = ("returns", "q", "overestimation")
    styles = {method: fig3.STYLES[method] for method in BOTH}
    return {"luck": plots.draw_tasks(result["numbers"]["tasks"], styles, quantities)}


def tables(result: dict[str, Any]) -> list[Table]:
    return [final_table(NAME, "With and without sticky actions", result["numbers"]["tasks"])]

"""Beyond the paper: is it chance that Greedy-Step DQN takes for skill?

Where the same actions can end well or badly, the largest of several returns is often the luckiest. MinAtar repeats the
last action with probability 0.1, whatever the agent wants. Breakout and Space Invaders have no other chance but how a
game begins, so that without these sticky actions nothing is luck. Here DQN and Greedy-Step DQN are trained with and
without, with the settings that they chose with. The rules were written before any run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from greedystep.experiments import fig3
from greedystep.experiments.claims import Claim
from greedystep.experiments.deep import output, sweep
from greedystep.experiments.deep.methods import GREEDY
from greedystep.experiments.deep.rules import Found, Judged, above, lead, missing, reasons, together, words
from greedystep.experiments.deep.session import Session
from greedystep.experiments.deep.store import Store
from greedystep.experiments.deep.tasks import TASKS as ALL_TASKS
from greedystep.experiments.deep.tasks import steady
from greedystep.experiments.deep.training import Length
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "luck", True
TITLE = "DQN and Greedy-Step DQN with and without sticky actions"
GAMES = ("breakout", "space-invaders")
TASKS = tuple(name for game in GAMES for name in (game, steady(game)))
BOTH = ("dqn", GREEDY)


SCALES: dict[str, list[sweep.Leg]] = {
    "quick": [sweep.Leg("breakout", "fast", Length(25_000, episodes=20), seeds=2, methods=BOTH)],
    "paper": [sweep.Leg(game, "fast", Length(2_000_000), seeds=3, selection=1_000_000, methods=BOTH) for game in GAMES],
}
"""The games as they are; each is trained again without sticky actions."""


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, games = Store(parts), SCALES[scale]
    without = [replace(leg, task=steady(leg.task), chosen_on=leg.task) for leg in games]
    wanted = sweep.wanted([*games, *without], only)
    work = (leg.work(leg.seeds * len(BOTH), len(BOTH) if leg.selection else 0) for leg in wanted)
    with Session(store, progress, sum(work)) as session:
        for legs in (games, without):  # in this order, since the first choose for the second
            sweep.train_methods(session, [leg for leg in legs if leg in wanted])
    in_pairs = [leg for pair in zip(games, without, strict=True) for leg in pair]
    found, numbers = sweep.collect(store, in_pairs, lambda leg: sweep.methods_of(store, leg))
    return {
        "title": TITLE,
        "settings": {"scale": scale, **sweep.about(in_pairs)},
        "numbers": numbers,
        "claims": [asdict(claim) for claim in claims(found)],
    }


# -- claims -----------------------------------------------------------------------------------------------------------


def claims(found: Found) -> list[Claim]:
    return [for_skill(found), ahead(found)]


def for_skill(found: Found) -> Claim:
    """The over-estimation of Greedy-Step beyond DQN's, seed by seed: with sticky actions minus without, above 0."""

    def judge(game: str) -> Judged:
        excess = {}
        for task in (game, steady(game)):
            ours, theirs = (found[task, method] for method in (GREEDY, "dqn"))
            seeds = min(len(ours.returns), len(theirs.returns))
            over = [one.at_end(one.overestimation)[:seeds] for one in (ours, theirs)]
            excess[task] = over[0] - over[1]
        gap = lead(excess[game], excess[steady(game)])
        said = f"beyond DQN by {excess[game].mean():.2f} with, {excess[steady(game)].mean():.2f} without"
        return Judged(above(gap, 0), f"{said}, a difference of {words(gap)}")

    judged = _on_each_game(found, judge)
    return judged.claim(
        "luck-for-skill",
        "Greedy-Step DQN over-estimates because it takes luck for skill: without sticky actions it does so less, set "
        "beside DQN.",
        "not in the paper",
        "less",
    )


def ahead(found: Found) -> Claim:
    """Without sticky actions: Greedy-Step's final return minus DQN's, above 0."""

    def judge(game: str) -> Judged:
        gaps = {task: lead(found[task, GREEDY].final, found[task, "dqn"].final) for task in (game, steady(game))}
        return Judged(
            above(gaps[steady(game)], 0),
            f"{words(gaps[steady(game)])} more reward than DQN without, {words(gaps[game])} with",
        )

    judged = _on_each_game(found, judge)
    return judged.claim(
        "luck-ahead",
        "Where nothing is left to chance, Greedy-Step DQN is ahead of DQN.",
        "not in the paper",
        "more than 0",
    )


def _on_each_game(found: Found, judge: Callable[[str], Judged]) -> Judged:
    judged = {}
    for game in GAMES:
        lacking = [
            f"{which}: {what}"
            for which, task in (("with sticky actions", game), ("without", steady(game)))
            if (what := missing(found, task, BOTH))
        ]
        judged[game] = Judged("untested", ", ".join(lacking)) if lacking else judge(game)
    return Judged(
        together(one.verdict for one in judged.values()),
        "; ".join(f"{ALL_TASKS[game].title}: {one.said}" for game, one in judged.items()),
        reasons({game: one.reason for game, one in judged.items()}),
    )


# -- output -----------------------------------------------------------------------------------------------------------


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    quantities = ("returns", "q", "overestimation")
    styles = {method: fig3.STYLES[method] for method in BOTH}
    return {"luck": output.draw_tasks(result["numbers"]["tasks"], styles, quantities)}


def tables(result: dict[str, Any]) -> list[Table]:
    return [output.final_table(NAME, "With and without sticky actions", result["numbers"]["tasks"])]

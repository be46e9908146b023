"""Beyond the paper: does Greedy-Step DQN mistake chance for skill? Trainings with and without sticky actions.

Where the same actions can end well or badly, the largest of several returns is often the luckiest. MinAtar repeats the
last action with probability 0.1 (sticky actions). Breakout and Space Invaders have no other chance than how a game
begins. So DQN and Greedy-Step DQN are trained with and without sticky actions, both with the settings chosen with them.
The rules were written before any run. The experiment's public name is `luck`, as in the kept results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from greedystep.experiments import fig3
from greedystep.experiments.claims import Claim, Outcome
from greedystep.experiments.deep import method_runs, protocol
from greedystep.experiments.deep.judging import AllRuns, Rule, combine, mean_difference, missing_runs
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.suite import GREEDY, steady
from greedystep.experiments.deep.training import Budget

NAME, IN_PARTS = "luck", True
TITLE = "DQN and Greedy-Step DQN with and without sticky actions"
GAMES = ("breakout", "space-invaders")
TASKS = tuple(name for game in GAMES for name in (game, steady(game)))
BOTH = ("dqn", GREEDY)


STICKY = {
    "quick": [TaskProtocol("breakout", "fast", Budget(25_000, episodes=20), seeds=2, methods=BOTH)],
    "paper": [
        TaskProtocol(game, "fast", Budget(2_000_000), seeds=3, selection=1_000_000, methods=BOTH) for game in GAMES
    ],
}
SCALES: dict[str, list[TaskProtocol]] = {
    scale: [each for one in sticky for each in (one, replace(one, task=steady(one.task), settings_from=one))]
    for scale, sticky in STICKY.items()
}


# -- claims -----------------------------------------------------------------------------------------------------------


def _on_each_game(id: str, claim: str, claimed: str) -> Callable[[Rule], Callable[[AllRuns], Claim]]:
    """Decorate a rule to return a claim about all games that were trained with and without sticky actions."""

    def decorate(rule: Rule) -> Callable[[AllRuns], Claim]:
        def judge(runs: AllRuns) -> Claim:
            outcomes = {}
            for game in GAMES:
                missing = [
                    f"{which}: {what}"
                    for which, task in (("with sticky actions", game), ("without", steady(game)))
                    if (what := missing_runs(runs, task, BOTH))
                ]
                outcomes[game] = Outcome("untested", ", ".join(missing)) if missing else rule(runs, game)
            return combine(outcomes).claim(id, claim, claimed, "not in the paper", rule)

        return judge

    return decorate


@_on_each_game(
    "luck-for-skill",
    "Greedy-Step DQN over-estimates because it takes luck for skill: without sticky actions its over-estimation (Q "
    "minus behaviour return) exceeds DQN's by less.",
    "less",
)
def luck_for_skill(runs: AllRuns, game: str) -> Outcome:
    """Confirmed if over-estimation minus DQN's grows with sticky actions (95 % CI of the difference above 0)."""
    excess = {}
    for task in (game, steady(game)):
        ours, theirs = (runs[task, method].final_overestimation for method in (GREEDY, "dqn"))
        seeds = min(len(ours), len(theirs))
        excess[task] = ours[:seeds] - theirs[:seeds]
    gap = mean_difference(excess[game], excess[steady(game)])
    measured = f"over-estimation minus DQN's: {excess[game].mean():.2f} with, {excess[steady(game)].mean():.2f} without"
    return Outcome(gap.above(), f"{measured}, a difference of {gap}")


@_on_each_game("luck-ahead", "Where nothing is left to chance, Greedy-Step DQN is ahead of DQN.", "more than 0")
def ahead(runs: AllRuns, game: str) -> Outcome:
    """Confirmed if without sticky actions the final return minus DQN's has a 95 % CI above 0."""
    sticky, without = (
        mean_difference(runs[task, GREEDY].final_return, runs[task, "dqn"].final_return)
        for task in (game, steady(game))
    )
    return Outcome(without.above(), f"final return minus DQN's: {without} without, {sticky} with")


def claims(runs: AllRuns) -> list[Claim]:
    """Return both claims, judged; neither is the paper's."""
    return [luck_for_skill(runs), ahead(runs)]


# -- the experiment ---------------------------------------------------------------------------------------------------

STYLES = {method: fig3.STYLES[method] for method in BOTH}
run = protocol.make_run(TITLE, SCALES, claims)
draw = method_runs.make_draw(NAME, STYLES, ("returns", "q", "overestimation"))
tables = method_runs.make_tables(NAME, "With and without sticky actions")

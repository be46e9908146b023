"""The paper's Figure 4: Greedy-Step DQN with 1, 2, 4 and 6 target networks: return, mean Q, over-estimation.

Over-estimation is Q minus the discounted return of the exploring behaviour policy. The chosen n is shown too, which the
paper does for one ensemble size only (Figure 5). The paper does not name its tasks; ours are the three on which it
reports the largest gains. Every trained task is judged.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from greedystep.charts import BLUE, DASHED, DOTTED, GREEN, ORANGE, SKY, SOLID, Style
from greedystep.experiments.claims import Claim, Outcome
from greedystep.experiments.deep import method_runs, protocol
from greedystep.experiments.deep.judging import AllRuns, judges_tasks, mean_difference, pessimism
from greedystep.experiments.deep.method_runs import MethodRuns
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.suite import LARGEST_GAINS, Setting, networks
from greedystep.experiments.deep.training import Budget

NAME, IN_PARTS = "fig4", True
TITLE = "Greedy-Step DQN with 1, 2, 4 and 6 target networks: return, mean Q, Q minus behaviour return"
SHOWN_QUANTITIES = ("returns", "q", "overestimation", "n")
NETWORKS = (1, 2, 4, 6)
ONE, SIX = networks(1), networks(6)
VARIANTS: dict[str, Setting] = {networks(m): {"returns": "greedy-step", "ensemble": m} for m in NETWORKS}

SCALES: dict[str, list[TaskProtocol]] = {
    "quick": [TaskProtocol("mountaincar", "paper", Budget(50_000, points=100, episodes=20), variants=VARIANTS)],
    "paper": [
        TaskProtocol(task, "fast", Budget(2_000_000), seeds=3, selection=1_000_000, variants=VARIANTS)
        for task in LARGEST_GAINS
    ],
}


# -- claims -----------------------------------------------------------------------------------------------------------

rule = partial(judges_tasks, needs=(ONE, SIX), where="Section 6.2, Figure 4")


def claims(runs: AllRuns) -> list[Claim]:
    """Compare six networks with one: the 95 % CI of the difference must lie on the claimed side of 0 on every task."""
    return [judge(runs) for judge in (better, stable, smaller_q, less_overestimation, six_is_good)]


@rule("fig4-better", "With 6 networks it performs better.", "better")
def better(runs: AllRuns, task: str) -> Outcome:
    """On each task: confirmed if the final return minus that with one network has a 95 % CI above 0."""
    gap = mean_difference(runs[task, SIX].final_return, runs[task, ONE].final_return)
    return Outcome(gap.above(), f"final return minus that with 1: {gap}", pessimism(runs[task, SIX]), f"{gap}")


@rule("fig4-stable", "With 6 networks it is more stable.", "more stable")
def stable(runs: AllRuns, task: str) -> Outcome:
    """On each task: confirmed if best minus final return has a mean below that with one network (95 % CI)."""
    gap = mean_difference(lost_return(runs[task, SIX]), lost_return(runs[task, ONE]))
    return Outcome(gap.below(), f"best minus final return minus that with 1: {gap}")


def lost_return(one: MethodRuns) -> np.ndarray:
    """Return [seeds]: the best return during training minus the final one."""
    return np.nanmax(one.returns, axis=1) - one.final_return


@rule("fig4-smaller-q", "With 6 networks Q is smaller.", "smaller")
def smaller_q(runs: AllRuns, task: str) -> Outcome:
    """On each task: confirmed if mean Q minus that with one network has a 95 % CI below 0.

    The reason says if Q is larger only because the returns are.
    """
    six, one = runs[task, SIX], runs[task, ONE]
    gap = mean_difference(six.at_end(six.q), one.at_end(one.q))
    less = mean_difference(six.final_overestimation, one.final_overestimation)
    more = mean_difference(six.final_return, one.final_return)
    why = f"Q grows with the return, {more} higher; its over-estimation changes by {less}"
    is_return = less.is_below() and more.is_above()
    return Outcome(gap.below(), f"mean Q minus that with 1: {gap}", why if is_return else "")


@rule(
    "fig4-overestimation",
    "Several target networks reduce over-estimation (measured: Q minus the discounted return of the behaviour policy).",
    "reduced",
)
def less_overestimation(runs: AllRuns, task: str) -> Outcome:
    """On each task: confirmed if over-estimation minus that with one network has a 95 % CI below 0."""
    six, one = (runs[task, name].final_overestimation for name in (SIX, ONE))
    gap = mean_difference(six, one)
    brief = f"{one.mean():.3g} to {six.mean():.3g}"
    return Outcome(gap.below(), f"over-estimation minus that with 1: {gap}", brief=brief)


@rule(
    "fig4-six",
    "With 6 target networks the performance is often good (measured: whether 1, 2 or 4 are better).",
    "6",
    needs=VARIANTS,
)
def six_is_good(runs: AllRuns, task: str) -> Outcome:
    """On each task: refuted if another number has a higher final return (95 % CI); confirmed if none has a higher one,
    and one has a lower one.

    Undecided if no other number differs.
    """
    six = runs[task, SIX]
    verdicts = {
        m: mean_difference(runs[task, networks(m)].final_return, six.final_return).above() for m in NETWORKS[:-1]
    }
    if "untested" in verdicts.values():
        return Outcome("untested", "too few seeds")
    better, worse = (
        " and ".join(str(m) for m, one in verdicts.items() if one == kind) for kind in ("confirmed", "refuted")
    )
    if better:
        return Outcome("refuted", f"better with {better} (95 % CI excludes 0)", pessimism(six))
    if worse:
        return Outcome("confirmed", f"worse with {worse} (95 % CI excludes 0), better with none")
    return Outcome("undecided", "no other number differs from 6 (95 % CIs contain 0)")


# -- the experiment ---------------------------------------------------------------------------------------------------

STYLES: dict[str, Style] = {
    ONE: (BLUE, DOTTED),
    networks(2): (SKY, DASHED),
    networks(4): (GREEN, DASHED),
    SIX: (ORANGE, SOLID),
}
run = protocol.make_run(TITLE, SCALES, claims)
draw = method_runs.make_draw(NAME, STYLES, SHOWN_QUANTITIES)
tables = method_runs.make_tables(NAME, "Greedy-Step DQN by its number of target networks")

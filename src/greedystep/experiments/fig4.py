"""The paper's Figure 4: Greedy-Step DQN with 1, 2, 4 and 6 target networks: return, mean Q, over-estimation.

Over-estimation is Q minus the discounted return of the exploring behaviour policy. The chosen n is shown too, which the
paper does for one ensemble size only (Figure 5). The paper does not name its tasks; ours are the three on which it
reports the largest gains. Every trained task is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from greedystep.experiments.claims import Claim, Verdict
from greedystep.experiments.deep import plots, protocol
from greedystep.experiments.deep.compared_methods import Setting
from greedystep.experiments.deep.judging import AllRuns, Estimate, Outcome, judge_each_task, mean_difference, pessimism
from greedystep.experiments.deep.method_runs import MethodRuns, final_table
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.tasks import LARGEST_GAINS
from greedystep.experiments.deep.training import Length
from greedystep.experiments.deep.training_store import Store
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "fig4", True
TITLE = "Greedy-Step DQN with 1, 2, 4 and 6 target networks: return, mean Q, Q minus behaviour return"
SHOWN_QUANTITIES = ("returns", "q", "overestimation", "n")

SCALES: dict[str, list[TaskProtocol]] = {
    "quick": [TaskProtocol("mountaincar", "paper", Length(50_000, points=100, episodes=20), seeds=5)],
    "paper": [TaskProtocol(task, "fast", Length(2_000_000), seeds=3, selection=1_000_000) for task in LARGEST_GAINS],
}
NETWORKS = (1, 2, 4, 6)


def networks(number: int) -> str:
    """The name of Greedy-Step DQN with that many target networks."""
    return f"{number} networks" if number > 1 else "1 network"


ONE, SIX = networks(1), networks(6)
VARIANTS: dict[str, Setting] = {networks(m): {"returns": "greedy-step", "ensemble": m} for m in NETWORKS}


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, protocols = Store(parts), SCALES[scale]
    protocol.train_variants(store, progress, protocols, VARIANTS, only)
    runs, numbers = protocol.collect(store, protocols, partial(protocol.variant_entries, variants=VARIANTS))
    return protocol.result(TITLE, scale, protocols, numbers, claims(runs))


# -- claims -----------------------------------------------------------------------------------------------------------

WHERE = "Section 6.2, Figure 4"


def claims(runs: AllRuns) -> list[Claim]:
    """Six networks against one: the 95 % CI of the difference must lie on the claimed side of 0 on every task."""

    def compare(
        quantity: Callable[[MethodRuns], np.ndarray],
        text: str,
        verdict: Callable[[Estimate], Verdict],
        why: Callable[[MethodRuns, MethodRuns], str] = lambda six, one: "",
    ) -> Outcome:
        def judge(task: str) -> Outcome:
            six, one = runs[task, SIX], runs[task, ONE]
            gap = mean_difference(quantity(six), quantity(one))
            return Outcome(verdict(gap), f"{text} minus that with 1: {gap}", why(six, one))

        return judge_each_task(runs, (ONE, SIX), judge)

    better = compare(lambda one: one.final_return, "final return", Estimate.above, lambda six, one: pessimism(six))
    stable = compare(lost_return, "best minus final return", Estimate.below)
    smaller_q = compare(lambda one: one.at_end(one.q), "mean Q", Estimate.below, _higher_returns)
    less = compare(lambda one: one.final_overestimation, "over-estimation", Estimate.below)
    six = judge_each_task(runs, VARIANTS, lambda task: _six_is_good(runs, task))
    return [
        better.claim("fig4-better", "With 6 networks it performs better.", WHERE, "better"),
        stable.claim("fig4-stable", "With 6 networks it is more stable.", WHERE, "more stable"),
        smaller_q.claim("fig4-smaller-q", "With 6 networks Q is smaller.", WHERE, "smaller"),
        less.claim(
            "fig4-overestimation",
            "Several target networks reduce over-estimation (measured: Q minus the discounted return of the behaviour "
            "policy).",
            WHERE,
            "reduced",
        ),
        six.claim(
            "fig4-six",
            "With 6 target networks the performance is often good (measured: whether 1, 2 or 4 are better).",
            WHERE,
            "6",
        ),
    ]


def lost_return(one: MethodRuns) -> np.ndarray:
    """[seeds] the best return during training minus the final one."""
    return np.nanmax(one.returns, axis=1) - one.final_return


def _higher_returns(six: MethodRuns, one: MethodRuns) -> str:
    """Q may be larger because the returns are: say so if returns are higher and over-estimation is lower (95 % CIs)."""
    less = mean_difference(six.final_overestimation, one.final_overestimation)
    more = mean_difference(six.final_return, one.final_return)
    if not (less.is_below() and more.is_above()):
        return ""
    return f"Q grows with the return, {more} higher; its over-estimation changes by {less}"


def _six_is_good(runs: AllRuns, task: str) -> Outcome:
    """Refuted if another number has a higher final return (95 % CI); confirmed if none has and one has a lower."""
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
    return Outcome("partly", "no other number differs from 6 (95 % CIs contain 0)")


# -- output -----------------------------------------------------------------------------------------------------------

STYLES: plots.Styles = {
    networks(1): (plots.BLUE, plots.DOTTED),
    networks(2): (plots.SKY, plots.DASHED),
    networks(4): (plots.GREEN, plots.DASHED),
    networks(6): (plots.ORANGE, plots.SOLID),
}


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    return {"fig4": plots.draw_tasks(result["numbers"]["tasks"], STYLES, SHOWN_QUANTITIES)}


def tables(result: dict[str, Any]) -> list[Table]:
    return [final_table(NAME, "Greedy-Step DQN by its number of target networks", result["numbers"]["tasks"])]

"""Beyond the paper's figures: the horizon N of Greedy-Step DQN with 1 and 6 networks, and Double DQN beside Maxmin.

The paper says that a larger N is faster and over-estimates more (Q minus the discounted return of the exploring
behaviour policy), and that this is cured by known techniques. Every trained task is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from greedystep.experiments.claims import Claim
from greedystep.experiments.deep import plots, protocol
from greedystep.experiments.deep.compared_methods import Setting
from greedystep.experiments.deep.judging import AllRuns, Outcome, judge_each_task, mean, mean_difference
from greedystep.experiments.deep.method_runs import final_table
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.tasks import LARGEST_GAINS
from greedystep.experiments.deep.training import Length
from greedystep.experiments.deep.training_store import Store
from greedystep.experiments.fig4 import networks
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "horizon", True
TITLE = "Greedy-Step DQN by its horizon N: return, mean Q and Q minus behaviour return"

SCALES: dict[str, list[TaskProtocol]] = {
    "quick": [TaskProtocol("mountaincar", "paper", Length(50_000, points=100, episodes=20), seeds=3)],
    "paper": [TaskProtocol(task, "fast", Length(2_000_000), seeds=3, selection=1_000_000) for task in LARGEST_GAINS],
}
HORIZONS: dict[str, tuple[int | None, ...]] = {"quick": (1, 10, None), "paper": (1, 3, 10, 30, None)}
"""Values of N by scale; None: up to the end of the trajectory, T-t."""
EARLY = 0.2
"""Share of the steps within which learning counts as early."""


def horizon(steps: int | None, number: int, double: bool = False) -> str:
    """The name of Greedy-Step DQN with a horizon and a number of networks."""
    return f"N={'T-t' if steps is None else steps}, {networks(number)}" + (", double" if double else "")


ONE_STEP, FULL = horizon(1, 1), horizon(None, 1)
ONE_STEP_MAXMIN, FULL_MAXMIN = horizon(1, 6), horizon(None, 6)
FULL_DOUBLE = horizon(None, 1, double=True)


def variants(scale: str) -> dict[str, Setting]:
    """Greedy-Step DQN alone, with Maxmin (6 networks), and with Double DQN."""
    found: dict[str, Setting] = {
        horizon(steps, number): {"returns": "greedy-step", "ensemble": number, "horizon": steps}
        for number in (1, 6)
        for steps in HORIZONS[scale]
    }
    return found | {FULL_DOUBLE: {"returns": "greedy-step", "ensemble": 1, "double": True}}


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, protocols = Store(parts), SCALES[scale]
    protocol.train_variants(store, progress, protocols, variants(scale), only)
    runs, numbers = protocol.collect(store, protocols, partial(protocol.variant_entries, variants=variants(scale)))
    return protocol.result(TITLE, scale, protocols, numbers, claims(runs))


# -- claims -----------------------------------------------------------------------------------------------------------

WHERE = "Section 4.1, hyperparameter"


def claims(runs: AllRuns) -> list[Claim]:
    """Judge each claim by the 95 % CI of a difference over seeds, which must exclude 0."""

    def faster(task: str) -> Outcome:
        gap = mean_difference(
            runs[task, FULL_MAXMIN].mean_return(EARLY), runs[task, ONE_STEP_MAXMIN].mean_return(EARLY)
        )
        measured = f"mean return minus that with N=1 in the first fifth of the steps, 6 networks: {gap}"
        return Outcome(gap.above(), measured)

    def suffers(task: str) -> Outcome:
        gap = mean_difference(runs[task, FULL].final_overestimation, runs[task, ONE_STEP].final_overestimation)
        return Outcome(gap.above(), f"over-estimation minus that with N=1, 1 network: {gap}")

    def with_double(task: str) -> Outcome:
        gap = mean_difference(runs[task, FULL_DOUBLE].final_return, runs[task, FULL].final_return)
        return Outcome(gap.above(), f"final return minus that without: {gap}", _still_too_high(runs, task))

    return [
        judge_each_task(runs, (FULL_MAXMIN, ONE_STEP_MAXMIN), faster).claim(
            "horizon-faster", "A larger N lets information propagate faster.", WHERE, "faster"
        ),
        judge_each_task(runs, (FULL, ONE_STEP), suffers).claim(
            "horizon-overestimation",
            "A larger N tends to suffer from over-estimation (measured: Q minus the discounted return of the behaviour "
            "policy).",
            WHERE,
            "more",
        ),
        judge_each_task(runs, (FULL, ONE_STEP, FULL_MAXMIN), lambda task: _addressed(runs, task)).claim(
            "horizon-addressed",
            "That over-estimation is well addressed by its reduction techniques (measured: Maxmin with 6 networks).",
            WHERE,
            "well addressed",
        ),
        judge_each_task(runs, (FULL, FULL_DOUBLE), with_double).claim(
            "horizon-double",
            "Greedy-Step performs well with Double DQN (measured: against Greedy-Step alone).",
            "Section 4.1, overestimation",
            "well",
        ),
    ]


def _addressed(runs: AllRuns, task: str) -> Outcome:
    """Confirmed if Maxmin has less over-estimation than without it, and not more than one-step DQN (95 % CIs).

    Partly if one of the two holds; refuted if neither does, or if Maxmin has more than without it.
    """
    maxmin = runs[task, FULL_MAXMIN].final_overestimation
    to_one_step = mean_difference(maxmin, runs[task, ONE_STEP].final_overestimation)
    to_alone = mean_difference(maxmin, runs[task, FULL].final_overestimation)
    measured = f"over-estimation minus one-step DQN's: {to_one_step}, minus that without Maxmin: {to_alone}"
    reduced = to_alone.below()
    if reduced in ("untested", "refuted"):
        return Outcome(reduced, measured)
    holds = [reduced == "confirmed", not to_one_step.is_above()]
    why = "" if holds[0] else "no difference to Greedy-Step without Maxmin (95 % CI contains 0)"
    return Outcome("confirmed" if all(holds) else "partly" if any(holds) else "refuted", measured, why)


def _still_too_high(runs: AllRuns, task: str) -> str:
    """Double DQN changes which action is valued, not the maximum over n: say if over-estimation stays (95 % CIs)."""
    double = runs[task, FULL_DOUBLE].final_overestimation
    gap = mean_difference(double, runs[task, FULL].final_overestimation)
    if not mean(double).is_above():
        return ""
    if not gap.is_below():
        return f"its over-estimation is {gap} above that without, not lower"
    if (task, ONE_STEP) not in runs:
        return ""
    one_step = runs[task, ONE_STEP].final_overestimation
    if not mean_difference(double, one_step).is_above():
        return ""
    return (
        f"it over-estimates less, but still by {mean(double)}, one-step DQN by "
        f"{mean(one_step)}: the maximum over n stays"
    )


# -- output -----------------------------------------------------------------------------------------------------------

COLOURS = {1: plots.BLUE, 3: plots.SKY, 10: plots.GREEN, 30: plots.YELLOW, None: plots.ORANGE}
STYLES: plots.Styles = {
    **{
        horizon(steps, number): (colour, dash)
        for number, dash in ((1, plots.DOTTED), (6, plots.SOLID))
        for steps, colour in COLOURS.items()
    },
    FULL_DOUBLE: (plots.BLACK, plots.DASHED),
}


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    quantities = ("returns", "q", "overestimation")
    return {"horizon": plots.draw_tasks(result["numbers"]["tasks"], STYLES, quantities, shaded=False)}


def tables(result: dict[str, Any]) -> list[Table]:
    return [final_table(NAME, "Greedy-Step DQN by its horizon N", result["numbers"]["tasks"])]

"""The paper's Figure 5: which step n Greedy-Step DQN chooses, over training, and in its first and last 1e5 steps.

The trainings are those of Figure 3. Every trained task is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata

from greedystep.charts import ORANGE, SOLID, Style
from greedystep.deep.train_metrics import bin_names
from greedystep.experiments import fig3, fig4
from greedystep.experiments.claims import Claim, Outcome
from greedystep.experiments.deep import method_runs, protocol
from greedystep.experiments.deep.judging import AllRuns, judges_tasks, mean, mean_difference, pessimism
from greedystep.experiments.deep.method_runs import PHASE, MethodRuns
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.runner import RunStore
from greedystep.experiments.deep.suite import GREEDY, LARGEST_GAINS
from greedystep.runs.part_store import Parts
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "fig5", True
TITLE = "The steps that Greedy-Step DQN chooses"
SHOWN_QUANTITIES = ("n",)
STYLES: dict[str, Style] = {GREEDY: (ORANGE, SOLID)}


def _protocols(scale: str) -> list[TaskProtocol]:
    return [
        replace(one, methods=(GREEDY,), more_seeds=0)
        for one in fig3.SCALES[scale]
        if GREEDY in one.methods and (one.task in LARGEST_GAINS or scale != "paper")
    ]


def run(scale: str, progress: ReportProgress, parts: Parts = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, protocols = RunStore(parts), _protocols(scale)
    protocol.train(store, progress, protocols, only)
    runs, numbers = protocol.collect(store, protocols)
    for (task, method), one in runs.items():
        shares = {"first": _shares(one.n_first), "last": _shares(one.n_last)}
        numbers["tasks"][task]["methods"][method] |= shares
    one_network = {(one.task, fig4.ONE): protocol.runs_of(store, one, fig4.ONE) for one in fig4.SCALES[scale]}
    runs = {**runs, **{key: one for key, one in one_network.items() if one is not None}}
    return protocol.result(TITLE, scale, protocols, numbers | {"bins": bin_names()}, claims(runs))


def _shares(counts: np.ndarray) -> list[float]:
    """Return the share of each bin among all samples, from counts [seeds, bins]; all 0 before the first update."""
    total = counts.sum()
    return list(counts.sum(axis=0) / total if total else np.zeros(counts.shape[1:]))


# -- claims -----------------------------------------------------------------------------------------------------------

rule = partial(judges_tasks, needs=(GREEDY,), where="Section 6.2, Figure 5")


def claims(runs: AllRuns) -> list[Claim]:
    """Judge the claims about the chosen n; runs with one network (Figure 4), if any, only serve the reasons."""
    return [larger_at_first(runs), getting_smaller(runs)]


@rule(
    "fig5-larger-at-first",
    "At the beginning of training larger steps are chosen, later shorter ones (measured: the mean chosen n of each "
    "seed within the first and the last 100,000 steps, or a fifth of a short training).",
    "larger",
)
def larger_at_first(runs: AllRuns, task: str) -> Outcome:
    """On each task: confirmed if the mean n at first minus that at the end has a 95 % CI above 0."""
    first, last = phases(runs[task, GREEDY])
    gap = mean(first - last)
    measured = f"n = {first.mean():.3g} at first and {last.mean():.3g} at the end, a difference of {gap}"
    return Outcome(gap.above(), measured, _why(runs, task), f"{first.mean():.3g} to {last.mean():.3g}")


@rule(
    "fig5-getting-smaller",
    "The chosen steps get smaller by themselves as training goes on (measured: their rank correlation with the steps "
    "of training).",
    "below 0",
)
def getting_smaller(runs: AllRuns, task: str) -> Outcome:
    """On each task: confirmed if the mean rank correlation over seeds has a 95 % CI below 0."""
    rho = mean(rank_correlation(runs[task, GREEDY]))
    return Outcome(rho.below(), f"{rho}", _why(runs, task))


def phases(one: MethodRuns) -> tuple[np.ndarray, np.ndarray]:
    """Return [seeds], [seeds]: the mean chosen n in the first and in the last phase, as in the paper's histograms."""
    known = np.isfinite(one.n).all(axis=0)
    if not known.any():
        return np.full(len(one.n), np.nan), np.full(len(one.n), np.nan)
    steps, n = one.steps[known], one.n[:, known]
    phase = min(PHASE, steps[-1] // 5)
    first, last = steps <= max(phase, steps[0]), steps > steps[-1] - phase  # one point at least
    return n[:, first].mean(axis=1), n[:, last].mean(axis=1)


def rank_correlation(one: MethodRuns) -> np.ndarray:
    """Return [seeds]: Spearman's correlation of the mean chosen n with the training step; NaN if n never changes."""
    known = np.isfinite(one.n).all(axis=0)
    if known.sum() < 3:
        return np.full(len(one.n), np.nan)
    when = rankdata(one.steps[known])
    return np.array([np.corrcoef(when, rankdata(n))[0, 1] if np.ptp(n) else np.nan for n in one.n[:, known]])


def _why(runs: AllRuns, task: str) -> str:
    """Return why the chosen steps do not get shorter, as far as it was measured.

    Long steps are chosen where returns exceed values, as they do where Q is below the behaviour return; short ones
    where values are inflated: the reason says so if n falls with one network, which inflates more.
    """
    six, alone = runs[task, GREEDY], runs.get((task, fig4.ONE))
    if low := pessimism(six):
        return f"{low}, so that long returns still win at the end"
    if alone is None:
        return ""
    first, last = phases(alone)
    over, over_alone = six.final_overestimation, alone.final_overestimation
    if not mean(first - last).is_above() or not mean_difference(over_alone, over).is_above():
        return ""
    return (
        f"with one network n falls here too, from {first.mean():.3g} to {last.mean():.3g}, while Q comes to exceed the "
        f"behaviour return by {mean(over_alone)} instead of {mean(over)} (fig4): "
        "steps get short where inflated values promise more"
    )


# -- output -----------------------------------------------------------------------------------------------------------

draw = method_runs.make_draw(NAME, STYLES, SHOWN_QUANTITIES)


def tables(result: dict[str, Any]) -> list[Table]:
    """Return the histogram of n, one row per task and phase, up to the last bin that is not empty."""
    rows = [
        [task["title"], f"{part} {entry['phase']:,} steps", *entry[part]]
        for task in result["numbers"]["tasks"].values()
        for entry in task["methods"].values()
        for part in ("first", "last")
    ]
    used = max((i for _, _, *shares in rows for i, share in enumerate(shares) if share > 0), default=0) + 1
    header = ["task", "phase", *(f"n = {name}" for name in result["numbers"]["bins"][:used])]
    return [Table(NAME, "Share of samples by the chosen step n", header, [row[: 2 + used] for row in rows])]

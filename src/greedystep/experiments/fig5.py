"""The paper's Figure 5: which step n Greedy-Step DQN chooses, over training, and in its first and last 1e5 steps.

The trainings are those of Figure 3. Every trained task is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata

from greedystep import figures
from greedystep.deep.train_metrics import bin_names
from greedystep.experiments import fig3, fig4
from greedystep.experiments.claims import Claim
from greedystep.experiments.deep import plots, protocol
from greedystep.experiments.deep.compared_methods import GREEDY
from greedystep.experiments.deep.judging import AllRuns, Outcome, judge_each_task, mean, mean_difference, pessimism
from greedystep.experiments.deep.method_runs import PHASE, MethodRuns
from greedystep.experiments.deep.protocol import Entry, TaskProtocol
from greedystep.experiments.deep.tasks import LARGEST_GAINS
from greedystep.experiments.deep.training_store import Store
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "fig5", True
TITLE = "The steps that Greedy-Step DQN chooses"
SHOWN_QUANTITIES = ("n",)


def _protocols(scale: str) -> list[TaskProtocol]:
    """Figure 3's, with this method only."""
    return [
        replace(one, methods=(GREEDY,), more_seeds=0)
        for one in fig3.SCALES[scale]
        if GREEDY in one.methods and (one.task in LARGEST_GAINS or scale != "paper")
    ]


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, protocols = Store(parts), _protocols(scale)
    protocol.train_methods(store, progress, protocols, only)
    runs, numbers = protocol.collect(store, protocols, _entries)
    runs = {**runs, **_with_one_network(store, scale)}
    return protocol.result(TITLE, scale, protocols, numbers | {"bins": bin_names()}, claims(runs))


def _with_one_network(store: Store, scale: str) -> AllRuns:
    """The runs of Figure 4 with one network, as far as they are trained."""
    one = {fig4.ONE: fig4.VARIANTS[fig4.ONE]}
    found = {each.task: protocol.variant_entries(store, each, one)[fig4.ONE].runs for each in fig4.SCALES[scale]}
    return {(task, fig4.ONE): runs for task, runs in found.items() if runs is not None}


def _entries(store: Store, of: TaskProtocol) -> dict[str, Entry]:
    entry = protocol.method_entries(store, of)[GREEDY]
    runs = entry.runs
    shares = {} if runs is None else {"first": _shares(runs.n_first), "last": _shares(runs.n_last)}
    return {GREEDY: replace(entry, extra=shares)}


def _shares(counts: np.ndarray) -> list[float]:
    """[seeds, bins] -> the share of each bin among all samples; all 0 before the first update."""
    total = counts.sum()
    return list(counts.sum(axis=0) / total if total else np.zeros(counts.shape[1:]))


# -- claims -----------------------------------------------------------------------------------------------------------

WHERE = "Section 6.2, Figure 5"


def claims(runs: AllRuns) -> list[Claim]:
    """Judge the chosen n; runs with one network (Figure 4), if there are any, only serve the reasons."""

    def why(task: str) -> str:
        return _long_returns_win(runs[task, GREEDY]) or _not_inflated(runs[task, GREEDY], runs.get((task, fig4.ONE)))

    def first_and_last(task: str) -> Outcome:
        first, last = phases(runs[task, GREEDY])
        gap = mean(first - last)
        measured = f"n = {first.mean():.3g} at first and {last.mean():.3g} at the end, a difference of {gap}"
        return Outcome(gap.above(), measured, why(task))

    def trend(task: str) -> Outcome:
        rho = mean(rank_correlation(runs[task, GREEDY]))
        return Outcome(rho.below(), f"{rho}", why(task))

    return [
        judge_each_task(runs, (GREEDY,), first_and_last).claim(
            "fig5-larger-at-first",
            "At the beginning of training larger steps are chosen, later shorter ones (measured: the mean chosen n of "
            "each seed within the first and the last 100,000 steps, or a fifth of a short training).",
            WHERE,
            "larger",
        ),
        judge_each_task(runs, (GREEDY,), trend).claim(
            "fig5-getting-smaller",
            "The chosen steps get smaller by themselves as training goes on (measured: their rank correlation with "
            "the steps of training).",
            WHERE,
            "below 0",
        ),
    ]


def phases(one: MethodRuns) -> tuple[np.ndarray, np.ndarray]:
    """[seeds] the mean chosen n in the first and in the last phase, as in the paper's histograms."""
    known = np.isfinite(one.n).all(axis=0)
    if not known.any():
        return np.full(len(one.n), np.nan), np.full(len(one.n), np.nan)
    steps, n = one.steps[known], one.n[:, known]
    phase = min(PHASE, steps[-1] // 5)
    first, last = steps <= max(phase, steps[0]), steps > steps[-1] - phase  # one point at least
    return n[:, first].mean(axis=1), n[:, last].mean(axis=1)


def rank_correlation(one: MethodRuns) -> np.ndarray:
    """[seeds] Spearman's correlation of the mean chosen n with the steps of training; NaN if n never changes."""
    known = np.isfinite(one.n).all(axis=0)
    if known.sum() < 3:
        return np.full(len(one.n), np.nan)
    when = rankdata(one.steps[known])
    return np.array([np.corrcoef(when, rankdata(n))[0, 1] if np.ptp(n) else np.nan for n in one.n[:, known]])


def _long_returns_win(one: MethodRuns) -> str:
    """Long steps are chosen where returns exceed values, as they do where Q is below the behaviour return."""
    low = pessimism(one)
    return f"{low}, so that long returns still win at the end" if low else ""


def _not_inflated(six: MethodRuns, alone: MethodRuns | None) -> str:
    """Short steps are chosen where values are inflated: say so if n falls with one network, which inflates more."""
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

STYLES: plots.Styles = {GREEDY: (plots.ORANGE, plots.SOLID)}


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    return {"fig5": _draw(result["numbers"])}


@figures.style()
def _draw(numbers: dict[str, Any]) -> Figure:
    tasks, bins = numbers["tasks"], numbers["bins"]
    figure, axes = plots.grid(len(tasks), 2)
    for (curve_axis, bar_axis), task in zip(axes.T, tasks.values(), strict=True):
        plots.draw_curves(curve_axis, task, list(task["methods"]), STYLES, "n")
        curve_axis.set_title(plots.title(task))
        entry = task["methods"].get(GREEDY)
        if entry is None:
            plots.draw_missing(bar_axis)
            continue
        used = _used_bins([entry[part] for part in ("first", "last")])
        for part, colour, shift in (("first", plots.GREEN, -0.2), ("last", plots.ORANGE, 0.2)):
            label = f"{part} {entry['phase']:,} steps"
            bar_axis.bar(np.arange(used) + shift, entry[part][:used], 0.4, color=colour, label=label)
        bar_axis.set(xticks=range(used), xlabel="chosen n", ylabel="share of samples")
        bar_axis.set_xticklabels(bins[:used], rotation=0 if used <= 6 else 45 if used <= 10 else 90)
        bar_axis.legend()
    return figure


def tables(result: dict[str, Any]) -> list[Table]:
    rows = [
        [task["title"], f"{part} {entry['phase']:,} steps", *entry[part]]
        for task in result["numbers"]["tasks"].values()
        for entry in task["methods"].values()
        for part in ("first", "last")
    ]
    used = _used_bins([row[2:] for row in rows])
    header = ["task", "phase", *(f"n = {name}" for name in result["numbers"]["bins"][:used])]
    return [Table(NAME, "Share of samples by the chosen step n", header, [row[: 2 + used] for row in rows])]


def _used_bins(histograms: Sequence[Sequence[float]]) -> int:
    """How many bins there are up to the last one that is not empty."""
    return max((i for shares in histograms for i, share in enumerate(shares) if share > 0), default=0) + 1

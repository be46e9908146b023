"""Greedy play beside training returns: a hypothesis for the paper's "almost twice".

The code that the authors released evaluates its agent at ε = 0, while published curves of DQN and Maxmin DQN show
training episodes, with a share of random actions. If the paper's Figure 3 set one beside the other, a part of its lead
belongs to the comparison. The kept trainings have both numbers for every method, so that the ratios can be told
apart: training beside training, greedy play beside greedy play, and greedy play of Greedy-Step DQN beside the training
of the best baseline; and for the baseline alone, its greedy play beside its training. The rules here were written
after the trainings: that for the baselines alone when their ratios were roughly known (1.6 to 2.3 for DQN and Maxmin
DQN on the three games), that for the mixed comparison before it was computed. The bound is that of "almost twice".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.experiments.claims import Claim, Outcome, judges
from greedystep.experiments.deep.judging import AllRuns, Estimate, best_method, combine, missing_runs
from greedystep.experiments.deep.suite import BASELINES, GREEDY, LARGEST_GAINS, TASKS
from greedystep.experiments.fig3.performance_claims import ALMOST_TWICE
from greedystep.stats import ratio
from greedystep.tables import Table

TRAINING, PLAY = "returns", "greedy_play"
COMPARISONS = {
    "Greedy-Step DQN / best baseline, both in training": (True, TRAINING, TRAINING),
    "the same, both in greedy play": (True, PLAY, PLAY),
    "the same, greedy play / training": (True, PLAY, TRAINING),
    "best baseline's own greedy play / training": (False, PLAY, TRAINING),
}
"""Comparison -> whether Greedy-Step DQN is on top, what is taken of the top, and what of the best baseline below."""
COLOURS = ("#0072b2", "#009e73", "#d55e00", "#999999")
rule = partial(judges, where="not in the paper")


def claims(runs: AllRuns) -> list[Claim]:
    """Return the claims of this module, judged."""
    return [mixed(runs), alone(runs)]


def _over_games(runs: AllRuns, numerator: str) -> Outcome:
    """Judge, on each game of the largest gains, greedy play of a method over the training return of the best baseline.

    Args:
        numerator: the method whose greedy play is taken; "best": the best baseline's own.
    """
    outcomes = {}
    for task in LARGEST_GAINS:
        best = None if missing_runs(runs, task) else best_method(runs, task)
        played = None if best is None else runs[task, best if numerator == "best" else numerator].greedy_play
        if best is None or played is None:
            outcomes[task] = Outcome("untested", missing_runs(runs, task) or "greedy play was not evaluated")
            continue
        times = Estimate(*ratio(played, runs[task, best].final_return, "mean"))
        reason = "acting greedily does not make up for what it is behind in training" if numerator == GREEDY else ""
        outcomes[task] = Outcome(times.above(ALMOST_TWICE), f"{times} times", reason, f"{times}")
    return combine(outcomes)


@rule(
    "fig3-mixed-comparison",
    "Greedy play of Greedy-Step DQN is almost twice the training return of the best baseline on Breakout, Seaquest and "
    "Space Invaders.",
    "almost 2 times",
)
def mixed(runs: AllRuns) -> Outcome:
    """Confirmed if the 95 % CI of the ratio lies above 1.5 on all three games, refuted if below on all of them.

    The rule was written after the trainings, before this ratio was computed.
    """
    return _over_games(runs, GREEDY)


@rule(
    "fig3-greedy-beside-training",
    "Greedy play of the best baseline is almost twice its own training return on Breakout, Seaquest and Space "
    "Invaders.",
    "almost 2 times",
)
def alone(runs: AllRuns) -> Outcome:
    """Confirmed if the 95 % CI of the ratio lies above 1.5 on all three games, refuted if below on all of them.

    If so, a method that is no better than the baseline looks almost twice as good in such a comparison. The rule was
    written after the trainings, when two of these ratios were roughly known.
    """
    return _over_games(runs, "best")


# -- output -----------------------------------------------------------------------------------------------------------


def beside_best_baseline(tasks: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Yield (task, label of its best baseline, final numbers of Greedy-Step DQN, and of that baseline)."""
    for task in tasks.values():
        finals = {name: one["final"] for name, one in task["methods"].items() if name in (*BASELINES, GREEDY)}
        rivals = [name for name in finals if name != GREEDY]
        if GREEDY in finals and rivals:
            best = max(rivals, key=lambda name: np.mean(finals[name][TRAINING]))
            yield task["title"], task["methods"][best]["label"], finals[GREEDY], finals[best]


def ratios(tasks: Mapping[str, Any]) -> list[tuple[str, str, dict[str, tuple[float, float, float]]]]:
    """Return (task, best baseline, {comparison: ratio with 95 % CI}), where returns are positive."""
    found = []
    for task, label, ours, best in beside_best_baseline(tasks):
        known = all(final[PLAY] is not None for final in (ours, best))
        if not known or min(np.mean(final[TRAINING]) for final in (ours, best)) <= 0:
            continue
        estimates = {}
        for comparison, (is_ours, above, below) in COMPARISONS.items():
            top = np.asarray((ours if is_ours else best)[above], float)
            times = ratio(top, np.asarray(best[below], float), "mean")
            estimates[comparison] = (float(times.estimate), float(times.low), float(times.high))
        found.append((task, label, estimates))
    return found


def table(tasks: Mapping[str, Any]) -> Table:
    """Return the three ratios of every task, each with its CI."""
    header = ["task", "best baseline", "comparison", "ratio", "95 % CI low", "95 % CI high"]
    rows = [[task, best, name, *numbers] for task, best, times in ratios(tasks) for name, numbers in times.items()]
    title = "Ratios of final returns to those of the best of the paper's baselines, by what is compared"
    return Table("fig3-greedy-play", title, header, rows)


@figures.style()
def draw(tasks: Mapping[str, Any]) -> Figure | None:
    """Draw the ratios of every task as bars with 95 % CIs, and a line at 2 where the paper claims almost that."""
    rows = ratios(tasks)
    if not rows:
        return None
    figure, axes = figures.panels(1, 1, squeeze=False)
    figure.set_size_inches(2.0 + 1.3 * len(rows), 4.4)
    axis, gains = axes[0, 0], {TASKS[task].title for task in LARGEST_GAINS}
    for offset, (name, colour) in enumerate(zip(COMPARISONS, COLOURS, strict=True)):
        means, lows, highs = np.array([times[name] for *_, times in rows]).T
        at = np.arange(len(rows)) + 0.2 * (offset - 1.5)
        error = [np.maximum(means - lows, 0), np.maximum(highs - means, 0)]
        axis.bar(at, means, 0.19, yerr=error, color=colour, label=name, capsize=2)
    for place, (task, *_) in enumerate(rows):
        if task in gains:
            label = "claimed: almost 2" if task == rows[0][0] else None
            axis.plot([place - 0.4, place + 0.4], [2, 2], "-", color="black", linewidth=2, label=label)
    axis.axhline(1, color="black", linewidth=0.8, linestyle=":")
    axis.set_xticks(range(len(rows)), [f"{task}\n{best}" for task, best, _ in rows], fontsize=8)
    axis.set_ylabel("ratio")
    figures.legend(figure, axes)
    return figure

"""Greedy play beside training returns: a hypothesis for the paper's "almost twice".

The code that the authors released evaluates its agent at ε = 0, while published curves of DQN and Maxmin DQN show
training episodes, with a share of random actions. If the paper's Figure 3 set one beside the other, a part of its lead
belongs to the comparison. The kept trainings have both numbers for every method, so that the ratios can be told
apart: training beside training, greedy play beside greedy play, and greedy play of Greedy-Step DQN beside the training
of the best baseline; and for the baseline alone, its greedy play beside its training. The rules here were written
after the trainings: that for the baselines alone when their ratios were roughly known (1.6 to 2.3 for DQN and Maxmin
DQN on the three games), that for the mixed comparison before it was computed. The bound is that of "almost twice".

`paper_protocol` judges and draws the same with the paper's own protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.experiments.claims import Claim, Outcome, judges
from greedystep.experiments.deep.judging import AllRuns, Estimate, on_largest_gains
from greedystep.experiments.deep.method_runs import MethodRuns
from greedystep.experiments.deep.suite import BASELINES, GREEDY, LARGEST_GAINS, TASKS
from greedystep.experiments.fig3.performance_claims import ALMOST_TWICE, Quantity
from greedystep.stats import ratio
from greedystep.tables import Table

TRAINING, PLAY = "training", "greedy play"
IN_TRAINING = "Greedy-Step DQN / the best baseline, in training"
MIXED = "Greedy-Step DQN in greedy play / that baseline in training"
COMPARISONS = {
    IN_TRAINING: (True, TRAINING, TRAINING),
    "the same two in greedy play": (True, PLAY, PLAY),
    MIXED: (True, PLAY, TRAINING),
    "that baseline in greedy play / in training": (False, PLAY, TRAINING),
}
"""Comparison -> whether Greedy-Step DQN is on top, what is taken of the top, and what of the best baseline below."""
COLOURS = ("#0072b2", "#009e73", "#d55e00", "#999999")
NAMED = (*LARGEST_GAINS, "freeway", "pixelcopter", "pong", "mountaincar")
"""Tasks that the paper's text names."""
rule = partial(judges, where="not in the paper")


def claims(runs: AllRuns) -> list[Claim]:
    """Return the claims of this module, judged."""
    return [mixed(runs), alone(runs)]


def beside_training(runs: AllRuns, played: Quantity, of_baseline: bool = False) -> Outcome:
    """Judge, on each game of the largest gains, greedy play of a method over the training return of the best baseline.

    Args:
        played: returns the return of greedy play by seed, None if it was not evaluated.
        of_baseline: whether the greedy play is the best baseline's own; otherwise it is that of Greedy-Step DQN.
    """

    def judge(own: Mapping[str, MethodRuns]) -> Outcome:
        best = max(BASELINES, key=lambda method: float(own[method].final_return.mean()))
        top = played(own[best if of_baseline else GREEDY])
        assert top is not None
        times = Estimate(*ratio(top, own[best].final_return, "mean"))
        reason = "" if of_baseline else "acting greedily does not make up for what it is behind in training"
        return Outcome(times.above(ALMOST_TWICE), f"{times} times", reason, f"{times}")

    return on_largest_gains(runs, judge, played)


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
    return beside_training(runs, lambda one: one.greedy_play)


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
    return beside_training(runs, lambda one: one.greedy_play, of_baseline=True)


# -- output -----------------------------------------------------------------------------------------------------------


def beside_best_baseline(tasks: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Yield (task, label of its best baseline, final numbers of Greedy-Step DQN, and of that baseline)."""
    for name, task in tasks.items():
        finals = {method: one["final"] for method, one in task["methods"].items() if method in (*BASELINES, GREEDY)}
        rivals = [method for method in finals if method != GREEDY]
        if GREEDY in finals and rivals:
            best = max(rivals, key=lambda method: np.mean(finals[method]["returns"]))
            yield name, task["methods"][best]["label"], finals[GREEDY], finals[best]


def ratios(
    tasks: Mapping[str, Any], played: str = "greedy_play"
) -> list[tuple[str, str, dict[str, tuple[float, float, float]]]]:
    """Return (task, best baseline, {comparison: ratio with 95 % CI}), where returns are positive.

    Args:
        played: name of the final numbers that are the return of greedy play.
    """
    found, keys = [], {TRAINING: "returns", PLAY: played}
    for task, label, ours, best in beside_best_baseline(tasks):
        known = all(final[played] is not None for final in (ours, best))
        if not known or min(np.mean(final["returns"]) for final in (ours, best)) <= 0:
            continue
        estimates = {}
        for comparison, (is_ours, above, below) in COMPARISONS.items():
            top = np.asarray((ours if is_ours else best)[keys[above]], float)
            times = ratio(top, np.asarray(best[keys[below]], float), "mean")
            estimates[comparison] = (float(times.estimate), float(times.low), float(times.high))
        found.append((task, label, estimates))
    return found


def table(id: str, tasks: Mapping[str, Any], played: str = "greedy_play") -> Table:
    """Return the four ratios of every task, each with its CI."""
    header = ["task", "best baseline", "comparison", "ratio", "95 % CI low", "95 % CI high"]
    rows = [
        [TASKS[task].title, best, name, *numbers]
        for task, best, times in ratios(tasks, played)
        for name, numbers in times.items()
    ]
    title = "Ratios of final returns to those of the best of the paper's baselines, by what is compared"
    return Table(id, title, header, rows)


@figures.style()
def draw(tasks: Mapping[str, Any], played: str = "greedy_play") -> Figure | None:
    """Draw the ratios of every task as bars with 95 % CIs, and a line at 2 where the paper claims almost that."""
    rows = ratios(tasks, played)
    if not rows:
        return None
    figure, axes = figures.panels(1, 1, squeeze=False)
    figure.set_size_inches(2.0 + 1.3 * max(len(rows), 4), 4.4)
    axis = axes[0, 0]
    for offset, (name, colour) in enumerate(zip(COMPARISONS, COLOURS, strict=True)):
        means, lows, highs = np.array([times[name] for *_, times in rows]).T
        at = np.arange(len(rows)) + 0.2 * (offset - 1.5)
        error = [np.maximum(means - lows, 0), np.maximum(highs - means, 0)]
        axis.bar(at, means, 0.19, yerr=error, color=colour, label=name, capsize=2)
    label = "the paper: almost 2"
    for place, (task, *_) in enumerate(rows):
        if task in LARGEST_GAINS:
            axis.plot([place - 0.4, place + 0.4], [2, 2], "-", color="black", linewidth=2, label=label)
            label = None
    axis.axhline(1, color="black", linewidth=0.8, linestyle=":")
    axis.set_xticks(range(len(rows)), [_tick(task, best) for task, best, _ in rows], fontsize=8)
    axis.set_ylabel("ratio")
    figures.legend(figure, axes)
    return figure


def _tick(task: str, best: str) -> str:
    return f"{TASKS[task].title}\n{best}" + ("" if task in NAMED else "\n(not named in the paper)")

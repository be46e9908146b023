"""Draw the one figure of the first page (`outcome.FIGURE`); imports JAX, as the experiments with networks do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.experiments import paper_protocol
from greedystep.experiments.deep.suite import LARGEST_GAINS, TASKS
from greedystep.experiments.fig3.greedy_play import IN_TRAINING, MIXED, ratios

PLAYED = {"protocol": paper_protocol.PLAYED, "fig3": "greedy_play"}
"""Experiment -> the name of its final numbers of greedy play."""
LOOKS = {
    "protocol": ("paper's own protocol", "s", figures.COLOURS[2], -0.18),
    "fig3": ("64 environments, batches of 512", "o", figures.COLOURS[1], 0.18),
}
"""Experiment -> label, marker, colour, place within the row."""
APART = 0.09
"""The two comparisons of an experiment stand this far above and below its place, so that no CI hides another."""


@figures.style()
def draw(results: Iterable[Mapping[str, Any]]) -> Figure | None:
    """Draw one row per task of Figure 3 that has a ratio; None without such a result."""
    by_name = {result["name"]: result for result in results if result["name"] in LOOKS}
    found = {
        name: {task: times for task, _, times in ratios(result["numbers"]["tasks"], PLAYED[name])}
        for name, result in by_name.items()
    }
    tasks = [task for task in TASKS if any(task in own for own in found.values())]
    if not tasks:
        return None
    figure, axis = figures.panels()
    figure.set_size_inches(5.4, 0.42 * len(tasks) + 1.3)
    axis.axvline(1, color=figures.GREY, linewidth=1)
    for name, (label, marker, colour, shift) in LOOKS.items():
        for comparison, is_filled in ((IN_TRAINING, True), (MIXED, False)):
            own = {row: found[name][task][comparison] for row, task in enumerate(tasks) if task in found.get(name, {})}
            if not own:
                continue
            rows = np.array(list(own)) + shift + (-APART if is_filled else APART)
            means, lows, highs = np.array(list(own.values())).T
            axis.hlines(rows, lows, highs, color=colour, linewidth=2.5 if is_filled else 1.2)
            face, about = (colour, label) if is_filled else ("white", None)
            axis.plot(means, rows, marker, color=colour, markersize=6, markerfacecolor=face, label=about)
    claimed = [row for row, task in enumerate(tasks) if task in LARGEST_GAINS]
    about = 'the paper: "almost twice"'
    axis.plot([2.0] * len(claimed), claimed, "D", color=figures.COLOURS[0], markersize=7, label=about)
    axis.set_yticks(range(len(tasks)), [TASKS[task].title for task in tasks], fontsize="small")
    axis.set_ylim(len(tasks) - 0.4, -0.6)
    axis.set_xlim(left=0)
    axis.set_xlabel("times the return of the best baseline")
    axis.grid(axis="y", visible=False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=1, fontsize="small")
    return figure

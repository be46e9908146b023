"""The figure and the tables of the fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.charts import NOT_TRAINED
from greedystep.experiments.offline.fit_methods import CLONING, CONSERVATISM, RULES, method
from greedystep.experiments.offline.fit_parts import NAME
from greedystep.experiments.offline.logs import KINDS
from greedystep.stats import interval
from greedystep.tables import Table

COLOURS = {"none": "#999999", "cql": "#56b4e9", "bcq": "#0072b2"}


@figures.style()
def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw the scores as bars with 95 % CIs: a panel per task and kind of log, rules side by side."""
    found = result["numbers"]["logged_tasks"]
    asked = result["settings"]["tasks"].values()
    kinds = [kind for kind in KINDS if any(kind in task["kinds"] for task in asked)]
    figure, axes = figures.panels(len(found), len(kinds), squeeze=False)
    figure.set_size_inches(1.0 + 4.0 * len(kinds), 1.0 + 2.8 * len(found))
    for row, task in zip(axes, found.values(), strict=True):
        for axis, kind in zip(row, kinds, strict=True):
            axis.set_title(f"{task['title']}, {kind} log")
            fits = {fit["method"]: fit for fit in task["fits"] if fit["kind"] == kind}
            if fits:
                _draw_scores(axis, fits)
            else:
                figures.draw_missing(axis, NOT_TRAINED)
    figures.legend(figure, axes)
    return {NAME: figure}


def _draw_scores(axis: Axes, fits: Mapping[str, Mapping[str, Any]]) -> None:
    trained = [name for name in RULES if any(method(name, kind) in fits for kind in CONSERVATISM)]
    groups = [*trained, *([CLONING] if CLONING in fits else [])]
    for place, name in enumerate(groups):
        kinds = ("bcq",) if name == CLONING else CONSERVATISM
        for offset, kind in enumerate(kinds):
            fit = fits.get(CLONING if name == CLONING else method(name, kind))
            if fit is None:
                continue
            mean, low, high = _interval(fit["scores"])
            at = place + (0.0 if name == CLONING else 0.27 * (offset - 1))
            error = None if np.isnan(low) else [[max(mean - low, 0.0)], [max(high - mean, 0.0)]]
            label = f"conservatism {kind}" if place == 0 else None
            axis.bar(at, mean, 0.25, yerr=error, color=COLOURS[kind], label=label, capsize=2)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.axhline(1, color="black", linewidth=0.8, linestyle=":")
    axis.set_xticks(range(len(groups)), [name.replace(" ", "\n") for name in groups], fontsize=7)
    axis.set_ylabel("score", fontsize=8)


def _interval(scores: Sequence[float | None]) -> tuple[float, float, float]:
    mean, low, high = map(float, interval(np.array(scores, float), "mean"))
    return mean, low, high


def tables(result: dict[str, Any]) -> list[Table]:
    found = result["numbers"]["logged_tasks"]
    rows = []
    for task in found.values():
        for fit in task["fits"]:
            mean, low, high = (float(x) for x in interval(np.array(fit["returns"]), "mean"))
            score = float(np.mean(np.array(fit["scores"], float)))
            about = [task["title"], fit["kind"], fit["method"], task["updates"], len(fit["returns"])]
            rows.append([*about, mean, low, high, score, fit["microseconds"]])
    header = [
        "task",
        "log",
        "method",
        "updates",
        "seeds",
        "mean return",
        "95 % CI from",
        "to",
        "score",
        "µs per update",
    ]
    logs = [
        [task["title"], kind, log["steps"], log["episodes"], log["return"]]
        for task in found.values()
        for kind, log in task["logs"].items()
    ]
    made = (
        Table(NAME, "Return of greedy play after learning from a log alone", header, rows),
        Table(f"{NAME}-logs", "The logs", ["task", "log", "steps", "episodes", "mean return"], logs),
    )
    return [table for table in made if table.rows]

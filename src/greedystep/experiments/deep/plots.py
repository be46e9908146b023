"""Panels of learning curves with 95 % confidence intervals, drawn from a result's JSON alone."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from greedystep import figures

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = figures.COLOURS
SOLID, DASHED, DOTTED = figures.DASHES[:3]
GREY = "#777777"

Styles = Mapping[str, tuple[str, Any]]
"""Colour and dashes by the name of a line."""

AXES = {
    "returns": "return of the last 100 episodes",
    "q": "mean Q",
    "overestimation": "Q minus behaviour return",
    "n": "mean chosen n",
}
"""Labels of the y axis by curve."""
TITLE_WIDTH = 40
"""Letters per line of a panel's title."""


def grid(tasks: int, rows: int) -> tuple[Figure, Any]:
    """A figure and its axes [rows, tasks]."""
    figure, axes = figures.panels(rows, tasks, squeeze=False)
    figure.set_size_inches(1.2 + 3.6 * max(tasks, 2), 1.0 + 2.7 * rows)
    return figure, axes


def draw_curves(
    axis: Axes, task: Mapping[str, Any], names: Sequence[str], styles: Styles, column: str, shaded: bool = True
) -> None:
    """Draw a line for each named method of a task; its 95 % CI is a band, or a bar beside its end."""
    entries = [(name, task["methods"][name]) for name in names]
    if not entries:
        draw_missing(axis)
        return
    end = max(entry["steps"][-1] for _, entry in entries)
    for place, (name, entry) in enumerate(entries):
        curve = entry["curves"][column]
        if curve is None:
            continue
        colour, dash = styles[name]
        mean, low, high = (np.asarray(curve[part], float) for part in ("estimate", "low", "high"))
        axis.plot(entry["steps"], mean, color=colour, linestyle=dash, label=entry["label"])
        if len(entry["seeds"]) < 2:
            continue
        if shaded:
            axis.fill_between(entry["steps"], low, high, color=colour, alpha=0.15, linewidth=0)
        else:
            at = end * (1.02 + 0.015 * place)
            axis.plot([at, at], [low[-1], high[-1]], color=colour, linestyle="-", linewidth=2)
    axis.set(ylabel=AXES[column], xlabel="environment steps")
    axis.xaxis.set_major_formatter(lambda value, _: _thousands(value))


@figures.style()
def draw_tasks(
    tasks: Mapping[str, Mapping[str, Any]], styles: Styles, columns: Sequence[str], shaded: bool = True
) -> Figure:
    """Draw a column of panels per task, one panel per quantity."""
    figure, axes = grid(len(tasks), len(columns))
    for panels, task in zip(axes.T, tasks.values(), strict=True):
        for axis, column in zip(panels, columns, strict=True):
            draw_curves(axis, task, list(task["methods"]), styles, column, shaded)
        panels[0].set_title(title(task))
    legend(figure, axes)
    return figure


def draw_missing(axis: Axes, why: str = "not trained") -> None:
    """Say in an empty panel why it is empty."""
    axis.text(0.5, 0.5, why, ha="center", va="center", color=GREY, transform=axis.transAxes)
    axis.set(xticks=[], yticks=[])


def legend(figure: Figure, axes: Any) -> None:
    """Draw one legend for all panels below them."""
    found = {}
    for axis in np.ravel(axes):
        handles, labels = axis.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    if found:
        columns = int(figure.get_figwidth() / (0.8 + 0.09 * max(map(len, found))))  # as many as fit, in inches
        figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=max(1, min(5, columns)))


def title(task: Mapping[str, Any]) -> str:
    """The task's name, and which part of its full length was trained if not all of it, in lines of a panel's width."""
    if not task["methods"] or (steps := longest_training(task)) >= task["full_steps"]:
        return textwrap.fill(task["title"], TITLE_WIDTH)
    # A curve's last point may lie a little before the end of the training: two digits hide it.
    part = f"({_thousands(float(f'{steps:.2g}'))} of {_thousands(task['full_steps'])} steps)"
    between = " " if len(task["title"]) + len(part) < TITLE_WIDTH else "\n"
    return f"{textwrap.fill(task['title'], TITLE_WIDTH)}{between}{part}"


def longest_training(task: Mapping[str, Any]) -> int:
    """Steps of the longest training of a task."""
    return max(entry["steps"][-1] for entry in task["methods"].values())


def _thousands(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.3g}k" if abs(value) >= 1e3 else f"{value:g}"

"""Matplotlib figures: one style, charts drawn from `charts.Chart`, and PNG and SVG files.

Figures are made with `matplotlib.figure.Figure` and never through pyplot: no window system, no global list of figures.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from greedystep.charts import (
    COLOURS,
    DASHES,
    GREY,
    Chart,
    Style,
    learning_charts,
    line_styles,
    short_count,
    shown_tasks,
)
from greedystep.io import atomic_write

MARKED = 20
"""Lines with at most this many points have markers."""

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=DASHES),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.figsize": (6.4, 4.0),
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",  # shipped with Matplotlib: the same letters on every machine
    "font.size": 10,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "savefig.dpi": 150,
    "svg.fonttype": "path",
    "svg.hashsalt": "greedystep",  # the same figure gives the same bytes
}


def style() -> Any:
    """Return our matplotlib style as a context (`with figures.style():`) or decorator (`@figures.style()`)."""
    return matplotlib.rc_context(STYLE)


def panels(rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return an empty figure and its axes, as `Figure.subplots` gives them; call within `style()`."""
    width, height = STYLE["figure.figsize"]
    size = (width * (1 if columns == 1 else 0.75 * columns), height * (1 if rows == 1 else 0.8 * rows))
    figure = Figure(figsize=size)
    return figure, figure.subplots(rows, columns, **options)


@style()
def draw_charts(charts: Sequence[Chart], columns: int, height: float = 3.4) -> Figure:
    """Draw charts in rows of `columns`, each `height` inches high, with one legend below them all."""
    rows = -(-len(charts) // columns)
    figure, axes = panels(rows, columns, squeeze=False)
    figure.set_size_inches(4.6 * columns, height * rows + 1.0)
    styles = line_styles(charts)
    for axis, chart in zip(axes.flat, charts, strict=False):
        _draw_chart(axis, chart, styles)
    for axis in axes.flat[len(charts) :]:
        axis.set_axis_off()
    legend(figure, axes)
    return figure


@style()
def draw_forest(
    labels: Sequence[str], intervals: Sequence[Sequence[float]], claimed: Mapping[int, float], x: str
) -> Figure:
    """Draw a forest plot: one (estimate, low, high) per row, the top one first, and a line where x is 1.

    Args:
        labels: of the rows.
        intervals: (estimate, low, high) of each row.
        claimed: row number -> a claimed value, drawn as a diamond.
        x: label of the horizontal axis.
    """
    figure, axis = panels()
    figure.set_size_inches(5.2, 0.37 * len(labels) + 0.9)
    estimates, lows, highs = np.asarray(intervals, float).T
    places = np.arange(len(labels))
    axis.axvline(1, color=GREY, linewidth=1, linestyle="-")
    axis.hlines(places, lows, highs, color=COLOURS[1], linewidth=3)
    axis.plot(estimates, places, "o", color=COLOURS[1], markersize=7, label="measured, with 95 % CI")
    if claimed:
        axis.plot(list(claimed.values()), list(claimed), "D", color=COLOURS[0], markersize=7, label="the paper reports")
    axis.set_yticks(places, labels, fontsize="small")
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_xlim(left=0)
    axis.set_xlabel(x)
    axis.grid(axis="y", visible=False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def draw_learning_charts(
    numbers: Mapping[str, Any],
    styles: Mapping[str, Style],
    quantities: Collection[str],
    methods: Collection[str] = (),
    bands: bool = True,
) -> Figure:
    """Draw the learning curves of a result that its page shows first, one column of panels per task."""
    charts = [
        replace(chart, lines=[line for line in chart.lines if line.shown], bands=bands)
        for chart in learning_charts(numbers, styles, quantities, methods)
        if chart.shown
    ]
    tasks = len(shown_tasks(numbers))
    return draw_charts(charts, min(3, len(charts)) if tasks in (1, len(charts)) else tasks, height=2.9)


def _draw_chart(axis: Axes, chart: Chart, styles: Mapping[str, Style]) -> None:
    axis.set_title(chart.title)
    if chart.bars:
        _draw_bars(axis, chart)
        return
    if not chart.lines:
        draw_missing(axis, chart.if_empty)
        return
    has_markers = max(len(line.x) for line in chart.lines) <= MARKED
    for place, line in enumerate(chart.lines):
        colour, dash = styles[line.label]
        marker = {"marker": "o", "markersize": 3.5} if has_markers else {}
        axis.plot(line.x, _array(line.y), color=colour, linestyle=dash, label=line.label, **marker)
        low, high = _array(line.low), _array(line.high)
        if len(low) and has_markers and chart.log_x:  # side by side: wide bands would hide each other
            at = np.array(line.x) * (1 + 0.02 * (place - len(chart.lines) / 2))
            axis.vlines(at, low, high, color=colour, alpha=0.5, linewidth=2.0, linestyle="-")
        elif len(low) and not chart.bands:
            at = max(line.x[-1] for line in chart.lines) * (1.02 + 0.015 * place)
            axis.vlines(at, low[-1], high[-1], color=colour, linewidth=2.0, linestyle="-")
        elif len(low):
            axis.fill_between(line.x, low, high, color=colour, alpha=0.15, linewidth=0)
    if not chart.bands and any(len(line.low) for line in chart.lines):
        axis.plot([], [], "|", color=GREY, markersize=10, markeredgewidth=2, label="95 % CI at the end")
    axis.set(xlabel=chart.x, ylabel=chart.y)
    points = sorted({x for line in chart.lines for x in line.x})
    if chart.log_y:
        axis.set_yscale("log")
    if chart.log_x:
        axis.set_xscale("log")
        axis.set_xticks(points[:: -(-len(points) // 8)])
        axis.set_xticks([], minor=True)
    else:
        is_whole = all(float(x).is_integer() for x in points)
        axis.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=is_whole))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}" if chart.log_x else short_count(value))


def _draw_bars(axis: Axes, chart: Chart) -> None:
    bins, width = np.arange(len(chart.bins)), 0.8 / len(chart.bars)
    for place, bars in enumerate(chart.bars):
        at = bins + width * (place - (len(chart.bars) - 1) / 2)
        axis.bar(at, bars.heights, width, color=bars.colour, label=bars.label)
    axis.set(xlabel=chart.x, ylabel=chart.y)
    axis.set_xticks(bins, chart.bins, rotation=0 if len(bins) <= 6 else 45 if len(bins) <= 10 else 90)


def _array(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else float(value) for value in values])


def draw_missing(axis: Axes, why: str = "not run") -> None:
    """Write into an empty panel why there is nothing to draw."""
    axis.text(0.5, 0.5, why, ha="center", va="center", color=GREY, transform=axis.transAxes)
    axis.set(xticks=[], yticks=[])


def legend(figure: Figure, axes: Any) -> None:
    """Draw one legend for all axes below them, each label once."""
    found = {}
    for axis in np.ravel(axes):
        handles, labels = axis.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    if found:
        columns = int(figure.get_figwidth() / (0.8 + 0.09 * max(map(len, found))))  # as many as fit, in inches
        where = {"loc": "outside lower center", "ncols": max(1, min(5, columns)), "handlelength": 3}
        figure.legend(list(found.values()), list(found), **where)


def to_bytes(figure: Figure, suffix: str) -> bytes:
    """Return a figure as the content of a file with this suffix, .png or .svg; the same figure gives the same bytes."""
    picture = io.BytesIO()
    about = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}[suffix]
    with style():
        figure.savefig(picture, format=suffix[1:], metadata=about)
    return picture.getvalue()


def save(figure: Figure, stem: str | os.PathLike) -> list[Path]:
    """Write `stem`.png and `stem`.svg, each completely or not at all; the same figure gives the same bytes."""
    written = []
    for suffix in (".png", ".svg"):
        path = Path(f"{os.fspath(stem)}{suffix}")
        picture = to_bytes(figure, suffix)
        with atomic_write(path) as file:
            file.write(picture)
        written.append(path)
    return written

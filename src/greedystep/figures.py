"""One style for all figures, and files of them.

Figures are made with `matplotlib.figure.Figure` and never through pyplot: no window system, no global list of figures.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from greedystep.io import atomic_write

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart with every kind of colour vision; the strongest on white first."""

DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (7, 2)), (0, (2, 1)), "-")
"""Goes with COLOURS, so that a grey print can be read too."""

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
    """A context (`with figures.style():`) or decorator (`@figures.style()`) within which to draw."""
    return matplotlib.rc_context(STYLE)


def panels(rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """An empty figure and its axes, one or an array of them as `Figure.subplots` returns; call within `style()`."""
    width, height = STYLE["figure.figsize"]
    size = (width * (1 if columns == 1 else 0.75 * columns), height * (1 if rows == 1 else 0.8 * rows))
    figure = Figure(figsize=size)
    return figure, figure.subplots(rows, columns, **options)


def save(figure: Figure, stem: str | os.PathLike) -> list[Path]:
    """Write `stem`.png and `stem`.svg, each completely or not at all; the same figure gives the same bytes."""
    written = []
    for suffix, about in ((".png", {"Software": None}), (".svg", {"Date": None, "Creator": None})):
        picture = io.BytesIO()
        with style():
            figure.savefig(picture, format=suffix[1:], metadata=about)
        path = Path(f"{os.fspath(stem)}{suffix}")
        with atomic_write(path) as file:
            file.write(picture.getvalue())
        written.append(path)
    return written

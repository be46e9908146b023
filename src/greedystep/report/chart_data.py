"""Charts as JSON for the page's script (charts.js): rounded numbers, and colours for a light and a dark page.

methods     one per label: label, light and dark colour, dash lengths, whether it is shown at first
grids       lists of x values, shared by the curves that refer to them
quantities  one per vertical axis: label, whether it is shown at first, and a panel per chart: title, x, logX, logY, and
            curves [{method, grid, y, low, high}] with the decimals of their numbers (digits), or bars [{label, light,
            dark, values}] over bins
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from greedystep.charts import Chart, line_styles

Grids = dict[tuple[float, ...], int]


def chart_data(charts: Sequence[Chart]) -> dict[str, Any]:
    """Return everything that the script needs to draw these charts under one legend."""
    styles, grids = line_styles(charts), Grids()
    shown = {line.label: line.shown for chart in charts for line in chart.lines}
    methods = [
        {"label": label, "shown": shown[label]} | page_colours(colour) | {"dash": [] if dash == "-" else list(dash[1])}
        for label, (colour, dash) in styles.items()
    ]
    place = {label: number for number, label in enumerate(styles)}
    quantities: dict[str, dict[str, Any]] = {}
    for chart in charts:
        quantity = quantities.setdefault(chart.y, {"label": chart.y, "shown": chart.shown, "panels": []})
        quantity["panels"].append(_panel(chart, place, grids))
    return {
        "methods": methods,
        "grids": [_rounded(grid, 9) for grid in grids],
        "quantities": list(quantities.values()),
    }


def _panel(chart: Chart, place: Mapping[str, int], grids: Grids) -> dict[str, Any]:
    panel: dict[str, Any] = {"title": chart.title, "x": chart.x, "logX": chart.log_x, "logY": chart.log_y}
    if chart.bins:
        bars = [
            {"label": bar.label, "values": _rounded(bar.heights, 4)} | page_colours(bar.colour) for bar in chart.bars
        ]
        return panel | {"bins": list(chart.bins), "bars": bars}
    parts = [{"y": line.y, "low": line.low, "high": line.high} for line in chart.lines]
    digits = None if chart.log_y else _digits([value for part in parts for values in part.values() for value in values])
    curves = [
        {"method": place[line.label], "grid": grids.setdefault(tuple(line.x), len(grids))}
        | {name: _rounded(values, digits) for name, values in part.items() if len(values)}
        for line, part in zip(chart.lines, parts, strict=True)
    ]
    return panel | {"curves": curves, "digits": max(0, digits or 0)}


def _digits(values: Sequence[float | None]) -> int:
    """Return the number of decimals that resolves a thousandth of the panel's height."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    span = max(known, default=0.0) - min(known, default=0.0) or max(map(abs, known), default=1.0) or 1.0
    return 3 - math.floor(math.log10(span))


def _rounded(values: Sequence[float | None], digits: int | None) -> list[float | int | None]:
    """Round to so many decimals, or to four significant digits for None; missing values become None."""

    def short(value: float | None) -> float | int | None:
        if value is None or not math.isfinite(value):
            return None
        number = float(f"{value:.4g}") if digits is None else round(float(value), digits)
        return int(number) if number == int(number) else number

    return [short(value) for value in values]


# -- colours ----------------------------------------------------------------------------------------------------------

LIGHT, DARK = "#ffffff", "#0d1117"
"""Background colours of page.css."""
CONTRAST = 3.0
"""Least contrast of a line in a chart, after WCAG 2.1."""


def page_colours(colour: str) -> dict[str, str]:
    """Return the colour as it can be seen on a light and on a dark page."""
    return {"light": readable(colour, LIGHT), "dark": readable(colour, DARK)}


def readable(colour: str, background: str) -> str:
    """Move the colour towards black or white, as little as gives it enough contrast; greys are inverted on dark."""
    given, is_dark = rgb(colour), _luminance(rgb(background)) < 0.5
    if is_dark and len(set(given)) == 1:
        given = [255 - part for part in given]
    ink = 255 if is_dark else 0
    for step in range(101):
        mixed = [round(own + (ink - own) * step / 100) for own in given]
        if contrast(mixed, rgb(background)) >= CONTRAST:
            return "#{:02x}{:02x}{:02x}".format(*mixed)
    raise AssertionError("pure black and white have enough contrast")


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """Return WCAG's ratio of luminances, 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(parts: Sequence[int]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in parts)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def rgb(colour: str) -> list[int]:
    """Return red, green and blue of #rrggbb, 0 to 255."""
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]

"""Learning curves of a result as the page's script wants them: short numbers, and colours for a light and a dark page.

methods      label, colour on white and on black, dashes, whether it is shown at first
grids        lists of environment steps, shared by the curves that refer to them
quantities   what is on the axis, whether it is shown at first, and a panel for each task: curves [{method, grid,
             y, low, high}] with the decimals of their numbers (digits), or bars [{label, light, dark, values}] over
             bins
x, logX, logY  of a panel: what is on its other axis, if not environment steps, and which of the two are logarithmic
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from greedystep import figures
from greedystep.charts import Chart
from greedystep.experiments.deep.compared_methods import GREEDY, PAPER
from greedystep.experiments.deep.plots import AXES, GREEN, ORANGE, SOLID, title
from greedystep.report.colours import pair

FIRST_SHOWN = {"fig3": ("returns",), "fig4": ("returns", "q", "overestimation", "n"), "fig5": ("n",)}
USUAL = ("returns", "q", "overestimation")
"""Quantities, by result, and of others."""

ALONE = {GREEDY: (ORANGE, SOLID)}
"""As in Figure 5, which has no other method."""


def has_curves(result: Mapping[str, Any]) -> bool:
    """Whether anything of it can be drawn by the script."""
    tasks = result["numbers"].get("tasks")
    return isinstance(tasks, dict) and any(task["methods"] for task in tasks.values())


def figure(result: Mapping[str, Any], styles: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """Everything that is drawn of a result; `styles` are its experiment's colours and dashes."""
    tasks = result["numbers"]["tasks"].values()
    labels = {name: one["label"] for task in tasks for name, one in task["methods"].items()}
    paper = [name for name in labels if name in PAPER]
    lines = {
        name: {"label": label, "shown": not paper or name in paper} | line((ALONE | dict(styles)).get(name), number)
        for number, (name, label) in enumerate(labels.items())
    }
    shown = FIRST_SHOWN.get(result["name"], USUAL)
    titles = [title(task) if task["methods"] else task["title"] for task in tasks]
    drawn = assemble(lines, zip(titles, (task["methods"] for task in tasks), strict=True), AXES, shown)
    if "bins" in result["numbers"]:
        bins = result["numbers"]["bins"]
        panels = [{"title": name} | _bars(task, bins) for name, task in zip(titles, tasks, strict=True)]
        drawn["quantities"].append(
            {"key": "histogram", "label": "share of samples by chosen n", "shown": True, "panels": panels}
        )
    return drawn


def assemble(
    lines: Mapping[str, dict[str, Any]],
    tasks: Iterable[tuple[str, Mapping[str, Mapping[str, Any]]]],
    axes: Mapping[str, str],
    shown: Collection[str],
) -> dict[str, Any]:
    """Lines by method, and for each task its title and by method `steps`, `seeds` and `curves`, a few by quantity."""
    tasks, place = list(tasks), {name: number for number, name in enumerate(lines)}
    grids: dict[tuple[int, ...], int] = {}
    quantities = [
        {
            "key": key,
            "label": label,
            "shown": key in shown,
            "panels": [{"title": title} | _panel(methods, key, place, grids) for title, methods in tasks],
        }
        for key, label in axes.items()
        if any(one["curves"][key] for _, methods in tasks for one in methods.values())
    ]
    return {"methods": list(lines.values()), "grids": [list(grid) for grid in grids], "quantities": quantities}


def charts(found: Sequence[Chart]) -> dict[str, Any]:
    """Curves that are no trainings. Logarithmic ones keep four digits of every number."""
    styles: dict[str, tuple[str, Any]] = {one.label: one.style for chart in found for one in reversed(chart.lines)}
    labels = list(dict.fromkeys(one.label for chart in found for one in chart.lines))
    place = {label: number for number, label in enumerate(labels)}
    grids: dict[tuple[float, ...], int] = {}
    quantities: dict[str, dict[str, Any]] = {}
    for chart in found:
        quantity = {"key": f"q{len(quantities)}", "label": chart.y, "shown": True, "panels": []}
        quantities.setdefault(chart.y, quantity)["panels"].append(_chart(chart, place, grids))
    methods = [{"label": label, "shown": True} | line(styles[label], 0) for label in labels]
    return {
        "methods": methods,
        "grids": [list(grid) for grid in grids],
        "quantities": list(quantities.values()),
    }


def _chart(chart: Chart, place: Mapping[str, int], grids: dict[tuple[float, ...], int]) -> dict[str, Any]:
    numbers = [value for one in chart.lines for part in (one.y, one.low, one.high) for value in part]
    digits = _digits([value for value in numbers if value is not None])
    curves = []
    for one in chart.lines:
        parts = {name: part for name, part in (("y", one.y), ("low", one.low), ("high", one.high)) if part}
        short = {
            name: [float(f"{value:.4g}") if value is not None else None for value in part]
            if chart.log_y
            else _short([math.nan if value is None else value for value in part], digits)
            for name, part in parts.items()
        }
        curves.append({"method": place[one.label], "grid": grids.setdefault(tuple(one.x), len(grids))} | short)
    axes = {"x": chart.x, "logX": chart.log_x, "logY": chart.log_y}
    return {"title": chart.title, "curves": curves, "digits": max(0, digits)} | axes


def _panel(
    methods: Mapping[str, Mapping[str, Any]],
    key: str,
    place: Mapping[str, int],
    grids: dict[tuple[int, ...], int],
) -> dict[str, Any]:
    """The curves of one task, and how many decimals their numbers have."""
    known = {name: one for name, one in methods.items() if one["curves"][key]}
    digits = _digits([value for one in known.values() for part in one["curves"][key].values() for value in part])
    curves = [
        {"method": place[name], "grid": grids.setdefault(tuple(map(int, one["steps"])), len(grids))}
        | {
            short: _short(one["curves"][key][part], digits)
            for part, short in (("estimate", "y"), ("low", "low"), ("high", "high"))
            if part == "estimate" or len(one["seeds"]) > 1  # one seed has no interval
        }
        for name, one in known.items()
    ]
    return {"curves": curves, "digits": max(0, digits)}


def _bars(task: Mapping[str, Any], bins: Sequence[str]) -> dict[str, Any]:
    """The share of each bin in the first and the last steps, of the one method that has them."""
    one = next((one for one in task["methods"].values() if any(one.get("first", ()))), None)
    if one is None:
        return {"bins": [], "bars": []}
    used = max(i for part in ("first", "last") for i, share in enumerate(one[part]) if share > 0) + 1
    bars = [
        {"label": f"{part} {one['phase']:,} steps", "values": _short(one[part][:used], 4)} | pair(colour)
        for part, colour in (("first", GREEN), ("last", ORANGE))
        if any(one[part])
    ]
    return {"bins": list(bins[:used]), "bars": bars}


# -- numbers ----------------------------------------------------------------------------------------------------------


def _digits(values: Sequence[float]) -> int:
    """Decimals that tell a thousandth of the panel's height."""
    known = [value for value in values if math.isfinite(value)]
    span = max(known, default=0.0) - min(known, default=0.0) or max(map(abs, known), default=1.0) or 1.0
    return 3 - math.floor(math.log10(span))


def _short(values: Sequence[float], digits: int) -> list[float | int | None]:
    """Rounded; None where there is nothing to draw."""
    found = [round(value, digits) if math.isfinite(value) else None for value in values]
    return [int(value) if value is not None and value == int(value) else value for value in found]


def line(style: tuple[str, Any] | None, number: int) -> dict[str, Any]:
    """Colours and dashes of a style; without one, those of the figures in their order."""
    at = number % len(figures.COLOURS)
    colour, dash = style or (figures.COLOURS[at], figures.DASHES[at])
    return pair(colour) | {"dash": [] if dash == "-" else list(dash[1])}

"""The main figure of Figure 2 as numbers, for the page."""

from __future__ import annotations

from typing import Any

from greedystep import figures
from greedystep.charts import Chart, Line
from greedystep.experiments.fig2.contestants import CONTESTANTS, NAMES, published
from greedystep.experiments.fig2.offline import PUPILS
from greedystep.experiments.fig2.output import COINCIDING, CURVES, GREY, PUPIL_CURVES
from greedystep.experiments.fig2.verdicts import rows_of

CHARTS = (
    "Episodes to solve are medians over trials, with the band from 40 to 60 % of them where it is known; quality is a "
    "mean. Where most trials were given up there is no point."
)
STYLES = {name: (colour, dash) for name, (colour, dash, _) in (CURVES | COINCIDING).items()}
DOTTED = figures.DASHES[2]
ENDS = ("low", "high")


def charts(result: dict[str, Any]) -> list[Chart]:
    shown = [_episodes(result, task) for task in ("choice", "trace-back") if result["numbers"][task]]
    return [*shown, *([_qualities(result)] if result["numbers"]["offline"] else [])]


def _episodes(result: dict[str, Any], task: str) -> Chart:
    lines = []
    for method, style in STYLES.items():
        rows = rows_of(result["numbers"], task, method)
        delays, label = [row["delay"] for row in rows], CONTESTANTS[method].label
        band = _band(rows) if method not in COINCIDING else ()  # with Greedy-Step, whose band is theirs too
        lines.append(Line(label, style, delays, [row["solved"]["median"] for row in rows], *band))
        theirs = [published(method, delay) for delay in delays] if task == "trace-back" else []
        if any(number is not None for number in theirs):
            lines.append(Line(f"{label}, published", (style[0], DOTTED), delays, theirs))
    seen = rows_of(result["numbers"], task, "greedy-step")
    bound = [row["seen"]["median"] for row in seen]
    lines.append(Line("until the best return was seen", (GREY, DOTTED), [row["delay"] for row in seen], bound))
    title = f"{NAMES[task]}, ε = {result['settings']['epsilon']:g}"
    return Chart(title, "delay", "episodes to solve", lines, log_x=task == "choice", log_y=True)


def _band(rows: list[dict[str, Any]]) -> list[list[float | None]]:
    """Its lower and upper ends, nothing where the upper one lies among trials that were given up."""
    return [[row["solved"][end] if row["solved"]["high"] is not None else None for row in rows] for end in ENDS]


def _qualities(result: dict[str, Any]) -> Chart:
    lines = []
    for name, (colour, dash, _) in PUPIL_CURVES.items():
        rows = [row for row in result["numbers"]["offline"] if row["method"] == name]
        sizes, qualities = [row["size"] for row in rows], [row["mean_quality"] for row in rows]
        lines.append(Line(PUPILS[name].label, (colour, dash), sizes, qualities))
    title = f"Grid World, one pass over {result['settings']['logged']} random episodes"
    return Chart(title, "size", "quality (1: optimal)", lines)

"""Methods compared by their learning curves: numbers, a figure, a table and a page.

runs.json           the curves with their intervals, and the table's numbers
runs.png, .svg      return, mean Q, over-estimation and mean n over environment steps
runs.md, .tex       final returns
runs.html           all of it on one page
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from greedystep import figures, tables
from greedystep.io import write_json, write_text
from greedystep.learning_curves import last_episodes
from greedystep.provenance import provenance
from greedystep.report import curves, elements
from greedystep.report.runs import Lane, Method
from greedystep.stats import Interval, interval
from greedystep.tables import Table

QUANTITIES = {
    "episode_return": "return of the last 100 episodes",
    "mean_q": "mean Q",
    "overestimation": "Q minus the return that followed",
    "mean_n": "mean n",
}
"""Columns of metrics that are drawn, and what their axes say."""

EPISODES = 100
POINTS = 400
"""A curve is not drawn finer than this."""
LAST = 0.1
"""Final numbers, but for the return, are means over this last share of the steps."""


def write(methods: Sequence[Method], folder: Path) -> Path:
    """Compute, draw and write everything; returns the page."""
    numbers = [_numbers(method) for method in methods]
    with figures.style():
        drawing = draw(numbers)
    made = table(numbers)
    config = {"runs": [str(run.folder) for method in methods for run in method.runs], "episodes": EPISODES}
    write_json(folder / "runs.json", {"methods": numbers, "provenance": provenance(config)})
    _, svg = figures.save(drawing, folder / "runs")
    write_text(folder / "runs.md", tables.markdown(made))
    write_text(folder / "runs.tex", tables.latex(made))
    body = [
        f"<p>{elements.text(_caption(numbers))}</p>",
        elements.curves("runs", live(numbers), [elements.picture("runs", svg.read_bytes(), "Learning curves")]),
        elements.table(made),
        *(part for method in methods for part in _section(method)),
    ]
    write_text(folder / "runs.html", elements.whole("training runs", "Training runs", body))
    return folder / "runs.html"


def _section(method: Method) -> list[str]:
    parts = [f"<section><h2>{elements.text(f'{method.env}: {method.label}')}</h2>"]
    parts += ["<h3>Settings</h3>", elements.pairs(method.runs[0].settings)]
    for run in method.runs:
        parts += [f"<h3>{elements.text(run.folder)}</h3>", *elements.origin(run.provenance)]
    return [*parts, "</section>"]


def _caption(numbers: list[dict[str, Any]]) -> str:
    fewest = min(method["seeds"] for method in numbers)
    several = "Lines are means over seeds, shades their 95 % bootstrap intervals."
    return several if fewest > 1 else f"{several} A method with one seed has no interval."


# -- numbers ----------------------------------------------------------------------------------------------------------


def _numbers(method: Method) -> dict[str, Any]:
    """Everything that is drawn and tabulated of one method; None where it has no such column."""
    steps = grid(method.lanes)
    curves, final = {}, {}
    for column in QUANTITIES:
        values = [_curve(lane, column, steps) for lane in method.lanes]
        if any(curve is None for curve in values):
            curves[column] = final[column] = None
            continue
        runs = np.array(values)  # [lanes, points]
        curves[column] = _interval(runs, 2_000)
        at_end = runs[:, -1:] if column == "episode_return" else runs[:, steps > (1 - LAST) * steps[-1]]
        final[column] = _interval(_mean_of_known(at_end)[:, None], 10_000)
    speeds = [np.median(run.lanes[0]["steps_per_second"]) for run in method.runs if "steps_per_second" in run.lanes[0]]
    return {
        "env": method.env,
        "method": method.label,
        "seeds": len(method.lanes),
        "steps": steps,
        "curves": curves,
        "final": final,
        "steps_per_second": float(np.mean(speeds)) if speeds else None,
    }


def grid(lanes: Sequence[Lane]) -> np.ndarray:
    """Steps at which all lanes have got somewhere: those of the lane with the fewest rows, while all go on."""
    end = min(lane["step"][-1] for lane in lanes)
    steps = min((lane["step"] for lane in lanes), key=len)
    steps = np.unique(np.append(steps[steps <= end], end))
    return steps[np.linspace(0, len(steps) - 1, min(POINTS, len(steps))).round().astype(int)]


def _curve(lane: Lane, column: str, steps: np.ndarray) -> np.ndarray | None:
    """[points]; NaN before there is anything to tell."""
    if column == "episode_return":
        return last_episodes(lane["step"], lane[column], steps, EPISODES, lane["episodes"])
    if column not in lane or not np.isfinite(lane[column].astype(float)).any():
        return None
    known = np.isfinite(lane[column].astype(float))
    at = np.searchsorted(lane["step"][known], steps, side="right")
    return np.append(np.nan, lane[column][known])[at]


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    """Of each row, over what is not NaN; NaN where nothing is."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    return np.where(count, np.where(known, values, 0).sum(axis=1) / np.maximum(count, 1), np.nan)


def _interval(runs: np.ndarray, resamples: int) -> dict[str, np.ndarray]:
    """Of the mean over lanes, at each point."""
    return interval({"": runs}, "mean", resamples=resamples)._asdict()


# -- what is made of them ---------------------------------------------------------------------------------------------


def table(numbers: list[dict[str, Any]]) -> Table:
    """Final numbers, one method a row."""

    def number(of: dict[str, Any] | None, part: str) -> float | None:
        return None if of is None or not np.isfinite(of[part]).all() else float(of[part][0])

    header = ["environment", "method", "seeds", "steps", "final return", "from", "to"]
    header += ["mean Q", "over-estimation", "mean n", "steps/s"]
    rows = []
    for one in numbers:
        final = one["final"]
        row = [one["env"], one["method"], one["seeds"], int(one["steps"][-1])]
        row += [number(final["episode_return"], part) for part in Interval._fields]
        row += [number(final[column], "estimate") for column in list(QUANTITIES)[1:]]
        rows.append([*row, one["steps_per_second"]])
    title = (
        f"Mean return of the last {EPISODES} episodes, with its 95 % interval over seeds; all else over the last tenth"
    )
    return Table("runs", title, header, rows)


def live(numbers: list[dict[str, Any]]) -> dict[str, Any]:
    """The same curves for the page's script."""
    lines = {label: {"label": label, "shown": True} | curves.line(None, i) for i, label in enumerate(_labels(numbers))}
    tasks: dict[str, dict[str, Any]] = {}
    for one in numbers:
        tasks.setdefault(one["env"], {})[one["method"]] = one | {"seeds": range(one["seeds"])}
    return curves.assemble(lines, tasks.items(), QUANTITIES, QUANTITIES)


def _labels(numbers: list[dict[str, Any]]) -> list[str]:
    """Methods, each once: one colour in all environments."""
    return list(dict.fromkeys(one["method"] for one in numbers))


def draw(numbers: list[dict[str, Any]]) -> Figure:
    """Two by two panels for each environment, or as many as there are quantities to draw."""
    places = list(dict.fromkeys(one["env"] for one in numbers))
    shown = [column for column in QUANTITIES if any(one["curves"][column] for one in numbers)]
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    figure, axes = figures.panels(rows * len(places), columns, squeeze=False)
    for block, env in enumerate(places):
        panels = axes[block * rows : (block + 1) * rows].ravel()
        for panel, column in zip(panels, shown, strict=False):
            _draw_panel(panel, [one for one in numbers if one["env"] == env], column, _labels(numbers))
            panel.set_title(env)
        for panel in panels[len(shown) :]:
            panel.set_axis_off()
    axes[0, 0].legend()
    return figure


def _draw_panel(panel: Any, numbers: list[dict[str, Any]], column: str, labels: list[str]) -> None:
    for one in numbers:
        curve = one["curves"][column]
        if curve is None:
            continue
        at = labels.index(one["method"]) % len(figures.COLOURS)
        colour = figures.COLOURS[at]
        line = {"color": colour, "linestyle": figures.DASHES[at], "label": one["method"]}
        panel.plot(one["steps"], curve["estimate"], **line, marker="o" if len(one["steps"]) == 1 else "")
        panel.fill_between(one["steps"], curve["low"], curve["high"], color=colour, alpha=0.2, linewidth=0)
    panel.set_xlabel("environment steps")
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_ylabel(QUANTITIES[column])

"""Compare groups of training runs by their learning curves: numbers, a figure, a table and a page.

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

from greedystep import figures, tables
from greedystep.charts import Chart, Line
from greedystep.io import write_json, write_text
from greedystep.learning_curves import last_episodes
from greedystep.provenance import provenance
from greedystep.report import elements
from greedystep.report.run_groups import Lane, RunGroup
from greedystep.stats import Interval, interval
from greedystep.tables import Table

QUANTITIES = {
    "episode_return": "return of the last 100 episodes",
    "mean_q": "mean Q",
    "overestimation": "Q minus the return that followed",
    "mean_n": "mean n",
}
"""Columns of metrics.jsonl that are drawn, with their axis labels."""

EPISODES = 100
"""Episodes over which returns are averaged."""
POINTS = 400
"""Most points of a curve."""
LAST = 0.1
"""Final numbers except the return are means over this last share of the steps."""


def write(groups: Sequence[RunGroup], folder: Path) -> Path:
    """Compute and write everything; return the path of the page."""
    numbers = [summarize(group) for group in groups]
    drawn, table = charts(numbers), final_table(numbers)
    config = {"runs": [str(run.folder) for group in groups for run in group.runs], "episodes": EPISODES}
    write_json(folder / "runs.json", {"methods": numbers, "provenance": provenance(config)})
    columns = len({one["env"] for one in numbers})
    _, svg = figures.save(figures.draw_charts(drawn, columns if columns > 1 else min(2, len(drawn))), folder / "runs")
    write_text(folder / "runs.md", tables.markdown(table))
    write_text(folder / "runs.tex", tables.latex(table))
    body = [
        f"<p>{elements.text(caption(numbers))}</p>",
        elements.charts("runs", drawn, [elements.picture("runs", svg.read_bytes(), "Learning curves")]),
        elements.table(table),
        *(part for group in groups for part in _section(group)),
    ]
    write_text(folder / "runs.html", elements.whole("training runs", "Training runs", body))
    return folder / "runs.html"


def _section(group: RunGroup) -> list[str]:
    parts = [f"<section><h2>{elements.text(f'{group.env}: {group.label}')}</h2>"]
    parts += ["<h3>Settings</h3>", elements.pairs(group.runs[0].settings)]
    for run in group.runs:
        parts += [f"<h3>{elements.text(run.folder)}</h3>", *elements.origin(run.provenance)]
    return [*parts, "</section>"]


def caption(numbers: list[dict[str, Any]]) -> str:
    """Say what lines and bands are."""
    fewest = min(one["seeds"] for one in numbers)
    several = "Lines are means over seeds, bands their 95 % bootstrap intervals."
    return several if fewest > 1 else f"{several} A method with one seed has no interval."


# -- numbers ----------------------------------------------------------------------------------------------------------


def summarize(group: RunGroup) -> dict[str, Any]:
    """Return the curves and final numbers of a group; None where it lacks a column."""
    steps = common_steps(group.lanes)
    curves, final = {}, {}
    for column in QUANTITIES:
        values = [_curve(lane, column, steps) for lane in group.lanes]
        if any(curve is None for curve in values):
            curves[column] = final[column] = None
            continue
        runs = np.array(values)  # [lanes, points]
        curves[column] = _interval(runs, 2_000)
        at_end = runs[:, -1:] if column == "episode_return" else runs[:, steps > (1 - LAST) * steps[-1]]
        final[column] = _interval(_mean_of_known(at_end)[:, None], 10_000)
    speeds = [np.median(run.lanes[0]["steps_per_second"]) for run in group.runs if "steps_per_second" in run.lanes[0]]
    return {
        "env": group.env,
        "method": group.label,
        "seeds": len(group.lanes),
        "steps": steps,
        "curves": curves,
        "final": final,
        "steps_per_second": float(np.mean(speeds)) if speeds else None,
    }


def common_steps(lanes: Sequence[Lane]) -> np.ndarray:
    """Return the steps of the lane with the fewest rows, up to the end of the shortest lane; at most POINTS."""
    end = min(lane["step"][-1] for lane in lanes)
    steps = min((lane["step"] for lane in lanes), key=len)
    steps = np.unique(np.append(steps[steps <= end], end))
    return steps[np.linspace(0, len(steps) - 1, min(POINTS, len(steps))).round().astype(int)]


def _curve(lane: Lane, column: str, steps: np.ndarray) -> np.ndarray | None:
    """Return a column at these steps, NaN before its first value; None if it has no value at all."""
    if column == "episode_return":
        return last_episodes(lane["step"], lane[column], steps, EPISODES, lane["episodes"])
    if column not in lane or not np.isfinite(lane[column].astype(float)).any():
        return None
    known = np.isfinite(lane[column].astype(float))
    at = np.searchsorted(lane["step"][known], steps, side="right")
    return np.append(np.nan, lane[column][known])[at]


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    """Return the mean of each row without its NaN; NaN for a row of NaN."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    return np.where(count, np.where(known, values, 0).sum(axis=1) / np.maximum(count, 1), np.nan)


def _interval(runs: np.ndarray, resamples: int) -> dict[str, np.ndarray]:
    """Return the mean over lanes at each point, with its 95 % interval."""
    return interval({"": runs}, "mean", resamples=resamples)._asdict()


# -- table and charts -------------------------------------------------------------------------------------------------


def final_table(numbers: list[dict[str, Any]]) -> Table:
    """Return the table of final numbers, one row per group."""

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
    title = f"Mean return of the last {EPISODES} episodes with its 95 % interval over seeds; other columns: last 10 %"
    return Table("runs", title, header, rows)


def charts(numbers: list[dict[str, Any]]) -> list[Chart]:
    """Return one chart per environment and quantity."""
    return [
        Chart(
            env,
            "environment steps",
            label,
            [_line(one, column) for one in numbers if one["env"] == env and one["curves"][column]],
        )
        for column, label in QUANTITIES.items()
        if any(one["curves"][column] for one in numbers)
        for env in dict.fromkeys(one["env"] for one in numbers)
    ]


def _line(one: dict[str, Any], column: str) -> Line:
    curve = one["curves"][column]
    band = (curve["low"], curve["high"]) if one["seeds"] > 1 else ((), ())
    return Line(one["method"], one["steps"], curve["estimate"], *band)

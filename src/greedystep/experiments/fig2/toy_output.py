"""The figures and tables of Figure 2, made from its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.charts import COLOURS, DASHES, GREY, Chart, Line, Style
from greedystep.experiments.fig2.delayed import METHODS, TASK_TITLES, published
from greedystep.experiments.fig2.grid_world import OFFLINE_METHODS
from greedystep.experiments.fig2.toy_claims import Row, by_exploration_alone, medians, rows_of
from greedystep.tables import Table

Result = dict[str, Any]

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = COLOURS
SOLID, DASHED, DOTTED = DASHES[:3]

STYLES: dict[str, Style] = {
    "greedy-step": (BLUE, SOLID),
    "backward": (YELLOW, DASHES[4]),
    "model": (BLACK, DOTTED),
    "monte-carlo": (SKY, DASHED),
    "rudder": (GREEN, DASHES[3]),
    "watkins": (ORANGE, SOLID),
    "sarsa-lambda": (PINK, DASHES[4]),
}
"""Methods in the main figure. The second and third mostly coincide with the first, which shows through their dashes."""
COINCIDING = ("backward", "model")

OFFLINE_STYLES: dict[str, Style] = {
    **{name: STYLES[name] for name in ("greedy-step", *COINCIDING)},
    "episodic-backward": (PINK, DASHES[3]),
    "forward": (ORANGE, SOLID),
    "q-learning": (SKY, DASHED),
}

CHARTS = (
    "Episodes to solve are medians over trials, with a band from the 40 % to the 60 % quantile where it is known; "
    "quality is a mean. There is no point where most trials did not solve the task within the limit."
)
SEEN = "best return first seen (Greedy-Step)"


def charts(result: Result) -> list[Chart]:
    """Return the paper's three panels as charts; without lines where trials are missing."""
    logged = result["settings"]["logged"]
    lines = _lines(result["numbers"]["offline"], OFFLINE_METHODS, OFFLINE_STYLES, "size", "mean_quality")
    quality = Chart(f"Grid World, one pass over {logged} random episodes", "size", "quality (1: optimal)", lines)
    return [_episodes(result, "choice"), _episodes(result, "trace-back"), quality]


def draw(result: Result) -> dict[str, Figure]:
    return {
        "fig2": figures.draw_charts(charts(result), columns=3),
        "order": _update_order(result),
        "limits": figures.draw_charts([_exploration(result), _noise(result)], columns=2),
    }


def _lines(rows: list[Row], methods: Mapping[str, Any], styles: Mapping[str, Style], x: str, y: str) -> list[Line]:
    found = {name: [row for row in rows if row["method"] == name] for name in styles}
    return [
        Line(methods[name].label, [row[x] for row in mine], [row[y] for row in mine], style=styles[name])
        for name, mine in found.items()
        if mine
    ]


def _episodes(result: Result, task: str) -> Chart:
    numbers = result["numbers"]
    lines = []
    for method, style in STYLES.items() if numbers[task] else ():
        rows = rows_of(numbers, task, method)
        delays, label = [row["delay"] for row in rows], METHODS[method].label
        lines.append(_medians(label, rows, style, has_band=method not in COINCIDING))
        theirs = [published(method, delay) for delay in delays] if task == "trace-back" else []
        if any(number is not None for number in theirs):
            lines.append(Line(f"{label}, published", delays, theirs, style=(style[0], DOTTED)))
    if lines:
        rows = rows_of(numbers, task, "greedy-step")
        lines.append(Line(SEEN, [row["delay"] for row in rows], medians(rows, "seen"), style=(GREY, DOTTED)))
    title = f"{TASK_TITLES[task]}, ε = {result['settings']['epsilon']:g}"
    return Chart(title, "delay", "episodes to solve", lines, log_x=task == "choice", log_y=True)


def _medians(label: str, rows: list[Row], style: Style, has_band: bool = True) -> Line:
    """Return a line of medians by delay with their band, which is left out where it reaches unsolved trials."""
    solved = [row["solved"] for row in rows]
    band = [[one[end] if one["high"] is not None else None for one in solved] for end in ("low", "high") if has_band]
    return Line(label, [row["delay"] for row in rows], medians(rows), *band, style=style)


# -- where it stops being true ----------------------------------------------------------------------------------------


def _by_epsilon(numbers: dict[str, list[Row]]) -> list[Row]:
    """Return all rows of Greedy-Step on Trace Back, those with the largest ε first."""
    rows = [*numbers["exploration"], *rows_of(numbers, "trace-back", "greedy-step")]
    return sorted(rows, key=lambda row: (-row["epsilon"], row["delay"]))


def _exploration(result: Result) -> Chart:
    numbers = result["numbers"]
    lines = []
    if numbers["exploration"] and numbers["trace-back"]:
        rows = _by_epsilon(numbers)
        epsilons = dict.fromkeys(row["epsilon"] for row in rows)
        for epsilon, colour, dash in zip(epsilons, (GREEN, YELLOW, BLUE, ORANGE), DASHES, strict=False):
            mine = [row for row in rows if row["epsilon"] == epsilon]
            lines.append(_medians(f"Greedy-Step, ε = {epsilon:g}", mine, (colour, dash)))
        delays = sorted({row["delay"] for row in rows})
        lines.append(Line("the paper's 20 episodes", delays, [20.0] * len(delays), style=(GREY, DASHED)))
    return Chart("Greedy-Step on Trace Back", "delay", "episodes to solve", lines, log_y=True)


def _noise(result: Result) -> Chart:
    rows = result["numbers"]["noise"]
    title = f"Choice with noise, after {rows[0]['episodes']:,} episodes" if rows else "Choice with noise"
    styles = {row["method"]: STYLES[row["method"]] for row in rows}
    lines = _lines(rows, METHODS, styles, "noise", "right")
    return Chart(title, "standard deviation of the noise per step", "share of trials that choose right", lines)


# -- operator or update order -----------------------------------------------------------------------------------------


@figures.style()
def _update_order(result: Result) -> Figure:
    figure, (left, right) = figures.panels(1, 2, width_ratios=[1.15, 1])
    figure.set_size_inches(12.5, 5.0)
    settings, numbers = result["settings"], result["numbers"]
    delay, size = settings["delays"]["trace-back"][-1], settings["sizes"][-1]
    slowest = [row for row in numbers["trace-back"] if row["delay"] == delay]
    labels = {name: f"{how.label}\n{how.target}; {how.order}" for name, how in METHODS.items()}
    _draw_medians(left, slowest, "solved", labels, fontsize=7.5)
    left.set(xlabel="episodes to solve", title=f"Trace Back, delay {delay}")
    if slowest:
        seen = next(row for row in slowest if row["method"] == "greedy-step")["seen"]["median"]
        left.axvline(seen, color=GREY, linewidth=1.2, linestyle=DASHED, zorder=1)
        where = {"xytext": (4, 0), "textcoords": "offset points"}
        left.annotate("best return first seen", (seen, len(slowest) - 0.4), **where, color=GREY, va="center")
    largest = [row for row in numbers["offline"] if row["size"] == size]
    labels = {name: how.label for name, how in OFFLINE_METHODS.items()}
    _draw_medians(right, largest, "passes", labels, fontsize=9)
    right.set(xlabel="passes over the log until quality 0.9", title=f"Grid World, size {size}, offline")
    if largest:
        right.set_xticks([1, 2, 4, 8, 16, 32, 64])
        right.set_xticks([], minor=True)
        right.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure


def _draw_medians(axis: Axes, rows: list[Row], what: str, labels: Mapping[str, str], fontsize: float) -> None:
    """Draw one median with its band per row, the smallest on top; an arrow at the limit where a median is unknown."""
    if not rows:
        figures.draw_missing(axis)
        return
    rows = sorted(rows, key=lambda row: _or_limit(row[what]["median"], row["limit"]), reverse=True)
    for place, row in enumerate(rows):
        found, limit, method = row[what], row["limit"], row["method"]
        colour = BLUE if method == "greedy-step" else YELLOW if method in COINCIDING else BLACK
        if found["median"] is None:
            axis.plot([limit], [place], marker=">", color=colour, markerfacecolor="white", markersize=8)
            axis.annotate("more", (limit, place), (8, 0), textcoords="offset points", va="center", fontsize=8)
        else:
            ends = found["low"], _or_limit(found["high"], limit)
            axis.hlines(place, *ends, color=colour, alpha=0.4, linewidth=4, linestyle=SOLID)
            axis.plot([found["median"]], [place], marker="o", color=colour)
    axis.set(xscale="log", ylim=(-0.7, len(rows)))
    axis.set_yticks(range(len(rows)), [labels[row["method"]] for row in rows], fontsize=fontsize)
    axis.grid(axis="y", visible=False)


def _or_limit(number: float | None, limit: int) -> float:
    return 1.5 * limit if number is None else number


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(result: Result) -> list[Table]:
    """Return the tables whose numbers are complete."""
    needed: list[tuple[Callable[[Result], Table], tuple[str, ...]]] = [
        (partial(_by_delay, "fig2", "trace-back"), ("trace-back",)),
        (partial(_by_delay, "choice", "choice"), ("choice",)),
        (_order_table, ("trace-back",)),
        (_exploration_table, ("exploration", "trace-back")),
        (_noise_table, ("noise",)),
        (_offline_table, ("offline",)),
    ]
    return [make(result) for make, parts in needed if all(result["numbers"][part] for part in parts)]


def _by_delay(name: str, task: str, result: Result) -> Table:
    numbers, settings = result["numbers"], result["settings"]
    delays, trials = settings["delays"][task], settings["trials"]
    rows: list[list[Any]] = [[SEEN, *(_spread(row["seen"]) for row in rows_of(numbers, task, "greedy-step"))]]
    for method, how in METHODS.items():
        rows.append([how.label, *(_episodes_cell(row) for row in rows_of(numbers, task, method))])
        theirs = [published(method, delay) for delay in delays] if task == "trace-back" else []
        if any(theirs):
            rows.append([f"{how.label}, published", *(number and f"{number:,}" for number in theirs)])
    fewer = ""
    if trials["slow"] < trials["fast"]:
        others = f", {trials['slow']} of slower methods" if task == "trace-back" else ""
        few = "RUDDER and Monte Carlo" if task == "trace-back" else "RUDDER"
        fewer = f" ({trials['medium']} of {few}{others})"
    title = (
        f"{TASK_TITLES[task]}: episodes to solve by delay, median (40 % to 60 % quantile) of {trials['fast']} trials"
    )
    return Table(name, f"{title}{fewer}, ε = {settings['epsilon']:g} for all", ["method", *map(str, delays)], rows)


def _order_table(result: Result) -> Table:
    delay = result["settings"]["delays"]["trace-back"][-1]
    found = {row["method"]: row for row in result["numbers"]["trace-back"] if row["delay"] == delay}
    rows = []
    for method, how in METHODS.items():
        row = found[method]
        solved, seen = row["solved"]["median"], row["seen"]["median"]
        times = None if solved is None or not seen else round(solved / seen, 2)
        about = [how.label, how.target, how.order, how.step]
        rows.append([*about, _episodes_cell(row), _spread(row["seen"]), times, by_exploration_alone(row)])
    rows.sort(key=lambda row: float("inf") if row[6] is None else row[6])
    title = f"Trace Back, delay {delay}: effect of operator, update order and exploration on the episodes to solve"
    header = ["method", "target", "update order", "step size"]
    return Table(
        "order", title, [*header, "solved", "best return first seen", "ratio", "explained by exploration"], rows
    )


def _exploration_table(result: Result) -> Table:
    rows = []
    for row in _by_epsilon(result["numbers"]):
        same = [a == b for a, b in zip(row["solved"]["trials"], row["seen"]["trials"], strict=True)]
        found = [_episodes_cell(row), _spread(row["seen"]), f"{sum(same)} of {len(same)}", by_exploration_alone(row)]
        rows.append([row["epsilon"], row["delay"], *found])
    header = ["ε", "delay", "solved", "best return first seen", "in the same episode", "explained by exploration"]
    return Table("exploration", "Greedy-Step on Trace Back by the share ε of random actions", header, rows)


def _noise_table(result: Result) -> Table:
    rows = result["numbers"]["noise"]
    levels = sorted({row["noise"] for row in rows})
    right = {(row["method"], row["noise"]): row["right"] for row in rows}
    return Table(
        "noise",
        f"Choice with noise on every irrelevant step, delay {rows[0]['delay']}: share of trials that choose right "
        f"after {rows[0]['episodes']} episodes",
        ["method", *(f"σ = {level:g}" for level in levels)],
        [
            [METHODS[method].label, *(right[method, level] for level in levels)]
            for method in dict.fromkeys(row["method"] for row in rows)
        ],
    )


def _offline_table(result: Result) -> Table:
    found = {(row["method"], row["size"]): row for row in result["numbers"]["offline"]}
    sizes = sorted({size for _, size in found})
    rows = []
    for name, how in OFFLINE_METHODS.items():
        mine = [found[name, size] for size in sizes]
        passes = [f"> {row['limit']}" if (n := row["passes"]["median"]) is None else f"{n:g}" for row in mine]
        rows.append([how.label, *(round(row["mean_quality"], 3) + 0.0 for row in mine), *passes])
    return Table(
        "grid",
        f"Grid World from {result['settings']['logged']} random episodes: quality of the policy after one pass (1 is "
        "optimal), and passes until quality 0.9",
        ["method", *(f"{what}, size {size}" for what in ("quality", "passes") for size in sizes)],
        rows,
    )


def _episodes_cell(row: Row) -> str:
    """Return median, band and the number of unsolved trials as text of a table cell."""
    lost = f", {row['censored']} of {len(row['solved']['trials'])} unsolved" if row["censored"] else ""
    return (f"> {row['limit']:,}" if row["solved"]["median"] is None else _spread(row["solved"])) + lost


def _spread(summary: dict[str, Any]) -> str:
    low, median, high = (summary[name] for name in ("low", "median", "high"))
    if median is None:
        return "unknown"
    text = f"{median:,.0f}" if median >= 100 else f"{median:g}"
    top = "?" if high is None else f"{high:,.0f}"
    return text if low == high else f"{text} ({low:,.0f} to {top})"

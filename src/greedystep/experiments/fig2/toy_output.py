"""The figures and tables of Figure 2, from the result alone."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.charts import COLOURS, DASHES, Chart, Line, Style
from greedystep.experiments.fig2.grid_world import OFFLINE_METHODS
from greedystep.experiments.fig2.toy_claims import by_exploration_alone, rows_of
from greedystep.experiments.fig2.toy_methods import METHODS, TASK_TITLES, published
from greedystep.tables import Table

BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK = COLOURS
GREY, DOTTED = "#777777", DASHES[2]

STYLES: dict[str, Style] = {
    "greedy-step": (BLUE, "-"),
    "backward": (ORANGE, DASHES[4]),
    "model": (BLACK, DOTTED),
    "monte-carlo": (SKY, DASHES[1]),
    "rudder": (GREEN, DASHES[3]),
    "watkins": (RED, "-"),
    "sarsa-lambda": (PINK, DASHES[4]),
}
"""Methods in the main figure. The second and third mostly coincide with the first, which shows through their dashes."""
COINCIDING = ("backward", "model")

OFFLINE_STYLES: dict[str, Style] = {
    **{name: STYLES[name] for name in ("greedy-step", *COINCIDING)},
    "episodic-backward": (PINK, DASHES[3]),
    "forward": (RED, "-"),
    "q-learning": (SKY, DASHES[1]),
}

CHARTS = (
    "Episodes to solve are medians over trials, with a band from the 40 % to the 60 % quantile where it is known; "
    "quality is a mean. There is no point where most trials did not solve the task within the limit."
)


def charts(result: dict[str, Any]) -> list[Chart]:
    """Return the paper's three panels; without lines where trials are missing."""
    return [*(_episodes(result, task) for task in ("choice", "trace-back")), _quality(result)]


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    limits = [_exploration(result), _noise(result)]
    return {
        "fig2": figures.draw_charts(charts(result), columns=3),
        "order": _update_order(result),
        "limits": figures.draw_charts(limits, columns=2),
    }


def _episodes(result: dict[str, Any], task: str) -> Chart:
    numbers = result["numbers"]
    lines = []
    for method, style in STYLES.items() if numbers[task] else ():
        rows = rows_of(numbers, task, method)
        delays, label = [row["delay"] for row in rows], METHODS[method].label
        lines.append(_medians(label, "delay", rows, style, has_band=method not in COINCIDING))
        theirs = [published(method, delay) for delay in delays] if task == "trace-back" else []
        if any(number is not None for number in theirs):
            lines.append(Line(f"{label}, published", delays, theirs, style=(style[0], DOTTED)))
    if lines:
        seen = rows_of(numbers, task, "greedy-step")
        medians = [row["seen"]["median"] for row in seen]
        label = "best return first seen (Greedy-Step)"
        lines.append(Line(label, [row["delay"] for row in seen], medians, style=(GREY, DOTTED)))
    title = f"{TASK_TITLES[task]}, ε = {result['settings']['epsilon']:g}"
    return Chart(title, "delay", "episodes to solve", lines, log_x=task == "choice", log_y=True)


def _medians(label: str, x: str, rows: list[dict[str, Any]], style: Style | None, has_band: bool = True) -> Line:
    """Return the medians of rows with their band, without it where its upper end is among unsolved trials."""
    solved = [row["solved"] for row in rows]
    band = [[one[end] if one["high"] is not None else None for one in solved] for end in ("low", "high") if has_band]
    return Line(label, [row[x] for row in rows], [one["median"] for one in solved], *band, style=style)


def _quality(result: dict[str, Any]) -> Chart:
    rows = result["numbers"]["offline"]
    lines = []
    for name, style in OFFLINE_STYLES.items() if rows else ():
        mine = [row for row in rows if row["method"] == name]
        sizes, quality = [row["size"] for row in mine], [row["mean_quality"] for row in mine]
        lines.append(Line(OFFLINE_METHODS[name].label, sizes, quality, style=style))
    title = f"Grid World, one pass over {result['settings']['logged']} random episodes"
    return Chart(title, "size", "quality (1: optimal)", lines)


# -- where it stops being true ----------------------------------------------------------------------------------------


def _exploration(result: dict[str, Any]) -> Chart:
    numbers = result["numbers"]
    lines = []
    if numbers["exploration"] and numbers["trace-back"]:
        rows = [*numbers["exploration"], *rows_of(numbers, "trace-back", "greedy-step")]
        rows.sort(key=lambda row: row["delay"])
        epsilons = sorted({row["epsilon"] for row in rows}, reverse=True)
        for epsilon, colour, dash in zip(epsilons, (GREEN, ORANGE, BLUE, RED), DASHES, strict=False):
            mine = [row for row in rows if row["epsilon"] == epsilon]
            lines.append(_medians(f"Greedy-Step, ε = {epsilon:g}", "delay", mine, (colour, dash)))
        delays = sorted({row["delay"] for row in rows})
        lines.append(Line("the paper's 20 episodes", delays, [20.0] * len(delays), style=(GREY, DASHES[1])))
    return Chart("Greedy-Step on Trace Back", "delay", "episodes to solve", lines, log_y=True)


def _noise(result: dict[str, Any]) -> Chart:
    rows = result["numbers"]["noise"]
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        levels, right = [row["noise"] for row in mine], [row["right"] for row in mine]
        lines.append(Line(METHODS[method].label, levels, right, style=STYLES[method]))
    title = f"Choice with noise, after {rows[0]['episodes']:,} episodes" if rows else "Choice with noise"
    return Chart(title, "standard deviation of the noise per step", "share of trials that choose right", lines)


# -- operator or update order -----------------------------------------------------------------------------------------


@figures.style()
def _update_order(result: dict[str, Any]) -> Figure:
    figure, axes = figures.panels(1, 2, width_ratios=[1.15, 1])
    figure.set_size_inches(12.5, 5.0)
    for axis, part, panel in zip(axes, ("trace-back", "offline"), (_all_methods, _all_offline), strict=True):
        if result["numbers"][part]:
            panel(axis, result)
            axis.grid(axis="y", visible=False)
        else:
            figures.draw_missing(axis)
    return figure


def _all_methods(axis: Axes, result: dict[str, Any]) -> None:
    delay = result["settings"]["delays"]["trace-back"][-1]
    rows = [row for row in result["numbers"]["trace-back"] if row["delay"] == delay]
    rows.sort(key=lambda row: _or_limit(row["solved"]["median"], row["limit"]), reverse=True)
    seen = next(row for row in rows if row["method"] == "greedy-step")["seen"]["median"]
    axis.axvline(seen, color=GREY, linewidth=1.2, linestyle=DASHES[1], zorder=1)
    axis.annotate(
        "best return first seen", (seen, len(rows) - 0.4), (4, 0), textcoords="offset points", color=GREY, va="center"
    )
    labels = []
    for place, row in enumerate(rows):
        how = METHODS[row["method"]]
        labels.append(f"{how.label}\n{how.target}; {how.order}")
        _dot(axis, place, row["solved"], row["limit"], row["method"])
    axis.set(xscale="log", xlabel="episodes to solve", title=f"Trace Back, delay {delay}", ylim=(-0.7, len(rows)))
    axis.set_yticks(range(len(rows)), labels, fontsize=7.5)


def _all_offline(axis: Axes, result: dict[str, Any]) -> None:
    size = result["settings"]["sizes"][-1]
    rows = [row for row in result["numbers"]["offline"] if row["size"] == size]
    rows.sort(key=lambda row: _or_limit(row["passes"]["median"], row["limit"]), reverse=True)
    for place, row in enumerate(rows):
        _dot(axis, place, row["passes"], row["limit"], row["method"])
    axis.set(xscale="log", xlabel="passes over the log until quality 0.9", title=f"Grid World, size {size}, offline")
    axis.set_xticks([1, 2, 4, 8, 16, 32, 64])
    axis.set_xticks([], minor=True)
    axis.set_ylim(-0.7, len(rows))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_yticks(range(len(rows)), [OFFLINE_METHODS[row["method"]].label for row in rows], fontsize=9)


def _dot(axis: Axes, place: int, found: dict[str, Any], limit: int, method: str) -> None:
    """Draw a median with its band; an arrow at the limit where the median is among unsolved trials."""
    colour = BLUE if method == "greedy-step" else ORANGE if method in COINCIDING else BLACK
    if found["median"] is None:
        axis.plot([limit], [place], marker=">", color=colour, markerfacecolor="white", markersize=8)
        axis.annotate("more", (limit, place), (8, 0), textcoords="offset points", va="center", fontsize=8)
        return
    axis.hlines(
        place, found["low"], _or_limit(found["high"], limit), color=colour, alpha=0.4, linewidth=4, linestyle="-"
    )
    axis.plot([found["median"]], [place], marker="o", color=colour)


def _or_limit(number: float | None, limit: int) -> float:
    """Return the number, or a value beyond the limit if it is unknown."""
    return 1.5 * limit if number is None else number


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(result: dict[str, Any]) -> list[Table]:
    """Return the tables whose numbers are complete."""
    numbers, settings = result["numbers"], result["settings"]
    made = []
    if numbers["trace-back"]:
        made.append(_by_delay("fig2", "trace-back", result))
    if numbers["choice"]:
        made.append(_by_delay("choice", "choice", result))
    if numbers["trace-back"]:
        made.append(_order_table(numbers, settings["delays"]["trace-back"][-1]))
    if numbers["exploration"] and numbers["trace-back"]:
        made.append(_exploration_table(numbers))
    if numbers["noise"]:
        made.append(_noise_table(numbers["noise"]))
    if numbers["offline"]:
        made.append(_offline_table(numbers["offline"], settings["logged"]))
    return made


def _by_delay(name: str, task: str, result: dict[str, Any]) -> Table:
    numbers, settings = result["numbers"], result["settings"]
    delays, trials = settings["delays"][task], settings["trials"]
    rows: list[list[Any]] = [
        [
            "best return first seen (Greedy-Step)",
            *(_spread(row["seen"]) for row in rows_of(numbers, task, "greedy-step")),
        ]
    ]
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
    return Table(
        name,
        f"{TASK_TITLES[task]}: episodes to solve by delay, median (40 % to 60 % quantile) of {trials['fast']} trials"
        f"{fewer}, ε = {settings['epsilon']:g} for all",
        ["method", *map(str, delays)],
        rows,
    )


def _order_table(numbers: dict[str, Any], delay: int) -> Table:
    rows = []
    for method, how in METHODS.items():
        row = next(row for row in rows_of(numbers, "trace-back", method) if row["delay"] == delay)
        solved, seen = row["solved"]["median"], row["seen"]["median"]
        times = None if solved is None or not seen else round(solved / seen, 2)
        about = [how.label, how.target, how.order, how.step]
        rows.append([*about, _episodes_cell(row), _spread(row["seen"]), times, by_exploration_alone(row)])
    rows.sort(key=lambda row: float("inf") if row[6] is None else row[6])
    return Table(
        "order",
        f"Trace Back, delay {delay}: effect of operator, update order and exploration on the episodes to solve",
        [
            *("method", "target", "update order", "step size"),
            *("solved", "best return first seen", "ratio", "explained by exploration"),
        ],
        rows,
    )


def _exploration_table(numbers: dict[str, Any]) -> Table:
    ours = rows_of(numbers, "trace-back", "greedy-step")
    rows = sorted([*numbers["exploration"], *ours], key=lambda row: (-row["epsilon"], row["delay"]))
    return Table(
        "exploration",
        "Greedy-Step on Trace Back by the share ε of random actions",
        ["ε", "delay", "solved", "best return first seen", "in the same episode", "explained by exploration"],
        [
            [
                row["epsilon"],
                row["delay"],
                _episodes_cell(row),
                _spread(row["seen"]),
                _same(row),
                by_exploration_alone(row),
            ]
            for row in rows
        ],
    )


def _same(row: dict[str, Any]) -> str:
    pairs = list(zip(row["solved"]["trials"], row["seen"]["trials"], strict=True))
    return f"{sum(a == b for a, b in pairs)} of {len(pairs)}"


def _noise_table(rows: list[dict[str, Any]]) -> Table:
    levels = sorted({row["noise"] for row in rows})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    right = {(row["method"], row["noise"]): row["right"] for row in rows}
    return Table(
        "noise",
        f"Choice with noise on every irrelevant step, delay {rows[0]['delay']}: share of trials that choose right "
        f"after {rows[0]['episodes']} episodes",
        ["method", *(f"σ = {level:g}" for level in levels)],
        [[METHODS[method].label, *(right[method, level] for level in levels)] for method in methods],
    )


def _offline_table(rows: list[dict[str, Any]], logged: int) -> Table:
    sizes = sorted({row["size"] for row in rows})
    found = {(row["method"], row["size"]): row for row in rows}
    return Table(
        "grid",
        f"Grid World from {logged} random episodes: quality of the policy after one pass (1 is optimal), and passes "
        "until quality 0.9",
        ["method", *(f"quality, size {size}" for size in sizes), *(f"passes, size {size}" for size in sizes)],
        [
            [
                how.label,
                *(round(found[name, size]["mean_quality"], 3) + 0.0 for size in sizes),
                *(_passes_cell(found[name, size]) for size in sizes),
            ]
            for name, how in OFFLINE_METHODS.items()
        ],
    )


def _passes_cell(row: dict[str, Any]) -> str:
    median = row["passes"]["median"]
    return f"> {row['limit']}" if median is None else f"{median:g}"


def _episodes_cell(row: dict[str, Any]) -> str:
    """Format median, band, and the number of unsolved trials."""
    count = len(row["solved"]["trials"])
    lost = f", {row['censored']} of {count} unsolved" if row["censored"] else ""
    if row["solved"]["median"] is None:
        return f"> {row['limit']:,}{lost}"
    return _spread(row["solved"]) + lost


def _spread(summary: dict[str, Any]) -> str:
    if summary["median"] is None:
        return "unknown"
    low, median, high = (summary[name] for name in ("low", "median", "high"))
    text = f"{median:,.0f}" if median >= 100 else f"{median:g}"
    top = "?" if high is None else f"{high:,.0f}"
    return text if low == high else f"{text} ({low:,.0f} to {top})"

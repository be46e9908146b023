"""The figures of Figure 2, from the result alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from greedystep import figures
from greedystep.experiments.deep.plots import draw_missing
from greedystep.experiments.fig2.contestants import CONTESTANTS, NAMES, published
from greedystep.experiments.fig2.offline import PUPILS
from greedystep.experiments.fig2.tabulate import tables
from greedystep.experiments.fig2.verdicts import rows_of

__all__ = ["draw", "tables"]

BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK = figures.COLOURS
GREY = "#777777"

CURVES = {
    "greedy-step": (BLUE, "-", "o"),
    "backward": (ORANGE, "none", "+"),
    "model": (BLACK, "none", "x"),
    "monte-carlo": (SKY, figures.DASHES[1], "v"),
    "rudder": (GREEN, figures.DASHES[3], "s"),
    "watkins": (RED, "-", "D"),
    "sarsa-lambda": (PINK, figures.DASHES[4], "^"),
}
"""Colour, dash and marker of the methods in the main figure. Two of them coincide with Greedy-Step: markers alone."""

COINCIDING = {"backward": (ORANGE, figures.DASHES[4], "P"), "model": (BLACK, figures.DASHES[2], "x")}
"""The same two where they do not."""

PUPIL_CURVES = {
    "greedy-step": (BLUE, "-", "o"),
    **COINCIDING,
    "episodic-backward": (PINK, figures.DASHES[3], "^"),
    "forward": (RED, "-", "D"),
    "q-learning": (SKY, figures.DASHES[1], "v"),
}


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    return {"fig2": _main(result), "order": _order(result), "limits": _limits(result)}


# -- the paper's figure -----------------------------------------------------------------------------------------------


@figures.style()
def _main(result: dict[str, Any]) -> Figure:
    figure, axes = figures.panels(1, 3)
    figure.set_size_inches(13.5, 4.9)
    for axis, task in zip(axes, ("choice", "trace-back"), strict=False):
        _draw_if(result["numbers"][task], _episodes, axis, result, task)
    axes[0].set_ylabel("episodes to solve")
    _draw_if(result["numbers"]["offline"], _qualities, axes[2], result)
    methods = max((axis.get_legend_handles_labels()[0] for axis in axes[:2]), key=len)
    pupils, _ = axes[2].get_legend_handles_labels()
    hollow = Line2D([], [], linestyle="none", marker="o", markerfacecolor="white", color=GREY, label="published")
    figure.legend(handles=[*methods, hollow], loc="outside lower left", ncols=3, fontsize="small")
    figure.legend(handles=pupils, loc="outside lower right", ncols=2, fontsize="small", title="Grid World")
    return figure


def _draw_if(rows: list[Any], panel: Callable[..., None], axis: Any, result: dict[str, Any], *more: Any) -> None:
    """The panel, or that its rows are missing."""
    if rows:
        panel(axis, result, *more)
    else:
        draw_missing(axis, "not run")


def _episodes(axis: Any, result: dict[str, Any], task: str) -> None:
    numbers, limit = result["numbers"], result["settings"]["limit"]
    for place, (method, (colour, dash, marker)) in enumerate(CURVES.items()):
        rows = rows_of(numbers, task, method)
        known = [row for row in rows if row["solved"]["median"] is not None]
        delays = [row["delay"] for row in known]
        style = {"color": colour, "linestyle": dash, "marker": marker, "zorder": 3 if dash == "none" else 2}
        axis.plot(delays, [row["solved"]["median"] for row in known], label=CONTESTANTS[method].label, **style)
        if dash != "none":
            low = [row["solved"]["low"] for row in known]
            high = [_or_limit(row["solved"]["high"], limit) for row in known]
            if task == "choice":  # wide bands, which would hide each other
                beside = [delay * (1 + 0.012 * (place - 2)) for delay in delays]
                axis.vlines(beside, low, high, color=colour, alpha=0.55, linewidth=2.2, linestyle="-")
            else:
                axis.fill_between(delays, low, high, color=colour, alpha=0.15, linewidth=0)
        theirs = [(row["delay"], published(method, row["delay"])) for row in rows if task == "trace-back"]
        theirs = [(delay, number) for delay, number in theirs if number is not None]
        if theirs:
            hollow = {"color": colour, "marker": marker, "markerfacecolor": "white", "markersize": 7}
            axis.plot(*zip(*theirs, strict=True), linestyle="none", zorder=1, **hollow)
    seen = rows_of(numbers, task, "greedy-step")
    bound = [row["seen"]["median"] for row in seen]
    below = "until the best return was seen"
    axis.fill_between([row["delay"] for row in seen], 0.7, bound, color=GREY, alpha=0.13, linewidth=0, label=below)
    axis.set(title=f"{NAMES[task]}, ε = {result['settings']['epsilon']:g}", xlabel="delay", yscale="log")
    axis.set_ylim(bottom=0.7)
    if task == "choice":
        axis.set_xscale("log")
    ticks = [row["delay"] for row in seen]
    axis.set_xticks(ticks[::2] if len(ticks) > 6 else ticks, minor=False)
    axis.set_xticks([], minor=True)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _qualities(axis: Any, result: dict[str, Any]) -> None:
    for name, (colour, dash, marker) in PUPIL_CURVES.items():
        rows = [row for row in result["numbers"]["offline"] if row["method"] == name]
        sizes, qualities = [row["size"] for row in rows], [row["mean_quality"] for row in rows]
        axis.plot(sizes, qualities, color=colour, linestyle=dash, marker=marker, label=PUPILS[name].label)
    logged = result["settings"]["logged"]
    axis.set(title=f"Grid World, one pass over {logged} random episodes", xlabel="size", ylabel="quality (1: optimal)")
    axis.set_xticks(sorted({row["size"] for row in result["numbers"]["offline"]}))


# -- operator or order ------------------------------------------------------------------------------------------------


@figures.style()
def _order(result: dict[str, Any]) -> Figure:
    numbers = result["numbers"]
    figure, axes = figures.panels(1, 2, width_ratios=[1.15, 1])
    figure.set_size_inches(12.5, 5.0)
    _draw_if(numbers["trace-back"], _all_methods, axes[0], result)
    _draw_if(numbers["offline"], _all_pupils, axes[1], result)
    for axis in axes:
        axis.grid(axis="y", visible=False)
    return figure


def _all_methods(axis: Any, result: dict[str, Any]) -> None:
    delay = result["settings"]["delays"]["trace-back"][-1]
    rows = [row for row in result["numbers"]["trace-back"] if row["delay"] == delay]
    rows.sort(key=lambda row: _or_limit(row["solved"]["median"], row["limit"]), reverse=True)
    seen = next(row for row in rows if row["method"] == "greedy-step")["seen"]["median"]
    axis.axvline(seen, color=GREY, linewidth=1.2, linestyle=figures.DASHES[1], zorder=1)
    axis.annotate(
        "best return first seen", (seen, len(rows) - 0.4), (4, 0), textcoords="offset points", color=GREY, va="center"
    )
    labels = []
    for place, row in enumerate(rows):
        contestant = CONTESTANTS[row["method"]]
        labels.append(f"{contestant.label}\n{contestant.target}; {contestant.order}")
        _dot(axis, place, row["solved"], row["limit"], row["method"])
    axis.set(xscale="log", xlabel="episodes to solve", title=f"Trace Back, delay {delay}", ylim=(-0.7, len(rows)))
    axis.set_yticks(range(len(rows)), labels, fontsize=7.5)


def _all_pupils(axis: Any, result: dict[str, Any]) -> None:
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
    axis.set_yticks(range(len(rows)), [PUPILS[row["method"]].label for row in rows], fontsize=9)


def _dot(axis: Any, place: int, found: dict[str, Any], limit: int, method: str) -> None:
    """The median with its band; an arrow from the limit on where the median was given up."""
    colour = BLUE if method == "greedy-step" else ORANGE if method in ("backward", "model") else BLACK
    if found["median"] is None:
        axis.plot([limit], [place], marker=">", color=colour, markerfacecolor="white", markersize=8)
        axis.annotate("more", (limit, place), (8, 0), textcoords="offset points", va="center", fontsize=8)
        return
    axis.hlines(
        place, found["low"], _or_limit(found["high"], limit), color=colour, alpha=0.4, linewidth=4, linestyle="-"
    )
    axis.plot([found["median"]], [place], marker="o", color=colour)


def _or_limit(number: float | None, limit: int) -> float:
    """Beyond the limit where a number is not known."""
    return 1.5 * limit if number is None else number


# -- where it stops being true ----------------------------------------------------------------------------------------


@figures.style()
def _limits(result: dict[str, Any]) -> Figure:
    figure, axes = figures.panels(1, 2)
    figure.set_size_inches(11.5, 4.0)
    numbers = result["numbers"]
    _draw_if(numbers["exploration"] and numbers["trace-back"], _exploration, axes[0], result)
    _draw_if(numbers["noise"], _noise, axes[1], result)
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    return figure


def _exploration(axis: Any, result: dict[str, Any]) -> None:
    numbers = result["numbers"]
    rows = [*numbers["exploration"], *rows_of(numbers, "trace-back", "greedy-step")]
    epsilons = sorted({row["epsilon"] for row in rows}, reverse=True)
    for epsilon, colour, dash in zip(epsilons, (GREEN, ORANGE, BLUE, RED), figures.DASHES, strict=False):
        mine = sorted((row for row in rows if row["epsilon"] == epsilon), key=lambda row: row["delay"])
        delays = [row["delay"] for row in mine]
        axis.plot(delays, [row["solved"]["median"] for row in mine], color=colour, linestyle=dash, marker="o")
        axis.fill_between(
            delays,
            [row["solved"]["low"] for row in mine],
            [row["solved"]["high"] for row in mine],
            color=colour,
            alpha=0.15,
            linewidth=0,
        )
        axis.annotate(
            f"ε = {epsilon:g}",
            (delays[-1], mine[-1]["solved"]["median"]),
            (8, 0),
            textcoords="offset points",
            color=colour,
            va="center",
        )
    axis.axhline(20, color=GREY, linewidth=1.2, linestyle=figures.DASHES[1], zorder=1)
    axis.set(
        title="Greedy-Step on Trace Back (dashed: the paper's 20)",
        xlabel="delay",
        ylabel="episodes to solve",
        yscale="log",
    )
    axis.margins(x=0.15)
    axis.set_yticks([5, 10, 20, 50, 100, 200])
    axis.set_yticks([], minor=True)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _noise(axis: Any, result: dict[str, Any]) -> None:
    numbers = result["numbers"]
    for method in dict.fromkeys(row["method"] for row in numbers["noise"]):
        colour, dash, marker = (CURVES | COINCIDING)[method]
        mine = [row for row in numbers["noise"] if row["method"] == method]
        noise, right = [row["noise"] for row in mine], [row["right"] for row in mine]
        style = {"color": colour, "linestyle": dash, "marker": marker, "label": CONTESTANTS[method].label}
        axis.plot(noise, right, **style)
    episodes = numbers["noise"][0]["episodes"]
    axis.set(
        title=f"Choice with noise, after {episodes:,} episodes",
        xlabel="standard deviation of the noise on every step",
        ylabel="share of trials that choose right",
    )

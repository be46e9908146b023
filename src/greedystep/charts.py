"""Line and bar charts as plain data, drawn by matplotlib (`figures.draw_charts`) and by the HTML page's script."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which can be told apart with every kind of colour vision; strongest on white first."""

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = COLOURS
GREY = "#777777"

DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (7, 2)), (0, (2, 1)), "-")
"""Matplotlib line styles that go with COLOURS, so that a grey print can be read too."""
SOLID, DASHED, DOTTED = DASHES[:3]

Style = tuple[str, Any]
"""Colour and matplotlib line style."""

TITLE_WIDTH = 40
"""Characters after which a chart's title is wrapped."""


@dataclass(frozen=True)
class Line:
    """One line of a chart; x, y, low and high have one length, and None or NaN marks a missing value."""

    label: str
    """Lines with the same label share a legend entry and a style."""
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    """Upper ends of the intervals around y (`low` has the lower ones); empty for none."""
    style: Style | None = None
    """None: the next colour of COLOURS."""
    shown: bool = True
    """Whether the page shows the line before a reader selects it."""


@dataclass(frozen=True)
class Bars:
    """One series of a bar chart: a label and one height per bin."""

    label: str
    colour: str
    heights: Sequence[float]


@dataclass(frozen=True)
class Chart:
    """One pair of axes with lines, or with bars over named bins."""

    title: str
    x: str
    """Label of the horizontal axis."""
    y: str
    """Label of the vertical axis. Charts with the same label form one group."""
    lines: Sequence[Line] = ()
    log_x: bool = False
    log_y: bool = False
    shown: bool = True
    """Whether the HTML page shows the chart's group before a reader selects it."""
    bins: Sequence[str] = ()
    bars: Sequence[Bars] = ()
    """Series of bars; each has one height per bin."""
    bands: bool = True
    """Whether figures draw intervals as bands; otherwise only the last interval, beside the line's end."""
    if_empty: str = "not run"
    """Text in a figure's panel if the chart is empty."""
    run: str = ""
    """Which run the page's panel shows: length, seeds, preset."""


def line_styles(charts: Iterable[Chart]) -> dict[str, Style]:
    """Return {label: style}: the line's own style, or the next of the palette in order of first occurrence."""
    styles: dict[str, Style | None] = {}
    for line in (line for chart in charts for line in chart.lines):
        styles[line.label] = styles.get(line.label) or line.style
    free = list(zip(COLOURS, DASHES, strict=True))
    return {label: style or free[place % len(free)] for place, (label, style) in enumerate(styles.items())}


# -- learning curves --------------------------------------------------------------------------------------------------

QUANTITIES = {
    "returns": "return of the last 100 episodes",
    "q": "mean Q",
    "overestimation": "Q minus behaviour return",
    "greedy_returns": "return of greedy play",
    "greedy_overestimation": "Q minus return of greedy play",
    "n": "mean chosen n",
}
"""Axis label of each quantity that trainings record."""
NOT_TRAINED = "not trained"
NOT_RECORDED = "not recorded"
"""Text in a panel for a quantity that what was trained does not have: a table has no mean Q."""


def learning_charts(
    numbers: Mapping[str, Any], styles: Mapping[str, Style], quantities: Collection[str], methods: Collection[str] = ()
) -> list[Chart]:
    """Return one chart per quantity and shown task, with the mean over seeds of every method and its 95 % interval.

    Args:
        numbers: "tasks" by name, each with its title, full length and methods (label, steps, seeds, curves); "bins"
            where methods have a histogram of the chosen n in their first and last steps.
        styles: by method.
        quantities: those that the page shows first.
        methods: those that the page shows first; none: all.
    """
    tasks = shown_tasks(numbers)
    entries = [entry for task in tasks for entry in task["methods"].values()]
    first = {name for task in tasks for name in task["methods"]} & set(methods)

    def chart(task: Mapping[str, Any], quantity: str) -> Chart:
        lines = []
        for name, entry in task["methods"].items():
            curve, shown = entry["curves"].get(quantity), not first or name in first
            if curve:
                band = (curve["low"], curve["high"]) if len(entry["seeds"]) > 1 else ((), ())
                lines.append(Line(entry["label"], entry["steps"], curve["estimate"], *band, styles.get(name), shown))
        about = {"shown": quantity in quantities, "if_empty": _if_empty(task), "run": which_run(task)}
        return Chart(task_title(task), "environment steps", QUANTITIES[quantity], lines, **about)

    recorded = [name for name in QUANTITIES if any(entry["curves"].get(name) for entry in entries)] or list(quantities)
    charts = [chart(task, quantity) for quantity in recorded for task in tasks]
    return charts + [step_histogram(task, numbers["bins"]) for task in tasks if "bins" in numbers]


def shown_tasks(numbers: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tasks of a result that have panels: those with trainings, or all if none has any."""
    tasks = list(numbers["tasks"].values())
    return [task for task in tasks if task["methods"]] or tasks


def _if_empty(task: Mapping[str, Any]) -> str:
    return NOT_RECORDED if task["methods"] else NOT_TRAINED


def step_histogram(task: Mapping[str, Any], bins: Sequence[str]) -> Chart:
    """Return the share of samples by chosen n, in the first and in the last steps of the task's first method."""
    entry = next((one for one in task["methods"].values() if any(one.get("first", ()))), None)
    title, y = task_title(task), "share of samples by chosen n"
    if entry is None:
        return Chart(title, "chosen n", y, if_empty=_if_empty(task))
    phases = {"first": COLOURS[2], "last": COLOURS[1]}
    used = max(i for phase in phases for i, share in enumerate(entry[phase]) if share > 0) + 1
    bars = [
        Bars(f"{phase} {entry['phase']:,} steps", colour, entry[phase][:used])
        for phase, colour in phases.items()
        if any(entry[phase])
    ]
    return Chart(title, "chosen n", y, bins=bins[:used], bars=bars, run=which_run(task))


def task_title(task: Mapping[str, Any]) -> str:
    """Return the task's title, wrapped; if trainings were shorter than planned, with the share that was trained."""
    trained, full = float(f"{trained_steps(task):.2g}"), task["full_steps"]  # two digits: curves may end a little early
    part = "" if trained_steps(task) >= full else f" ({short_count(trained)} of {short_count(full)} steps)"
    return textwrap.fill(f"{task['title']}{part}", TITLE_WIDTH)


def which_run(task: Mapping[str, Any]) -> str:
    """Return the length, seeds and preset of a task's trainings, as in "5M steps, 5 to 10 seeds, preset fast"."""
    entries = task["methods"].values()
    if not entries:
        return ""
    steps, seeds = ([f(one) for one in entries] for f in (lambda one: one["steps"][-1], lambda one: len(one["seeds"])))
    length = " to ".join(dict.fromkeys(short_count(float(f"{end:.2g}")) for end in (min(steps), max(steps))))
    number = " to ".join(dict.fromkeys(str(end) for end in (min(seeds), max(seeds))))
    presets = ", ".join(dict.fromkeys(str(one["preset"]) for one in entries if one.get("preset")))
    return ", ".join([f"{length} steps", f"{number} seeds", *([f"preset {presets}"] if presets else [])])


def trained_steps(task: Mapping[str, Any]) -> int:
    """Return the steps of the longest training of a task; its full length if there is none."""
    return max((entry["steps"][-1] for entry in task["methods"].values()), default=task["full_steps"])


def short_count(value: float) -> str:
    """Format a count with k or M: 5M, 50k, 600."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if abs(value) >= 1e3 else f"{value:g}"

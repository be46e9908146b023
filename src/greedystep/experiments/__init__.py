"""The paper's tables and figures, one module each, imported on demand.

An experiment is a module with

    NAME      its name after `greedystep reproduce`
    TITLE     one line
    run       (scale, progress) -> result; it calls `progress(share, what)` with the share done, 0 to 1
    draw      result -> matplotlib figures by name, from the result's JSON alone
    tables    result -> tables, likewise

It may have

    charts    result -> `Chart`s that the page draws in place of the figure with the experiment's name
    CHARTS    a sentence on what their lines and bands are

If it trains networks, its charts are the learning curves in the result, with these optional settings

    STYLES    method -> colour and line style
    SHOWN_QUANTITIES, SHOWN_METHODS   what the page shows before a reader selects more
    LEARNING_CURVES   the names of the figures that show the same curves, if not the experiment's name alone

If it takes long, it has

    IN_PARTS  true; `run` then takes two more arguments: `parts`, the `PartStore` (or its folder) that keeps finished
              trainings or trials (None: nowhere), and `only`, the names of the tasks to run (none: all; NOTHING:
              judge what is there)
    TASKS     these names, if they are not those of `deep.suite`

A result is a dictionary in JSON's types: "title", "settings", "numbers" and "claims", a list of `asdict(Claim)`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast, get_args

from greedystep.charts import Chart, learning_charts
from greedystep.runs.progress import ReportProgress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from greedystep.tables import Table

Name = Literal[
    "table1",
    "fig1",
    "fig2",
    "fig3",
    "fig4",
    "fig5",
    "horizon",
    "luck",
    "presets",
    "protocol",
    "evaluation",
    "released",
    "settings",
    "auto",
    "offline",
]
NAMES: tuple[Name, ...] = get_args(Name)
"""All experiments: the paper's in its order, then horizon N, sticky actions (luck), presets, the paper's
protocol in full, evaluation along the training, the authors' released code, fixed settings, auto, logs."""

HEADINGS = {"luck": "Sticky actions", "released": "The released code"}
"""Experiment -> its heading, where that is not its name."""
MODULES = {
    "luck": "sticky_actions",
    "protocol": "paper_protocol",
    "evaluation": "greedy_curves",
    "released": "released_code",
}
"""Experiment -> its module, where that has another name."""

Scale = Literal["quick", "paper"]
"""quick: minutes on two cores. paper: the sizes of the paper."""

NOTHING = ("nothing",)
"""Value of `only` that names no task: nothing is run, and what is there is judged."""


class Experiment(Protocol):
    """The interface of an experiment's module."""

    NAME: str
    TITLE: str

    def run(self, scale: str, progress: ReportProgress, **more: Any) -> dict[str, Any]: ...

    def draw(self, result: dict[str, Any]) -> dict[str, Figure]: ...

    def tables(self, result: dict[str, Any]) -> list[Table]: ...


class PageCharts(NamedTuple):
    """Charts of a result that the page draws itself."""

    charts: list[Chart]
    caption: str
    replaced: Collection[str]
    """Names of the figures that the charts replace."""


def load(name: str) -> Experiment:
    """Import and return the module of the experiment of that name."""
    if name not in NAMES:
        raise ValueError(f"experiment: {name!r} is not known; there are {', '.join(NAMES)}")
    return cast(Experiment, import_module(f"greedystep.experiments.{MODULES.get(name, name)}"))


def heading(name: str) -> str:
    """Return an experiment's name as the paper writes it ("Figure 3" for fig3), or its own heading."""
    if name in HEADINGS:
        return HEADINGS[name]
    known = re.fullmatch(r"(table|fig)(\d+)", name)
    return f"{'Table' if known[1] == 'table' else 'Figure'} {known[2]}" if known else name.capitalize()


def is_in_parts(experiment: Experiment) -> bool:
    """Return whether the experiment's `run` takes `parts` and `only`."""
    return getattr(experiment, "IN_PARTS", False)


def tasks_of(experiment: Experiment, scale: str) -> tuple[str, ...]:
    """Return the task names that `only` may hold: those of the protocols of this scale, if the experiment has such."""
    from greedystep.experiments.deep.suite import FIGURE_3

    planned = getattr(experiment, "SCALES", {}).get(scale, ())
    own = dict.fromkeys(one.task for one in planned if hasattr(one, "task"))
    return tuple(own) or tuple(getattr(experiment, "TASKS", FIGURE_3))


def page_charts(experiment: Experiment, result: dict[str, Any]) -> PageCharts | None:
    """Return the charts of a result; None if there is nothing to draw."""
    if (make := getattr(experiment, "charts", None)) is not None:
        charts = make(result)
        is_empty = not any(chart.lines for chart in charts)
        return None if is_empty else PageCharts(charts, getattr(experiment, "CHARTS", ""), (result["name"],))
    tasks = result["numbers"].get("tasks")
    if not (isinstance(tasks, dict) and any(task["methods"] for task in tasks.values())):
        return None
    found = learning_charts(
        result["numbers"],
        getattr(experiment, "STYLES", {}),
        getattr(experiment, "SHOWN_QUANTITIES", ("returns", "q", "overestimation")),
        getattr(experiment, "SHOWN_METHODS", ()),
    )
    replaced = getattr(experiment, "LEARNING_CURVES", (result["name"],))
    return PageCharts(found, "Lines are means over seeds, bands their 95 % bootstrap intervals.", replaced)

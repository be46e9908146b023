"""Panels of learning curves and tables of final numbers, from a result's JSON alone."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.stats import probability_of_improvement
from greedystep.tables import Table

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = figures.COLOURS
SOLID, DASHED, DOTTED = figures.DASHES[:3]
GREY = "#777777"

Styles = Mapping[str, tuple[str, Any]]
"""By name: colour and dashes."""

AXES = {
    "returns": "return of the last 100 episodes",
    "q": "mean Q",
    "overestimation": "Q minus the return that followed",
    "n": "mean chosen n",
}
TITLE_WIDTH = 40
"""Letters."""


def grid(tasks: Sequence[str], rows: Sequence[str], columns: int | None = None) -> tuple[Figure, Any]:
    """Axes [rows of quantities, tasks]; or with `columns`, one quantity and the tasks wrapped."""
    wide = min(columns or len(tasks), len(tasks))
    high = -(-len(tasks) // wide) if columns else len(rows)
    figure, axes = figures.panels(high, wide, squeeze=False)
    figure.set_size_inches(1.2 + 3.6 * max(wide, 2), 1.0 + 2.7 * high)
    return figure, axes


def draw_curves(
    axis: Axes, entries: Mapping[str, Mapping[str, Any]], styles: Styles, column: str, shaded: bool = True
) -> None:
    """A line for each entry that has such a curve; its interval as a shade, or as a bar beside its end."""
    end = max(entry["steps"][-1] for entry in entries.values())
    for place, (name, entry) in enumerate(entries.items()):
        curve = entry["curves"][column]
        if curve is None:
            continue
        colour, dash = styles[name]
        mean, low, high = (_numbers(curve[part]) for part in ("estimate", "low", "high"))
        axis.plot(entry["steps"], mean, color=colour, linestyle=dash, label=entry["label"])
        if len(entry["seeds"]) < 2:
            continue
        if shaded:
            axis.fill_between(entry["steps"], low, high, color=colour, alpha=0.15, linewidth=0)
        else:
            at = end * (1.02 + 0.015 * place)
            axis.plot([at, at], [low[-1], high[-1]], color=colour, linestyle="-", linewidth=2)
    axis.set(ylabel=AXES[column], xlabel="environment steps")
    axis.xaxis.set_major_formatter(lambda value, _: _thousands(value))


@figures.style()
def draw_tasks(
    tasks: Mapping[str, Mapping[str, Any]], styles: Styles, columns: Sequence[str], shaded: bool = True
) -> Figure:
    """A column of panels for each task, one a quantity."""
    figure, axes = grid(list(tasks), columns)
    for panels, task in zip(axes.T, tasks.values(), strict=True):
        for axis, column in zip(panels, columns, strict=True):
            if task["methods"]:
                draw_curves(axis, task["methods"], styles, column, shaded)
            else:
                draw_missing(axis)
        panels[0].set_title(title(task) if task["methods"] else task["title"])
    legend(figure, axes)
    return figure


def draw_missing(axis: Axes, why: str = "not trained") -> None:
    """A panel without data says so."""
    axis.text(0.5, 0.5, why, ha="center", va="center", color=GREY, transform=axis.transAxes)
    axis.set(xticks=[], yticks=[])


def legend(figure: Figure, axes: Any) -> None:
    """One for all panels, below them."""
    found = {}
    for axis in np.ravel(axes):
        handles, labels = axis.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    if found:
        columns = int(figure.get_figwidth() / (0.8 + 0.09 * max(map(len, found))))  # as many as fit, in inches
        figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=max(1, min(5, columns)))


def title(task: Mapping[str, Any]) -> str:
    """The task, and how much of its full length was trained, in lines no wider than a panel."""
    part = "" if _trained(task) >= task["full_steps"] else f" (of {_thousands(task['full_steps'])} steps)"
    return textwrap.fill(f"{task['title']}{part}", TITLE_WIDTH)


def _trained(task: Mapping[str, Any]) -> int:
    """Steps of the longest training."""
    return max(entry["steps"][-1] for entry in task["methods"].values())


def _thousands(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if abs(value) >= 1e3 else f"{value:g}"


def _numbers(values: Sequence[Any]) -> np.ndarray:
    """NaN is text in a file that was read without `record.read_json`."""
    return np.array([float(value) for value in values])


# -- tables -----------------------------------------------------------------------------------------------------------


def final_table(name: str, heading: str, tasks: Mapping[str, Mapping[str, Any]]) -> Table:
    """One row for each task and method."""
    header = ["task", "method", "setting", "preset", "steps", "seeds", "mean return", "from", "to", "IQM"]
    header += ["greedy play", "mean Q", "over-estimation", "mean n", "steps/s"]
    rows = []
    for task in tasks.values():
        for entry in task["methods"].values():
            final = entry["final"]
            played = final["greedy_play"]
            rows.append(
                [task["title"], entry["label"], setting_words(entry["setting"]), entry["preset"], entry["steps"][-1]]
                + [len(entry["seeds"]), *(_known(final["mean"][part]) for part in ("estimate", "low", "high"))]
                + [_known(final["iqm"]["estimate"]), None if played is None else _known(np.mean(_numbers(played)))]
                + [_known(final[part]["estimate"]) for part in ("q", "overestimation", "n")]
                + [_known(entry["steps_per_second"])]
            )
    return Table(name, heading, header, rows)


def improvement_table(name: str, tasks: Mapping[str, Mapping[str, Any]], ours: str) -> Table:
    """How probably a seed of one method ends higher than a seed of another, after as many steps as both have; over the
    tasks trained in full, if there are any."""
    tasks = {name: task for name, task in tasks.items() if ours in task["methods"]}
    tasks = {name: task for name, task in tasks.items() if _trained(task) >= task["full_steps"]} or tasks
    rows = []
    for rival in dict.fromkeys(rival for task in tasks.values() for rival in task["methods"] if rival != ours):
        entries = [
            (task["methods"][ours], task["methods"][rival]) for task in tasks.values() if rival in task["methods"]
        ]
        pairs = [pair for mine, other in entries if (pair := _after_as_many_steps(mine, other))]
        if pairs:
            mine, others = ({str(i): side for i, side in enumerate(sides)} for sides in zip(*pairs, strict=True))
            found = probability_of_improvement(mine, others)
            rows.append([entries[0][1]["label"], len(pairs), *map(_known, found)])
    heading = (
        "How probably a seed of Greedy-Step DQN is ahead after as many steps, on a task drawn at random, with its 95 % "
        "interval"
    )
    return Table(name, heading, ["of one of", "tasks", "probability", "from", "to"], rows)


def _after_as_many_steps(mine: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns of both by seed, where the longer training tells them for the length of the shorter one."""
    steps = min(mine["steps"][-1], other["steps"][-1])
    levels = [one["final"]["levels"] | {str(one["steps"][-1]): one["final"]["returns"]} for one in (mine, other)]
    if not all(str(steps) in known for known in levels):
        return None
    return _numbers(levels[0][str(steps)]), _numbers(levels[1][str(steps)])


def time_table(name: str, tasks: Mapping[str, Mapping[str, Any]]) -> Table:
    """What the trainings of each task took of a machine. Trainings that shared it count with their share."""
    rows = []
    for task in tasks.values():
        machines = [entry["machines"] for entry in task["methods"].values()]
        for device in sorted({device for one in machines for device in one}):
            own = [one[device] for one in machines if device in one]
            lanes, steps, seconds = (sum(one[key] for one in own) for key in ("trainings", "steps", "seconds"))
            rows.append([task["title"], task["preset"], lanes, steps, device, seconds / 60, steps / seconds])
    header = ["task", "preset", "trainings", "steps of all", "device", "minutes", "steps/s"]
    return Table(name, "What the trainings took, without compiling and choosing settings", header, rows)


def session_table(name: str, sessions: Sequence[Mapping[str, Any]]) -> Table:
    """What whole commands took."""
    header = ["command", "tasks", "trainings", "steps of all", "device", "minutes", "steps/s"]
    rows = [
        [
            one["command"],
            ", ".join(one["tasks"]),
            *(one[key] for key in ("trainings", "steps", "device")),
            one["seconds"] / 60,
            one["steps"] / one["seconds"],
        ]
        for one in sessions
    ]
    return Table(name, "Commands that trained, from their start to their end, with compiling", header, rows)


def tried_table(name: str, tasks: Mapping[str, Mapping[str, Any]]) -> Table:
    """The settings that were tried, and their returns on the seeds of the choice."""
    rows = [
        [
            task["title"],
            entry["label"],
            setting_words(tried["setting"]),
            *_spread(tried["returns"]),
            tried["setting"].items() <= entry["setting"].items(),
        ]
        for task in tasks.values()
        for entry in task["methods"].values()
        for tried in entry.get("tried", ())
    ]
    header = ["task", "method", "setting", "lower return", "higher return", "chosen"]
    return Table(name, "Settings tried on two seeds that are not used later", header, rows)


def _spread(returns: Sequence[Any]) -> list[float | None]:
    return [_known(choose(_numbers(returns))) for choose in (np.min, np.max)]


def _known(value: Any) -> float | None:
    return None if value is None or np.isnan(float(value)) else float(value)


SHORT: dict[str, Callable[[Any], str]] = {
    "learning_rate": lambda value: f"lr {value:g}",
    "ensemble": lambda value: f"{value} networks",
    "n": lambda value: f"n {value}",
    "lambda_": lambda value: f"λ {value:g}",
    "gate": lambda value: f"gate {value:g}",
    "horizon": lambda value: f"N {value}",
}


def setting_words(setting: Mapping[str, Any]) -> str:
    """What was chosen, in short."""
    return ", ".join(write(setting[name]) for name, write in SHORT.items() if setting.get(name) is not None)

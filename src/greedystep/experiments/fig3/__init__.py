"""The paper's Figure 3: learning curves of ten methods on nine tasks.

Five methods are the paper's; five more show what it does not compare with. The y axis is the training return, as in the
paper; the return of greedy play after training is in the table.

performance_claims    what the paper claims about the curves, how it is judged and why it fails
published_baselines   our baselines compared with published ones
training_time         what Greedy-Step DQN costs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.experiments.claims import Claim
from greedystep.experiments.deep import plots, protocol
from greedystep.experiments.deep.compared_methods import BEYOND, GREEDY, METHODS, PAPER
from greedystep.experiments.deep.judging import AllRuns
from greedystep.experiments.deep.method_runs import final_table, format_setting, none_if_nan
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.tasks import FIGURE_3, TASKS
from greedystep.experiments.deep.training import Length
from greedystep.experiments.deep.training_store import Store
from greedystep.experiments.fig3 import performance_claims, published_baselines, training_time
from greedystep.runs.progress import ReportProgress
from greedystep.stats import probability_of_improvement
from greedystep.tables import Table

NAME, IN_PARTS = "fig3", True
TITLE = "Learning curves of Greedy-Step DQN and nine other methods"
SHOWN_QUANTITIES, SHOWN_METHODS = ("returns",), PAPER


def _full_protocols(task: str) -> list[TaskProtocol]:
    """The paper's methods in full length; the others as long as GPU time allows."""
    full, short = TASKS[task].steps, min(TASKS[task].steps, 2_000_000)
    preset = "paper" if task == "mountaincar" else "fast"
    selection = min(full, 1_000_000)
    return [
        TaskProtocol(task, preset, Length(full), seeds=5, more_seeds=5, selection=selection, methods=PAPER),
        TaskProtocol(task, preset, Length(short), seeds=3, selection=selection, methods=BEYOND),
    ]


SCALES: dict[str, list[TaskProtocol]] = {
    "quick": [
        TaskProtocol("breakout", "fast", Length(100_000, episodes=20), seeds=2, methods=("dqn", GREEDY)),
        TaskProtocol("mountaincar", "paper", Length(50_000, points=100, episodes=20)),
        TaskProtocol("catcher", "paper", Length(20_000, points=100, episodes=20)),
    ],
    "paper": [one for task in FIGURE_3 for one in _full_protocols(task)],
}
"""quick: 2 %, 50 % and 0.6 % of the full length; each method uses its first setting without a choice."""
TIMED = {"quick": ("mountaincar", "paper", 1), "paper": ("freeway", "fast", 5)}
"""Task, preset and lanes with which training times are measured. Freeway has the longest episodes."""


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, protocols = Store(parts), SCALES[scale]
    protocol.train_methods(store, progress, protocols, only)
    runs, numbers = protocol.collect(store, protocols, protocol.method_entries)
    sessions, problems = store.parts.sessions()
    may_measure = not only or TIMED[scale][0] in only
    times = training_time.load_or_measure(store.parts.folder, *TIMED[scale], may_measure=may_measure, problems=problems)
    numbers |= {"times": times, "sessions": sessions, "problems": [*numbers["problems"], *problems]}
    return protocol.result(TITLE, scale, protocols, numbers, claims(runs, times))


def claims(runs: AllRuns, times: training_time.Times | None) -> list[Claim]:
    """All claims about Figure 3."""
    return [*performance_claims.claims(runs), *published_baselines.claims(runs), training_time.claim(times)]


# -- figures ----------------------------------------------------------------------------------------------------------

STYLES: plots.Styles = {
    "greedy-step": (plots.ORANGE, plots.SOLID),
    "dqn": (plots.BLUE, plots.SOLID),
    "maxmin": (plots.GREEN, plots.SOLID),
    "multi-step": (plots.PINK, plots.SOLID),
    "sarsa": (plots.YELLOW, plots.SOLID),
    "double": (plots.BLUE, plots.DASHED),
    "peng": (plots.BLACK, plots.DASHED),
    "watkins": (plots.SKY, plots.DASHED),
    "soft": (plots.ORANGE, plots.DASHED),
    "twin": (plots.ORANGE, plots.DOTTED),
}
"""The paper's methods have solid lines."""
COLUMNS = 3


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    tasks = result["numbers"]["tasks"]
    return {"fig3": _draw(tasks, PAPER, shaded=True), "beyond": _draw(tasks, tuple(METHODS), shaded=False)}


@figures.style()
def _draw(tasks: dict[str, Any], methods: tuple[str, ...], shaded: bool) -> Figure:
    figure, axes = plots.grid(min(COLUMNS, len(tasks)), -(-len(tasks) // COLUMNS))
    for axis, task in zip(axes.flat, tasks.values(), strict=False):
        shown = [method for method in task["methods"] if method in methods]
        plots.draw_curves(axis, task, shown, STYLES, "returns", shaded)
        axis.set_title(plots.title(task))
    for axis in axes.flat[len(tasks) :]:
        axis.set_axis_off()
    plots.legend(figure, axes)
    return figure


# -- tables -----------------------------------------------------------------------------------------------------------


def tables(result: dict[str, Any]) -> list[Table]:
    tasks, times = result["numbers"]["tasks"], result["numbers"]["times"]
    made = [
        final_table(NAME, "Training return of the last 100 episodes", tasks),
        _improvement_table(tasks),
        _tried_table(tasks),
        _time_table(tasks),
        _session_table(result["numbers"]["sessions"]),
    ]
    if times is not None:
        made.append(training_time.table("fig3-times", times))
    return [table for table in made if table.rows or table.id == NAME]


def _improvement_table(tasks: Mapping[str, Mapping[str, Any]]) -> Table:
    """Compare Greedy-Step DQN with each rival after equal steps; over the tasks trained in full, if there are any."""
    tasks = {name: task for name, task in tasks.items() if GREEDY in task["methods"]}
    tasks = {name: task for name, task in tasks.items() if plots.longest_training(task) >= task["full_steps"]} or tasks
    rows = []
    for rival in dict.fromkeys(rival for task in tasks.values() for rival in task["methods"] if rival != GREEDY):
        entries = [
            (task["methods"][GREEDY], task["methods"][rival]) for task in tasks.values() if rival in task["methods"]
        ]
        pairs = [pair for mine, other in entries if (pair := _after_equal_steps(mine, other))]
        if pairs:
            mine, others = ({str(i): side for i, side in enumerate(sides)} for sides in zip(*pairs, strict=True))
            found = probability_of_improvement(mine, others)
            rows.append([entries[0][1]["label"], len(pairs), *map(none_if_nan, found)])
    heading = "Probability of improvement of Greedy-Step DQN after equal steps"
    header = ["compared with", "tasks", "probability of improvement", "95 % CI low", "95 % CI high"]
    return Table("fig3-improvement", heading, header, rows)


def _after_equal_steps(mine: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """The returns of both by seed after the steps of the shorter training; None if the longer has none noted there."""
    steps = str(min(mine["steps"][-1], other["steps"][-1]))
    levels = [one["final"]["levels"] | {str(one["steps"][-1]): one["final"]["returns"]} for one in (mine, other)]
    if not all(steps in known for known in levels):
        return None
    return np.asarray(levels[0][steps], float), np.asarray(levels[1][steps], float)


def _tried_table(tasks: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = [
        [
            task["title"],
            entry["label"],
            format_setting(tried["setting"]),
            *(none_if_nan(pick(np.asarray(tried["returns"], float))) for pick in (np.min, np.max)),
            tried["setting"].items() <= entry["setting"].items(),
        ]
        for task in tasks.values()
        for entry in task["methods"].values()
        for tried in entry.get("tried", ())
    ]
    header = ["task", "method", "setting", "lower return", "higher return", "chosen"]
    return Table("fig3-settings", "Settings tried on two seeds that are not used later", header, rows)


def _time_table(tasks: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = []
    for task in tasks.values():
        machines = [entry["machines"] for entry in task["methods"].values()]
        for device in sorted({device for one in machines for device in one}):
            own = [one[device] for one in machines if device in one]
            lanes, steps, seconds = (sum(one[key] for one in own) for key in ("trainings", "steps", "seconds"))
            rows.append([task["title"], task["preset"], lanes, steps, device, seconds / 60, steps / seconds])
    header = ["task", "preset", "trainings", "total steps", "device", "minutes", "steps/s"]
    return Table("fig3-minutes", "Training time without compilation and the choice of settings", header, rows)


def _session_table(sessions: Sequence[Mapping[str, Any]]) -> Table:
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
    header = ["command", "tasks", "trainings", "total steps", "device", "minutes", "steps/s"]
    return Table("fig3-sessions", "Time of whole commands that trained, with compilation", header, rows)

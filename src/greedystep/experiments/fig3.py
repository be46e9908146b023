"""The paper's Figure 3: learning curves of ten methods on nine tasks.

Five methods are the paper's; five more show what it does not compare with. Training returns are on the axis, as there;
greedy play after training stands in the table. How settings are chosen: `deep.sweep`. How claims are judged:
`deep.performance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from greedystep import figures
from greedystep.experiments.deep import output, performance, sweep, timing
from greedystep.experiments.deep.methods import BEYOND, GREEDY, METHODS, PAPER
from greedystep.experiments.deep.session import Session
from greedystep.experiments.deep.store import Store
from greedystep.experiments.deep.tasks import FIGURE_3, TASKS
from greedystep.experiments.deep.training import Length
from greedystep.experiments.deep.workplace import Workplace
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "fig3", True
TITLE = "Learning curves of Greedy-Step DQN and nine other methods"
SHOWN_QUANTITIES, SHOWN_METHODS = ("returns",), PAPER


def _paper(task: str) -> list[sweep.Leg]:
    """The paper's methods in full; the others as long as GPU time allows."""
    full, short = TASKS[task].steps, min(TASKS[task].steps, 2_000_000)
    preset = "paper" if task == "mountaincar" else "fast"
    selection = min(full, 1_000_000)
    return [
        sweep.Leg(task, preset, Length(full), seeds=5, more_seeds=5, selection=selection, methods=PAPER),
        sweep.Leg(task, preset, Length(short), seeds=3, selection=selection, methods=BEYOND),
    ]


SCALES: dict[str, list[sweep.Leg]] = {
    "quick": [
        sweep.Leg("breakout", "fast", Length(100_000, episodes=20), seeds=2, methods=("dqn", GREEDY)),
        sweep.Leg("mountaincar", "paper", Length(50_000, points=100, episodes=20)),
        sweep.Leg("catcher", "paper", Length(20_000, points=100, episodes=20)),
    ],
    "paper": [leg for task in FIGURE_3 for leg in _paper(task)],
}
"""quick: 2 %, 50 % and 0.6 % of the full length; settings are not chosen but the first of each method."""
TIMED = {"quick": ("mountaincar", "paper", 1), "paper": ("freeway", "fast", 5)}
"""Task, preset and lanes for what Greedy-Step costs. Freeway has the longest episodes."""


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store = Store(parts)
    legs = SCALES[scale]
    wanted = sweep.wanted(legs, only)
    with Session(store, progress, sum(_work(leg) for leg in wanted)) as session:
        sweep.train_methods(session, wanted)
    found, numbers = sweep.collect(store, legs, lambda leg: sweep.methods_of(store, leg))
    sessions, problems = Workplace(parts).sessions()
    may_measure = not only or TIMED[scale][0] in only
    times = timing.kept(parts, *TIMED[scale], may_measure=may_measure, problems=problems)
    return {
        "title": TITLE,
        "settings": {"scale": scale, **sweep.about(legs)},
        "numbers": numbers | {"times": times, "sessions": sessions, "problems": [*numbers["problems"], *problems]},
        "claims": [asdict(claim) for claim in (*performance.claims(found), timing.claim(times))],
    }


def _work(leg: sweep.Leg) -> int:
    more = leg.more_seeds * (2 if GREEDY in leg.methods else 0)
    return leg.work(len(leg.methods) * leg.seeds + more, len(leg.methods) if leg.selection else 0)


# -- output -----------------------------------------------------------------------------------------------------------

STYLES: output.Styles = {
    "greedy-step": (output.ORANGE, output.SOLID),
    "dqn": (output.BLUE, output.SOLID),
    "maxmin": (output.GREEN, output.SOLID),
    "multi-step": (output.PINK, output.SOLID),
    "sarsa": (output.YELLOW, output.SOLID),
    "double": (output.BLUE, output.DASHED),
    "peng": (output.BLACK, output.DASHED),
    "watkins": (output.SKY, output.DASHED),
    "soft": (output.ORANGE, output.DASHED),
    "twin": (output.ORANGE, output.DOTTED),
}
"""The paper's methods in solid lines."""
assert set(STYLES) == set(METHODS)


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    tasks = result["numbers"]["tasks"]
    return {"fig3": _draw(tasks, PAPER, shaded=True), "beyond": _draw(tasks, tuple(METHODS), shaded=False)}


@figures.style()
def _draw(tasks: dict[str, Any], methods: tuple[str, ...], shaded: bool) -> Figure:
    figure, axes = output.grid(list(tasks), ["returns"], columns=3)
    for axis, task in zip(axes.flat, tasks.values(), strict=False):
        entries = {method: one for method, one in task["methods"].items() if method in methods}
        if entries:
            output.draw_curves(axis, entries, STYLES, "returns", shaded)
            axis.set_title(output.title(task))
        else:
            output.draw_missing(axis)
            axis.set_title(task["title"])
    for axis in axes.flat[len(tasks) :]:
        axis.set_axis_off()
    output.legend(figure, axes)
    return figure


def tables(result: dict[str, Any]) -> list[Table]:
    tasks = result["numbers"]["tasks"]
    heading = "Training return of the last 100 episodes, with its 95 % interval over seeds"
    made = [
        output.final_table(NAME, heading, tasks),
        output.improvement_table("fig3-improvement", tasks, GREEDY),
        output.tried_table("fig3-settings", tasks),
        output.time_table("fig3-minutes", tasks),
        output.session_table("fig3-sessions", result["numbers"]["sessions"]),
    ]
    if result["numbers"]["times"] is not None:
        made.append(timing.table("fig3-times", result["numbers"]["times"]))
    return [table for table in made if table.rows or table.id == NAME]

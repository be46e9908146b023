"""Beyond the paper: which fixed setting wins where?

Every fixed rule is trained with 1, 2 and 4 networks and three learning rates on two seeds that no other experiment
reports. The map that comes out says which setting is best on each task, and how far the best single setting for all
tasks falls behind that choice. Rules are compared at their own best learning rate here, never at a shared one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.experiments.claims import Claim, Verdict, because
from greedystep.experiments.deep import output
from greedystep.experiments.deep.evidence import gather
from greedystep.experiments.deep.methods import Setting
from greedystep.experiments.deep.session import Session
from greedystep.experiments.deep.store import Store
from greedystep.experiments.deep.sweep import SELECTION_SEEDS
from greedystep.experiments.deep.tasks import FIGURE_3, TASKS
from greedystep.experiments.deep.training import Lane, Length
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "settings", True
TITLE = "Fixed rules by number of networks and learning rate"

RULES: dict[str, Setting] = {
    "one-step": {"returns": "one-step"},
    "3-step": {"returns": "n-step", "n": 3},
    "5-step": {"returns": "n-step", "n": 5},
    "Peng λ=0.3": {"returns": "lambda", "lambda_": 0.3},
    "Peng λ=0.5": {"returns": "lambda", "lambda_": 0.5},
    "Peng λ=0.7": {"returns": "lambda", "lambda_": 0.7},
    "Watkins": {"returns": "watkins"},
    "greedy-step": {"returns": "greedy-step"},
}
NEARLY_BEST = 0.95
"""A setting is as good as the best if it gets this share of the way from the worst cell to the best."""


@dataclass(frozen=True)
class Grid:
    """The settings that are tried on one task."""

    task: str
    preset: str
    length: Length
    rules: tuple[str, ...] = tuple(RULES)
    ensembles: tuple[int, ...] = (1, 2, 4)
    learning_rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3)

    @property
    def cells(self) -> dict[tuple[str, int, float], Setting]:
        """(rule, networks, learning rate) -> changes of the preset."""
        return {
            (rule, ensemble, rate): RULES[rule] | {"ensemble": ensemble, "learning_rate": rate}
            for ensemble, rule, rate in product(self.ensembles, self.rules, self.learning_rates)
        }

    def lanes(self, setting: Setting) -> list[Lane]:
        return [Lane(self.task, self.preset, setting, seed) for seed in SELECTION_SEEDS]

    def programs(self) -> list[list[Lane]]:
        """All lanes, in groups that one compiled program trains side by side."""
        groups: dict[str, list[Lane]] = {}
        for lane in (lane for setting in self.cells.values() for lane in self.lanes(setting)):
            groups.setdefault(lane.program, []).append(lane)
        return list(groups.values())


def _full(task: str) -> Grid:
    steps = min(TASKS[task].steps, 1_000_000)
    return Grid(task, "paper" if task == "mountaincar" else "fast", Length(steps, episodes=0, only_end=True))


SCALES: dict[str, list[Grid]] = {
    "quick": [
        Grid(
            "mountaincar",
            "paper",
            Length(10_000, points=20, episodes=0, only_end=True),
            rules=("one-step", "Peng λ=0.7"),
            ensembles=(1,),
        )
    ],
    "paper": [_full(task) for task in FIGURE_3],
}


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, grids = Store(parts), SCALES[scale]
    wanted = [grid for grid in grids if not only or grid.task in only]
    work = sum(len(grid.cells) * len(SELECTION_SEEDS) * grid.length.steps for grid in wanted)
    with Session(store, progress, work) as session:
        session.all(
            partial(session.ensure, lanes, grid.length, f"{TASKS[grid.task].title}, {lanes[0].config.returns}")
            for grid in wanted
            for lanes in grid.programs()
        )
    maps = {grid.task: _map(store, grid) for grid in grids}
    return {
        "title": TITLE,
        "settings": {"scale": scale, "tasks": {grid.task: _about(grid) for grid in grids}},
        "numbers": {"maps": maps, "missing": _missing(maps), "problems": store.problems},
        "claims": [asdict(one_for_all(maps))],
    }


def _about(grid: Grid) -> dict[str, Any]:
    return {
        "env": TASKS[grid.task].env,
        **TASKS[grid.task].env_options,
        "preset": grid.preset,
        "steps": grid.length.steps,
        "seeds": list(SELECTION_SEEDS),
    }


def _map(store: Store, grid: Grid) -> dict[str, Any]:
    """The returns of both seeds in every cell that was trained."""
    cells = []
    for (rule, ensemble, rate), setting in grid.cells.items():
        lanes = [store.get(lane, grid.length.steps) for lane in grid.lanes(setting)]
        if all(lane is not None for lane in lanes):
            found = gather([lane for lane in lanes if lane is not None], grid.length.steps)
            cells.append({"rule": rule, "ensemble": ensemble, "learning_rate": rate, "returns": found.final.tolist()})
    return {
        "title": TASKS[grid.task].title,
        "steps": grid.length.steps,
        "rules": list(grid.rules),
        "columns": [list(column) for column in product(grid.ensembles, grid.learning_rates)],
        "cells": cells,
    }


def _missing(maps: Mapping[str, Any]) -> list[str]:
    counts = {one["title"]: (len(one["cells"]), len(one["rules"]) * len(one["columns"])) for one in maps.values()}
    return [f"{task}: {there} of {all_} settings are trained" for task, (there, all_) in counts.items() if there < all_]


def _name(cell: Mapping[str, Any]) -> str:
    plural = "" if cell["ensemble"] == 1 else "s"
    return f"{cell['rule']}, {cell['ensemble']} network{plural}, lr {cell['learning_rate']:g}"


def _score(cell: Mapping[str, Any]) -> float:
    """The mean final return over seeds; a seed without a return counts as the worst that can be."""
    return float(np.nan_to_num(np.mean(np.array(cell["returns"], float)), nan=-np.inf))


def shares(one: Mapping[str, Any]) -> dict[str, float]:
    """Setting -> where its return lies between the worst cell of the task (0) and the best (1)."""
    scores = {_name(cell): _score(cell) for cell in one["cells"]}
    finite = [score for score in scores.values() if np.isfinite(score)]
    if not finite or max(finite) == min(finite):
        return {}
    low, high = min(finite), max(finite)
    return {name: max(score - low, 0.0) / (high - low) for name, score in scores.items()}


def best_for_all(maps: Mapping[str, Any]) -> tuple[str, dict[str, float]] | None:
    """The setting with the largest mean share over the tasks that are complete, and its share on each.

    None for fewer than two such tasks: on a single one some setting is always the best.
    """
    complete = {task: one for task, one in maps.items() if len(one["cells"]) == len(one["rules"]) * len(one["columns"])}
    found = {task: share for task, one in complete.items() if (share := shares(one))}
    common = set.intersection(*(set(share) for share in found.values())) if len(found) > 1 else set()
    if not common:
        return None
    best = max(sorted(common), key=lambda name: float(np.mean([share[name] for share in found.values()])))
    return best, {task: share[best] for task, share in found.items()}


def one_for_all(maps: Mapping[str, Any]) -> Claim:
    """Confirmed if one setting has at least NEARLY_BEST of the best cell on every task, partly on at least half."""
    found = best_for_all(maps)
    if found is None:
        verdict: Verdict = "untested"
        measured = "fewer than two tasks have all their settings trained"
    else:
        name, share = found
        near = sum(value >= NEARLY_BEST for value in share.values())
        verdict = "confirmed" if near == len(share) else "partly" if 2 * near >= len(share) else "refuted"
        each = ", ".join(f"{maps[task]['title']} {value:.2f}" for task, value in share.items())
        measured = f"{name} is the best on average; its share of the best setting of each task: {each}"
    return Claim(
        id="settings-one-for-all",
        claim="One fixed rule with one number of networks and one learning rate is nearly as good as the best of each "
        "task.",
        where="not in the paper",
        claimed=f"at least {NEARLY_BEST:g} of the best everywhere",
        measured=measured,
        verdict=verdict,
        reason=because(
            verdict, "tasks differ in which rule, ensemble and learning rate they want (table settings-best)"
        ),
    )


# -- output -----------------------------------------------------------------------------------------------------------


@figures.style()
def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """A heat map for each task: rules down, networks and learning rates across, labelled with mean returns."""
    maps = result["numbers"]["maps"]
    wide = min(3, len(maps))
    figure, axes = figures.panels(-(-len(maps) // wide), wide, squeeze=False)
    figure.set_size_inches(1.0 + 5.2 * max(wide, 2), 1.0 + 3.3 * len(axes))
    for axis, one in zip(axes.flat, maps.values(), strict=False):
        axis.set_title(f"{one['title']}, {one['steps']:,} steps")
        if one["cells"]:
            _draw_map(axis, one)
        else:
            output.draw_missing(axis)
    for axis in axes.flat[len(maps) :]:
        axis.set_axis_off()
    return {"settings": figure}


def _draw_map(axis: Any, one: Mapping[str, Any]) -> None:
    share = shares(one)
    values = np.full((len(one["rules"]), len(one["columns"])), np.nan)
    for cell in one["cells"]:
        row, column = one["rules"].index(cell["rule"]), one["columns"].index([cell["ensemble"], cell["learning_rate"]])
        values[row, column] = share.get(_name(cell), 0.0)
        text = f"{_score(cell):.3g}" if np.isfinite(_score(cell)) else "-"
        best = values[row, column] == 1.0
        axis.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=7,
            fontweight="bold" if best else "normal",
            color="white" if values[row, column] > 0.6 else "black",
        )
    axis.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.grid(False)
    axis.set_yticks(range(len(one["rules"])), one["rules"], fontsize=8)
    labels = [f"{ensemble}\n{rate:g}" for ensemble, rate in one["columns"]]
    axis.set_xticks(range(len(labels)), labels, fontsize=7)
    axis.set_xlabel("networks, learning rate", fontsize=8)


def tables(result: dict[str, Any]) -> list[Table]:
    maps = result["numbers"]["maps"]
    made = [_best_table(maps), _cell_table(maps)]
    return [table for table in made if table.rows]


def _best_table(maps: Mapping[str, Any]) -> Table:
    found = best_for_all(maps)
    rows = []
    for task, one in maps.items():
        if not one["cells"]:
            continue
        best = max(one["cells"], key=_score)
        of_single = found[1].get(task) if found else None
        rows.append([one["title"], _name(best), _score(best), found[0] if found else None, of_single])
    header = ["task", "best setting", "mean return", "best single setting for all tasks", "its share of the best"]
    return Table("settings-best", "The best fixed setting of each task, and the best single one for all", header, rows)


def _cell_table(maps: Mapping[str, Any]) -> Table:
    rows = [
        [
            one["title"],
            *(cell[key] for key in ("rule", "ensemble", "learning_rate")),
            _score(cell),
            min(cell["returns"]),
            max(cell["returns"]),
            shares(one).get(_name(cell)),
        ]
        for one in maps.values()
        for cell in one["cells"]
    ]
    header = ["task", "rule", "networks", "learning rate", "mean return", "lower", "higher", "share of the best"]
    return Table(NAME, "Training return of the last 100 episodes on two seeds", header, rows)

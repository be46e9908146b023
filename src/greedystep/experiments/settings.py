"""Beyond the paper: which fixed setting is the best on which task?

Every fixed rule for the returns is trained with 1, 2 and 4 networks and three learning rates, on two seeds that no
other experiment reports. The heat maps show the best setting of each task, and how far the best single setting for all
tasks falls behind that choice. Rules are compared at their own best learning rate, never at a shared one. Once all maps
are complete, both choices are trained at full length on ten fresh seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.charts import NOT_TRAINED
from greedystep.experiments.claims import Outcome, judges
from greedystep.experiments.deep.method_runs import from_records
from greedystep.experiments.deep.protocol import SELECTION_SEEDS
from greedystep.experiments.deep.runner import Runner, RunStore, programs
from greedystep.experiments.deep.suite import FIGURE_3, TASKS, Setting, networks
from greedystep.experiments.deep.training import Budget, RunSpec
from greedystep.runs.part_store import Parts
from greedystep.runs.progress import ReportProgress
from greedystep.stats import interval
from greedystep.tables import Table

NAME, IN_PARTS = "settings", True
TITLE = "Mean training return of two seeds, by rule, number of networks and learning rate"

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
CELL = ("rule", "ensemble", "learning_rate")
"""Entries that identify a cell of a heat map: rule, number of networks, learning rate."""
FRESH_SEEDS = tuple(range(10))
"""Seeds of the full-length trainings of the chosen settings; none of them took part in the choice."""
NEARLY_BEST = 0.95
"""A setting counts as good as the best from this share of the way from a task's worst setting to its best."""


@dataclass(frozen=True)
class SettingGrid:
    """The settings tried on each task: every rule, ensemble size and learning rate."""

    task: str
    preset: str
    budget: Budget
    rules: tuple[str, ...] = tuple(RULES)
    ensembles: tuple[int, ...] = (1, 2, 4)
    learning_rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3)

    @property
    def cells(self) -> dict[tuple[str, int, float], Setting]:
        """Return {(rule, number of networks, learning rate): setting}."""
        return {
            (rule, ensemble, rate): RULES[rule] | {"ensemble": ensemble, "learning_rate": rate}
            for ensemble, rule, rate in product(self.ensembles, self.rules, self.learning_rates)
        }

    def setting_of(self, name: str) -> Setting:
        """Return the setting of the cell with this name (see `best_cell`)."""
        named = {_name(dict(zip(CELL, cell, strict=True))): setting for cell, setting in self.cells.items()}
        return named[name]

    def runs(self, setting: Setting, seeds: Sequence[int] = SELECTION_SEEDS) -> list[RunSpec]:
        """Return the training runs of one setting, one per seed."""
        return [RunSpec(self.task, self.preset, setting, seed) for seed in seeds]

    def programs(self) -> list[list[RunSpec]]:
        """Return all runs, in groups that share a compiled program."""
        return programs(run for setting in self.cells.values() for run in self.runs(setting))


def _full(task: str) -> SettingGrid:
    steps = min(TASKS[task].steps, 1_000_000)
    return SettingGrid(task, "paper" if task == "mountaincar" else "fast", Budget(steps, episodes=0, only_end=True))


_SHORT = Budget(10_000, points=20, episodes=0, only_end=True)
SCALES: dict[str, list[SettingGrid]] = {
    "quick": [SettingGrid("mountaincar", "paper", _SHORT, rules=("one-step", "Peng λ=0.7"), ensembles=(1,))],
    "paper": [_full(task) for task in FIGURE_3],
}


def run(scale: str, progress: ReportProgress, parts: Parts = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, grids = RunStore(parts), SCALES[scale]
    asked = [grid for grid in grids if not only or grid.task in only]
    total = sum(len(grid.cells) * len(SELECTION_SEEDS) * grid.budget.steps for grid in asked)
    total += sum(2 * len(FRESH_SEEDS) * TASKS[grid.task].steps for grid in asked if len(grids) > 1)
    with Runner(store, progress, total) as runner:
        runner.all(
            partial(runner.ensure, runs, grid.budget, f"{TASKS[grid.task].title}, {runs[0].config.returns}")
            for grid in asked
            for runs in grid.programs()
        )
        maps = {grid.task: collect(store, grid) for grid in grids}
        runner.all(
            partial(runner.ensure, runs, Budget(TASKS[grid.task].steps), f"{TASKS[grid.task].title}, {name}")
            for grid in asked
            for name, runs in _chosen(maps, grid).values()
        )
    missing = [
        f"{one['title']}: {len(one['cells'])} of {_size(one)} settings are trained"
        for one in maps.values()
        if not is_complete(one)
    ]
    fresh = {grid.task: _fresh(store, maps, grid) for grid in grids}
    for grid in grids:
        for role in _chosen(maps, grid):
            there = len(fresh[grid.task].get(role, {"returns": []})["returns"])
            if there < len(FRESH_SEEDS):
                missing.append(f"{TASKS[grid.task].title}, {role}: {there} of {len(FRESH_SEEDS)} fresh seeds")
    about = {
        grid.task: {"env": TASKS[grid.task].env, **TASKS[grid.task].env_options, "preset": grid.preset}
        | {"steps": grid.budget.steps, "seeds": list(SELECTION_SEEDS)}
        for grid in grids
    }
    return {
        "title": TITLE,
        "settings": {"scale": scale, "tasks": about},
        "numbers": {"maps": maps, "fresh": fresh, "missing": missing, "problems": store.problems},
        "claims": [asdict(one_for_all(maps))],
    }


def _chosen(maps: Mapping[str, Any], grid: SettingGrid) -> dict[str, tuple[str, list[RunSpec]]]:
    """Return {role: (name of a setting, its runs on fresh seeds)}; empty before the maps of all tasks are complete."""
    if not all(map(is_complete, maps.values())) or (single := best_for_all(maps)) is None:
        return {}
    roles = {"best of the task": best_cell(maps[grid.task]), "best single": single[0]}
    return {role: (name, grid.runs(grid.setting_of(name), FRESH_SEEDS)) for role, name in roles.items()}


def _fresh(store: RunStore, maps: Mapping[str, Any], grid: SettingGrid) -> dict[str, Any]:
    """Return by role the chosen settings' final training returns on the fresh seeds, and returns of greedy play."""
    found, steps = {}, TASKS[grid.task].steps
    for role, (name, runs) in _chosen(maps, grid).items():
        if records := store.get_all(runs, steps):
            trained = from_records(records, steps)
            greedy = None if trained.greedy_play is None else trained.greedy_play.tolist()
            returns = trained.final_return.tolist()
            found[role] = {"setting": name, "steps": steps, "returns": returns, "greedy_play": greedy}
    return found


def collect(store: RunStore, grid: SettingGrid) -> dict[str, Any]:
    """Return the maps as JSON: the returns of both seeds in every cell that was trained."""
    cells, devices = [], set()
    for cell, setting in grid.cells.items():
        records = store.get_all(grid.runs(setting), grid.budget.steps)
        if len(records) == len(SELECTION_SEEDS):
            devices |= {record["device"] for record in records}
            returns = from_records(records, grid.budget.steps).final_return.tolist()
            cells.append(dict(zip(CELL, cell, strict=True)) | {"returns": returns})
    return {
        "title": TASKS[grid.task].title,
        "steps": grid.budget.steps,
        "rules": list(grid.rules),
        "columns": [list(column) for column in product(grid.ensembles, grid.learning_rates)],
        "cells": cells,
        "devices": sorted(devices),
    }


# -- claims -----------------------------------------------------------------------------------------------------------


def _size(one: Mapping[str, Any]) -> int:
    return len(one["rules"]) * len(one["columns"])


def is_complete(one: Mapping[str, Any]) -> bool:
    return len(one["cells"]) == _size(one)


def _name(cell: Mapping[str, Any]) -> str:
    return f"{cell['rule']}, {networks(cell['ensemble'])}, lr {cell['learning_rate']:g}"


def best_cell(one: Mapping[str, Any]) -> str:
    """Return the name of the cell of a map with the largest mean return."""
    return _name(max(one["cells"], key=_score))


def _score(cell: Mapping[str, Any]) -> float:
    return float(np.nan_to_num(np.mean(np.array(cell["returns"], float)), nan=-np.inf))


def shares(one: Mapping[str, Any]) -> dict[str, float]:
    """Return {setting: its return on a scale from the task's worst setting (0) to its best (1)}."""
    scores = {_name(cell): _score(cell) for cell in one["cells"]}
    finite = [score for score in scores.values() if np.isfinite(score)]
    if not finite or max(finite) == min(finite):
        return {}
    low, high = min(finite), max(finite)
    return {name: max(score - low, 0.0) / (high - low) for name, score in scores.items()}


def best_for_all(maps: Mapping[str, Any]) -> tuple[str, dict[str, float]] | None:
    """Return the setting with the largest mean share over all complete tasks, and its share on each.

    None with fewer than two such tasks: on a single one some setting is always the best.
    """
    found = {task: share for task, one in maps.items() if is_complete(one) and (share := shares(one))}
    common = set.intersection(*(set(share) for share in found.values())) if len(found) > 1 else set()
    if not common:
        return None
    best = max(sorted(common), key=lambda name: float(np.mean([share[name] for share in found.values()])))
    return best, {task: share[best] for task, share in found.items()}


@judges(
    "settings-one-for-all",
    "One fixed rule with one number of networks and one learning rate is nearly as good as the best of each task.",
    f"at least {NEARLY_BEST:g} of the best everywhere",
    "not in the paper",
)
def one_for_all(maps: Mapping[str, Any]) -> Outcome:
    """Confirmed if one setting has a share of at least 0.95 on every task, partly if on half of them."""
    found = best_for_all(maps)
    if found is None:
        return Outcome("untested", "fewer than two tasks have all their settings trained")
    name, share = found
    near = sum(value >= NEARLY_BEST for value in share.values())
    each = ", ".join(f"{maps[task]['title']} {value:.2f}" for task, value in share.items())
    return Outcome(
        "confirmed" if near == len(share) else "partly" if 2 * near >= len(share) else "refuted",
        f"{name} is the best on average; its share of the best setting of each task: {each}",
        "tasks differ in which rule, ensemble and learning rate they want (table settings-best)",
    )


# -- output -----------------------------------------------------------------------------------------------------------


@figures.style()
def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw a heat map per task: rules down, networks and learning rates across, labelled with mean returns."""
    maps = result["numbers"]["maps"]
    wide = min(3, len(maps))
    figure, axes = figures.panels(-(-len(maps) // wide), wide, squeeze=False)
    figure.set_size_inches(1.0 + 5.2 * max(wide, 2), 1.0 + 3.3 * len(axes))
    for axis, one in zip(axes.flat, maps.values(), strict=False):
        axis.set_title(f"{one['title']}, {one['steps']:,} steps")
        if one["cells"]:
            _draw_map(axis, one)
        else:
            figures.draw_missing(axis, NOT_TRAINED)
    for axis in axes.flat[len(maps) :]:
        axis.set_axis_off()
    return {"settings": figure}


def _draw_map(axis: Axes, one: Mapping[str, Any]) -> None:
    share = shares(one)
    values = np.full((len(one["rules"]), len(one["columns"])), np.nan)
    for cell in one["cells"]:
        row, column = one["rules"].index(cell["rule"]), one["columns"].index([cell["ensemble"], cell["learning_rate"]])
        values[row, column] = share.get(_name(cell), 0.0)
        score = _score(cell)
        text = "-" if np.isinf(score) else f"{score:.0f}" if abs(score) >= 100 else f"{score:.3g}"
        weight = "bold" if values[row, column] == 1.0 else "normal"
        colour = "white" if values[row, column] > 0.6 else "black"
        axis.text(column, row, text, ha="center", va="center", fontsize=7, fontweight=weight, color=colour)
    axis.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.grid(False)
    axis.set_yticks(range(len(one["rules"])), one["rules"], fontsize=8)
    labels = [f"{ensemble}\n{rate:g}" for ensemble, rate in one["columns"]]
    axis.set_xticks(range(len(labels)), labels, fontsize=7)
    blank = "" if is_complete(one) else " (blank: not trained)"
    axis.set_xlabel(f"networks, learning rate{blank}", fontsize=8)


def tables(result: dict[str, Any]) -> list[Table]:
    maps = result["numbers"]["maps"]
    made = (_best_table(maps), _fresh_table(maps, result["numbers"].get("fresh", {})), _cell_table(maps))
    return [table for table in made if table.rows]


def _best_table(maps: Mapping[str, Any]) -> Table:
    single, share = best_for_all(maps) or (None, {})
    bests = {task: max(one["cells"], key=_score) for task, one in maps.items() if one["cells"]}
    rows = [[maps[task]["title"], _name(best), _score(best), single, share.get(task)] for task, best in bests.items()]
    header = ["task", "best setting", "mean return", "best single setting for all tasks", "its share of the best"]
    return Table("settings-best", "The best fixed setting of each task, and the best single one for all", header, rows)


def _fresh_table(maps: Mapping[str, Any], fresh: Mapping[str, Any]) -> Table:
    rows = []
    for task, roles in fresh.items():
        for role, runs in roles.items():
            mean, low, high = map(float, interval(np.array(runs["returns"]), "mean"))
            greedy = None if runs["greedy_play"] is None else float(np.mean(runs["greedy_play"]))
            about = [maps[task]["title"], role, runs["setting"], runs["steps"], len(runs["returns"])]
            rows.append([*about, mean, low, high, greedy])
    header = ["task", "choice", "setting", "steps", "seeds", "mean return", "95 % CI from", "to", "greedy play"]
    title = "The chosen settings at full length, on seeds that took no part in the choice"
    return Table("settings-fresh", title, header, rows)


def _cell_table(maps: Mapping[str, Any]) -> Table:
    rows = []
    for one in maps.values():
        share = shares(one)
        for cell in one["cells"]:
            numbers = [_score(cell), min(cell["returns"]), max(cell["returns"]), share.get(_name(cell))]
            rows.append([one["title"], *(cell[key] for key in CELL), *numbers])
    header = ["task", "rule", "networks", "learning rate", "mean return", "lower", "higher", "share of the best"]
    return Table(NAME, "Training return of the last 100 episodes on two seeds", header, rows)

"""The paper's Figure 5: which step Greedy-Step DQN chooses, over training, and in its first and last 1e5 steps.

The trainings are those of Figure 3. Claims: `deep.behaviour`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.deep.train_metrics import bin_names
from greedystep.experiments import fig3, fig4
from greedystep.experiments.deep import behaviour, output, sweep
from greedystep.experiments.deep.evidence import Evidence
from greedystep.experiments.deep.methods import GREEDY, METHODS
from greedystep.experiments.deep.performance import TWICE
from greedystep.experiments.deep.session import Session
from greedystep.experiments.deep.store import Store
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "fig5", True
TITLE = "The steps that Greedy-Step DQN chooses"
SHOWN_QUANTITIES, STYLES = ("n",), {GREEDY: (output.ORANGE, output.SOLID)}


def _legs(scale: str) -> list[sweep.Leg]:
    """Those of Figure 3, with this method alone."""
    tasks = TWICE if scale == "paper" else tuple(leg.task for leg in fig3.SCALES[scale])
    return [
        replace(leg, methods=(GREEDY,), more_seeds=0)
        for leg in fig3.SCALES[scale]
        if leg.task in tasks and GREEDY in leg.methods
    ]


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, legs = Store(parts), _legs(scale)
    wanted = sweep.wanted(legs, only)
    with Session(store, progress, sum(leg.work(leg.seeds, 1 if leg.selection else 0) for leg in wanted)) as session:
        sweep.train_methods(session, wanted)
    found, numbers = sweep.collect(store, legs, lambda leg: _entries(store, leg))
    return {
        "title": TITLE,
        "settings": {"scale": scale, **sweep.about(legs)},
        "numbers": numbers | {"bins": bin_names()},
        "claims": [
            asdict(claim) for claim in behaviour.claims_step({**found, **_with_one_network(store, scale)}, GREEDY)
        ],
    }


def _with_one_network(store: Store, scale: str) -> dict[tuple[str, str], Evidence]:
    """What Figure 4 has of it."""
    one = {behaviour.ONE: fig4.VARIANTS[behaviour.ONE]}
    found = {leg.task: sweep.variants_of(store, leg, one)[behaviour.ONE][1] for leg in fig4.SCALES[scale]}
    return {(task, behaviour.ONE): evidence for task, evidence in found.items() if evidence is not None}


def _entries(store: Store, leg: sweep.Leg) -> dict[str, tuple[str, Evidence | None, dict[str, Any]]]:
    one = sweep.evidence(store, leg, GREEDY)
    shares = {} if one is None else {"first": _shares(one.n_first), "last": _shares(one.n_last)}
    return {GREEDY: (METHODS[GREEDY].label, one, shares)}


def _shares(counts: np.ndarray) -> list[float]:
    """[seeds, bins] -> the share of each bin among all samples; all 0 where nothing was learned yet."""
    total = counts.sum()
    return list(counts.sum(axis=0) / total if total else np.zeros(counts.shape[1:]))


# -- output -----------------------------------------------------------------------------------------------------------


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    return {"fig5": _draw(result["numbers"])}


@figures.style()
def _draw(numbers: dict[str, Any]) -> Figure:
    tasks, bins = numbers["tasks"], numbers["bins"]
    figure, axes = output.grid(list(tasks), ("n", "histogram"))
    for (above, below), task in zip(axes.T, tasks.values(), strict=True):
        entry = task["methods"].get(GREEDY)
        if entry is None:
            for axis in (above, below):
                output.draw_missing(axis)
            above.set_title(task["title"])
            continue
        output.draw_curves(above, {GREEDY: entry}, {GREEDY: (output.ORANGE, output.SOLID)}, "n")
        above.set_title(output.title(task))
        used = max((i for part in ("first", "last") for i, share in enumerate(entry[part]) if share > 0), default=0) + 1
        for part, colour, shift in (("first", output.GREEN, -0.2), ("last", output.ORANGE, 0.2)):
            label = f"{part} {entry['phase']:,} steps"
            below.bar(np.arange(used) + shift, entry[part][:used], 0.4, color=colour, label=label)
        below.set(xticks=range(used), xlabel="chosen n", ylabel="share of samples")
        below.set_xticklabels(bins[:used], rotation=0 if used <= 6 else 45 if used <= 10 else 90)
        below.legend()
    return figure


def tables(result: dict[str, Any]) -> list[Table]:
    bins = result["numbers"]["bins"]
    rows = [
        [task["title"], f"{part} {entry['phase']:,} steps", *entry[part]]
        for task in result["numbers"]["tasks"].values()
        for entry in task["methods"].values()
        for part in ("first", "last")
    ]
    used = max((i for row in rows for i, share in enumerate(row[2:]) if share > 0), default=0) + 1
    header = ["task", "phase", *(f"n = {name}" for name in bins[:used])]
    return [Table(NAME, "Share of samples by the chosen step n", header, [row[: 2 + used] for row in rows])]

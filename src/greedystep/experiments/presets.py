"""Beyond the paper: do 1 environment with batches of 32, as in the paper, and 64 with batches of 512 agree?

Figure 3 uses the second (preset "fast"), which a GPU runs many times as fast. Here the paper's methods are also trained
with the first (preset "paper"), with the options chosen with "fast" and the preset's own learning rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from greedystep.experiments import fig3
from greedystep.experiments.claims import Claim
from greedystep.experiments.deep import plots, protocol
from greedystep.experiments.deep.compared_methods import GREEDY, METHODS, PAPER
from greedystep.experiments.deep.judging import Outcome, mean_difference
from greedystep.experiments.deep.method_runs import MethodRuns, final_table
from greedystep.experiments.deep.protocol import Entry, TaskProtocol
from greedystep.experiments.deep.training import Length
from greedystep.experiments.deep.training_store import Store
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "presets", True
TITLE = "The presets paper and fast side by side"

FAST = {
    # On MountainCar hardly an episode would have ended by then.
    "quick": TaskProtocol("catcher", "fast", Length(100_000, points=100, episodes=20), methods=("dqn", GREEDY)),
    "paper": replace(fig3.SCALES["paper"][0], length=Length(1_000_000), more_seeds=0),
}
SCALES: dict[str, list[TaskProtocol]] = {
    scale: [replace(fast, preset="paper", selection=0, settings_from=fast), fast] for scale, fast in FAST.items()
}


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, protocols = Store(parts), SCALES[scale]
    protocol.train_methods(store, progress, protocols, only)
    runs, numbers = protocol.collect(store, protocols, _entries)
    claims = [agree({name: one for (_, name), one in runs.items()})]
    return protocol.result(TITLE, scale, protocols, numbers, claims)


def _entries(store: Store, of: TaskProtocol) -> dict[str, Entry]:
    return {
        name(method, of.preset): Entry(f"{entry.label}, {of.preset}", entry.runs)
        for method, entry in protocol.method_entries(store, of).items()
    }


def name(method: str, preset: str) -> str:
    """The name of a method with a preset."""
    return f"{method}, {preset}"


def agree(runs: Mapping[str, MethodRuns]) -> Claim:
    """Among the pairs of methods that differ with both presets (95 % CIs), count those with the same one ahead.

    Confirmed if all have, refuted if none has, untested without such a pair.
    """
    methods = [method for method in METHODS if all(name(method, preset) in runs for preset in ("paper", "fast"))]
    alike, unlike = [], []
    for pair in combinations(methods, 2):
        ahead = {
            mean_difference(*(runs[name(method, preset)].final_return for method in pair)).above()
            for preset in ("paper", "fast")
        }
        if not ahead & {"partly", "untested"}:
            (alike if len(ahead) == 1 else unlike).append(" and ".join(METHODS[method].label for method in pair))
    differ = len(alike) + len(unlike)
    measured = f"{differ} pairs of methods differ with both presets (95 % CIs exclude 0), {len(alike)} in the same way"
    if not alike and not unlike:
        outcome = Outcome("untested", measured)
    else:
        why = f"not the same: {', '.join(unlike)}"
        outcome = Outcome("confirmed" if not unlike else "partly" if alike else "refuted", measured, why)
    return outcome.claim(
        "presets-agree",
        "Many environments and large batches put the methods in the same order as one environment and batches of 32.",
        "not in the paper",
        "the same order",
    )


# -- output -----------------------------------------------------------------------------------------------------------

STYLES: plots.Styles = {
    name(method, preset): (fig3.STYLES[method][0], dash)
    for method in PAPER
    for preset, dash in (("fast", plots.SOLID), ("paper", plots.DOTTED))
}


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    quantities = ("returns", "q", "overestimation")
    return {"presets": plots.draw_tasks(result["numbers"]["tasks"], STYLES, quantities, shaded=False)}


def tables(result: dict[str, Any]) -> list[Table]:
    return [final_table(NAME, "Methods by preset after equal steps", result["numbers"]["tasks"])]

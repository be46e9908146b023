"""Beyond the paper's figures: how far Greedy-Step DQN looks ahead, N, with 1 and 6 networks; and Double beside Maxmin.

The paper says that a larger N is faster and over-estimates more, and that this can be cured. Claims: `deep.behaviour`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from greedystep.experiments.deep import behaviour, output, sweep
from greedystep.experiments.deep.methods import Setting
from greedystep.experiments.deep.performance import TWICE
from greedystep.experiments.deep.training import Length
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "horizon", True
TITLE = "How far Greedy-Step DQN looks ahead: return, mean Q and over-estimation by N"

SCALES: dict[str, list[sweep.Leg]] = {
    "quick": [sweep.Leg("mountaincar", "paper", Length(50_000, points=100, episodes=20), seeds=3)],
    "paper": [sweep.Leg(task, "fast", Length(2_000_000), seeds=3, selection=1_000_000) for task in TWICE],
}
HORIZONS: dict[str, tuple[int | None, ...]] = {"quick": (1, 10, None), "paper": behaviour.HORIZONS}

COLOURS = {1: output.BLUE, 3: output.SKY, 10: output.GREEN, 30: output.YELLOW, None: output.ORANGE}


def variants(scale: str) -> dict[str, Setting]:
    """Greedy-Step alone, with Maxmin (6 networks), and with Double."""
    found: dict[str, Setting] = {
        behaviour.horizon(steps, number): {"returns": "greedy-step", "ensemble": number, "horizon": steps}
        for number in (1, 6)
        for steps in HORIZONS[scale]
    }
    return found | {behaviour.CURED_BY_DOUBLE: {"returns": "greedy-step", "ensemble": 1, "double": True}}


STYLES: output.Styles = {
    **{
        behaviour.horizon(steps, number): (colour, dash)
        for number, dash in ((1, output.DOTTED), (6, output.SOLID))
        for steps, colour in COLOURS.items()
    },
    behaviour.CURED_BY_DOUBLE: (output.BLACK, output.DASHED),
}


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    found, result = sweep.run_variants(scale, SCALES[scale], variants(scale), progress, parts, only)
    return {"title": TITLE, **result, "claims": [asdict(claim) for claim in behaviour.claims_horizon(found)]}


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    quantities = ("returns", "q", "overestimation")
    return {"horizon": output.draw_tasks(result["numbers"]["tasks"], STYLES, quantities, shaded=False)}


def tables(result: dict[str, Any]) -> list[Table]:
    return [output.final_table(NAME, "Greedy-Step DQN by its horizon N", result["numbers"]["tasks"])]

"""The paper's Figure 4: Greedy-Step DQN with 1, 2, 4 and 6 target networks: return, mean Q, and over-estimation.

Beside them stands the chosen n, which the paper shows for one number of networks alone (Figure 5). The paper does not
name its tasks; ours are the three on which it reports the largest gains. Claims: `deep.behaviour`.
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

NAME, IN_PARTS = "fig4", True
TITLE = "Greedy-Step DQN with 1, 2, 4 and 6 target networks: return, mean Q, over-estimation"
SHOWN_QUANTITIES = ("returns", "q", "overestimation", "n")

SCALES: dict[str, list[sweep.Leg]] = {
    "quick": [sweep.Leg("mountaincar", "paper", Length(50_000, points=100, episodes=20), seeds=5)],
    "paper": [sweep.Leg(task, "fast", Length(2_000_000), seeds=3, selection=1_000_000) for task in TWICE],
}

VARIANTS: dict[str, Setting] = {
    behaviour.networks(number): {"returns": "greedy-step", "ensemble": number} for number in behaviour.NETWORKS
}
STYLES: output.Styles = dict(
    zip(
        VARIANTS,
        [
            (output.BLUE, output.DOTTED),
            (output.SKY, output.DASHED),
            (output.GREEN, output.DASHED),
            (output.ORANGE, output.SOLID),
        ],
        strict=True,
    )
)


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    found, result = sweep.run_variants(scale, SCALES[scale], VARIANTS, progress, parts, only)
    return {"title": TITLE, **result, "claims": [asdict(claim) for claim in behaviour.claims_networks(found)]}


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    return {"fig4": output.draw_tasks(result["numbers"]["tasks"], STYLES, ("returns", "q", "overestimation", "n"))}


def tables(result: dict[str, Any]) -> list[Table]:
    return [output.final_table(NAME, "Greedy-Step DQN by its number of target networks", result["numbers"]["tasks"])]

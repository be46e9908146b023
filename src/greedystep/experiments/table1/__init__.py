"""The paper's Table 1, measured: what each operator converges to, how fast, what it must know, and what it costs.

    properties   every operator on random and structured models: its limit against Q* and Q^π, its rate (the largest
                 ‖Oq - Oq'‖ / ‖q - q'‖ over many pairs), and whether the limit moves with the behaviour policies
    theorems     the paper's inequalities on many small random models: how often each is violated
    variance     how much importance sampling makes multi-step returns vary
    cost         time and memory of one application as |S| and N grow, against the paper's precomputed matrices
    verdicts     the paper's claims, judged by these numbers; with statements (theorems) and formulas (as printed, cost)
    output       tables and figures

Why some theorems fail is told in docs/theory.md. No verdict depends on a time.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from greedystep.experiments.table1 import cost, formulas, properties, theorems, variance, verdicts
from greedystep.experiments.table1.output import draw, tables
from greedystep.runs.progress import ReportProgress

__all__ = ["NAME", "TITLE", "draw", "run", "tables"]

NAME = "table1"
TITLE = "Properties of the operators, measured"

SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "side": 7,
        "pairs": 50,
        "trials": 100,
        "states": [2**k for k in range(5, 14)],
        "steps": [2, 4, 8, 16, 32],
    },
    "paper": {
        "side": 14,
        "pairs": 200,
        "trials": 1000,
        "states": [2**k for k in range(5, 18)],
        "steps": [4, 8, 16, 32, 64],
    },
}
"""Side of the grids (every model has its square of states), pairs of tables for a rate, models of each kind for the
theorems, sizes and look-aheads of the cost measurement.
"""


def run(scale: str, progress: ReportProgress) -> dict[str, Any]:
    settings = SCALES[scale]
    progress(0.0, "limits and rates")
    cases = properties.cases(settings["side"])
    numbers: dict[str, Any] = {
        "properties": properties.properties(cases, settings["pairs"]),
        "convergence": properties.convergence(cases[1]),
        "theorems": theorems.theorems(settings["trials"], lambda share: progress(0.2 + 0.5 * share, "theorems")),
        "formulas": formulas.printed_formulas(),
        "variance": variance.variance(cases),
    }
    progress(0.7, "time and memory")
    numbers["cost"] = cost.cost(settings["states"], settings["steps"])
    fixed = {"discount": properties.GAMMA, "horizon": properties.N, "lambda": properties.LAMBDA, "cost": cost.MODEL}
    return {
        "title": TITLE,
        "settings": {"scale": scale, **fixed, **settings},
        "numbers": numbers,
        "claims": [asdict(claim) for claim in verdicts.claims(numbers)],
    }

"""The paper's Table 1, measured: what each operator converges to, how fast, what it must know, and what it costs.

    properties        every operator on random and structured models: its limit against Q* and Q^π, its contraction rate
                      (the largest ‖Oq - Oq'‖ / ‖q - q'‖ over many pairs), whether the limit depends on the behaviour
                      policies, and the variance of importance sampling
    property_claims   the claims about these
    theorems          the paper's statements on many small random models: how often each is violated, and the claims
    cost              time and memory of one application as |S| and N grow; the printed formulas; the claims
    operator_tables   tables and figures

docs/theory.md explains why some theorems fail. No verdict depends on a time.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from greedystep.experiments.claims import Claim
from greedystep.experiments.table1 import cost, properties, property_claims, theorems
from greedystep.experiments.table1.operator_tables import draw, tables
from greedystep.experiments.table1.properties import SAMPLED
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
"""Side of the grids (every model has side² states), pairs of tables per rate, models of each kind for the theorems, and
numbers of states and horizons of the cost measurement."""


def run(scale: str, progress: ReportProgress) -> dict[str, Any]:
    settings = SCALES[scale]
    progress(0.0, "limits and rates")
    cases = properties.cases(settings["side"])
    numbers: dict[str, Any] = {
        "properties": properties.properties(cases, settings["pairs"]),
        "convergence": properties.convergence(cases[1]),
        "theorems": theorems.count_violations(
            settings["trials"], lambda share: progress(0.2 + 0.5 * share, "theorems")
        ),
        "formulas": cost.printed_formulas(),
        "variance": properties.variance(cases),
    }
    progress(0.7, "time and memory")
    numbers["cost"] = cost.measure_cost(settings["states"], settings["steps"])
    fixed = {"discount": properties.GAMMA, "horizon": properties.N, "lambda": properties.LAMBDA, "cost": cost.MODEL}
    return {
        "title": TITLE,
        "settings": {"scale": scale, **fixed, **settings},
        "numbers": numbers,
        "claims": [asdict(claim) for claim in claims(numbers)],
    }


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """Judge the paper's claims about its operators by the numbers of a result."""
    measured, violations = numbers["properties"], numbers["theorems"]
    return [
        *property_claims.table_claims(measured),
        *theorems.theorem_claims(violations),
        *theorems.sampled_claims(violations, measured[SAMPLED]["cases"]),
        property_claims.good_policy_claim(numbers["convergence"]["curves"]),
        property_claims.variance_claim(numbers["variance"]),
        *cost.formula_claims(numbers["formulas"]),
        *cost.complexity_claims(numbers["cost"]),
    ]

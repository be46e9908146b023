"""The paper's Table 1, measured: what each operator converges to, how fast, what it must know, and what it costs.

    properties        every operator on random and structured models: its limit against Q* and Q^π, its contraction rate
                      (the largest ‖Oq - Oq'‖ / ‖q - q'‖ over many pairs), whether the limit depends on the behaviour
                      policies, the variance of importance sampling, time and memory of one application as |S| and N
                      grow; and two formulas as printed
    theorems          the paper's statements on many small random models: how often each is violated
    operator_claims   what the paper says about all of these, and the verdicts

docs/theory.md explains why some theorems fail.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from greedystep import figures
from greedystep.charts import Chart, Line
from greedystep.experiments.table1 import properties, theorems
from greedystep.experiments.table1.operator_claims import claims
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

__all__ = ["NAME", "TITLE", "claims", "draw", "run", "tables"]

NAME = "table1"
TITLE = "Properties of the operators, measured"


def _powers_of_two(first: int, last: int) -> list[int]:
    return [2**k for k in range(first, last + 1)]


SCALES: dict[str, dict[str, Any]] = {
    "quick": {"side": 7, "pairs": 50, "trials": 100, "states": _powers_of_two(5, 13), "steps": _powers_of_two(1, 5)},
    "paper": {"side": 14, "pairs": 200, "trials": 1000, "states": _powers_of_two(5, 17), "steps": _powers_of_two(2, 6)},
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
        "theorems": theorems.count_violations(settings["trials"], lambda x: progress(0.2 + 0.5 * x, "theorems")),
        "formulas": properties.printed_formulas(),
        "variance": properties.variance(cases),
    }
    progress(0.7, "time and memory")
    numbers["cost"] = properties.measure_cost(settings["states"], settings["steps"])
    fixed = {"discount": properties.GAMMA, "horizon": properties.N, "lambda": properties.LAMBDA}
    fixed["cost"] = properties.COST_MODEL
    return {
        "title": TITLE,
        "settings": {"scale": scale, **fixed, **settings},
        "numbers": numbers,
        "claims": [asdict(claim) for claim in claims(numbers)],
    }


# -- tables and figures -----------------------------------------------------------------------------------------------

FORMS = {"inside": "definition, sparse", "outside": "proofs' form, sparse", "matrices": "proofs' form, matrices"}
UNITS = {"seconds": ("ms", "milliseconds", 1e3), "bytes": ("MB", "megabytes", 1e-6)}


def tables(result: dict[str, Any]) -> list[Table]:
    numbers, settings = result["numbers"], result["settings"]
    title = f"worst of four models, discount {settings['discount']}, N = {settings['horizon']}"
    operators = [_property_row(name, operator) for name, operator in numbers["properties"].items()]
    violations = [
        {
            "operator": row["operator"],
            "statement": row["statement"],
            "models of each kind": row["trials"],
            "violated, deterministic": row["violations"]["deterministic"],
            "violated, stochastic": row["violations"]["stochastic"],
            "largest violation": round(max(row["worst"].values()), 3),
        }
        for row in numbers["theorems"]
    ]
    deviations = [
        {"model": row["case"], "returns": kind}
        | {f"n = {n}": round(deviation, 3) for n, deviation in zip(row["steps"], row[kind], strict=True)}
        for row in numbers["variance"]
        for kind in ("corrected", "uncorrected")
    ]
    costs = [
        {"states": row["states"], "N": row["horizon"]}
        | {
            f"{name}, {unit}": _scaled(row[measure][form], scale)
            for measure, (unit, _, scale) in UNITS.items()
            for form, name in FORMS.items()
        }
        for row in (*numbers["cost"]["states"], *numbers["cost"]["horizon"])
    ]
    spread = "Standard deviation of n-step returns with and without importance-sampling ratios, exactly"
    return [
        Table.from_records("table1", f"Properties of the operators: {title}", operators),
        Table.from_records("theorems", "Violations of the paper's statements on random models", violations),
        Table.from_records("variance", spread, deviations),
        Table.from_records("cost", "One application of Greedy-Step: milliseconds and megabytes", costs),
    ]


def _property_row(name: str, operator: dict[str, Any]) -> dict[str, Any]:
    def worst(what: str, *kinds: bool) -> float:
        return round(max(case[what] for case in operator["cases"] if case["deterministic"] in kinds), 3)

    chosen = sorted({n for case in operator["cases"] for n in case["steps"] or ()})
    return {
        "operator": name,
        "converges to": operator["limit"],
        "‖limit - Q*‖, deterministic": worst("to_optimum", True),
        "‖limit - Q*‖, stochastic": worst("to_optimum", False),
        "‖limit - Q^π‖": worst("to_policy", True, False),
        "rate bound": f"{operator['rate']} = {operator['bound']:.3f}",
        "rate": worst("rate", True, False),
        "limit changes with the behaviour policies by": worst("moves", True, False),
        "must be given": operator["needs"],
        "steps": f"{chosen[0]} to {chosen[-1]}" if chosen else operator["steps"],
        "products": operator["products"],
    }


def _scaled(amount: float | None, unit: float) -> float | None:
    return None if amount is None else round(amount * unit, 3)


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    return {
        "convergence": figures.draw_charts(_convergence_charts(result["numbers"]["convergence"]), columns=2),
        "cost": figures.draw_charts(_cost_charts(result["numbers"]["cost"]), columns=2, height=2.8),
    }


def _convergence_charts(convergence: dict[str, Any]) -> list[Chart]:
    def line(label: str, curve: dict[str, Any], cost: int, end: int) -> Line:
        shown = curve["errors"][: end // cost + 1]
        return Line(label, [k * cost for k in range(len(shown))], [error if error >= 1e-3 else None for error in shown])

    title, curves = f"From below Q*: {convergence['case']}", convergence["curves"]
    by_iteration = [line(label, curve, 1, 60) for label, curve in curves.items()]
    by_work = [line(label, curve, curve["products"], 600) for label, curve in curves.items()]
    axes = {"iterations": by_iteration, "work (sparse products)": by_work}
    return [Chart(title, x, "‖q - Q*‖", lines, log_y=True) for x, lines in axes.items()]


def _cost_charts(cost: dict[str, Any]) -> list[Chart]:
    def line(form: str, what: str, measure: str, scale: float) -> Line:
        rows = cost[what]
        return Line(FORMS[form], [row[what] for row in rows], [_scaled(row[measure][form], scale) for row in rows])

    title, axes = "One application of Greedy-Step", {"states": "states |S|", "horizon": "look-ahead N"}
    return [
        Chart(title, x, unit, [line(form, what, measure, scale) for form in FORMS], log_x=True, log_y=True)
        for measure, (_, unit, scale) in UNITS.items()
        for what, x in axes.items()
    ]

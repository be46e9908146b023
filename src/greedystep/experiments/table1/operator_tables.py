"""The tables and figures of Table 1, from the result alone."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from greedystep import figures
from greedystep.charts import Chart, Line
from greedystep.experiments.table1.cost import FORMS
from greedystep.tables import Table

FORM_NAMES = {"inside": "definition, sparse", "outside": "proofs' form, sparse", "matrices": "proofs' form, matrices"}


def tables(result: dict[str, Any]) -> list[Table]:
    numbers = result["numbers"]
    return [
        Table(
            "table1",
            "Properties of the operators: worst of four models, discount "
            f"{result['settings']['discount']}, N = {result['settings']['horizon']}",
            [
                "operator",
                "converges to",
                "‖limit - Q*‖, deterministic",
                "‖limit - Q*‖, stochastic",
                "‖limit - Q^π‖",
                "rate bound",
                "rate",
                "limit changes with the behaviour policies by",
                "must be given",
                "steps",
                "products",
            ],
            [_row(name, operator) for name, operator in numbers["properties"].items()],
        ),
        Table(
            "theorems",
            "Violations of the paper's statements on random models",
            [
                "operator",
                "statement",
                "models of each kind",
                "violated, deterministic",
                "violated, stochastic",
                "largest violation",
            ],
            [
                [
                    row["operator"],
                    row["statement"],
                    row["trials"],
                    row["violations"]["deterministic"],
                    row["violations"]["stochastic"],
                    round(max(row["worst"].values()), 3),
                ]
                for row in numbers["theorems"]
            ],
        ),
        Table(
            "variance",
            "Standard deviation of n-step returns with and without importance-sampling ratios, exactly",
            ["model", "returns", *(f"n = {n}" for n in numbers["variance"][0]["steps"])],
            [
                [row["case"], kind, *(round(deviation, 3) for deviation in row[kind])]
                for row in numbers["variance"]
                for kind in ("corrected", "uncorrected")
            ],
        ),
        Table(
            "cost",
            "One application of Greedy-Step: milliseconds and megabytes",
            ["states", "N", *(f"{FORM_NAMES[form]}, {unit}" for unit in ("ms", "MB") for form in FORMS)],
            [
                [
                    row["states"],
                    row["horizon"],
                    *(_scaled(row["seconds"][form], 1e3) for form in FORMS),
                    *(_scaled(row["bytes"][form], 1e-6) for form in FORMS),
                ]
                for row in (*numbers["cost"]["states"], *numbers["cost"]["horizon"])
            ],
        ),
    ]


def _scaled(amount: float | None, unit: float) -> float | None:
    return None if amount is None else round(amount * unit, 3)


def _row(name: str, operator: dict[str, Any]) -> list[Any]:
    def worst(what: str, *kinds: bool) -> float:
        return round(max(case[what] for case in operator["cases"] if case["deterministic"] in kinds), 3)

    chosen = sorted({n for case in operator["cases"] for n in case["steps"] or ()})
    return [
        name,
        operator["limit"],
        worst("to_optimum", True),
        worst("to_optimum", False),
        worst("to_policy", True, False),
        f"{operator['rate']} = {operator['bound']:.3f}",
        worst("rate", True, False),
        worst("moves", True, False),
        operator["needs"],
        f"{chosen[0]} to {chosen[-1]}" if chosen else operator["steps"],
        operator["products"],
    ]


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    return {
        "convergence": figures.draw_charts(_convergence_charts(result["numbers"]["convergence"]), columns=2),
        "cost": figures.draw_charts(_cost_charts(result["numbers"]["cost"]), columns=2, height=2.8),
    }


def _convergence_charts(convergence: dict[str, Any]) -> list[Chart]:
    """Return the error over iterations and over work, as far as it is above 1e-3."""
    title, curves = f"From below Q*: {convergence['case']}", convergence["curves"]
    axes = {"iterations": (dict.fromkeys(curves, 1), 60)}
    axes["work (sparse products)"] = ({label: curve["products"] for label, curve in curves.items()}, 600)
    return [
        Chart(
            title,
            x,
            "‖q - Q*‖",
            [_error_line(label, curve["errors"], cost[label], end) for label, curve in curves.items()],
            log_y=True,
        )
        for x, (cost, end) in axes.items()
    ]


def _error_line(label: str, errors: list[float], cost: int, end: int) -> Line:
    shown = errors[: end // cost + 1]
    return Line(label, [k * cost for k in range(len(shown))], [error if error >= 1e-3 else None for error in shown])


def _cost_charts(cost: dict[str, Any]) -> list[Chart]:
    units = {"seconds": ("milliseconds", 1e3), "bytes": ("megabytes", 1e-6)}
    return [
        Chart(
            "One application of Greedy-Step",
            x,
            unit,
            [
                Line(FORM_NAMES[form], sizes, [_scaled(row[measure][form], scale) for row in cost[what]])
                for form in FORMS
            ],
            log_x=True,
            log_y=True,
        )
        for measure, (unit, scale) in units.items()
        for what, x in (("states", "states |S|"), ("horizon", "look-ahead N"))
        for sizes in [[row[what] for row in cost[what]]]
    ]

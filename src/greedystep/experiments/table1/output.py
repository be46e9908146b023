"""Table 1 and its figures, from the result alone."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from greedystep import figures
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
                "limit moves with the data's policies by",
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
                "worst by",
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
        "convergence": _draw_convergence(result["numbers"]["convergence"]),
        "cost": _draw_cost(result["numbers"]["cost"]),
    }


@figures.style()
def _draw_convergence(convergence: dict[str, Any]) -> Figure:
    figure, axes = figures.panels(1, 2, sharey=True)
    curves = zip(convergence["curves"].items(), figures.COLOURS, figures.DASHES, strict=False)
    for (label, curve), colour, dash in curves:
        iterations = range(len(curve["errors"]))
        axes[0].plot(iterations, curve["errors"], color=colour, linestyle=dash, label=label)
        axes[1].plot([k * curve["products"] for k in iterations], curve["errors"], color=colour, linestyle=dash)
    axes[0].set(xlabel="iterations", xlim=(0, 60), ylabel="‖q - Q*‖", yscale="log", ylim=(1e-3, None))
    axes[1].set(xlabel="work (sparse products)", xlim=(0, 600))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(f"Error when starting below Q*: {convergence['case']} model")
    return figure


@figures.style()
def _draw_cost(cost: dict[str, Any]) -> Figure:
    figure, axes = figures.panels(2, 2, sharex="col", sharey="row")
    for column, (what, label) in enumerate((("states", "states |S|"), ("horizon", "look-ahead N"))):
        sizes = [row[what] for row in cost[what]]
        for axis, measure, unit in zip(axes[:, column], ("seconds", "bytes"), (1e3, 1e-6), strict=True):
            for form, colour, dash in zip(FORMS, figures.COLOURS, figures.DASHES, strict=False):
                points = [
                    (row[what], row[measure][form] * unit) for row in cost[what] if row[measure][form] is not None
                ]
                axis.plot(*zip(*points, strict=True), marker="o", color=colour, linestyle=dash, label=FORM_NAMES[form])
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks(sizes[::2] if len(sizes) > 6 else sizes)
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes[1, column].set_xlabel(label)
    axes[0, 0].set_ylabel("milliseconds")
    axes[1, 0].set_ylabel("megabytes")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle("One application of the Greedy-Step operator")
    return figure

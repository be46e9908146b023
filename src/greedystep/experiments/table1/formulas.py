"""The paper's printed formulas and its cost: what they give, and the claims about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep import models
from greedystep.experiments.claims import Claim, Verdict, because
from greedystep.experiments.table1.cost import MatrixForm
from greedystep.experiments.table1.properties import GAMMA, LAMBDA
from greedystep.experiments.table1.statements import TESTS

ORDER = 0.1
"""How far a measured power may lie from the one that is claimed."""


def printed_formulas() -> dict[str, Any]:
    """Two formulas as the paper prints them, each on its smallest example."""
    mdp, forward = models.chain(2, GAMMA), np.array([1, 1])
    return {
        "matrix_form": {
            form: MatrixForm(mdp, [forward], horizon=2, as_printed=form == "printed")(np.zeros(2)).tolist()
            for form in ("printed", "corrected")
        },
        "optimal_values": [GAMMA, 1.0],
        "lambda_weights": float(sum((1 - LAMBDA) * LAMBDA**n for n in range(1, 1000))),
    }


def printed(formulas: dict[str, Any]) -> list[Claim]:
    """Refuted: the printed formula gives another number than what it stands for."""
    matrix, optimal = formulas["matrix_form"]["printed"], formulas["optimal_values"]
    right: Verdict = "confirmed" if np.allclose(matrix, optimal) else "refuted"
    whole: Verdict = "confirmed" if np.isclose(formulas["lambda_weights"], 1) else "refuted"
    return [
        Claim(
            "matrix-formula",
            "The model-based update of Section 4 computes the Greedy-Step operator.",
            "Section 4",
            f"V = {optimal} after one update with N = 2 on a chain of two states",
            f"as printed {matrix}; with the missing transition matrix {formulas['matrix_form']['corrected']}",
            right,
            because(
                right,
                "the sum of rewards lacks the transition of the first action "
                f"({TESTS}::test_the_printed_matrix_formula_lacks_a_transition)",
            ),
        ),
        Claim(
            "lambda-weights",
            "The λ-operator is (1-λ) Σ λ^N B^N, N >= 1.",
            "Section 5",
            "weights sum to 1",
            f"they sum to {formulas['lambda_weights']:.3g} at λ = {LAMBDA}; λ^(N-1) is right",
            whole,
            because(
                whole,
                "the exponent is one too large "
                f"({TESTS}::test_the_printed_weights_of_the_lambda_operator_do_not_sum_to_one)",
            ),
        ),
    ]


def complexity(cost: dict[str, list[dict[str, Any]]]) -> list[Claim]:
    """One application reads all it has stored, so memory tells the order; times also depend on caches."""
    in_states, last = _order(cost["states"], "states")
    in_steps, _ = _order(cost["horizon"], "horizon")
    time, memory = (last[what]["matrices"] / last[what]["outside"] for what in ("seconds", "bytes"))
    square, linear = _near(in_states, 2), _near(in_steps, 1)
    return [
        Claim(
            "complexity",
            "One model-based iteration costs O(|A| |Π| N |S|²).",
            "Section 4",
            "|S|^2",
            f"|S|^{in_states:.2f} for the matrices; sparse products give the same at {last['states']} states in "
            f"1/{time:.0f} of the time and 1/{memory:.0f} of the memory",
            square,
            because(square),
        ),
        Claim(
            "complexity-in-steps",
            "The cost of an iteration is linear in the number of steps.",
            "Abstract, Section 1 and Section 4",
            "N^1",
            f"N^{in_steps:.2f}",
            linear,
            because(linear),
        ),
    ]


def _order(rows: list[dict[str, Any]], what: str) -> tuple[float, dict[str, Any]]:
    """The power of a size with which the matrices grow, and the row of the largest."""
    rows = [row for row in rows if row["bytes"]["matrices"] is not None]
    sizes, stored = np.log([[row[what], row["bytes"]["matrices"]] for row in rows]).T
    return float(np.polyfit(sizes, stored, 1)[0]), rows[-1]


def _near(order: float, power: float) -> Verdict:
    return "confirmed" if abs(order - power) <= ORDER else "refuted"

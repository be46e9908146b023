"""The paper's claims about its operators, and the rules that judge them by the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep import models
from greedystep.experiments.claims import Claim, Verdict
from greedystep.experiments.table1.cost import MatrixForm
from greedystep.experiments.table1.properties import GAMMA, GREEDY, LAMBDA, OPERATORS, TABLE_1

SAME = 1e-8
"""Limits nearer than this are equal; they are iterated until they change by less than 1e-11."""


def claims(numbers: dict[str, Any]) -> list[Claim]:
    measured = numbers["properties"]
    return [
        *(_row(name, measured[name]["cases"]) for name in TABLE_1),
        _adaptive(measured[GREEDY[0]]["cases"]),
        _no_correction(measured),
        *_theorems(numbers["theorems"]),
        _sampled(numbers["theorems"], measured["sampled Greedy-Step"]["cases"]),
        *_printed(numbers["formulas"]),
        _complexity(numbers["cost"]["states"]),
    ]


# -- the table's columns ----------------------------------------------------------------------------------------------


def _row(name: str, entries: list[dict[str, Any]]) -> Claim:
    """Confirmed: the limit is what the paper says and no pair of tables exceeds the rate, on every model."""
    operator = OPERATORS[name]
    to_limit = {
        "Q*": max(e["to_optimum"] for e in entries),
        "Q^π": max(e["to_policy"] for e in entries),
        "below Q*": max(e["above_optimum"] for e in entries),
    }[operator.limit]
    rate = max(e["rate"] for e in entries)
    right = to_limit <= SAME and rate <= operator.bound + SAME
    towards = "exceeds Q* by at most" if operator.limit == "below Q*" else f"differs from {operator.limit} by"
    return Claim(
        f"table1-{name.lower().replace(' ', '-').replace('(', '').replace(')', '')}",
        f"The {name} operator converges to {operator.limit} with rate {operator.rate}.",
        "Table 1",
        f"{operator.limit}, {operator.rate} = {operator.bound:.3f}",
        f"limit {towards} {_size(to_limit)}, rate {rate:.3f}",
        "confirmed" if right else "refuted",
    )


def _size(difference: float) -> str:
    return "0" if difference <= SAME else f"{difference:.2f}"


def _adaptive(entries: list[dict[str, Any]]) -> Claim:
    """Confirmed: on every model more than one n is chosen."""
    ranges = {e["case"]: f"{min(e['steps'])} to {max(e['steps'])}" for e in entries}
    varies = all(len(e["steps"]) > 1 for e in entries)
    return Claim(
        "table1-adaptive-step",
        "Greedy-Step adjusts the number of steps by itself.",
        "Table 1",
        "yes",
        "; ".join(f"{case}: n = {values}" for case, values in ranges.items()),
        "confirmed" if varies else "refuted",
    )


def _no_correction(measured: dict[str, Any]) -> Claim:
    """No correction is needed where the limit does not depend on who made the data."""
    moves = {name: max(e["moves"] for e in measured[name]["cases"]) for name in (*GREEDY, "multi-step optimality")}
    greedy = max(moves[name] for name in GREEDY)
    return Claim(
        "table1-no-correction",
        "Greedy-Step and the multi-step optimality operator need no off-policy correction.",
        "Table 1",
        "neither does",
        f"with other behaviour policies the limit of Greedy-Step moves by {_size(greedy)}, that of multi-step "
        f"optimality by {_size(moves['multi-step optimality'])}: no ratios, but it inherits the behaviour's mistakes",
        _conditional(max(moves.values()) <= SAME, greedy <= SAME),
    )


# -- theorems ---------------------------------------------------------------------------------------------------------


def _theorems(rows: list[dict[str, Any]]) -> list[Claim]:
    def count(operator: str, statement: str) -> tuple[int, str]:
        """Violations of a statement in all models, and in words."""
        row = next(row for row in rows if (row["operator"], row["statement"]) == (operator, statement))
        counts = row["violations"]
        words = [f"{count} of {row['trials']} {kind} models" for kind, count in counts.items() if count]
        return sum(counts.values()), " and ".join(words) or f"none of {len(counts) * row['trials']} models"

    def both(statement: str) -> tuple[tuple[int, int], str]:
        (inside, definition), (outside, proofs) = (count(form, statement) for form in GREEDY)
        return (inside, outside), f"violated in {definition} (definition), {proofs} (proofs)"

    fixed, fixed_text = both("Theorem 1: Q* = G Q*")
    contraction, contraction_text = both("Lemma 1: |Gq-Gq'| <= γ |q-q'|")
    first, first_text = both("Lemma 1: |Gq-Gq'| <= |Bq-Bq'|")
    faster, faster_text = both("Theorem 4: |Gq-Q*| <= |Bq-Q*|")
    from_below, from_below_text = both("Theorem 4 with q <= Q*")
    fast, fast_text = both("Theorem 5 with N = n+1")
    short, short_text = both("Theorem 5 with N = n")
    multi = "multi-step optimality"
    lemma_2, lemma_2_text = count(multi, "Lemma 2: |Oq-Oq'| <= γ^N |q-q'|")
    lower, lower_text = count(multi, "limit <= Q*")
    equal, equal_text = count(multi, "limit = Q* if a policy knows the way")
    values, _ = count(multi, "max_a limit = V* if a policy knows the way")
    one_good, one_good_text = count(multi, "limit = Q* if one policy of several is optimal")
    return [
        Claim(
            "theorem-1", "Q* is a fixed point of Greedy-Step, for any policies and any N.", "Theorem 1",
            "always", fixed_text, _holds(sum(fixed)),
        ),
        Claim(
            "lemma-1-contraction", "Greedy-Step contracts by γ.", "Lemma 1",
            "always", contraction_text, _holds(sum(contraction)),
        ),
        Claim(
            "lemma-1-first", "‖Gq - Gq'‖ <= ‖Bq - Bq'‖.", "Lemma 1",
            "always", first_text, _conditional(sum(first) == 0, min(first) == 0),
        ),
        Claim(
            "theorem-4", "Greedy-Step always converges faster than the one-step operator: ‖Gq - Q*‖ <= ‖Bq - Q*‖.",
            "Theorem 4", "always", f"any q: {faster_text}; q <= Q*: {from_below_text}",
            _conditional(sum(faster) == 0, sum(from_below) == 0),
        ),
        Claim(
            "theorem-5", "If q <= Q* and from every state a policy is optimal for n steps, the rate is γ^(n+1).",
            "Theorem 5", "always", f"N = n+1: {fast_text}", _conditional(sum(fast) == 0, fast[0] == 0),
        ),
        Claim(
            "any-horizon", "All results hold for any N >= 1.", "Section 3.1",
            "any N", f"Theorem 5 with N = n: {short_text}", _holds(sum(short)),
        ),
        Claim(
            "lemma-2", "The multi-step optimality operator contracts by γ^N.", "Lemma 2",
            "always", f"violated in {lemma_2_text}", _holds(lemma_2),
        ),
        Claim(
            "multi-step-limit-below", "The limit of the multi-step optimality operator lies below Q*.",
            "Theorem on its fixed point", "always", f"violated in {lower_text}", _holds(lower),
        ),
        Claim(
            "multi-step-limit-optimal", "If from every state a policy is optimal for N steps, its limit is Q*.",
            "Theorem on its fixed point", "always",
            f"violated in {equal_text}; its greedy values are wrong in {values}",
            _conditional(equal == 0, values == 0),
        ),
        Claim(
            "multi-step-all-optimal", "Its limit is Q* only when all the behaviour policies are optimal.",
            "Section 5", "only then",
            f"with one optimal policy among random ones the limit differs from Q* in {one_good_text}",
            "refuted" if one_good == 0 else "untested",
        ),
    ]  # fmt: skip


def _sampled(rows: list[dict[str, Any]], entries: list[dict[str, Any]]) -> Claim:
    """The paper claims deterministic models only; what happens in the others is told beside it."""
    row = next(row for row in rows if row["operator"] == "sampled Greedy-Step")
    bias = max(e["above_optimum"] for e in entries if not e["deterministic"])
    return Claim(
        "sampled-contraction",
        "In deterministic models the sampled operator is a contraction to Q*.",
        "Theorem in Section 4",
        "always",
        f"violated in {row['violations']['deterministic']} of {row['trials']} deterministic models; in stochastic ones "
        f"the limit exceeds Q* by up to {bias:.2f}",
        _holds(row["violations"]["deterministic"]),
    )


def _holds(violations: int) -> Verdict:
    return "confirmed" if violations == 0 else "refuted"


def _conditional(always: bool, under_conditions: bool) -> Verdict:
    return "confirmed" if always else "partly" if under_conditions else "refuted"


# -- formulas and cost ------------------------------------------------------------------------------------------------


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


def _printed(formulas: dict[str, Any]) -> list[Claim]:
    """Refuted: the printed formula gives another number than what it stands for."""
    printed, optimal = formulas["matrix_form"]["printed"], formulas["optimal_values"]
    return [
        Claim(
            "matrix-formula",
            "The model-based update of Section 4 computes the Greedy-Step operator.",
            "Section 4",
            f"V = {optimal} after one update with N = 2 on a chain of two states",
            f"as printed {printed}; with the missing transition matrix {formulas['matrix_form']['corrected']}",
            "confirmed" if np.allclose(printed, optimal) else "refuted",
        ),
        Claim(
            "lambda-weights",
            "The λ-operator is (1-λ) Σ λ^N B^N, N >= 1.",
            "Section 5",
            "weights sum to 1",
            f"they sum to {formulas['lambda_weights']:.3g} at λ = {LAMBDA}; λ^(N-1) is right",
            "confirmed" if np.isclose(formulas["lambda_weights"], 1) else "refuted",
        ),
    ]


def _complexity(rows: list[dict[str, Any]]) -> Claim:
    """One application reads all it has stored, so memory tells the order; times also depend on caches."""
    rows = [row for row in rows if row["bytes"]["matrices"] is not None]
    states, stored = np.log([[row["states"], row["bytes"]["matrices"]] for row in rows]).T
    order, last = np.polyfit(states, stored, 1)[0], rows[-1]
    time, memory = (last[what]["matrices"] / last[what]["outside"] for what in ("seconds", "bytes"))
    return Claim(
        "complexity",
        "One model-based iteration costs O(|A| |Π| N |S|²).",
        "Section 4",
        "|S|^2",
        f"|S|^{order:.2f} for the matrices; sparse products give the same at {last['states']} states in 1/{time:.0f} "
        f"of the time and 1/{memory:.0f} of the memory",
        "confirmed" if abs(order - 2) <= 0.1 else "refuted",
    )

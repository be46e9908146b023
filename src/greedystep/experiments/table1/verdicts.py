"""The paper's claims about its operators, and the rules that judge them by the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.experiments.claims import Claim, Verdict, because
from greedystep.experiments.table1 import formulas, statements
from greedystep.experiments.table1.properties import GREEDY, KNOWING, OPERATORS, TABLE_1
from greedystep.experiments.table1.statements import MULTI_STEP, SAME, TESTS

EVALUATION = ("multi-step on-policy", "multi-step off-policy")
LARGE = 2.0
BELOW = "test_the_fixed_point_of_multi_step_optimality_can_lie_strictly_below"


def claims(numbers: dict[str, Any]) -> list[Claim]:
    measured = numbers["properties"]
    return [
        *(_row(name, measured[name]["cases"]) for name in TABLE_1),
        _adaptive(measured[GREEDY[0]]["cases"]),
        *_no_correction(measured),
        _needs_correction(measured),
        *statements.claims(numbers["theorems"]),
        *statements.sampled(numbers["theorems"], measured["sampled Greedy-Step"]["cases"]),
        _good_policy(numbers["convergence"]["curves"]),
        _variance(numbers["variance"]),
        *formulas.printed(numbers["formulas"]),
        *formulas.complexity(numbers["cost"]),
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
    verdict = _holds(to_limit <= SAME and rate <= operator.bound + SAME)
    towards = "exceeds Q* by at most" if operator.limit == "below Q*" else f"differs from {operator.limit} by"
    return Claim(
        f"table1-{name.lower().replace(' ', '-').replace('(', '').replace(')', '')}",
        f"The {name} operator converges to {operator.limit} with rate {operator.rate}.",
        "Table 1",
        f"{operator.limit}, {operator.rate} = {operator.bound:.3f}",
        f"limit {towards} {_size(to_limit)}, rate {rate:.3f}",
        verdict,
        because(verdict),
    )


def _size(difference: float) -> str:
    return "0" if difference <= SAME else f"{difference:.2f}"


def _adaptive(entries: list[dict[str, Any]]) -> Claim:
    """Confirmed: on every model more than one n is chosen."""
    ranges = {e["case"]: f"{min(e['steps'])} to {max(e['steps'])}" for e in entries}
    verdict = _holds(all(len(e["steps"]) > 1 for e in entries))
    return Claim(
        "table1-adaptive-step",
        "Greedy-Step adjusts the number of steps by itself.",
        "Table 1",
        "yes",
        "; ".join(f"{case}: n = {values}" for case, values in ranges.items()),
        verdict,
        because(verdict),
    )


def _no_correction(measured: dict[str, Any]) -> list[Claim]:
    """No correction is needed where the limit does not depend on who made the data.

    That of multi-step optimality is computed without ratios, so a limit that moves makes it partly right.
    """
    moves = {name: max(e["moves"] for e in measured[name]["cases"]) for name in (*GREEDY, MULTI_STEP)}
    greedy = max(moves[name] for name in GREEDY)
    multi_step: Verdict = "confirmed" if moves[MULTI_STEP] <= SAME else "partly"
    return [
        Claim(
            "table1-no-correction",
            "Greedy-Step needs no off-policy correction, whatever policies made the data.",
            "Table 1",
            "none",
            f"with other behaviour policies its limit moves by {_size(greedy)}",
            _holds(greedy <= SAME),
            because(_holds(greedy <= SAME)),
        ),
        Claim(
            "table1-multi-step-no-correction",
            "The multi-step optimality operator needs no off-policy correction.",
            "Table 1",
            "none",
            f"with other behaviour policies its limit moves by {_size(moves[MULTI_STEP])}",
            multi_step,
            because(multi_step, f"it needs no ratios, but inherits the behaviour's mistakes ({TESTS}::{BELOW})"),
        ),
    ]


def _needs_correction(measured: dict[str, Any]) -> Claim:
    """Without ratios the limit moves with the data on some model, with them on none. One of the two: partly."""
    without, corrected = ([e["moves"] for e in measured[name]["cases"]] for name in EVALUATION)
    met = [max(without) > SAME, max(corrected) <= SAME]
    verdict: Verdict = "confirmed" if all(met) else "partly" if any(met) else "refuted"
    return Claim(
        "table1-needs-correction",
        "Operators that evaluate a policy need an off-policy correction for the data of others.",
        "Table 1 and Section 5",
        "needed",
        f"with other behaviour policies the limit moves by up to {max(without):.2f} without ratios, by "
        f"{_size(max(corrected))} with them",
        verdict,
        because(verdict),
    )


def _variance(rows: list[dict[str, Any]]) -> Claim:
    """On each model: the deviation grows with every step, and at the longest is twice that without correction or more.

    On all models: confirmed; on some: partly; on none: refuted.
    """
    times = {row["case"]: row["corrected"][-1] / row["uncorrected"][-1] for row in rows}
    large = [times[row["case"]] >= LARGE and bool((np.diff(row["corrected"]) > 0).all()) for row in rows]
    verdict: Verdict = "confirmed" if all(large) else "partly" if any(large) else "refuted"
    return Claim(
        "importance-sampling-variance",
        "The product of importance-sampling ratios makes multi-step returns vary much.",
        "Abstract, Section 1 and Section 5",
        "high variance",
        f"standard deviation of {rows[0]['steps'][-1]}-step returns against those without ratios: "
        + "; ".join(f"{case}: {factor:.1f} times" for case, factor in times.items()),
        verdict,
        because(verdict),
    )


def _good_policy(curves: dict[str, Any]) -> Claim:
    """With an optimal policy among the data's, fewer iterations to a thousandth of the first error than without."""
    without, knowing = (_iterations(curves[name]["errors"]) for name in (GREEDY[0], KNOWING))
    verdict = _holds(knowing < without)
    return Claim(
        "good-policy-faster",
        "Greedy-Step converges faster when a behaviour policy performs well.",
        "Section 3",
        "faster",
        f"{knowing} iterations with an optimal policy among the data's, {without} with random ones",
        verdict,
        because(verdict),
    )


def _iterations(errors: list[float]) -> int:
    """Until the error is a thousandth of the first; as many as there are if it never is."""
    return int(np.argmax(np.array([*errors, 0.0]) <= errors[0] / 1000))


def _holds(right: bool) -> Verdict:
    return "confirmed" if right else "refuted"

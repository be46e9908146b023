"""The paper's claims about the operators of Table 1, judged by their measured properties."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.experiments.claims import Claim, Verdict, judged, verdict_if, verdict_of_parts
from greedystep.experiments.table1.properties import GREEDY, KNOWING, MULTI_STEP, OPERATORS, SAME, TABLE_1

EVALUATION = ("multi-step on-policy", "multi-step off-policy")
LARGE = 2.0
"""Ratio of standard deviations from which the variance counts as high."""
STRICTLY_BELOW = "tests/test_theory.py::test_the_fixed_point_of_multi_step_optimality_can_lie_strictly_below"


def table_claims(measured: dict[str, Any]) -> list[Claim]:
    """Judge the columns of Table 1."""
    return [
        *(_row(name, measured[name]["cases"]) for name in TABLE_1),
        _adaptive(measured[GREEDY[0]]["cases"]),
        *_no_correction(measured),
        _needs_correction(measured),
    ]


def _row(name: str, entries: list[dict[str, Any]]) -> Claim:
    """Confirmed: on every model the limit is the paper's, and no pair of tables exceeds its rate."""
    operator = OPERATORS[name]
    to_limit = {
        "Q*": max(e["to_optimum"] for e in entries),
        "Q^π": max(e["to_policy"] for e in entries),
        "below Q*": max(e["above_optimum"] for e in entries),
    }[operator.limit]
    rate = max(e["rate"] for e in entries)
    verdict = verdict_if(to_limit <= SAME and rate <= operator.bound + SAME)
    towards = "exceeds Q* by at most" if operator.limit == "below Q*" else f"differs from {operator.limit} by"
    return judged(
        f"table1-{name.lower().replace(' ', '-').replace('(', '').replace(')', '')}",
        f"The {name} operator converges to {operator.limit} with rate {operator.rate}.",
        "Table 1",
        f"{operator.limit}, {operator.rate} = {operator.bound:.3f}",
        f"limit {towards} {_size(to_limit)}, rate {rate:.3f}",
        verdict,
    )


def _size(difference: float) -> str:
    return "0" if difference <= SAME else f"{difference:.2f}"


def _adaptive(entries: list[dict[str, Any]]) -> Claim:
    """Confirmed: on every model more than one n is chosen."""
    ranges = {e["case"]: f"{min(e['steps'])} to {max(e['steps'])}" for e in entries}
    verdict = verdict_if(all(len(e["steps"]) > 1 for e in entries))
    return judged(
        "table1-adaptive-step",
        "Greedy-Step adjusts the number of steps by itself.",
        "Table 1",
        "yes",
        "; ".join(f"{case}: n = {values}" for case, values in ranges.items()),
        verdict,
    )


def _no_correction(measured: dict[str, Any]) -> list[Claim]:
    """Confirmed: the limit does not depend on the behaviour policies.

    Multi-step optimality needs no ratios in any case, so that a limit that does depend on them is partly right.
    """
    moves = {name: max(e["moves"] for e in measured[name]["cases"]) for name in (*GREEDY, MULTI_STEP)}
    greedy = max(moves[name] for name in GREEDY)
    multi_step: Verdict = "confirmed" if moves[MULTI_STEP] <= SAME else "partly"
    return [
        judged(
            "table1-no-correction",
            "Greedy-Step needs no off-policy correction, whatever policies made the data.",
            "Table 1",
            "none",
            f"with other behaviour policies its limit moves by {_size(greedy)}",
            verdict_if(greedy <= SAME),
        ),
        judged(
            "table1-multi-step-no-correction",
            "The multi-step optimality operator needs no off-policy correction.",
            "Table 1",
            "none",
            f"with other behaviour policies its limit moves by {_size(moves[MULTI_STEP])}",
            multi_step,
            f"it needs no ratios, but inherits the behaviour's mistakes ({STRICTLY_BELOW})",
        ),
    ]


def _needs_correction(measured: dict[str, Any]) -> Claim:
    """Confirmed in two parts: without ratios the limit depends on the behaviour on some model, with ratios on none."""
    without, corrected = ([e["moves"] for e in measured[name]["cases"]] for name in EVALUATION)
    verdict = verdict_of_parts([max(without) > SAME, max(corrected) <= SAME])
    return judged(
        "table1-needs-correction",
        "Operators that evaluate a policy need an off-policy correction for the data of others.",
        "Table 1 and Section 5",
        "needed",
        f"with other behaviour policies the limit moves by up to {max(without):.2f} without ratios, by "
        f"{_size(max(corrected))} with them",
        verdict,
    )


def variance_claim(rows: list[dict[str, Any]]) -> Claim:
    """One part per model: the deviation grows with every step, and ends at LARGE times that without correction."""
    times = {row["case"]: row["corrected"][-1] / row["uncorrected"][-1] for row in rows}
    large = [times[row["case"]] >= LARGE and bool((np.diff(row["corrected"]) > 0).all()) for row in rows]
    verdict = verdict_of_parts(large)
    return judged(
        "importance-sampling-variance",
        "The product of importance-sampling ratios makes multi-step returns vary much.",
        "Abstract, Section 1 and Section 5",
        "high variance",
        f"standard deviation of {rows[0]['steps'][-1]}-step returns against those without ratios: "
        + "; ".join(f"{case}: {factor:.1f} times" for case, factor in times.items()),
        verdict,
    )


def good_policy_claim(curves: dict[str, Any]) -> Claim:
    """Confirmed: fewer iterations to a thousandth of the first error with an optimal behaviour policy than without."""
    without, knowing = (_iterations(curves[name]["errors"]) for name in (GREEDY[0], KNOWING))
    verdict = verdict_if(knowing < without)
    return judged(
        "good-policy-faster",
        "Greedy-Step converges faster when a behaviour policy performs well.",
        "Section 3",
        "faster",
        f"{knowing} iterations with an optimal policy among the data's, {without} with random ones",
        verdict,
    )


def _iterations(errors: list[float]) -> int:
    """Return the iterations until the error is a thousandth of the first; all if it never is."""
    return int(np.argmax(np.array([*errors, 0.0]) <= errors[0] / 1000))

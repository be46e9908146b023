"""The paper's claims about its operators: what it says, the rule by which each claim is judged, and why it fails.

A theorem is confirmed if no model violates it for the operator as the paper defines it, and refuted otherwise. What
holds for the form of its proofs is said beside it, and the condition under which it does hold in the reason.
No verdict depends on a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from greedystep.experiments.claims import NOT_KNOWN, Claim, Verdict, judged, rule_text, verdict_if, verdict_of_parts
from greedystep.experiments.table1 import properties
from greedystep.experiments.table1.properties import GREEDY, MULTI_STEP, OPERATORS, SAME, SAMPLED

DEFINITION, PROOFS = GREEDY
EVALUATION = ("multi-step on-policy", "multi-step off-policy")
LARGE = 2.0
"""The variance counts as high from this ratio of standard deviations, with importance sampling and without."""
ORDER = 0.1
"""Largest distance between a measured exponent and the claimed one."""

# -- what the paper says ----------------------------------------------------------------------------------------------

ROWS = {f"table1-{name.lower().translate(str.maketrans(' ', '-', '()'))}": name for name in properties.TABLE_1}
"""Id of the claim on a row of Table 1 -> the row's operator."""

PAPER: dict[str, dict[str, str]] = {
    "Table 1": {
        **{
            id: f"The {name} operator converges to {theory.limit} with rate {theory.rate}."
            for id, name in ROWS.items()
            for theory in [OPERATORS[name].theory]
        },
        "table1-adaptive-step": "Greedy-Step adjusts the number of steps by itself.",
        "table1-no-correction": "Greedy-Step needs no off-policy correction, whatever policies made the data.",
        "table1-multi-step-no-correction": "The multi-step optimality operator needs no off-policy correction.",
    },
    "Table 1 and Section 5": {
        "table1-needs-correction": "Operators that evaluate a policy need an off-policy correction for the data of "
        "others.",
    },
    "Theorem 1": {"theorem-1": "Q* is a fixed point of Greedy-Step, for any policies and any N."},
    "Lemma 1": {
        "lemma-1-contraction": "Greedy-Step contracts by γ.",
        "lemma-1-first": "‖Gq - Gq'‖ <= ‖Bq - Bq'‖.",
    },
    "Theorem 4": {
        "theorem-4": "Greedy-Step always converges faster than the one-step operator: ‖Gq - Q*‖ <= ‖Bq - Q*‖.",
    },
    "Theorem 5": {
        "theorem-5": "If q <= Q* and from every state a policy is optimal for n steps, the rate is γ^(n+1) "
        "(with N = n+1).",
        "theorem-5-squared": "If q <= Q* and in every state some policy is optimal, the rate is γ² (with N = 2).",
    },
    "Proof of Theorem 1": {
        "proofs-form": "The operator can be rewritten as max_π max_n (B^π)^(n-1) B Q.",
        "proofs-below": "(B^π)^n Q* <= Q* for any π.",
    },
    "Proof of Theorem 5": {
        "stays-below": "From q <= Q* the operator stays below Q*.",
        "theorem-5-proofs-form": "Theorem 5 for the operator in the form of its proof.",
        "theorem-5-proof-step": "If from every state a policy is optimal for n steps, max_π (B^π)^n B q = B^(n+1) q.",
    },
    "Lemma 2": {"lemma-2": "The multi-step optimality operator contracts by γ^N."},
    "Theorem on its fixed point": {
        "multi-step-limit-below": "The limit of the multi-step optimality operator lies below Q*.",
        "multi-step-limit-optimal": "If from every state a policy is optimal for N steps, its limit is Q*.",
    },
    "Section 3": {"good-policy-faster": "Greedy-Step converges faster when a behaviour policy performs well."},
    "Section 3.1": {"any-horizon": "All results hold for any N >= 1 (measured: Theorem 5 with N = n)."},
    "Section 4": {
        "matrix-formula": "The model-based update of Section 4 computes the Greedy-Step operator.",
        "complexity": "One model-based iteration costs O(|A| |Π| N |S|²).",
    },
    "Theorem in Section 4": {
        "sampled-contraction": "In deterministic models the sampled operator is a contraction to Q*.",
    },
    "Section 5": {
        "multi-step-all-optimal": "Its limit is Q* only when all the behaviour policies are optimal.",
        "lambda-weights": "The λ-operator is (1-λ) Σ λ^N B^N, N >= 1.",
    },
    "Abstract, Section 1 and Section 4": {
        "sampled-safe": "The model-free algorithms can safely use data collected by arbitrary policies, without "
        "correction.",
        "complexity-in-steps": "The cost of an iteration is linear in the number of steps.",
    },
    "Abstract, Section 1 and Section 5": {
        "importance-sampling-variance": "The product of importance-sampling ratios makes multi-step returns vary much.",
    },
}
"""Where the paper says it -> id of the claim -> what it says."""

INSIDE = "the definition takes its maximum inside the expectation over the next state, the proofs outside"
TEST = "tests/test_theory.py::test"
COIN = f"{TEST}_counterexample_1_the_definition_breaks_theorem_4_and_lemma_1"
WHY = {
    "table1-multi-step-no-correction": "it needs no ratios, but inherits the behaviour's mistakes "
    f"({TEST}_the_fixed_point_of_multi_step_optimality_can_lie_strictly_below)",
    "lemma-1-first": f"{INSIDE} ({COIN})",
    "theorem-4": f"{INSIDE}; it holds from q <= Q* ({COIN})",
    "any-horizon": "Theorem 5 needs a look-ahead of one step more than the policies know "
    f"({TEST}_counterexample_3_theorem_5_needs_a_horizon_beyond_the_depth)",
    "proofs-form": f"{INSIDE}; they are one where transitions are deterministic ({COIN})",
    "theorem-5-proofs-form": "that form follows one policy in all successors, and each may need its own "
    f"({TEST}_counterexample_2_the_form_of_the_proofs_breaks_theorem_5)",
    "theorem-5-proof-step": "a policy that is optimal for Q* need not be greedy for q; the theorem needs less, "
    "(B^π)^n B q >= Q* - γ^(n+1) ‖q - Q*‖, and holds (claim theorem-5)",
    "multi-step-limit-optimal": "true of V, and of Q where transitions are deterministic "
    f"({TEST}_counterexample_4_a_policy_that_knows_the_way_from_each_state_is_not_enough_in_stochastic_models)",
    "multi-step-all-optimal": "one optimal policy is enough "
    f"({TEST}_one_optimal_policy_among_others_is_enough_for_its_fixed_point_to_be_optimal)",
    "sampled-safe": "where chance decides, the best stored trajectory is the luckiest, and more data make it worse "
    f"({TEST}_more_data_make_the_sampled_operator_worse_by_hand)",
    "matrix-formula": "the sum of rewards lacks the transition of the first action "
    f"({TEST}_the_printed_matrix_formula_lacks_a_transition)",
    "lambda-weights": "the exponent is one too large "
    f"({TEST}_the_printed_weights_of_the_lambda_operator_do_not_sum_to_one)",
}
"""Id of a claim -> why it fails, where that is known."""

# -- how it is judged -------------------------------------------------------------------------------------------------

Outcomes = dict[str, tuple[Any, Any, Verdict]]
"""Id of a claim -> (the claimed property, what was measured, the verdict)."""


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """Judge the paper's claims about its operators by the numbers of a result."""
    measured, violations = numbers["properties"], numbers["theorems"]
    moves = {name: [case["moves"] for case in entry["cases"]] for name, entry in measured.items()}
    rules: dict[Callable[..., Outcomes], tuple[Any, ...]] = {
        _rows: (measured,),
        _adaptive: (measured[DEFINITION]["cases"],),
        _corrections: (moves,),
        _theorems: (violations,),
        _sampled: (violations, measured[SAMPLED]["cases"]),
        _good_policy: (numbers["convergence"]["curves"],),
        _variance: (numbers["variance"],),
        _formulas: (numbers["formulas"],),
        _complexity: (numbers["cost"],),
    }
    said = {id: (claim, where) for where, claims in PAPER.items() for id, claim in claims.items()}
    briefs = _briefs(violations, measured[SAMPLED]["cases"])
    return [
        judged(id, *said[id], *outcome, WHY.get(id, NOT_KNOWN), briefs.get(id, ""), rule_text(rule))
        for rule, arguments in rules.items()
        for id, outcome in rule(*arguments).items()
    ]


def _rows(measured: dict[str, Any]) -> Outcomes:
    """Confirmed if the operator's limit and contraction rate are those of Table 1 on every model."""
    return {id: _row(name, measured[name]["cases"]) for id, name in ROWS.items()}


def _row(name: str, entries: list[dict[str, Any]]) -> tuple[Any, Any, Verdict]:
    theory = OPERATORS[name].theory
    bound = properties.RATES[theory.rate]
    error = {"Q*": "to_optimum", "Q^π": "to_policy", "below Q*": "above_optimum"}[theory.limit]
    to_limit, rate = (max(e[what] for e in entries) for what in (error, "rate"))
    towards = "exceeds Q* by at most" if theory.limit == "below Q*" else f"differs from {theory.limit} by"
    words = f"limit {towards} {_size(to_limit)}, rate {rate:.3f}"
    holds = to_limit <= SAME and rate <= bound + SAME
    return f"{theory.limit}, {theory.rate} = {bound:.3f}", words, verdict_if(holds)


def _size(difference: float) -> str:
    return "0" if difference <= SAME else f"{difference:.2f}"


def _adaptive(entries: list[dict[str, Any]]) -> Outcomes:
    """Confirmed if on every model more than one n is chosen."""
    ranges = [f"{e['case']}: n = {min(e['steps'])} to {max(e['steps'])}" for e in entries]
    return {"table1-adaptive-step": ("yes", "; ".join(ranges), verdict_if(all(len(e["steps"]) > 1 for e in entries)))}


def _corrections(moves: dict[str, list[float]]) -> Outcomes:
    """An operator needs a correction if its limit depends on the behaviour policies.

    Multi-step optimality needs no ratios in any case: if its limit depends on them, the claim is partly right. That
    evaluation needs a correction has two parts: without ratios the limit depends on the behaviour on some model, with
    ratios on none.
    """
    greedy, multi_step = max(moves[DEFINITION] + moves[PROOFS]), max(moves[MULTI_STEP])
    without, corrected = (max(moves[name]) for name in EVALUATION)
    words = "with other behaviour policies its limit moves by"
    ratios = f"with other behaviour policies the limit moves by up to {without:.2f} without ratios, by "
    ratios += f"{_size(corrected)} with them"
    no_ratios: Verdict = "confirmed" if multi_step <= SAME else "partly"
    return {
        "table1-no-correction": ("none", f"{words} {_size(greedy)}", verdict_if(greedy <= SAME)),
        "table1-multi-step-no-correction": ("none", f"{words} {_size(multi_step)}", no_ratios),
        "table1-needs-correction": ("needed", ratios, verdict_of_parts([without > SAME, corrected <= SAME])),
    }


BELOW = "Theorem 4 with q <= Q*"
COUNTED = {
    "theorem-1": (GREEDY, "Theorem 1: Q* = G Q*"),
    "lemma-1-contraction": (GREEDY, "Lemma 1: |Gq-Gq'| <= γ |q-q'|"),
    "lemma-1-first": (GREEDY, "Lemma 1: |Gq-Gq'| <= |Bq-Bq'|"),
    "theorem-4": (GREEDY, "Theorem 4: |Gq-Q*| <= |Bq-Q*|"),
    "theorem-5": (GREEDY, "Theorem 5 with N = n+1"),
    "theorem-5-squared": (GREEDY, "Theorem 5 with n = 1, N = 2"),
    "any-horizon": (GREEDY, "Theorem 5 with N = n"),
    "stays-below": (GREEDY, "q <= Q* stays below"),
    "proofs-form": ((DEFINITION,), "is the form of the proofs"),
    "proofs-below": (("proofs",), "(B^π)^n Q* <= Q*"),
    "theorem-5-proofs-form": ((PROOFS,), "Theorem 5 with N = n+1"),
    "theorem-5-proof-step": (("proofs",), "Theorem 5: max_π (B^π)^n B q = B^(n+1) q"),
    "lemma-2": ((MULTI_STEP,), "Lemma 2: |Oq-Oq'| <= γ^N |q-q'|"),
    "multi-step-limit-below": ((MULTI_STEP,), "limit <= Q*"),
    "multi-step-limit-optimal": ((MULTI_STEP,), "limit = Q* if a policy knows the way"),
}
"""Id of a claim -> the operators and the statement of `theorems` whose violations refute it; the first decides."""


def _theorems(rows: list[dict[str, Any]]) -> Outcomes:
    """Confirmed if no model violates the statement for the operator as the paper defines it, refuted otherwise.

    The rule was changed after the first runs: it said partly where a condition repairs a statement.
    """
    violations, models = {}, {}  # (operator, statement) -> how many models violate it, as a number and in words
    for row in rows:
        counts, key = row["violations"], (row["operator"], row["statement"])
        words = [f"{count} of {row['trials']} {kind} models" for kind, count in counts.items() if count]
        violations[key] = sum(counts.values())
        models[key] = " and ".join(words) or f"none of {len(counts) * row['trials']} models"

    def measured(operators: tuple[str, ...], statement: str) -> str:
        words = [models[operator, statement] for operator in operators]
        return "violated in " + (words[0] if len(words) == 1 else "{} (definition), {} (proofs)".format(*words))

    text = {id: measured(*counted) for id, counted in COUNTED.items()}
    text["theorem-4"] = f"any q: {text['theorem-4']}; q <= Q*: {measured(GREEDY, BELOW)}"
    wrong_values = violations[MULTI_STEP, "max_a limit = V* if a policy knows the way"]
    text["multi-step-limit-optimal"] += f"; its greedy values are wrong in {wrong_values}"
    found: Outcomes = {
        id: ("always", text[id], verdict_if(not violations[operators[0], statement]))
        for id, (operators, statement) in COUNTED.items()
    }
    one_good = (MULTI_STEP, "limit = Q* if one policy of several is optimal")
    words = f"with one optimal policy among random ones the limit differs from Q* in {models[one_good]}"
    found["multi-step-all-optimal"] = ("only then", words, "untested" if violations[one_good] else "refuted")
    return found


def _briefs(rows: list[dict[str, Any]], entries: list[dict[str, Any]]) -> dict[str, str]:
    """Return the measurements of the first page: id of a claim -> a few words and numbers."""

    def count(statement: str) -> str:
        row = next(row for row in rows if (row["operator"], row["statement"]) == (DEFINITION, statement))
        words = [f"{count} of {row['trials']:,} {kind} MDPs" for kind, count in row["violations"].items() if count]
        return " and ".join(words) or f"none of {len(row['violations']) * row['trials']:,} MDPs"

    sure, by_chance = (max(e["to_optimum"] for e in entries if e["deterministic"] == kind) for kind in (True, False))
    return {
        "lemma-1-contraction": count(COUNTED["lemma-1-contraction"][1]),
        "theorem-4": f"{count(COUNTED['theorem-4'][1])}; from q <= Q* in {count(BELOW)}",
        "sampled-safe": f"by {_size(sure)} in deterministic MDPs, by up to {by_chance:.3g} in stochastic ones",
    }


def _sampled(rows: list[dict[str, Any]], entries: list[dict[str, Any]]) -> Outcomes:
    """The theorem is confirmed if no deterministic model violates it.

    That any data are safe is confirmed if the limit is Q* on every model, and partly right if on deterministic ones
    only.
    """
    row = next(row for row in rows if row["operator"] == SAMPLED)
    violations = row["violations"]["deterministic"]
    violated = f"violated in {violations} of {row['trials']} deterministic models"
    sure, by_chance = (max(e["to_optimum"] for e in entries if e["deterministic"] == kind) for kind in (True, False))
    errors = {"deterministic": sure, "stochastic": by_chance}
    words = [f"{kind} models: limit differs from Q* by {error:.2f}" for kind, error in errors.items()]
    safe: Verdict = "refuted" if sure > SAME else "partly" if by_chance > SAME else "confirmed"
    return {
        "sampled-contraction": ("always", violated, verdict_if(not violations)),
        "sampled-safe": ("any data", "; ".join(words), safe),
    }


def _good_policy(curves: dict[str, Any]) -> Outcomes:
    """Confirmed if an optimal behaviour policy needs fewer iterations to a thousandth of the first error."""

    def iterations(errors: list[float]) -> int:
        """Return the iterations until the error is a thousandth of the first; all if it never is."""
        return int(np.argmax(np.array([*errors, 0.0]) <= errors[0] / 1000))

    without, knowing = (iterations(curves[name]["errors"]) for name in (DEFINITION, properties.KNOWING))
    words = f"{knowing} iterations with an optimal policy among the data's, {without} with random ones"
    return {"good-policy-faster": ("faster", words, verdict_if(knowing < without))}


def _variance(rows: list[dict[str, Any]]) -> Outcomes:
    """Confirmed if on every model the standard deviation grows with every step, and ends at twice that without ratios.

    Partly if so on some models.
    """
    times = {row["case"]: row["corrected"][-1] / row["uncorrected"][-1] for row in rows}
    large = [times[row["case"]] >= LARGE and bool((np.diff(row["corrected"]) > 0).all()) for row in rows]
    words = f"standard deviation of {rows[0]['steps'][-1]}-step returns against those without ratios: "
    words += "; ".join(f"{case}: {factor:.1f} times" for case, factor in times.items())
    return {"importance-sampling-variance": ("high variance", words, verdict_of_parts(large))}


def _formulas(formulas: dict[str, Any]) -> Outcomes:
    """Refuted if the formula as printed gives another number than the operator it stands for."""
    matrix, optimal, weights = formulas["matrix_form"], formulas["optimal_values"], formulas["lambda_weights"]
    right = f"V = {optimal} after one update with N = 2 on a chain of two states"
    words = f"as printed {matrix['printed']}; with the missing transition matrix {matrix['corrected']}"
    total = f"they sum to {weights:.3g} at λ = {properties.LAMBDA}; λ^(N-1) is right"
    return {
        "matrix-formula": (right, words, verdict_if(np.allclose(matrix["printed"], optimal))),
        "lambda-weights": ("weights sum to 1", total, verdict_if(bool(np.isclose(weights, 1)))),
    }


def _complexity(cost: dict[str, list[dict[str, Any]]]) -> Outcomes:
    """Confirmed if the memory of the matrices grows with the claimed exponent, within 0.1.

    Memory, since an iteration reads all that is stored, while times depend on caches.
    """
    in_states, last = _order(cost["states"], "states")
    in_steps, _ = _order(cost["horizon"], "horizon")
    time, memory = (last[what]["matrices"] / last[what]["outside"] for what in ("seconds", "bytes"))
    words = f"|S|^{in_states:.2f} for the matrices; sparse products give the same at {last['states']} states in "
    words += f"1/{time:.0f} of the time and 1/{memory:.0f} of the memory"
    return {
        "complexity": ("|S|^2", words, verdict_if(abs(in_states - 2) <= ORDER)),
        "complexity-in-steps": ("N^1", f"N^{in_steps:.2f}", verdict_if(abs(in_steps - 1) <= ORDER)),
    }


def _order(rows: list[dict[str, Any]], what: str) -> tuple[float, dict[str, Any]]:
    """Return the exponent with which the matrices' memory grows with `what`, and the row of the largest."""
    rows = [row for row in rows if row["bytes"]["matrices"] is not None]
    sizes, stored = np.log([[row[what], row["bytes"]["matrices"]] for row in rows]).T
    return float(np.polyfit(sizes, stored, 1)[0]), rows[-1]

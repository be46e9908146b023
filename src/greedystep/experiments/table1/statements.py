"""The paper's theorems, lemmas and steps of proofs, judged by how often random models violate them.

A statement is confirmed if no model violates it for the operator as the paper defines it, and refuted otherwise; what
holds for the form of its proofs stands beside it, and the condition under which it does hold in the reason. (Changed
after the first runs, which said "partly" where a condition mends a statement: a theorem is true as stated, or not.)
"""

from __future__ import annotations

from typing import Any

from greedystep.experiments.claims import Claim, Verdict, because
from greedystep.experiments.table1.properties import GREEDY

TESTS = "tests/test_theory.py"
MULTI_STEP = "multi-step optimality"
SAME = 1e-8
"""Limits nearer than this are equal; they are iterated until they change by less than 1e-11."""
INSIDE = "the definition takes its maximum inside the expectation over the next state, the proofs outside"
COIN = f"{TESTS}::test_counterexample_1_the_definition_breaks_theorem_4_and_lemma_1"
FORK = f"{TESTS}::test_counterexample_2_the_form_of_the_proofs_breaks_theorem_5"


def claims(rows: list[dict[str, Any]]) -> list[Claim]:
    return [*_greedy_step(rows), *_proofs(rows), *_multi_step(rows)]


def _count(rows: list[dict[str, Any]], operator: str, statement: str) -> tuple[int, str]:
    """Violations of a statement in all models, and in words."""
    row = next(row for row in rows if (row["operator"], row["statement"]) == (operator, statement))
    counts = row["violations"]
    words = [f"{count} of {row['trials']} {kind} models" for kind, count in counts.items() if count]
    return sum(counts.values()), " and ".join(words) or f"none of {len(counts) * row['trials']} models"


def _both(rows: list[dict[str, Any]], statement: str) -> tuple[int, str]:
    """Violations by the definition; in words, by both forms."""
    (violations, definition), (_, proofs) = (_count(rows, form, statement) for form in GREEDY)
    return violations, f"violated in {definition} (definition), {proofs} (proofs)"


def _always(id: str, claim: str, where: str, violations: int, measured: str, why: str = "") -> Claim:
    """Confirmed: never violated."""
    verdict: Verdict = "refuted" if violations else "confirmed"
    return Claim(id, claim, where, "always", measured, verdict, because(verdict, why) if why else because(verdict))


# -- the operator -----------------------------------------------------------------------------------------------------


def _greedy_step(rows: list[dict[str, Any]]) -> list[Claim]:
    fixed, contraction, first = (
        _both(rows, statement)
        for statement in ("Theorem 1: Q* = G Q*", "Lemma 1: |Gq-Gq'| <= γ |q-q'|", "Lemma 1: |Gq-Gq'| <= |Bq-Bq'|")
    )
    faster, faster_text = _both(rows, "Theorem 4: |Gq-Q*| <= |Bq-Q*|")
    _, from_below = _both(rows, "Theorem 4 with q <= Q*")
    fast, squared, short = (_both(rows, f"Theorem 5 with {which}") for which in ("N = n+1", "n = 1, N = 2", "N = n"))
    below = _both(rows, "q <= Q* stays below")
    beyond = f"{TESTS}::test_counterexample_3_theorem_5_needs_a_horizon_beyond_the_depth"
    return [
        _always("theorem-1", "Q* is a fixed point of Greedy-Step, for any policies and any N.", "Theorem 1", *fixed),
        _always("lemma-1-contraction", "Greedy-Step contracts by γ.", "Lemma 1", *contraction),
        _always("lemma-1-first", "‖Gq - Gq'‖ <= ‖Bq - Bq'‖.", "Lemma 1", *first, f"{INSIDE} ({COIN})"),
        _always(
            "theorem-4",
            "Greedy-Step always converges faster than the one-step operator: ‖Gq - Q*‖ <= ‖Bq - Q*‖.",
            "Theorem 4",
            faster,
            f"any q: {faster_text}; q <= Q*: {from_below}",
            f"{INSIDE}; it holds from q <= Q* ({COIN})",
        ),
        _always(
            "theorem-5",
            "If q <= Q* and from every state a policy is optimal for n steps, the rate is γ^(n+1) (with N = n+1).",
            "Theorem 5",
            *fast,
        ),
        _always(
            "theorem-5-squared",
            "If q <= Q* and in every state some policy is optimal, the rate is γ² (with N = 2).",
            "Theorem 5",
            *squared,
        ),
        _always(
            "any-horizon",
            "All results hold for any N >= 1 (measured: Theorem 5 with N = n).",
            "Section 3.1",
            *short,
            f"Theorem 5 needs a look-ahead of one step more than the policies know ({beyond})",
        ),
        _always("stays-below", "From q <= Q* the operator stays below Q*.", "Proof of Theorem 5", *below),
    ]


# -- steps of the proofs ----------------------------------------------------------------------------------------------


def _proofs(rows: list[dict[str, Any]]) -> list[Claim]:
    same, same_text = _count(rows, GREEDY[0], "is the form of the proofs")
    fast, fast_text = _count(rows, GREEDY[1], "Theorem 5 with N = n+1")
    lower, lower_text = _count(rows, "proofs", "(B^π)^n Q* <= Q*")
    equal, equal_text = _count(rows, "proofs", "Theorem 5: max_π (B^π)^n B q = B^(n+1) q")
    return [
        _always(
            "proofs-form",
            "The operator can be rewritten as max_π max_n (B^π)^(n-1) B Q.",
            "Proof of Theorem 1",
            same,
            f"violated in {same_text}",
            f"{INSIDE}; they are one where transitions are deterministic ({COIN})",
        ),
        _always(
            "proofs-below", "(B^π)^n Q* <= Q* for any π.", "Proof of Theorem 1", lower, f"violated in {lower_text}"
        ),
        _always(
            "theorem-5-proofs-form",
            "Theorem 5 for the operator in the form of its proof.",
            "Proof of Theorem 5",
            fast,
            f"violated in {fast_text}",
            f"that form follows one policy in all successors, and each may need its own ({FORK})",
        ),
        _always(
            "theorem-5-proof-step",
            "If from every state a policy is optimal for n steps, max_π (B^π)^n B q = B^(n+1) q.",
            "Proof of Theorem 5",
            equal,
            f"violated in {equal_text}",
            "a policy that is optimal for Q* need not be greedy for q; the theorem needs less, (B^π)^n B q >= "
            "Q* - γ^(n+1) ‖q - Q*‖, and holds (claim theorem-5)",
        ),
    ]


# -- the multi-step optimality operator -------------------------------------------------------------------------------


def _multi_step(rows: list[dict[str, Any]]) -> list[Claim]:
    lemma_2, lemma_2_text = _count(rows, MULTI_STEP, "Lemma 2: |Oq-Oq'| <= γ^N |q-q'|")
    lower, lower_text = _count(rows, MULTI_STEP, "limit <= Q*")
    equal, equal_text = _count(rows, MULTI_STEP, "limit = Q* if a policy knows the way")
    values, _ = _count(rows, MULTI_STEP, "max_a limit = V* if a policy knows the way")
    one_good, one_good_text = _count(rows, MULTI_STEP, "limit = Q* if one policy of several is optimal")
    only: Verdict = "untested" if one_good else "refuted"
    where = "Theorem on its fixed point"
    stochastic = (
        f"{TESTS}::test_counterexample_4_a_policy_that_knows_the_way_from_each_state_is_not_enough_in_stochastic_models"
    )
    enough = f"{TESTS}::test_one_optimal_policy_among_others_is_enough_for_its_fixed_point_to_be_optimal"
    return [
        _always(
            "lemma-2",
            "The multi-step optimality operator contracts by γ^N.",
            "Lemma 2",
            lemma_2,
            f"violated in {lemma_2_text}",
        ),
        _always(
            "multi-step-limit-below",
            "The limit of the multi-step optimality operator lies below Q*.",
            where,
            lower,
            f"violated in {lower_text}",
        ),
        _always(
            "multi-step-limit-optimal",
            "If from every state a policy is optimal for N steps, its limit is Q*.",
            where,
            equal,
            f"violated in {equal_text}; its greedy values are wrong in {values}",
            f"true of V, and of Q where transitions are deterministic ({stochastic})",
        ),
        Claim(
            "multi-step-all-optimal",
            "Its limit is Q* only when all the behaviour policies are optimal.",
            "Section 5",
            "only then",
            f"with one optimal policy among random ones the limit differs from Q* in {one_good_text}",
            only,
            because(only, f"one optimal policy is enough ({enough})"),
        ),
    ]


# -- the sampled operator ---------------------------------------------------------------------------------------------


def sampled(rows: list[dict[str, Any]], entries: list[dict[str, Any]]) -> list[Claim]:
    """The paper's theorem is about deterministic models; its text about all data of any policies.

    The text is confirmed if the limit is Q* on every model, partly right if on the deterministic ones only.
    """
    row = next(row for row in rows if row["operator"] == "sampled Greedy-Step")
    violations, trials = row["violations"]["deterministic"], row["trials"]
    errors = {
        kind: max(e["to_optimum"] for e in entries if e["deterministic"] == deterministic)
        for kind, deterministic in (("deterministic", True), ("stochastic", False))
    }
    right = [error <= SAME for error in errors.values()]
    safe: Verdict = "confirmed" if all(right) else "partly" if right[0] else "refuted"
    more_data = f"{TESTS}::test_more_data_make_the_sampled_operator_worse_by_hand"
    return [
        _always(
            "sampled-contraction",
            "In deterministic models the sampled operator is a contraction to Q*.",
            "Theorem in Section 4",
            violations,
            f"violated in {violations} of {trials} deterministic models",
        ),
        Claim(
            "sampled-safe",
            "The model-free algorithms can safely use data collected by arbitrary policies, without correction.",
            "Abstract, Section 1 and Section 4",
            "any data",
            "; ".join(f"{kind} models: limit differs from Q* by {error:.2f}" for kind, error in errors.items()),
            safe,
            because(
                safe,
                "where chance decides, the best stored trajectory is the luckiest, and more data make it worse "
                f"({more_data})",
            ),
        ),
    ]

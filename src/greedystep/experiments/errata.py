"""Errata of the paper: what it prints, the smallest counterexample, the correction, and the test that computes it.

The long version is docs/theory.md. If table1 was run, its result adds how often random models violate the statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from greedystep.experiments.table1.properties import GREEDY, MULTI_STEP, SAMPLED
from greedystep.tables import Table

TESTS = "tests/test_theory.py"


@dataclass(frozen=True)
class Erratum:
    """One error of the paper, with a counterexample and its correction."""

    where: str
    printed: str
    """The printed statement, in our words."""
    example: str
    """A counterexample, with its numbers."""
    instead: str
    """The corrected statement."""
    test: str
    """The test in `TESTS` that computes the counterexample."""
    counted: tuple[tuple[str, str], ...] = ()
    """(operators, statement) of table1 whose violations on random models are counted for this erratum."""


DEFINITION, PROOFS = GREEDY

ERRATA = (
    Erratum(
        "Equation 4 and the proofs",
        "The operator that is defined is the operator that the proofs are about.",
        "The definition chooses policy and n for each next state, the proofs choose once for all of them. From a state "
        "that leads to one of two others by chance, each with its own right policy, errors of 1 shrink to 0.81 with "
        "the definition and to 0.9 with the other.",
        "They are one operator where transitions are deterministic; elsewhere the definition is never below the other. "
        "Each breaks a theorem that the other keeps.",
        "test_counterexample_2_the_form_of_the_proofs_breaks_theorem_5",
    ),
    Erratum(
        "Lemma 1 (first inequality) and Theorem 4",
        "The operator is never slower than one Bellman step, from any values.",
        "Two states, one action that leads to either by a coin and pays nothing, γ = 0.9, N = 2, q = (1, -1): one "
        "Bellman step is exact, the defined operator errs by 0.45.",
        "Theorem 4 holds for the definition from below, q <= Q*, and for the proofs' form from anywhere. The first "
        "inequality of Lemma 1 holds for the proofs' form only.",
        "test_counterexample_1_the_definition_breaks_theorem_4_and_lemma_1",
        ((DEFINITION, "Theorem 4: |Gq-Q*| <= |Bq-Q*|"), (DEFINITION, "Lemma 1: |Gq-Gq'| <= |Bq-Bq'|")),
    ),
    Erratum(
        "Theorem 5",
        "From below, if in every state some policy knows the next n steps, errors shrink by γ^(n+1).",
        "The fork above, n = 1, γ = 0.9: the proofs' form shrinks errors to 0.9, and γ² is 0.81.",
        "It holds for the definition; for the proofs' form where transitions are deterministic, or if one policy is "
        "optimal everywhere.",
        "test_counterexample_2_the_form_of_the_proofs_breaks_theorem_5",
        ((PROOFS, "Theorem 5 with N = n+1"),),
    ),
    Erratum(
        "Section 3.1",
        "The results hold for every N >= 1.",
        "With N = 1 the operator is value iteration: 0.9 on the fork, where Theorem 5 promises 0.81.",
        "Theorem 5 needs N >= n + 1.",
        "test_counterexample_3_theorem_5_needs_a_horizon_beyond_the_depth",
        ((DEFINITION, "Theorem 5 with N = n"),),
    ),
    Erratum(
        "Section 5, fixed point of the multi-step optimality operator",
        "If from every state some policy is optimal for N steps, the fixed point is Q*.",
        "An action that pays 10 and ends, beside one that leads to one of two states by chance, each of which pays 1 "
        "under one of the two policies: the fixed point of the second action is 0.45, and Q* is 0.9.",
        "The greedy values are right; Q is right where transitions are deterministic.",
        "test_counterexample_4_a_policy_that_knows_the_way_from_each_state_is_not_enough_in_stochastic_models",
        ((MULTI_STEP, "limit = Q* if a policy knows the way"),),
    ),
    Erratum(
        "Section 5",
        "That operator reaches the optimum only if all behaviour policies are optimal.",
        "One optimal policy among random ones is enough, which the theorem before it says too.",
        "One policy that is optimal everywhere suffices, whatever the others do.",
        "test_one_optimal_policy_among_others_is_enough_for_its_fixed_point_to_be_optimal",
    ),
    Erratum(
        "Section 4, model-based update",
        "The matrix formula computes the operator.",
        "It lacks a transition matrix in front of the rewards on the way. On a chain of two states that pays 1 at its "
        "end, one update with N = 2 gives (0, 1.9) as printed; right is (0.9, 1).",
        "V' = max [ R^a + γ T^a Σ (γ T^π)^i R^π + γ T^a (γ T^π)^(n-1) V ], over a, π and n, with i from 0 to n - 2.",
        "test_the_printed_matrix_formula_lacks_a_transition",
    ),
    Erratum(
        "Section 5, λ-operator",
        "Its weights are (1-λ) λ^N, N >= 1.",
        "They sum to λ. One state that pays 1, γ = λ = 1/2: the value of the only policy, 2, is mapped to 1.",
        "λ^(N-1).",
        "test_the_printed_weights_of_the_lambda_operator_do_not_sum_to_one",
    ),
)


def violations(erratum: Erratum, results: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence on how often table1's random models violate the erratum's statements; empty if not counted."""
    return "; ".join(
        f"{row['statement']}: violated in {row['violations']['deterministic']} of {row['trials']} random deterministic "
        f"models and {row['violations']['stochastic']} of {row['trials']} stochastic ones"
        for row in _table1(results).get("theorems", ())
        if (row["operator"], row["statement"]) in erratum.counted
    )


# -- luck in stochastic environments ----------------------------------------------------------------------------------

LUCK_TABLE = Table(
    "luck",
    "Slippery FrozenLake from 5000 random episodes; the true value of the start is 0.542 "
    "(python examples/tabular_from_logs.py)",
    ["form of Greedy-Step", "estimated value of the start", "reaches the goal, of 1000 episodes"],
    [
        ["average over the observed outcomes, then the maximum (expected)", 0.534, "73 %"],
        ["best observed return (running)", 0.951, "9 %"],
    ],
)


def luck_note(results: Iterable[Mapping[str, Any]]) -> str:
    """Return why the sampled operator over-estimates in stochastic environments, with table1's number if known."""
    cases = _table1(results).get("properties", {}).get(SAMPLED, {}).get("cases", ())
    excess = [case.get("above_optimum", 0.0) for case in cases if not case["deterministic"]]
    measured = f" In Table 1 they exceed Q* by up to {max(excess):.3g}." if excess else ""
    return (
        "The sampled operator, which every learning agent of the paper uses, keeps the best return ever observed. "
        "Where the same action can have different outcomes, that return was luck, and its values converge to something "
        f"above Q*.{measured} More data make it worse, since more lucky outcomes are observed: for a step worth 1 or 0 "
        "with equal probability, the estimate is 1 with probability 1 - 1/2^D after D episodes. The paper's "
        "theorem covers deterministic environments only; averaging over the observed outcomes, with the maximum "
        "inside, is right everywhere."
    )


def _table1(results: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the "numbers" of table1's result; empty if it is not among the results."""
    return next((one["numbers"] for one in results if one["name"] == "table1"), {})

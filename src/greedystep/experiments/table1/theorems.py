"""The paper's theorems, lemmas and steps of proofs: counted violations on small random models, and the claims.

A statement is confirmed if no model violates it for the operator as the paper defines it, and refuted otherwise. What
holds for the form of its proofs is said beside it, and the condition under which it does hold in the reason.
This rule was changed after the first runs, which said "partly" where a condition repairs a statement: a theorem is true
as stated, or it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from greedystep import models
from greedystep.experiments.claims import NOT_KNOWN, Claim, Verdict, judged, verdict_if
from greedystep.experiments.table1.properties import (
    GREEDY,
    MULTI_STEP,
    SAME,
    SAMPLED,
    N,
    limit_of,
    optimal_q,
    random_policies,
)
from greedystep.mdp import MDP
from greedystep.operators import bellman, distance, greedy_step, multi_step_optimality, sampled_limit

TESTS = "tests/test_theory.py"
VIOLATION = 1e-8
"""How far the left side may exceed the right by rounding: limits are iterated until they change by less than 1e-11."""


@dataclass(frozen=True)
class Trial:
    """A small random model with its Q*, random policies and random tables."""

    mdp: MDP
    optimum: np.ndarray
    policies: list[np.ndarray]
    wild: np.ndarray
    """[S, S]: one more random policy per state."""
    depth: int
    """The n of Theorem 5."""
    q: np.ndarray
    other: np.ndarray
    gap: float | np.ndarray

    @classmethod
    def draw(cls, random: np.random.Generator, branching: int) -> Trial:
        S, A, seed = random.integers(3, 9), random.integers(2, 4), random.integers(2**31)
        mdp = models.garnet(int(S), int(A), branching, discount=random.choice([0.5, 0.9]), seed=int(seed))
        optimum = optimal_q(mdp)
        policies, wild = random_policies(mdp, random), random.integers(A, size=(S, S))
        q, other = optimum.mean() + random.normal(0, 5, (2, S, A))
        gap = 1.0 if random.random() < 0.5 else random.exponential(3.0, (S, A))  # constant is the hardest
        return cls(mdp, optimum, policies, wild, int(random.integers(1, 4)), q, other, gap)

    def error(self, q: np.ndarray) -> float:
        return distance(self.mdp, q, self.optimum)

    def knowing(self, decisions: int) -> list[np.ndarray]:
        """Return for every state a policy that is optimal in all states it can reach within so many decisions."""
        best = self.optimum.argmax(axis=1)
        step = sp.csr_array(self.mdp.under(best)[0]).toarray() > 0
        frontier = known = np.eye(len(best), dtype=bool)
        for _ in range(decisions - 1):
            frontier = frontier @ step
            known = known | frontier
        return list(np.where(known, best, self.wild))

    def limit(self, policies: list[np.ndarray]) -> np.ndarray:
        """Return the fixed point of the multi-step optimality operator with N = depth + 1."""
        return limit_of(lambda q: multi_step_optimality(self.mdp, policies, q, self.depth + 1), self.mdp)

    @cached_property
    def limit_of_knowing(self) -> np.ndarray:
        """The fixed point with policies that are optimal at times 0 to N, as the theorem on it requires."""
        return self.limit(self.knowing(self.depth + 2))


def _statements(form: Literal["inside", "outside"]) -> dict[str, Callable[[Trial], tuple[float, float]]]:
    """Return the paper's statements on Greedy-Step as functions to (left, right), where left <= right is claimed."""

    def image(t: Trial, q: np.ndarray) -> np.ndarray:
        return greedy_step(t.mdp, t.policies, q, N, form)

    def fast(t: Trial, q: np.ndarray, horizon: int) -> tuple[float, float]:
        ours = greedy_step(t.mdp, t.knowing(t.depth), q, horizon, form)
        return t.error(ours), t.mdp.discount ** (t.depth + 1) * t.error(q)

    def below(t: Trial) -> np.ndarray:
        return t.optimum - t.gap

    return {
        "Theorem 1: Q* = G Q*": lambda t: (t.error(image(t, t.optimum)), 0.0),
        "Lemma 1: |Gq-Gq'| <= γ |q-q'|": lambda t: (
            distance(t.mdp, image(t, t.q), image(t, t.other)),
            t.mdp.discount * distance(t.mdp, t.q, t.other),
        ),
        "Lemma 1: |Gq-Gq'| <= |Bq-Bq'|": lambda t: (
            distance(t.mdp, image(t, t.q), image(t, t.other)),
            distance(t.mdp, bellman(t.mdp, t.q), bellman(t.mdp, t.other)),
        ),
        "Theorem 4: |Gq-Q*| <= |Bq-Q*|": lambda t: (t.error(image(t, t.q)), t.error(bellman(t.mdp, t.q))),
        "Theorem 4 with q <= Q*": lambda t: (t.error(image(t, below(t))), t.error(bellman(t.mdp, below(t)))),
        "q <= Q* stays below": lambda t: (float((image(t, below(t)) - t.optimum).max()), 0.0),
        "Theorem 5 with N = n+1": lambda t: fast(t, below(t), t.depth + 1),
        "Theorem 5 with n = 1, N = 2": lambda t: fast(replace(t, depth=1), below(t), 2),
        "Theorem 5 with N = n": lambda t: fast(t, below(t), t.depth),
        "Theorem 5 with q >= Q*": lambda t: fast(t, t.optimum + t.gap, t.depth + 1),
    }


def _forms_agree(t: Trial) -> tuple[float, float]:
    inside, outside = (greedy_step(t.mdp, t.policies, t.q, N, form) for form in ("inside", "outside"))
    return distance(t.mdp, inside, outside), 0.0


def _knowing_is_bellman(t: Trial) -> tuple[float, float]:
    """Compare both sides of a step in the proof of Theorem 5, from below: max_π (B^π)^n B q = B^(n+1) q."""
    q = many = t.optimum - t.gap
    for _ in range(t.depth + 1):
        many = bellman(t.mdp, many)
    return distance(t.mdp, multi_step_optimality(t.mdp, t.knowing(t.depth), q, t.depth + 1), many), 0.0


STATEMENTS: dict[str, dict[str, Callable[[Trial], tuple[float, float]]]] = {
    GREEDY[0]: {**_statements("inside"), "is the form of the proofs": _forms_agree},
    GREEDY[1]: _statements("outside"),
    MULTI_STEP: {
        "Lemma 2: |Oq-Oq'| <= γ^N |q-q'|": lambda t: (
            distance(t.mdp, *(multi_step_optimality(t.mdp, t.policies, q, N) for q in (t.q, t.other))),
            t.mdp.discount**N * distance(t.mdp, t.q, t.other),
        ),
        "limit <= Q*": lambda t: (float((t.limit(t.policies) - t.optimum).max()), 0.0),
        "limit = Q* if a policy knows the way": lambda t: (t.error(t.limit_of_knowing), 0.0),
        "max_a limit = V* if a policy knows the way": lambda t: (
            float(np.abs(t.limit_of_knowing.max(axis=1) - t.optimum.max(axis=1)).max()),
            0.0,
        ),
        "limit = Q* if one policy of several is optimal": lambda t: (
            t.error(t.limit([*t.policies, t.optimum.argmax(axis=1)])),
            0.0,
        ),
    },
    "proofs": {
        "(B^π)^n Q* <= Q*": lambda t: (
            float((multi_step_optimality(t.mdp, t.policies, t.optimum, t.depth + 1) - t.optimum).max()),
            0.0,
        ),
        "Theorem 5: max_π (B^π)^n B q = B^(n+1) q": _knowing_is_bellman,
    },
    SAMPLED: {
        "contraction to Q*": lambda t: (
            t.error(sampled_limit(t.mdp, t.policies, t.q, N)),
            t.mdp.discount * t.error(t.q),
        )
    },
}


def count_violations(trials: int, progress: Callable[[float], None]) -> list[dict[str, Any]]:
    """Count how many deterministic and stochastic models violate each statement, and by how much at worst."""
    random = np.random.default_rng(2)
    rows = [
        {"operator": operator, "statement": statement, "trials": trials, "violations": {}, "worst": {}}
        for operator, statements in STATEMENTS.items()
        for statement in statements
    ]
    for part, (kind, branching) in enumerate({"deterministic": 1, "stochastic": 2}.items()):
        gaps = np.zeros((trials, len(rows)))
        for i in range(trials):
            trial = Trial.draw(random, branching)
            for j, row in enumerate(rows):
                left, right = STATEMENTS[row["operator"]][row["statement"]](trial)
                gaps[i, j] = left - right
            if i % 20 == 0:
                progress((part + i / trials) / 2)
        for row, gap in zip(rows, gaps.T, strict=True):
            row["violations"][kind] = int((gap > VIOLATION).sum())
            row["worst"][kind] = float(gap[gap > VIOLATION].max(initial=0.0))
    return rows


# -- claims -----------------------------------------------------------------------------------------------------------

INSIDE = "the definition takes its maximum inside the expectation over the next state, the proofs outside"
COIN = f"{TESTS}::test_counterexample_1_the_definition_breaks_theorem_4_and_lemma_1"
FORK = f"{TESTS}::test_counterexample_2_the_form_of_the_proofs_breaks_theorem_5"


def theorem_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    """Judge the paper's statements by the counted violations."""
    return [*_greedy_step(rows), *_proofs(rows), *_multi_step(rows)]


def _count(rows: list[dict[str, Any]], operator: str, statement: str) -> tuple[int, str]:
    """Return how many models violate a statement, as a number and in words."""
    row = next(row for row in rows if (row["operator"], row["statement"]) == (operator, statement))
    counts = row["violations"]
    words = [f"{count} of {row['trials']} {kind} models" for kind, count in counts.items() if count]
    return sum(counts.values()), " and ".join(words) or f"none of {len(counts) * row['trials']} models"


def _both(rows: list[dict[str, Any]], statement: str) -> tuple[int, str]:
    """Return how many models violate a statement for the definition, and words on both forms."""
    (violations, definition), (_, proofs) = (_count(rows, form, statement) for form in GREEDY)
    return violations, f"violated in {definition} (definition), {proofs} (proofs)"


def _always(id: str, claim: str, where: str, violations: int, measured: str, why: str = NOT_KNOWN) -> Claim:
    """Confirmed: no model violates it."""
    verdict = verdict_if(not violations)
    return judged(id, claim, where, "always", measured, verdict, why)


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
        judged(
            "multi-step-all-optimal",
            "Its limit is Q* only when all the behaviour policies are optimal.",
            "Section 5",
            "only then",
            f"with one optimal policy among random ones the limit differs from Q* in {one_good_text}",
            only,
            f"one optimal policy is enough ({enough})",
        ),
    ]


def sampled_claims(rows: list[dict[str, Any]], entries: list[dict[str, Any]]) -> list[Claim]:
    """Judge the theorem, which is about deterministic models, and the text, which is about any data.

    The text is confirmed if the limit is Q* on every model, and partly right if on deterministic models only.
    """
    row = next(row for row in rows if row["operator"] == SAMPLED)
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
        judged(
            "sampled-safe",
            "The model-free algorithms can safely use data collected by arbitrary policies, without correction.",
            "Abstract, Section 1 and Section 4",
            "any data",
            "; ".join(f"{kind} models: limit differs from Q* by {error:.2f}" for kind, error in errors.items()),
            safe,
            "where chance decides, the best stored trajectory is the luckiest, and more data make it worse "
            f"({more_data})",
        ),
    ]

"""The paper's inequalities on many small random models: how often is each violated, and by how much at worst?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from greedystep import models
from greedystep.experiments.table1.properties import GREEDY, N, limit_of, optimal_q, random_policies
from greedystep.mdp import MDP
from greedystep.operators import bellman, distance, greedy_step, multi_step_optimality, sampled_limit

VIOLATION = 1e-8
"""How far left may exceed right by rounding: limits are iterated until they change by less than 1e-11."""


@dataclass(frozen=True)
class Trial:
    """A small random model, its Q*, random policies and tables."""

    mdp: MDP
    optimum: np.ndarray
    policies: list[np.ndarray]
    wild: np.ndarray
    """[S, S]: another random policy for every state."""
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
        """For every state a policy that is optimal wherever it can come within so many decisions from there."""
        best = self.optimum.argmax(axis=1)
        step = sp.csr_array(self.mdp.under(best)[0]).toarray() > 0
        frontier = known = np.eye(len(best), dtype=bool)
        for _ in range(decisions - 1):
            frontier = frontier @ step
            known = known | frontier
        return list(np.where(known, best, self.wild))

    def limit(self, policies: list[np.ndarray]) -> np.ndarray:
        """Of the multi-step optimality operator with N = depth + 1."""
        return limit_of(lambda q: multi_step_optimality(self.mdp, policies, q, self.depth + 1), self.mdp)

    @cached_property
    def limit_of_knowing(self) -> np.ndarray:
        """The theorem on this limit asks for policies that are optimal at times 0 to N."""
        return self.limit(self.knowing(self.depth + 2))


def _statements(form: Literal["inside", "outside"]) -> dict[str, Callable[[Trial], tuple[float, float]]]:
    """The paper's statements on the Greedy-Step operator as (left, right): the claim is left <= right."""

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
    """A step in the proof of Theorem 5, from below: max_π (B^π)^n B q = B^(n+1) q."""
    q = many = t.optimum - t.gap
    for _ in range(t.depth + 1):
        many = bellman(t.mdp, many)
    return distance(t.mdp, multi_step_optimality(t.mdp, t.knowing(t.depth), q, t.depth + 1), many), 0.0


STATEMENTS: dict[str, dict[str, Callable[[Trial], tuple[float, float]]]] = {
    GREEDY[0]: {**_statements("inside"), "is the form of the proofs": _forms_agree},
    GREEDY[1]: _statements("outside"),
    "multi-step optimality": {
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
    "sampled Greedy-Step": {
        "contraction to Q*": lambda t: (
            t.error(sampled_limit(t.mdp, t.policies, t.q, N)),
            t.mdp.discount * t.error(t.q),
        ),
    },
}


def theorems(trials: int, progress: Callable[[float], None]) -> list[dict[str, Any]]:
    """How often each statement is violated in deterministic and in stochastic models, and by how much at worst."""
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

"""Count how often small random models violate the paper's theorems, lemmas and steps of proofs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from greedystep import models
from greedystep.experiments.table1 import properties
from greedystep.experiments.table1.properties import GREEDY, MULTI_STEP, SAMPLED, N, optimal_q
from greedystep.mdp import MDP
from greedystep.operators import bellman, distance, greedy_step, multi_step_optimality, sampled_limit

VIOLATION = 1e-8
"""A statement left <= right is violated if left exceeds right by more than this, which rounding may explain."""


@dataclass(frozen=True)
class Trial:
    """A small random model with its Q*, random policies and random tables."""

    mdp: MDP
    optimum: np.ndarray
    policies: list[np.ndarray]
    wild: np.ndarray
    """[S, S]: one more random policy per state."""
    depth: int
    """The n of Theorem 5: how many steps the policies are optimal for."""
    q: np.ndarray
    other: np.ndarray
    gap: float | np.ndarray
    """How far the table `below` lies below Q*."""

    @classmethod
    def draw(cls, random: np.random.Generator, branching: int) -> Trial:
        S, A, seed = random.integers(3, 9), random.integers(2, 4), random.integers(2**31)
        mdp = models.garnet(int(S), int(A), branching, discount=random.choice([0.5, 0.9]), seed=int(seed))
        optimum = optimal_q(mdp)
        policies, wild = properties.random_policies(mdp, random), random.integers(A, size=(S, S))
        q, other = optimum.mean() + random.normal(0, 5, (2, S, A))
        gap = 1.0 if random.random() < 0.5 else random.exponential(3.0, (S, A))  # constant is the hardest
        return cls(mdp, optimum, policies, wild, int(random.integers(1, 4)), q, other, gap)

    @property
    def below(self) -> np.ndarray:
        """A table below Q*."""
        return self.optimum - self.gap

    def error(self, q: np.ndarray) -> float:
        """Return ‖q - Q*‖."""
        return distance(self.mdp, q, self.optimum)

    def apart(self, operator: Callable[[np.ndarray], np.ndarray] = np.asarray) -> float:
        """Return ‖Oq - Oq'‖; without an operator ‖q - q'‖."""
        return distance(self.mdp, operator(self.q), operator(self.other))

    def locally_optimal(self, decisions: int) -> list[np.ndarray]:
        """Return for every state a policy that is optimal in all states it can reach within `decisions` decisions."""
        best = self.optimum.argmax(axis=1)
        step = sp.csr_array(self.mdp.under(best)[0]).toarray() > 0
        frontier = known = np.eye(len(best), dtype=bool)
        for _ in range(decisions - 1):
            frontier = frontier @ step
            known = known | frontier
        return list(np.where(known, best, self.wild))

    def limit(self, policies: list[np.ndarray]) -> np.ndarray:
        """Return the fixed point of the multi-step optimality operator with N = depth + 1."""
        return properties.limit_of(lambda q: multi_step_optimality(self.mdp, policies, q, self.depth + 1), self.mdp)

    @cached_property
    def limit_with_locally_optimal(self) -> np.ndarray:
        """Return the fixed point with policies that are optimal at times 0 to N, as the theorem on it requires."""
        return self.limit(self.locally_optimal(self.depth + 2))


Statements = dict[str, Callable[[Trial], float]]
"""{statement left <= right, as the paper has it: function of a trial that returns left minus right}."""


def _greedy_step_statements(form: Literal["inside", "outside"]) -> Statements:
    def image(t: Trial, q: np.ndarray) -> np.ndarray:
        return greedy_step(t.mdp, t.policies, q, N, form)

    def fast(t: Trial, q: np.ndarray, horizon: int) -> float:
        ours = greedy_step(t.mdp, t.locally_optimal(t.depth), q, horizon, form)
        return t.error(ours) - t.mdp.discount ** (t.depth + 1) * t.error(q)

    return {
        "Theorem 1: Q* = G Q*": lambda t: t.error(image(t, t.optimum)),
        "Lemma 1: |Gq-Gq'| <= γ |q-q'|": lambda t: t.apart(partial(image, t)) - t.mdp.discount * t.apart(),
        "Lemma 1: |Gq-Gq'| <= |Bq-Bq'|": lambda t: t.apart(partial(image, t)) - t.apart(partial(bellman, t.mdp)),
        "Theorem 4: |Gq-Q*| <= |Bq-Q*|": lambda t: t.error(image(t, t.q)) - t.error(bellman(t.mdp, t.q)),
        "Theorem 4 with q <= Q*": lambda t: t.error(image(t, t.below)) - t.error(bellman(t.mdp, t.below)),
        "q <= Q* stays below": lambda t: float((image(t, t.below) - t.optimum).max()),
        "Theorem 5 with N = n+1": lambda t: fast(t, t.below, t.depth + 1),
        "Theorem 5 with n = 1, N = 2": lambda t: fast(replace(t, depth=1), t.below, 2),
        "Theorem 5 with N = n": lambda t: fast(t, t.below, t.depth),
        "Theorem 5 with q >= Q*": lambda t: fast(t, t.optimum + t.gap, t.depth + 1),
    }


def _distance_of_forms(t: Trial) -> float:
    inside, outside = (greedy_step(t.mdp, t.policies, t.q, N, form) for form in ("inside", "outside"))
    return distance(t.mdp, inside, outside)


def _proof_step_of_theorem_5(t: Trial) -> float:
    """Return the distance of both sides of max_π (B^π)^n B q = B^(n+1) q, a step in the proof of Theorem 5, q <= Q*."""
    many = t.below
    for _ in range(t.depth + 1):
        many = bellman(t.mdp, many)
    return distance(t.mdp, multi_step_optimality(t.mdp, t.locally_optimal(t.depth), t.below, t.depth + 1), many)


STATEMENTS: dict[str, Statements] = {
    GREEDY[0]: {**_greedy_step_statements("inside"), "is the form of the proofs": _distance_of_forms},
    GREEDY[1]: _greedy_step_statements("outside"),
    MULTI_STEP: {
        "Lemma 2: |Oq-Oq'| <= γ^N |q-q'|": lambda t: (
            t.apart(lambda q: multi_step_optimality(t.mdp, t.policies, q, N)) - t.mdp.discount**N * t.apart()
        ),
        "limit <= Q*": lambda t: float((t.limit(t.policies) - t.optimum).max()),
        "limit = Q* if a policy knows the way": lambda t: t.error(t.limit_with_locally_optimal),
        "max_a limit = V* if a policy knows the way": lambda t: float(
            np.abs(t.limit_with_locally_optimal.max(axis=1) - t.optimum.max(axis=1)).max()
        ),
        "limit = Q* if one policy of several is optimal": lambda t: t.error(
            t.limit([*t.policies, t.optimum.argmax(axis=1)])
        ),
    },
    "proofs": {
        "(B^π)^n Q* <= Q*": lambda t: float(
            (multi_step_optimality(t.mdp, t.policies, t.optimum, t.depth + 1) - t.optimum).max()
        ),
        "Theorem 5: max_π (B^π)^n B q = B^(n+1) q": _proof_step_of_theorem_5,
    },
    SAMPLED: {
        "contraction to Q*": lambda t: t.error(sampled_limit(t.mdp, t.policies, t.q, N)) - t.mdp.discount * t.error(t.q)
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
        excess = np.zeros((trials, len(rows)))
        for i in range(trials):
            trial = Trial.draw(random, branching)
            excess[i] = [STATEMENTS[row["operator"]][row["statement"]](trial) for row in rows]
            if i % 20 == 0:
                progress((part + i / trials) / 2)
        for row, values in zip(rows, excess.T, strict=True):
            row["violations"][kind] = int((values > VIOLATION).sum())
            row["worst"][kind] = float(values[values > VIOLATION].max(initial=0.0))
    return rows

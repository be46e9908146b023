"""Measured properties of the operators: limit, rate, dependence on the behaviour policies, variance, time and memory.

The N-step return of the paper's off-policy operator obeys

    X_N(s, a) = r(s, a) + γ ρ(s', a') X_{N-1}(s', a'),    X_0 = Q,    s' ~ p(· | s, a),  a' ~ μ(· | s'),  ρ = π / μ

so its mean and its second moment have recursions of their own, from which its standard deviation is computed exactly.
With ρ = 1 it is the return without correction. Q is Q^π, so that nothing but the correction differs.
"""

from __future__ import annotations

import timeit
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, log
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp

from greedystep import models, operators
from greedystep.mdp import MDP
from greedystep.operators import bellman, distance, greedy_step, multi_step_on_policy, multi_step_optimality

GAMMA, N, LAMBDA = 0.9, 5, 0.8
POLICIES = 3
VARIANCE_STEPS = 8
"""Largest number of steps of a return whose variance is computed."""


@dataclass(frozen=True)
class Case:
    """A model with its behaviour policies and a target policy, on which operators are measured."""

    name: str
    mdp: MDP
    data: list[np.ndarray]
    target: np.ndarray

    @property
    def covering(self) -> list[np.ndarray]:
        """The behaviour policies mixed with the uniform one: importance sampling needs every action to be taken."""
        A = self.mdp.num_actions
        return [(np.eye(A)[policy] + 1 / A) / 2 for policy in self.data]


class Theory(NamedTuple):
    """What the paper states about an operator."""

    limit: str = "Q*"
    rate: str = "γ"
    needs: str = "-"
    """Which policies the operator must be given."""
    steps: str = "N"
    """How many steps the operator looks ahead."""


class Operator(NamedTuple):
    """A row of the table: an operator with its cost and what the paper states about it."""

    apply: Callable[[Case, np.ndarray], np.ndarray]
    products: Callable[[int], int]
    """Products with a policy's chain per application with A actions; a product with the whole model counts A."""
    theory: Theory


RATES = {
    "γ": GAMMA,
    "γ^N": GAMMA**N,
    "γ(1-λ)/(1-γλ)": GAMMA * (1 - LAMBDA) / (1 - GAMMA * LAMBDA),
    "Σ w_n γ^n": float(np.mean(GAMMA ** np.arange(1, N + 1))),
}
"""Contraction rate as the paper writes it -> its number."""
ON_POLICY = "data of π alone"
OPERATORS = {
    "one-step optimality": Operator(lambda c, q: bellman(c.mdp, q), lambda A: A, Theory(steps="1")),
    "multi-step optimality": Operator(
        lambda c, q: multi_step_optimality(c.mdp, c.data, q, N),
        lambda A: POLICIES * (N - 1 + A),
        Theory("below Q*", "γ^N"),
    ),
    "multi-step on-policy": Operator(
        lambda c, q: multi_step_on_policy(c.mdp, c.data[0], q, N),
        lambda A: N - 1 + A,
        Theory("Q^π", "γ^N", ON_POLICY),
    ),
    "multi-step off-policy": Operator(
        lambda c, q: operators.multi_step_off_policy(c.mdp, c.target, c.covering, q, N),
        lambda A: A * (1 + POLICIES * (N - 1)),
        Theory("Q^π", "γ^N", "π, and the data's policies for the ratios"),
    ),
    "λ-operator": Operator(
        lambda c, q: operators.lambda_operator(c.mdp, c.data[0], q, LAMBDA),
        lambda A: ceil(log(operators.LAMBDA_TOLERANCE) / log(GAMMA * LAMBDA)) + A,
        Theory("Q^π", "γ(1-λ)/(1-γλ)", ON_POLICY, "all"),
    ),
    "weighted returns": Operator(
        lambda c, q: operators.weighted(c.mdp, c.data[0], q, np.full(N, 1 / N)),
        lambda A: N - 1 + A,
        Theory("Q^π", "Σ w_n γ^n", ON_POLICY, "1 to N"),
    ),
    "Greedy-Step (definition)": Operator(
        lambda c, q: greedy_step(c.mdp, c.data, q, N), lambda A: POLICIES * (N - 1) + A, Theory(steps="chosen")
    ),
    "Greedy-Step (proofs)": Operator(
        lambda c, q: greedy_step(c.mdp, c.data, q, N, "outside"),
        lambda A: A * (1 + POLICIES * (N - 1)),
        Theory(steps="chosen"),
    ),
    "sampled Greedy-Step": Operator(
        lambda c, q: operators.sampled_limit(c.mdp, c.data, q, N),
        lambda A: A * (1 + POLICIES * (N - 1)),
        Theory("Q* if deterministic", steps="chosen"),
    ),
}
TABLE_1 = [name for name in OPERATORS if name not in ("λ-operator", "weighted returns", "sampled Greedy-Step")]
"""The rows of the paper's table; the other operators occur in its text."""

GREEDY = ("Greedy-Step (definition)", "Greedy-Step (proofs)")
MULTI_STEP, SAMPLED = "multi-step optimality", "sampled Greedy-Step"
KNOWING = "Greedy-Step with π* in Π"
SAME = 1e-8
"""Limits closer than this count as equal; they are iterated until they change by less than 1e-11."""


# -- measurements ------------------------------------------------------------------------------------------------------


def cases(side: int) -> list[Case]:
    """Return four models with side² states: random and grid, each deterministic and stochastic."""
    S = side * side
    mdps = {
        "random, deterministic": models.garnet(S, 4, 1, discount=GAMMA, seed=1),
        "random, stochastic": models.garnet(S, 4, 4, discount=GAMMA, seed=2),
        "grid, deterministic": models.grid(side, side, discount=GAMMA),
        "grid, slippery": models.grid(side, side, slip=0.4, discount=GAMMA),
    }
    random = np.random.default_rng(0)
    data = {name: random_policies(mdp, random) for name, mdp in mdps.items()}
    return [Case(name, mdp, data[name], target=data[name][0]) for name, mdp in mdps.items()]


def random_policies(mdp: MDP, random: np.random.Generator) -> list[np.ndarray]:
    """Draw POLICIES deterministic policies."""
    return list(random.integers(mdp.num_actions, size=(POLICIES, mdp.num_states)))


def properties(cases: list[Case], pairs: int) -> dict[str, dict[str, Any]]:
    """Return {operator: what the paper states, and what was measured in each case}."""
    random = np.random.default_rng(1)
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in OPERATORS}
    for case in cases:
        optimum, of_policy = optimal_q(case.mdp), policy_q(case.mdp, case.target)
        other = replace(case, data=random_policies(case.mdp, random))
        for name, operator in OPERATORS.items():
            limit, moved = (limit_of(partial(operator.apply, one), case.mdp) for one in (case, other))
            measured[name].append(
                {
                    "case": case.name,
                    "deterministic": case.mdp.deterministic,
                    "to_optimum": distance(case.mdp, limit, optimum),
                    "to_policy": distance(case.mdp, limit, of_policy),
                    "above_optimum": float((limit - optimum).max()),
                    "moves": distance(case.mdp, limit, moved),
                    "rate": _rate(operator, case, pairs, random),
                    "steps": _chosen_steps(case) if name == GREEDY[0] else None,
                }
            )
    A = cases[0].mdp.num_actions
    return {
        name: theory._asdict() | {"bound": RATES[theory.rate], "products": products(A), "cases": measured[name]}
        for name, (_, products, theory) in OPERATORS.items()
    }


def limit_of(operator: Callable[[np.ndarray], np.ndarray], mdp: MDP) -> np.ndarray:
    """Iterate an operator from 0 until it changes q by at most 1e-11."""
    q, change = np.zeros(mdp.rewards.shape), np.inf
    while change > 1e-11:
        image = operator(q)
        q, change = image, distance(mdp, image, q)
    return q


def optimal_q(mdp: MDP) -> np.ndarray:
    """Compute Q* by policy iteration with exact evaluation, without any of the operators."""
    policy, here = np.zeros(mdp.num_states, int), np.arange(mdp.num_states)
    while True:
        q = policy_q(mdp, policy)
        better = q.max(axis=1) > q[here, policy] + 1e-10
        if not better.any():
            return q
        policy = np.where(better, q.argmax(axis=1), policy)


def policy_q(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """Solve the linear system of Q^π."""
    chain, reward = mdp.under(policy)
    return mdp.backup(np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * sp.csr_array(chain).toarray(), reward))


def _rate(operator: Operator, case: Case, pairs: int, random: np.random.Generator) -> float:
    """Return the largest ‖Oq - Oq'‖ / ‖q - q'‖ of many pairs; half of them differ by a constant, the worst case."""
    worst = 0.0
    for i in range(pairs):
        q = random.normal(0, 5, case.mdp.rewards.shape)
        other = q + 1 if i % 2 else random.normal(0, 5, case.mdp.rewards.shape)
        images = operator.apply(case, q), operator.apply(case, other)
        worst = max(worst, distance(case.mdp, *images) / distance(case.mdp, q, other))
    return worst


def _lowest(mdp: MDP) -> np.ndarray:
    return np.full(mdp.rewards.shape, min(mdp.rewards.min(), 0.0) / (1 - mdp.discount))


def _chosen_steps(case: Case) -> list[int]:
    """Return the n that Greedy-Step chooses from below Q*: for each (s, a) the shortest look-ahead of that value."""
    q, chosen = _lowest(case.mdp), set()
    for _ in range(30):
        by_horizon = [greedy_step(case.mdp, case.data, q, n) for n in range(1, N + 1)]
        q = by_horizon[-1]
        chosen |= set(N - np.sum([q <= image + 1e-12 for image in by_horizon], axis=0).ravel() + 1)
    return sorted(int(n) for n in chosen)


def convergence(case: Case, iterations: int = 120) -> dict[str, Any]:
    """Return ‖q_k - Q*‖ by iteration k, starting below Q*, for operators with and without the limit Q*."""
    optimum = optimal_q(case.mdp)
    knowing = replace(case, data=[*case.data[1:], optimum.argmax(axis=1)])
    shown = {name: (name, case) for name in (*list(OPERATORS)[:3], *GREEDY)} | {KNOWING: (GREEDY[0], knowing)}
    curves = {}
    for label, (name, where) in shown.items():
        q, errors = _lowest(case.mdp), []
        for _ in range(iterations + 1):
            errors.append(distance(case.mdp, q, optimum))
            q = OPERATORS[name].apply(where, q)
        curves[label] = {"errors": errors, "products": OPERATORS[name].products(case.mdp.num_actions)}
    return {"case": case.name, "curves": curves}


def variance(cases: list[Case]) -> list[dict[str, Any]]:
    """Return for each model the standard deviation of n-step returns with and without ratios, n = 1, 2, ..."""
    rows = []
    for case in cases:
        target, behaviour = np.eye(case.mdp.num_actions)[case.target], case.covering[1]
        start = policy_q(case.mdp, case.target)
        ratios = {"corrected": target / behaviour, "uncorrected": np.ones_like(behaviour)}
        found = {kind: deviations(case.mdp, behaviour, ratio, start, VARIANCE_STEPS) for kind, ratio in ratios.items()}
        rows.append({"case": case.name, "steps": list(range(1, VARIANCE_STEPS + 1)), **found})
    return rows


def deviations(mdp: MDP, behaviour: np.ndarray, ratio: np.ndarray, start: np.ndarray, steps: int) -> list[float]:
    """Return the root mean square over (s, a) of the standard deviation of X_1, ..., X_steps; arrays are [S, A]."""
    mean, square, found = start, start**2, []
    for _ in range(steps):
        ahead = (behaviour * ratio * mean).sum(axis=1)  # [S]: E[ρ X] on arriving there
        ahead_square = (behaviour * ratio**2 * square).sum(axis=1)
        paid, later = mdp.rewards, mdp.backup(ahead) - mdp.rewards
        later_square = mdp.discount * (mdp.backup(ahead_square) - mdp.rewards)
        mean, square = paid + later, paid**2 + 2 * paid * later + later_square
        found.append(float(np.sqrt(np.maximum(square - mean**2, 0).mean())))
    return found


# -- cost, and formulas as printed -------------------------------------------------------------------------------------

COST_MODEL = {"states": 256, "actions": 4, "branching": 5, "horizon": 8}
"""The model whose cost is measured; either its states or the horizon grow."""


class MatrixForm:
    """The paper's Section 4: V' = max_{a,π,n} [ R^a + γ T^a Σ_{i<n-1} (γ T^π)^i R^π + γ T^a (γ T^π)^(n-1) V ].

    Everything but V is computed in advance: matrices [A, Π, N, S, S] and vectors [A, Π, N, S]. As printed, the sum of
    rewards lacks its T^a.
    """

    def __init__(self, mdp: MDP, policies: list[np.ndarray], horizon: int, as_printed: bool = False):
        S, A = mdp.rewards.shape
        model = sp.csr_array(mdp.transitions)
        by_action = [mdp.discount * model[a::A] for a in range(A)]
        self.matrices = np.empty((A, len(policies), horizon, S, S))
        self.rewards = np.empty((A, len(policies), horizon, S))
        for p, policy in enumerate(policies):
            chain, reward = mdp.under(policy)
            power, collected = np.eye(S), np.zeros(S)  # (γ T^π)^(n-1), and the rewards of the n-1 steps
            for n in range(horizon):
                for a, step in enumerate(by_action):
                    self.matrices[a, p, n] = step @ power
                    on_the_way = mdp.discount * collected if as_printed else step @ collected
                    self.rewards[a, p, n] = mdp.rewards[:, a] + on_the_way
                power = mdp.discount * (chain @ power)
                collected = reward + mdp.discount * (chain @ collected)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return (self.rewards + self.matrices @ values).max(axis=(0, 1, 2))


Form = Literal["inside", "outside", "matrices"]
FORMS: tuple[Form, ...] = get_args(Form)
LARGEST = 5e8
"""Largest number of bytes of matrices that are built; measurements of larger ones are None."""


def measure_cost(sizes: list[int], steps: list[int]) -> dict[str, list[dict[str, Any]]]:
    """Measure one application of the operator for these numbers of states and these horizons."""
    return {
        "states": [_application(size, COST_MODEL["horizon"]) for size in sizes],
        "horizon": [_application(COST_MODEL["states"], n) for n in steps],
    }


def _application(states: int, horizon: int) -> dict[str, Any]:
    """Return the shortest time of several applications of the operator, and the peak memory of all."""
    mdp = models.garnet(states, COST_MODEL["actions"], COST_MODEL["branching"], discount=GAMMA, seed=0)
    policies = random_policies(mdp, np.random.default_rng(0))
    q = np.zeros(mdp.rewards.shape)

    def prepare(form: Form) -> Callable[[], np.ndarray]:
        if form != "matrices":
            return lambda: greedy_step(mdp, policies, q, horizon, form)
        matrices = MatrixForm(mdp, policies, horizon)
        return lambda: matrices(q.max(axis=1))

    fits = 8 * mdp.num_actions * len(policies) * horizon * states**2 <= LARGEST
    row: dict[str, Any] = {"states": states, "horizon": horizon}
    row |= {measure: dict.fromkeys(FORMS) for measure in ("seconds", "bytes")}
    for form in FORMS if fits else FORMS[:2]:
        tracemalloc.start()
        apply = prepare(form)
        apply()
        row["bytes"][form] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        row["seconds"][form] = min(timeit.repeat(apply, number=1, repeat=7))
    return row


def printed_formulas() -> dict[str, Any]:
    """Evaluate two formulas as the paper prints them, each on its smallest example."""
    mdp, forward = models.chain(2, GAMMA), np.array([1, 1])
    return {
        "matrix_form": {
            form: MatrixForm(mdp, [forward], horizon=2, as_printed=form == "printed")(np.zeros(2)).tolist()
            for form in ("printed", "corrected")
        },
        "optimal_values": [GAMMA, 1.0],
        "lambda_weights": float(sum((1 - LAMBDA) * LAMBDA**n for n in range(1, 1000))),
    }

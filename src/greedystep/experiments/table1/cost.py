"""The paper's matrix formula: what it computes as printed, and its time and memory against sparse products."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from greedystep import models
from greedystep.experiments.claims import Claim, judged, verdict_if
from greedystep.experiments.table1.properties import GAMMA, LAMBDA, random_policies
from greedystep.experiments.table1.theorems import TESTS
from greedystep.mdp import MDP
from greedystep.operators import greedy_step

MODEL = {"states": 256, "actions": 4, "branching": 5, "horizon": 8}
"""The model whose cost is measured; either its states or the horizon grow."""
ORDER = 0.1
"""How far a measured exponent may lie from the claimed one."""


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


FORMS = ("inside", "outside", "matrices")

LARGEST = 5e8
"""Most bytes of matrices that are built; entries of larger ones are None."""


def measure_cost(sizes: list[int], steps: list[int]) -> dict[str, list[dict[str, Any]]]:
    """Measure one application for these numbers of states and these horizons."""
    return {
        "states": [_application(size, MODEL["horizon"]) for size in sizes],
        "horizon": [_application(MODEL["states"], n) for n in steps],
    }


def _application(states: int, horizon: int) -> dict[str, Any]:
    """Measure the shortest time of several applications, and the peak memory of preparing and applying."""
    mdp = models.garnet(states, MODEL["actions"], MODEL["branching"], discount=GAMMA, seed=0)
    policies = random_policies(mdp, np.random.default_rng(0))
    q = np.zeros(mdp.rewards.shape)

    def matrices() -> Callable[[], np.ndarray]:
        form = MatrixForm(mdp, policies, horizon)
        return lambda: form(q.max(axis=1))

    prepare: dict[str, Callable[[], Callable[[], np.ndarray]]] = {
        "inside": lambda: lambda: greedy_step(mdp, policies, q, horizon, "inside"),
        "outside": lambda: lambda: greedy_step(mdp, policies, q, horizon, "outside"),
    }
    if 8 * mdp.num_actions * len(policies) * horizon * states**2 <= LARGEST:
        prepare["matrices"] = matrices
    row: dict[str, Any] = {"states": states, "horizon": horizon}
    row |= {measure: dict.fromkeys(FORMS) for measure in ("seconds", "bytes")}
    for form, make in prepare.items():
        tracemalloc.start()
        apply = make()
        apply()
        row["bytes"][form] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        row["seconds"][form] = min(_timed(apply) for _ in range(7))
    return row


def _timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# -- claims -----------------------------------------------------------------------------------------------------------


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


def formula_claims(formulas: dict[str, Any]) -> list[Claim]:
    """Refuted: the printed formula gives another number than the operator it stands for."""
    matrix, optimal = formulas["matrix_form"]["printed"], formulas["optimal_values"]
    right = verdict_if(np.allclose(matrix, optimal))
    whole = verdict_if(bool(np.isclose(formulas["lambda_weights"], 1)))
    return [
        judged(
            "matrix-formula",
            "The model-based update of Section 4 computes the Greedy-Step operator.",
            "Section 4",
            f"V = {optimal} after one update with N = 2 on a chain of two states",
            f"as printed {matrix}; with the missing transition matrix {formulas['matrix_form']['corrected']}",
            right,
            "the sum of rewards lacks the transition of the first action "
            f"({TESTS}::test_the_printed_matrix_formula_lacks_a_transition)",
        ),
        judged(
            "lambda-weights",
            "The λ-operator is (1-λ) Σ λ^N B^N, N >= 1.",
            "Section 5",
            "weights sum to 1",
            f"they sum to {formulas['lambda_weights']:.3g} at λ = {LAMBDA}; λ^(N-1) is right",
            whole,
            "the exponent is one too large "
            f"({TESTS}::test_the_printed_weights_of_the_lambda_operator_do_not_sum_to_one)",
        ),
    ]


def complexity_claims(cost: dict[str, list[dict[str, Any]]]) -> list[Claim]:
    """Judge the order by memory: one application reads all that is stored, while times also depend on caches."""
    in_states, last = _order(cost["states"], "states")
    in_steps, _ = _order(cost["horizon"], "horizon")
    time, memory = (last[what]["matrices"] / last[what]["outside"] for what in ("seconds", "bytes"))
    square, linear = verdict_if(abs(in_states - 2) <= ORDER), verdict_if(abs(in_steps - 1) <= ORDER)
    return [
        judged(
            "complexity",
            "One model-based iteration costs O(|A| |Π| N |S|²).",
            "Section 4",
            "|S|^2",
            f"|S|^{in_states:.2f} for the matrices; sparse products give the same at {last['states']} states in "
            f"1/{time:.0f} of the time and 1/{memory:.0f} of the memory",
            square,
        ),
        judged(
            "complexity-in-steps",
            "The cost of an iteration is linear in the number of steps.",
            "Abstract, Section 1 and Section 4",
            "N^1",
            f"N^{in_steps:.2f}",
            linear,
        ),
    ]


def _order(rows: list[dict[str, Any]], what: str) -> tuple[float, dict[str, Any]]:
    """Return the exponent with which the matrices' memory grows, and the row of the largest."""
    rows = [row for row in rows if row["bytes"]["matrices"] is not None]
    sizes, stored = np.log([[row[what], row["bytes"]["matrices"]] for row in rows]).T
    return float(np.polyfit(sizes, stored, 1)[0]), rows[-1]

"""The paper's matrix formula: what it computes as printed, and its time and memory against sparse products."""

from __future__ import annotations

import timeit
import tracemalloc
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from greedystep import models
from greedystep.experiments.table1.properties import GAMMA, LAMBDA, random_policies
from greedystep.mdp import MDP
from greedystep.operators import greedy_step

MODEL = {"states": 256, "actions": 4, "branching": 5, "horizon": 8}
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

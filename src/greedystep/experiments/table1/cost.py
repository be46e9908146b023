"""Time and memory of one application: the operator's sparse forms against the paper's precomputed matrices."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from greedystep import models
from greedystep.experiments.table1.properties import GAMMA, random_policies
from greedystep.mdp import MDP
from greedystep.operators import greedy_step

MODEL = {"states": 256, "actions": 4, "branching": 5, "horizon": 8}
"""Either the states or the horizon grow, the rest stays."""


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
"""Bytes: larger matrices are not built, and their entries are None."""


def cost(sizes: list[int], steps: list[int]) -> dict[str, list[dict[str, Any]]]:
    return {
        "states": [_application(size, MODEL["horizon"]) for size in sizes],
        "horizon": [_application(MODEL["states"], n) for n in steps],
    }


def _application(states: int, horizon: int) -> dict[str, Any]:
    """Time of one application, the shortest of several; peak memory of preparing and applying, without the model."""
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

"""Models for the tests of planning, and what every `Solution` promises."""

import numpy as np
import oracles
import pytest

from greedystep import models
from greedystep.mdp import MDP
from greedystep.planning import METHODS

EXACT = [method for method in METHODS if method != "multi-step"]


def mixing(seed=0, states=30, **options) -> MDP:
    """Dense and mixing."""
    random = np.random.default_rng(seed)
    return MDP(random.dirichlet(np.ones(states), (states, 3)), random.normal(size=(states, 3)), 0.95, **options)


def cycling(states=20) -> MDP:
    """Dense enough to stay dense, and never mixing: round and round, with a choice of where to pause."""
    p = np.zeros((states, 2, states))
    p[np.arange(states), 0, (np.arange(states) + 1) % states] = 1.0
    p[:, 1] = np.eye(states)
    p = 0.7 * p
    p += 0.3 * np.eye(states)[(np.arange(states) + 1) % states][:, None]
    spread = p + 1e-14
    return MDP(spread / spread.sum(axis=2, keepdims=True), np.random.default_rng(1).normal(size=(states, 2)), 0.99)


def dense_with_ends() -> MDP:
    random = np.random.default_rng(2)
    p = random.dirichlet(np.ones(12), (12, 2)) * 0.9
    return MDP(p, random.normal(size=(12, 2)), 0.99, termination=np.full((12, 2), 0.1), terminal=np.arange(12) < 2)


MODELS = {
    "grid": models.grid(7, 9),
    "slippery": models.grid(6, 6, slip=0.3),
    "maze": models.maze(8, 8, slip=0.1, seed=3),
    "garnet": models.garnet(40, 3, 3),
    "wide garnet": models.garnet(40, 3, 12),
    "deterministic garnet": models.garnet(40, 3, 1),
    "chain": models.chain(30),
    "renumbered": models.renumbered(models.grid(6, 6, slip=0.1)),
    "frozen lake": MDP.from_gymnasium("FrozenLake-v1", 0.99, map_name="8x8"),
    "cliff": MDP.from_gymnasium("CliffWalking-v1", 0.99),
    "mixing": mixing(),
    "mixing with ends": mixing(terminal=np.arange(30) < 3),
    "cycling": cycling(),
    "dense with ends": dense_with_ends(),
}


def check(mdp: MDP, solution, tolerance=1e-6) -> None:
    """All that a Solution promises, against the exact optimum."""
    truth = oracles.exact_optimum(mdp)
    assert solution.converged
    assert solution.message == ""
    assert solution.error_bound <= tolerance
    assert np.abs(solution.v - truth).max() <= solution.error_bound
    assert (truth - oracles.exact_policy_value(mdp, solution.policy)).max() <= solution.policy_loss_bound
    consistent(mdp, solution)
    assert solution.v[mdp.terminal] == pytest.approx(0.0, abs=tolerance)
    q = np.where(mdp.available, oracles.dense(mdp) @ truth * mdp.discount + mdp.rewards, -np.inf).astype(float)
    np.testing.assert_allclose(solution.q, q, rtol=1e-12, atol=1.01 * solution.error_bound)


def consistent(mdp: MDP, solution) -> None:
    np.testing.assert_array_equal(solution.q.max(axis=1), solution.v)
    np.testing.assert_array_equal(solution.q.argmax(axis=1), solution.policy)
    np.testing.assert_array_equal(solution.q == -np.inf, ~mdp.available)
    assert mdp.available[np.arange(mdp.num_states), solution.policy].all()
    assert solution.policy.dtype == np.int64
    assert solution.trace.shape == (solution.iterations,)
    assert solution.sweeps > 0
    assert solution.seconds > 0

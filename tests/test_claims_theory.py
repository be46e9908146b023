"""Statements of the paper's text about its own and related methods, each as a property or a counterexample.

The theorems are in test_theory.py. `experiments/sentences.py` refers to both by name.
"""

import inspect

import numpy as np
import oracles
import oracles_claims
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep import models, returns
from greedystep.mdp import MDP
from greedystep.operators import bellman, distance, greedy_step, multi_step_optimality

seeds = st.integers(0, 2**32 - 1)
thorough = settings(max_examples=80, deadline=None)


# -- the proof of Theorem 5 -------------------------------------------------------------------------------------------


def test_counterexample_5_the_optimal_policy_need_not_be_greedy_for_q():
    # s0 leads to s1, from where action 0 leads to s2 (pays 1, ends) and action 1 to s3 (pays 1/2, ends). γ = 0.9, and q
    # is Q* but for 0 in s2. The proof of Theorem 5 says that (B^π)^n B q = B^(n+1) q for π = π*, n = 1.
    transitions, ends = np.zeros((4, 2, 4)), np.zeros((4, 2))
    transitions[0, :, 1] = transitions[1, 0, 2] = transitions[1, 1, 3] = 1.0
    ends[2:] = 1.0
    mdp = MDP(transitions, np.array([[0, 0], [0, 0], [1, 1], [0.5, 0.5]]), 0.9, termination=ends)
    optimum = np.array([[0.81, 0.81], [0.9, 0.45], [1, 1], [0.5, 0.5]])
    assert distance(mdp, oracles.optimal_q(mdp), optimum) < 1e-12
    q = optimum.copy()
    q[2] = 0.0
    followed = multi_step_optimality(mdp, [optimum.argmax(axis=1)], q, 2)
    np.testing.assert_allclose(followed[0], 0.0)  # π* goes to s2, which q does not know yet
    np.testing.assert_allclose(bellman(mdp, bellman(mdp, q))[0], 0.9 * 0.9 * 0.5)
    ours = greedy_step(mdp, [optimum.argmax(axis=1)], q, 2)
    assert distance(mdp, ours, optimum) <= 0.81 * distance(mdp, q, optimum)  # the theorem holds all the same


# -- what a method has to be given ------------------------------------------------------------------------------------


def arguments(method):
    return set(inspect.signature(getattr(returns, method)).parameters)


def test_greedy_step_is_given_no_probabilities_and_no_policy():
    assert arguments("greedy_step") == {"rewards", "discounts", "values", "cuts", "horizon"}


def test_importance_sampling_and_retrace_must_be_given_the_behaviours_probabilities():
    for method in ("importance_sampled", "retrace", "q_sigma"):
        assert {"target_prob", "behaviour_prob"} <= arguments(method)


def test_tree_backup_and_q_lambda_are_not_given_the_behaviours_probabilities():
    # Their results are those of oracles written from the formulas: test_returns.py, test_returns_with_traces.
    assert "target_prob" in arguments("tree_backup")
    for method in ("tree_backup", "q_lambda"):
        assert "behaviour_prob" not in arguments(method)


# -- how far the target may be from the behaviour ---------------------------------------------------------------------


def apart(seed):
    """A small model, a target that always takes one action, and a behaviour that mostly takes another."""
    mdp = models.garnet(4, 2, 2, discount=0.95, seed=seed)
    first = np.random.default_rng(seed).integers(2, size=4)
    return mdp, np.eye(2)[first], 0.95 * np.eye(2)[1 - first] + 0.05 * np.eye(2)[first]


def radius(matrix):
    """Iterating the map diverges from almost every start if this exceeds 1."""
    return np.abs(np.linalg.eigvals(matrix)).max()


def test_q_lambda_diverges_where_the_behaviour_is_far_and_converges_where_it_is_near():
    radii = []
    for seed in range(10):
        mdp, target, behaviour = apart(seed)
        radii.append(radius(oracles_claims.trace_operator(mdp, target, behaviour, np.ones((4, 2)))[0]))
        bound = (1 - mdp.discount) / (mdp.discount * np.abs(target - behaviour).sum(axis=1).max())
        assert radius(oracles_claims.trace_operator(mdp, target, behaviour, np.full((4, 2), bound))[0]) < 1
    assert max(radii) > 1


@given(seeds, st.floats(0, 1))
@thorough
def test_tree_backup_and_retrace_contract_to_the_targets_value_however_far_the_behaviour_is(seed, lambda_):
    random = np.random.default_rng(seed)
    mdp = models.garnet(4, 2, 2, discount=0.9, seed=seed)
    target, behaviour = random.dirichlet(np.full(2, 0.2), (2, 4))
    behaviour = 0.99 * behaviour + 0.005  # every action has some probability
    value = oracles.policy_q(mdp, target).ravel()
    for traces in (lambda_ * target, lambda_ * np.minimum(1, target / behaviour)):
        matrix, offset = oracles_claims.trace_operator(mdp, target, behaviour, traces)
        np.testing.assert_allclose(matrix @ value + offset, value, atol=1e-8)
        assert np.abs(matrix).sum(axis=1).max() <= mdp.discount + 1e-9


# -- the weighted return ----------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 12))
@thorough
def test_greedy_step_is_the_weighted_return_with_all_weight_on_the_best_n(seed, length):
    random = np.random.default_rng(seed)
    rewards, values = random.normal(size=(2, length))
    discounts = np.full(length, 0.9)
    greedy = returns.greedy_step(rewards, discounts, values)
    for t, n in enumerate(greedy.steps):
        mixed = returns.weighted(rewards, discounts, values, np.eye(length)[n - 1])
        np.testing.assert_allclose(mixed[t], greedy.returns[t], atol=1e-12)

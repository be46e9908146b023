"""Every operator against an oracle that writes all trajectories out, and its answers to bad input."""

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep import models, operators
from greedystep.mdp import MDP

seeds = st.integers(0, 2**32 - 1)
horizons = st.integers(1, 4)
thorough = settings(max_examples=40, deadline=None)


def problem(seed: int, **options):
    """A random model with two policies, a q table, and the generator they came from."""
    random = np.random.default_rng(seed)
    mdp = oracles.random_mdp(random, **options)
    return mdp, oracles.random_policies(random, mdp, 2), oracles.random_q(random, mdp), random


def assert_same(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


# -- against the oracles ----------------------------------------------------------------------------------------------


@given(seeds)
@thorough
def test_one_step_operators_are_averages_over_one_step(seed):
    mdp, (policy, _), q, _ = problem(seed)
    assert_same(operators.bellman(mdp, q), oracles.multi_step_optimality(mdp, [policy], q, 1))
    assert_same(
        operators.expectation(mdp, policy, q), oracles.multi_step_off_policy(mdp, policy, [policy], q, 1, [1.0])
    )


@given(seeds, horizons)
@thorough
def test_greedy_step_inside_chooses_in_each_successor(seed, horizon):
    mdp, policies, q, _ = problem(seed)
    expected = oracles.greedy_step_inside(mdp, policies, q, horizon)
    assert_same(operators.greedy_step(mdp, policies, q, horizon), expected)
    assert_same(operators.greedy_step(mdp, policies, q, horizon, form="inside"), expected)


@given(seeds, horizons)
@thorough
def test_greedy_step_outside_chooses_once(seed, horizon):
    mdp, policies, q, _ = problem(seed)
    expected = oracles.greedy_step_outside(mdp, policies, q, horizon)
    assert_same(operators.greedy_step(mdp, policies, q, horizon, form="outside"), expected)


@given(seeds, horizons)
@thorough
def test_the_outside_form_is_the_corrected_matrix_formula(seed, horizon):
    mdp, policies, q, _ = problem(seed)
    values = operators.greedy_step(mdp, policies, q, horizon, form="outside").max(axis=1)
    assert_same(values, oracles.matrix_form(mdp, policies, q.max(axis=1), horizon, as_printed=False))


@given(seeds, horizons)
@thorough
def test_multi_step_optimality_goes_exactly_n_steps(seed, horizon):
    mdp, policies, q, _ = problem(seed)
    assert_same(
        operators.multi_step_optimality(mdp, policies, q, horizon),
        oracles.multi_step_optimality(mdp, policies, q, horizon),
    )


@given(seeds, horizons)
@thorough
def test_multi_step_on_policy_follows_the_policy(seed, horizon):
    mdp, (policy, _), q, _ = problem(seed)
    expected = oracles.multi_step_off_policy(mdp, policy, [policy], q, horizon, [1.0])
    assert_same(operators.multi_step_on_policy(mdp, policy, q, horizon), expected)


@given(seeds, horizons, st.sampled_from([None, [0.3, 0.7], [1.0, 0.0]]))
@thorough
def test_multi_step_off_policy_weighs_every_trajectory_by_its_ratios(seed, horizon, selection):
    mdp, behaviours, q, random = problem(seed)
    target = oracles.random_policy(random, mdp, stochastic=True)
    expected = oracles.multi_step_off_policy(mdp, target, behaviours, q, horizon, selection or [0.5, 0.5])
    assert_same(operators.multi_step_off_policy(mdp, target, behaviours, q, horizon, selection), expected)


@given(seeds, st.integers(1, 5))
@thorough
def test_weighted_mixes_the_on_policy_operators(seed, count):
    mdp, (policy, _), q, random = problem(seed)
    weights = random.dirichlet(np.ones(count))
    steps = [operators.multi_step_on_policy(mdp, policy, q, n) for n in range(1, count + 1)]
    assert_same(operators.weighted(mdp, policy, q, weights), np.tensordot(weights, steps, axes=1))


@given(seeds, st.sampled_from([0.0, 0.3, 0.9, 1.0]))
@thorough
def test_lambda_operator_is_the_geometric_mixture(seed, lambda_):
    mdp, (policy, _), q, _ = problem(seed)
    terms = 1 if lambda_ == 0 else 4000  # .99 ** 4000 < 1e-17; what is left of the weight goes to the last term
    weights = (1 - lambda_) * lambda_ ** np.arange(terms)
    weights[-1] += 1 - weights.sum()
    expected = operators.weighted(mdp, policy, q, weights)
    np.testing.assert_allclose(operators.lambda_operator(mdp, policy, q, lambda_), expected, rtol=1e-9, atol=1e-9)


@given(seeds, st.integers(1, 6))
@thorough
def test_sampled_is_the_best_stored_stretch(seed, horizon):
    random = np.random.default_rng(seed)
    q = random.normal(size=(4, 2))
    trajectories = []
    for T in random.integers(1, 7, size=3):
        steps = random.integers(0, 4, T + 1), random.integers(0, 2, T), random.normal(size=T)
        trajectories.append((*steps, bool(random.random() < 0.5)))
    assert_same(operators.sampled(trajectories, q, 0.9, horizon), oracles.sampled(trajectories, q, 0.9, horizon))
    assert_same(operators.sampled(trajectories, q, 0.9), oracles.sampled(trajectories, q, 0.9, 99))


@given(seeds, horizons)
@thorough
def test_sampled_limit_is_the_luckiest_trajectory(seed, horizon):
    mdp, policies, q, _ = problem(seed)
    expected = oracles.sampled_limit(mdp, policies, q, horizon)
    assert_same(operators.sampled_limit(mdp, policies, q, horizon), expected)


# -- special cases ----------------------------------------------------------------------------------------------------


@given(seeds)
@thorough
def test_a_horizon_of_one_is_the_one_step_operator(seed):
    mdp, policies, q, _ = problem(seed)
    one_step = operators.bellman(mdp, q)
    assert_same(operators.greedy_step(mdp, policies, q, 1), one_step)
    assert_same(operators.greedy_step(mdp, policies, q, 1, form="outside"), one_step)
    assert_same(operators.multi_step_optimality(mdp, policies, q, 1), one_step)
    expected = operators.expectation(mdp, policies[0], q)
    assert_same(operators.multi_step_on_policy(mdp, policies[0], q, 1), expected)
    assert_same(operators.lambda_operator(mdp, policies[0], q, 0.0), expected)


@given(seeds)
@thorough
def test_dense_and_sparse_models_give_the_same(seed):
    mdp, policies, q, _ = problem(seed)
    options = {"termination": mdp.termination}
    dense = MDP(oracles.dense(mdp), mdp.rewards, mdp.discount, **options)
    dense.transitions = oracles.dense(mdp).reshape(-1, mdp.num_states)  # whatever its share of zeros
    sparse = MDP(sp.csr_array(dense.transitions), mdp.rewards, mdp.discount, **options)
    for form in ("inside", "outside"):
        assert_same(
            operators.greedy_step(dense, policies, q, 3, form), operators.greedy_step(sparse, policies, q, 3, form)
        )
    assert_same(operators.sampled_limit(dense, policies, q, 3), operators.sampled_limit(sparse, policies, q, 3))
    assert_same(
        operators.lambda_operator(dense, policies[0], q, 0.5), operators.lambda_operator(sparse, policies[0], q, 0.5)
    )


def test_numbers_by_hand():
    # Chain of three states, the last forward step pays 1 and ends; γ = 1/2, q = 0, policy: forward.
    mdp, q, forward = models.chain(3, 0.5), np.zeros((3, 2)), np.array([1, 1, 1])
    assert_same(operators.bellman(mdp, q)[:, 1], [0, 0, 1])
    assert_same(operators.greedy_step(mdp, [forward], q, 2)[:, 1], [0, 0.5, 1])
    assert_same(operators.greedy_step(mdp, [forward], q, 3), [[0, 0.25], [0, 0.5], [0.25, 1]])
    # Bootstrapping at -1 (terminal end excepted) shows what each operator does with q.
    low = np.full((3, 2), -1.0)
    assert_same(operators.multi_step_optimality(mdp, [forward], low, 2)[:, 1], [-0.25, 0.5, 1])
    assert_same(operators.multi_step_on_policy(mdp, np.array([0, 0, 0]), low, 2)[:, 1], [-0.25, -0.25, 1])
    assert_same(operators.weighted(mdp, forward, low, [0.5, 0.5])[:, 1], [-0.375, 0, 1])
    assert_same(operators.lambda_operator(mdp, forward, low, 1.0)[:, 1], [0.25, 0.5, 1])


def test_distance_leaves_unavailable_actions_out():
    mdp = MDP(np.eye(2)[[[0, 1], [0, 1]]], np.zeros((2, 2)), 0.9, available=np.array([[True, False], [True, True]]))
    q = np.array([[1.0, -np.inf], [2.0, 3.0]])
    assert operators.distance(mdp, q, q) == 0
    assert operators.distance(mdp, q, np.array([[1.5, 99.0], [2.0, 1.0]])) == 2.0


def test_an_unavailable_action_never_counts_whatever_q_says_about_it():
    mdp = MDP(np.eye(2)[[[0, 1], [0, 1]]], np.zeros((2, 2)), 0.5, available=np.array([[True, False], [True, True]]))
    q = np.array([[1.0, 1e6], [2.0, 3.0]])
    assert_same(operators.bellman(mdp, q), [[0.5, -np.inf], [0.5, 1.5]])
    assert_same(operators.expectation(mdp, np.array([[1.0, 0.0], [0.5, 0.5]]), q), [[0.5, -np.inf], [0.5, 1.25]])


def test_sampled_leaves_unvisited_entries_alone():
    q = np.array([[5.0, -np.inf], [7.0, 1.0]])
    assert_same(operators.sampled([([0, 1], [0], [1.0], False)], q, 0.5), [[4.5, -np.inf], [7.0, 1.0]])
    assert_same(operators.sampled([([0, 1], [0], [1.0], True)], q, 0.5), [[1.0, -np.inf], [7.0, 1.0]])
    assert_same(operators.sampled([], q, 0.5), q)


def test_arguments_are_not_changed():
    mdp, policies, q, _ = problem(3)
    before = q.copy(), [policy.copy() for policy in policies]
    operators.greedy_step(mdp, policies, q, 3)
    operators.greedy_step(mdp, policies, q, 3, form="outside")
    operators.sampled([([0, 1, 0], [0, 0], [1.0, 2.0], True)], q, 0.9)
    np.testing.assert_array_equal(q, before[0])
    for policy, old in zip(policies, before[1], strict=True):
        np.testing.assert_array_equal(policy, old)


# -- bad input --------------------------------------------------------------------------------------------------------

CHAIN, FORWARD, ZERO = models.chain(3, 0.9), np.array([1, 1, 1]), np.zeros((3, 2))
NAN = np.full((3, 2), np.nan)
STEP = ([0, 1], [1], [0.0], False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: operators.greedy_step(CHAIN, [FORWARD], ZERO, 0),
            r"horizon: expected an integer >= 1, got 0",
        ),
        (lambda: operators.greedy_step(CHAIN, [FORWARD], ZERO, 2.5), r"horizon: .* got 2\.5"),
        (lambda: operators.greedy_step(CHAIN, [FORWARD], ZERO, True), r"horizon: .* got True"),
        (lambda: operators.greedy_step(CHAIN, [], ZERO, 2), r"policies: the set is empty"),
        (lambda: operators.greedy_step(CHAIN, FORWARD, ZERO, 2), r"policies: expected a list of policies"),
        (lambda: operators.greedy_step(CHAIN, [FORWARD], ZERO, 2, "middle"), r"form: .* got 'middle'"),
        (
            lambda: operators.greedy_step(CHAIN, [FORWARD], ZERO[:2], 2),
            r"q: expected \[S, A\] = \[3, 2\], got .* \[2, 2\]",
        ),
        (lambda: operators.bellman(CHAIN, ZERO[0]), r"q: expected .* got shape \[2\]"),
        (lambda: operators.bellman(CHAIN, NAN), r"q: the entry of state 0, action 0 is nan"),
        (lambda: operators.distance(CHAIN, ZERO, NAN), r"other: .* is nan"),
        (lambda: operators.expectation(CHAIN, FORWARD[:2], ZERO), r"policy: expected int \[3\]"),
        (lambda: operators.multi_step_optimality(CHAIN, [FORWARD], ZERO, 0), r"horizon: .* got 0"),
        (lambda: operators.multi_step_optimality(CHAIN, [], ZERO, 2), r"policies: the set is empty"),
        (lambda: operators.multi_step_on_policy(CHAIN, FORWARD, ZERO, -1), r"horizon: .* got -1"),
        (lambda: operators.weighted(CHAIN, FORWARD, ZERO, [0.5, 0.4]), r"weights: .* sum to 1, got \[0\.5, 0\.4\]"),
        (lambda: operators.weighted(CHAIN, FORWARD, ZERO, [1.5, -0.5]), r"weights: .* >= 0"),
        (lambda: operators.weighted(CHAIN, FORWARD, ZERO, []), r"weights: .* got \[\]"),
        (lambda: operators.lambda_operator(CHAIN, FORWARD, ZERO, 1.1), r"lambda_: .* got 1\.1"),
        (
            lambda: operators.lambda_operator(models.chain(3, 1.0), FORWARD, ZERO, 1.0),
            r"lambda_: .*below 1 with discount 1",
        ),
        (lambda: operators.multi_step_off_policy(CHAIN, FORWARD, [], ZERO, 2), r"policies: the set is empty"),
        (lambda: operators.multi_step_off_policy(CHAIN, [0], [FORWARD], ZERO, 2), r"target: expected int \[3\]"),
        (lambda: operators.multi_step_off_policy(CHAIN, FORWARD, [FORWARD], ZERO, 0), r"horizon: .* got 0"),
        (
            lambda: operators.multi_step_off_policy(CHAIN, FORWARD, [FORWARD], ZERO, 2, [0.5]),
            r"selection: expected 1 prob",
        ),
        (lambda: operators.sampled([STEP], ZERO, 0.9, 0), r"horizon: .* got 0"),
        (lambda: operators.sampled([STEP], ZERO, 1.5), r"discount: .* got 1\.5"),
        (lambda: operators.sampled([STEP], ZERO[0], 0.9), r"q: expected \[S, A\], got shape \[2\]"),
        (
            lambda: operators.sampled([([0], [1], [0.0], False)], ZERO, 0.9),
            r"trajectories\[0\]: expected states \[T\+1\]",
        ),
        (lambda: operators.sampled([STEP, ([0, 3], [1], [0.0], False)], ZERO, 0.9), r"trajectories\[1\]: .* in 0\.\.2"),
        (lambda: operators.sampled([([0, 1], [-1], [0.0], False)], ZERO, 0.9), r"actions as integers in 0\.\.1"),
        (lambda: operators.sampled_limit(CHAIN, [FORWARD], ZERO, 0), r"horizon: .* got 0"),
    ],
)
def test_bad_input_is_answered_by_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["inside", "outside"])
def test_a_horizon_beyond_the_fixed_point_costs_nothing(form):
    """2^31 backups would take hours; all after a fixed point are equal."""
    mdp, policies = models.n_horizon(8)
    q = np.zeros((mdp.num_states, mdp.num_actions))
    far, near = (operators.greedy_step(mdp, policies, q, horizon, form=form) for horizon in (2**31, 1000))
    np.testing.assert_array_equal(far, near)
    far, near = (operators.multi_step_on_policy(mdp, policies[0], q, horizon) for horizon in (2**31, 1000))
    np.testing.assert_array_equal(far, near)

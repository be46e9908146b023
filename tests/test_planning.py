"""Every planning method against an exact solve, from any start."""

import itertools
import re

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_models import EXACT, MODELS, check, consistent

from greedystep import models, operators
from greedystep.mdp import MDP
from greedystep.planning import (
    METHODS,
    convergence,
    solve,
)

seeds = st.integers(0, 2**32 - 1)
thorough = settings(max_examples=40, deadline=None)

# -- right answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("name", MODELS)
def test_every_method_solves_every_kind_of_model(name, method):
    solution = solve(MODELS[name], method)
    check(MODELS[name], solution)
    assert solution.method == method
    assert str(solution).startswith(f"{method}: converged after {solution.iterations} iterations")


def test_repr_of_a_solution_is_short():
    solution = solve(models.chain(4), "value-iteration", max_iterations=2)
    begin, end = "Solution(4 states, not converged, method='value-iteration', error_bound=", ")"
    assert repr(solution) == f"{begin}{solution.error_bound:.3g}{end}"


def test_the_dense_models_are_dense():
    for name in ("mixing", "mixing with ends", "cycling", "dense with ends"):
        assert isinstance(MODELS[name].transitions, np.ndarray), name


@given(seeds, st.sampled_from(EXACT))
@thorough
def test_random_models(seed, method):
    mdp = oracles.random_mdp(np.random.default_rng(seed))
    check(mdp, solve(mdp, method))
    check(mdp, solve(mdp, method, tolerance=1e-9), 1e-9)


def test_plain_python_value_iteration_agrees():
    mdp = models.grid(3, 3, slip=0.2, discount=0.9)
    np.testing.assert_allclose(solve(mdp, tolerance=1e-10).v, oracles.value_iteration(mdp, 300), atol=1e-9)


def test_value_iteration_is_value_iteration():
    mdp = models.grid(3, 3, slip=0.2, discount=0.9)
    for sweeps in (1, 2, 5):
        solution = solve(mdp, "value-iteration", max_iterations=sweeps)
        np.testing.assert_allclose(solution.v, oracles.value_iteration(mdp, sweeps), rtol=1e-12)
        assert solution.iterations == solution.sweeps == sweeps


@given(seeds, st.integers(1, 6))
@thorough
def test_greedy_step_takes_any_policies_and_horizon(seed, horizon):
    random = np.random.default_rng(seed)
    mdp = oracles.random_mdp(random)
    policies = oracles.random_policies(random, mdp, int(random.integers(1, 4)))
    check(mdp, solve(mdp, "greedy-step", policies=policies, horizon=horizon))


def test_greedy_step_needs_fewer_iterations_the_longer_it_looks():
    mdp, policies = models.n_horizon(40)
    counts = [solve(mdp, "greedy-step", policies=policies, horizon=n).iterations for n in (1, 10, 40)]
    assert counts[0] > 3 * counts[1] > 3 * counts[2]


@given(seeds, st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_multi_step_converges_below_the_optimum_and_says_so(seed, horizon):
    random = np.random.default_rng(seed)
    mdp = oracles.random_mdp(random)
    policies = oracles.random_policies(random, mdp, 2)
    solution = solve(mdp, "multi-step", policies=policies, horizon=horizon, tolerance=1e-8)
    truth = oracles.exact_optimum(mdp)
    error = np.abs(solution.v - truth).max()
    assert error <= solution.error_bound
    assert solution.converged == (solution.error_bound <= 1e-8)
    if not solution.converged:
        assert solution.message.startswith("the multi-step operator has converged to its own fixed point: v is only")
    assert solution.trace[-1] <= 1e-8  # the residual of its own equation
    # Its own fixed point, before the last Bellman backup that makes the proof, lies below Q*.
    own = np.where(mdp.available, 0.0, -np.inf)
    for _ in range(solution.iterations):
        own = operators.multi_step_optimality(mdp, policies, own, horizon)
    assert (own.max(axis=1) <= truth + 1e-6).all()


def test_multi_step_with_the_optimal_policy_is_optimal():
    mdp = models.grid(4, 4, slip=0.2)
    check(mdp, solve(mdp, "multi-step", policies=[solve(mdp).policy], horizon=5))


def test_missing_actions_and_ends_are_respected():
    """The best-paid action is missing, and the best-paid state is an end."""
    p = np.zeros((3, 2, 3))
    p[:, 0, 1], p[:, 1, 2] = 1.0, 1.0
    rewards = np.array([[1.0, 100.0], [2.0, 1.0], [1000.0, 1000.0]])
    available = np.array([[True, False], [True, True], [True, True]])
    for transitions, method in itertools.product((p, sp.csr_array(p.reshape(6, 3))), EXACT):
        mdp = MDP(transitions, rewards, 0.5, terminal=[False, False, True], available=available)
        solution = solve(mdp, method)
        check(mdp, solution)
        np.testing.assert_allclose(solution.v, [3.0, 4.0, 0.0], atol=1e-6)
        np.testing.assert_array_equal(solution.policy[:2], [0, 0])


# -- small and odd models ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize(
    ("mdp", "v"),
    [
        (MDP([[[1.0]]], [[3.0]], 0.9), [30.0]),
        (MDP([[[0.0]]], [[3.0]], 0.9, termination=[[1.0]]), [3.0]),
        (MDP([[[1.0]]], [[3.0]], 0.9, terminal=[True]), [0.0]),
        (MDP(sp.csr_array((1, 1)), [[3.0]], 0.9, terminal=[True]), [0.0]),
        (MDP([[[1.0], [1.0], [1.0]]], [[1.0, 3.0, 2.0]], 0.5), [6.0]),
        (MDP(np.eye(5)[:, None], np.arange(5.0)[:, None], 0.5), 2 * np.arange(5.0)),
        (models.garnet(20, 3, 3, discount=0.9).with_rewards(np.zeros((20, 3))), np.zeros(20)),
        (models.garnet(20, 3, 3, discount=0.9).with_rewards(np.full((20, 3), -2.0)), np.full(20, -20.0)),
        (models.garnet(20, 1, 3, discount=0.01).with_rewards(np.ones((20, 1))), np.full(20, 1 / 0.99)),
        (models.grid(1, 1), [0.0]),
    ],
)
def test_small_and_odd_models(mdp, v, method):
    solution = solve(mdp, method)
    check(mdp, solution)
    np.testing.assert_allclose(solution.v, v, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["garnet", "slippery", "grid", "mixing", "cycling", "dense with ends", "chain"])
def test_where_float64_is_too_coarse_the_solve_stops_and_says_so(name, method):
    mdp = MODELS[name].with_rewards(np.where(MODELS[name].available, 1e12 * MODELS[name].rewards, 0.0))
    policies = [solve(MODELS[name]).policy] if method == "multi-step" else None
    solution = solve(mdp, method, policies=policies, time_limit=20)
    truth = oracles.exact_optimum(mdp)
    assert np.abs(solution.v - truth).max() <= solution.error_bound < 1e-11 * np.abs(truth).max() + 1e-3
    assert not solution.converged
    assert "v is only known to be within" in solution.message
    assert "time limit" not in solution.message
    consistent(mdp, solution)


def test_parts_that_hardly_lead_to_each_other_are_solved_where_sweeps_stall():
    random, parts, size, leave = np.random.default_rng(2), 10, 10, 1e-5
    S, A = parts * size, 3
    rows = np.arange(S * A)
    to = np.vstack([rows // A // size * size + random.integers(size, size=(4, S * A)), random.integers(S, size=S * A)])
    chances = np.vstack([random.dirichlet(np.ones(4), S * A).T * (1 - leave), np.full(S * A, leave)])
    matrix = sp.csr_array((chances.ravel(), (np.tile(rows, 5), to.ravel())), shape=(S * A, S))
    mdp = MDP(matrix, random.random((S, A)), 1 - 1e-8)
    solution, other = solve(mdp), solve(mdp, method="policy-iteration")
    assert solution.error_bound < 1e-6 * solution.v.max()  # sweeps alone: 0.2
    assert np.abs(solution.v - other.v).max() <= solution.error_bound + other.error_bound


def test_where_rounding_goes_round_in_a_ring_the_solve_stops_soon():
    S = 2000
    ring = sp.csr_array((np.ones(S), (np.arange(S) + 1) % S, np.arange(S + 1)), shape=(S, S))
    mdp = MDP(ring, np.eye(S, 1), 1 - 1e-12)
    solution = solve(mdp)
    assert "nothing changes any more" in solution.message
    assert solution.iterations < 20_000
    exact = 1 / (1 - mdp.discount**S)
    assert abs(solution.v[0] - exact) <= solution.error_bound < 0.1 * exact


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("name", ["garnet", "slippery", "mixing"])
def test_tiny_rewards_want_a_tiny_tolerance(name, method):
    mdp = MODELS[name].with_rewards(np.where(MODELS[name].available, 1e-12 * MODELS[name].rewards, 0.0))
    check(mdp, solve(mdp, method, tolerance=1e-18), 1e-18)
    assert solve(mdp, method).iterations == 1  # within 1e-6 anything is right


# -- discount 1 -------------------------------------------------------------------------------------------------------


def costly_walk(dense: bool) -> MDP:
    """Every step may end: all policies are proper."""
    random = np.random.default_rng(5)
    p = random.dirichlet(np.ones(6), (6, 2)) * 0.8
    transitions = p if dense else sp.csr_array(p.reshape(12, 6))
    return MDP(transitions, random.normal(size=(6, 2)), 1.0, termination=np.full((6, 2), 0.2))


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("dense", [False, True])
def test_discount_one_has_a_bound_where_everything_ends(dense, method):
    mdp = costly_walk(dense)
    check(mdp, solve(mdp, method))


@pytest.mark.parametrize("method", ["auto", "value-iteration", "greedy-step", "modified-policy-iteration"])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("slip", [0.2, 0.0])
def test_discount_one_has_no_bound_where_a_policy_may_never_end(slip, dense, method):
    mdp = models.grid(2, 3, slip=slip, discount=1.0)
    if dense:
        mdp.transitions = mdp.transitions.toarray()  # pyright: ignore[reportAttributeAccessIssue]
    solution = solve(mdp, method)
    truth = oracles.exact_optimum_of_proper_start(mdp)
    np.testing.assert_allclose(solution.v, truth.astype(float), atol=1e-4)
    assert solution.error_bound == solution.policy_loss_bound == np.inf
    assert not solution.converged
    reason = (
        r"with discount 1 a policy that never ends \(action \d in state \d can begin one\) leaves no bound on the error"
    )
    assert re.fullmatch(reason, solution.message)
    consistent(mdp, solution)


def tempting_to_stay(seed: int) -> MDP:
    """Dense, discount 1: action 0 may end and costs much, action 1 never ends and costs little."""
    random = np.random.default_rng(seed)
    p, ends = random.dirichlet(np.ones(5), (5, 2)), np.zeros((5, 2))
    ends[:, 0] = 0.2
    p[:, 0] *= 0.8
    return MDP(p, -1 - 4 * random.random((5, 2)) * [1.0, 0.0], 1.0, termination=ends)


@pytest.mark.parametrize("seed", range(10))
def test_a_nearly_singular_policy_is_no_policy_with_a_value(seed):
    """Its chain never ends, and rounding makes the system of its values solvable: by numbers of size 1e16."""
    mdp = tempting_to_stay(seed)
    truth = oracles.exact_optimum(mdp).astype(float)  # from the policy 0, which ends, and so do all better ones
    for method in ("auto", "value-iteration", "modified-policy-iteration"):
        solution = solve(mdp, method, time_limit=1)
        np.testing.assert_allclose(solution.v, truth, atol=1e-4, err_msg=method)
        assert solution.error_bound == np.inf
    with pytest.raises(ValueError, match="policy iteration met a policy that never ends"):
        solve(mdp, "policy-iteration")


def test_policy_iteration_meets_a_policy_that_never_ends():
    p = np.zeros((2, 2, 2))
    p[0, 0, 0] = p[0, 1, 1] = p[1, 0, 0] = 1.0
    ends = np.array([[0.0, 0.0], [0.0, 1.0]])
    mdp = MDP(sp.csr_array(p.reshape(4, 2)), [[-1.0, -3.0], [-1.0, -1.0]], 1.0, termination=ends)
    with pytest.raises(ValueError, match="policy iteration met a policy that never ends"):
        solve(mdp, "policy-iteration")


def test_a_loop_that_pays_without_discount_does_not_go_on_for_ever(monkeypatch):
    monkeypatch.setattr(convergence, "UNBOUNDED_ITERATIONS", 500)
    mdp = MDP([[[1.0], [0.0]]], [[1.0, 0.0]], 1.0, termination=[[0.0, 1.0]])
    for method in ("auto", "value-iteration", "modified-policy-iteration"):
        solution = solve(mdp, method, time_limit=20)
        assert solution.error_bound == np.inf
        assert "iterations, with values that may have no limit; with discount 1" in solution.message


# -- warm starts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("name", ["garnet", "slippery", "grid", "mixing", "dense with ends"])
def test_a_warm_start_saves_work(name, method):
    mdp = MODELS[name]
    cold = solve(mdp, method)
    for initial in (cold.v, cold.q, cold.policy, cold.v.astype(np.float32)):
        warm = solve(mdp, method, initial=initial)
        check(mdp, warm)
        assert warm.sweeps <= max(cold.sweeps, 4), initial
    assert solve(mdp, method, initial=solve(mdp, tolerance=1e-8).v).iterations <= 2


def test_a_start_from_anywhere_arrives():
    random = np.random.default_rng(0)
    for mdp, method in itertools.product((MODELS["garnet"], MODELS["slippery"], MODELS["mixing"]), EXACT):
        for size in (1.0, 1e4):
            check(mdp, solve(mdp, method, initial=size * random.normal(size=mdp.num_states)))


def test_the_start_is_left_alone():
    for name, method in itertools.product(("garnet", "slippery", "mixing", "cycling"), EXACT):
        start = np.ones(MODELS[name].num_states)
        solve(MODELS[name], method, initial=start)
        np.testing.assert_array_equal(start, 1.0)

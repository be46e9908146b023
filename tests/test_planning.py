"""Every planning method against an exact solve; what stops it, what it says then, and what it answers to bad input."""

import itertools
import re
import time

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep import models, operators, provenance
from greedystep.mdp import MDP
from greedystep.planning import (
    METHODS,
    backups,
    convergence,
    dynamic_programming,
    kernels,
    policy_evaluation,
    policy_iteration,
    solve,
    transition_tables,
)
from greedystep.planning.backups import Iteration

seeds = st.integers(0, 2**32 - 1)
thorough = settings(max_examples=40, deadline=None)
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


# -- stopping ---------------------------------------------------------------------------------------------------------


def options(mdp, method):
    return {"policies": [np.zeros(mdp.num_states, int)]} if method == "multi-step" else {}


def assert_true_bound(mdp, solution):
    assert np.abs(solution.v - oracles.exact_optimum(mdp)).max() <= solution.error_bound < np.inf
    consistent(mdp, solution)


SLOW = models.garnet(40, 3, 3, discount=0.9999, seed=1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mdp", [SLOW, MODELS["slippery"], MODELS["cycling"]])
def test_max_iterations(mdp, method):
    for count in (1, 2):
        solution = solve(mdp, method, max_iterations=count, tolerance=1e-9, **options(mdp, method))
        assert solution.iterations == count
        assert solution.message.startswith(f"stopped after {count} iterations: v is only known to be within ")
        assert not solution.converged
        assert_true_bound(mdp, solution)


def test_time_limit():
    ring = MDP(np.roll(np.eye(40), 1, axis=1)[:, None], np.arange(40.0)[:, None], 0.9999)  # goes round, never mixes
    began = time.perf_counter()
    solution = solve(ring, "value-iteration", time_limit=0.05)
    assert time.perf_counter() - began < 1
    assert solution.message.startswith("stopped by the time limit of 0.05 s: v is only known to be within")
    assert not solution.converged
    assert_true_bound(ring, solution)


def test_the_callback_is_told_and_may_stop():
    seen = []
    solution = solve(SLOW, "value-iteration", callback=lambda news: seen.append(news) or len(seen) == 7)
    assert [news.iteration for news in seen] == [1, 2, 3, 4, 5, 6, 7]
    assert [news.residual for news in seen] == list(solution.trace)
    assert [news.sweeps for news in seen] == [1, 2, 3, 4, 5, 6, 7]
    bounds = [news.error_bound for news in seen]
    assert bounds == sorted(bounds, reverse=True)
    assert all(0 < a.seconds <= b.seconds for a, b in itertools.pairwise(seen))
    assert solution.message.startswith("stopped by the callback: v is only known to be within")
    assert_true_bound(SLOW, solution)


def test_a_callback_that_is_no_function_is_refused():
    with pytest.raises(ValueError, match="callback: expected a function of a SolveProgress, got 3"):
        solve(SLOW, callback=3)


def test_a_callback_that_stops_a_solved_problem_changes_nothing():
    mdp = MODELS["chain"]
    assert solve(mdp, callback=lambda news: news.error_bound <= 1e-6).message == ""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["slow", "slippery", "cycling", "mixing", "wide garnet"])
def test_ctrl_c_in_a_callback(name, method):
    mdp = SLOW if name == "slow" else MODELS[name]
    for when in (1, 2, 3, 4):

        def press(news, when=when):
            if news.iteration == when:
                raise KeyboardInterrupt

        solution = solve(mdp, method, tolerance=1e-13, callback=press, **options(mdp, method))
        assert solution.iterations <= when
        if solution.iterations == when:
            assert solution.message.startswith("interrupted: v is only known to be within")
        assert_true_bound(mdp, solution)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 9, 14, 20])
@pytest.mark.parametrize("name", ["slow", "slippery", "garnet"])
def test_ctrl_c_inside_a_sweep(name, count, monkeypatch):
    """Whatever loop is running: the values of that moment are proved and handed over."""
    mdp = SLOW if name == "slow" else MODELS[name]
    calls = itertools.count()

    def interrupting(loop):
        def wrapped(*arguments, **rest):
            if next(calls) == count:
                raise KeyboardInterrupt
            return loop(*arguments, **rest)

        return wrapped

    loops = {backups: ["chain_backup", "bellman"], policy_iteration: ["first_guess"], kernels: ["sweep"]}
    loops[policy_evaluation] = ["extract_chain", "bicgstab", "solve_banded", "solve_deterministic"]
    for module, names in loops.items():
        for name in names:
            monkeypatch.setattr(module, name, interrupting(getattr(module, name)))
    solution = solve(mdp, tolerance=1e-6)
    assert solution.converged or solution.message.startswith("interrupted")
    assert_true_bound(mdp, solution)


def test_ctrl_c_before_the_first_iteration(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(dynamic_programming, "value_iteration", interrupted)
    solution = solve(SLOW, "value-iteration", initial=np.ones(40))
    assert solution.message.startswith("interrupted: ")
    assert solution.iterations == 0
    assert np.abs(solution.v - oracles.exact_optimum(SLOW)).max() <= solution.error_bound
    assert np.isfinite(solution.error_bound)


def test_stopped_after_a_good_warm_start_the_policy_is_still_one_of_actions():
    """The best proof may be older than the last values; its policy has to be translated all the same."""
    for seed in range(20):
        mdp = models.renumbered(models.grid(5, 5, slip=0.3), seed)
        start = solve(mdp, tolerance=1e-12).v + 1e-7 * np.random.default_rng(seed).normal(size=25)
        for count in (1, 2, 3, 4):
            solution = solve(mdp, initial=start, tolerance=1e-9, max_iterations=count)
            assert_true_bound(mdp, solution)
            mdp.check_policy(solution.policy)


def test_the_answer_does_not_change_when_the_method_goes_on_in_its_arrays(monkeypatch):
    def reckless(mdp, v):
        near = oracles.exact_optimum(mdp).astype(float) + 1e-3 * np.arange(mdp.num_states)
        good = dynamic_programming.backup_of(mdp, near)
        yield Iteration(lambda: good.out, good, 1.0)
        good.out[:] = 1e9
        yield Iteration(lambda: v, dynamic_programming.backup_of(mdp, v), 2.0)

    monkeypatch.setattr(dynamic_programming, "value_iteration", reckless)
    assert_true_bound(SLOW, solve(SLOW, "value-iteration", tolerance=1e-12))


def test_of_equal_actions_the_policy_is_the_first_with_the_largest_q():
    """Two actions with the same successors stored in another order: rounding tells them apart, differently each time
    that the sum is made in another way."""
    random = np.random.default_rng(0)
    S, width = 200, 12
    successors = np.array([random.permutation(S)[:width] for _ in range(S)])
    chance = random.dirichlet(np.ones(width), S)
    order = random.permutation(width)
    indices = np.stack([successors, successors[:, order]], axis=1).ravel()
    data = np.stack([chance, chance[:, order]], axis=1).ravel()
    transitions = sp.csr_array((data, indices, np.arange(2 * S + 1) * width), shape=(2 * S, S))
    mdp = MDP(transitions, np.repeat(random.normal(size=(S, 1)), 2, axis=1), 0.99)
    for method in EXACT:
        solution = solve(mdp, method)
        assert 0 < solution.policy.mean() < 1, method  # rounding did decide
        consistent(mdp, solution)


# -- the same every time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["slippery", "garnet", "mixing", "cycling"])
def test_twice_is_the_same_bit_for_bit(name, method):
    mdp = MODELS[name]
    one, two = (solve(mdp, method, max_iterations=50, **options(mdp, method)) for _ in range(2))
    np.testing.assert_array_equal(one.v, two.v)
    np.testing.assert_array_equal(one.q, two.q)
    np.testing.assert_array_equal(one.policy, two.policy)
    np.testing.assert_array_equal(one.trace, two.trace)
    assert (one.error_bound, one.iterations, one.sweeps) == (two.error_bound, two.iterations, two.sweeps)


@pytest.mark.parametrize("cores", [2, 3, 4])
@pytest.mark.parametrize(
    "mdp",
    [
        models.grid(20, 20, slip=0.2),
        models.renumbered(models.maze(20, 20, slip=0.1)),
        models.garnet(300, 4, 5),
        models.garnet(300, 4, 9, discount=0.999),
        models.chain(200),
        models.grid(15, 15, slip=0.3, discount=1.0),
    ],
)
def test_several_cores_give_the_same_answer(mdp, cores, monkeypatch):
    serial = solve(mdp, tolerance=1e-8)
    monkeypatch.setattr(provenance, "available_cores", lambda: cores)
    monkeypatch.setattr(kernels, "_pool", None)
    for module in (kernels, transition_tables):
        if hasattr(module, "PARALLEL_FROM"):
            monkeypatch.setattr(module, "PARALLEL_FROM", 1)
    one, two = (solve(mdp, tolerance=1e-8) for _ in range(2))
    np.testing.assert_array_equal(one.v, two.v)  # and it does not depend on timing
    np.testing.assert_allclose(one.v, serial.v, atol=3e-8 if mdp.discount < 1 else 1e-5)
    assert one.converged == serial.converged


def test_the_progress_line_says_where_the_solve_is(capsys):
    solution = solve(MODELS["slippery"], "value-iteration", progress=True)
    assert solution.converged
    assert capsys.readouterr().out == ""


# -- bad arguments ----------------------------------------------------------------------------------------------------

MDP_22 = MDP(np.full((2, 2, 2), 0.5), np.ones((2, 2)), 0.9)


WHOLE = "expected an integer >= 1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "magic"}, "method: 'magic' is not one of auto, greedy-step, value-iteration, policy-iteration"),
        ({"method": None}, "method: None is not one of"),
        ({"policies": [[0, 0]]}, "policies: only greedy-step and multi-step use behaviour policies, not 'auto'"),
        ({"method": "multi-step"}, "policies: multi-step needs at least one behaviour policy"),
        ({"method": "multi-step", "policies": []}, "policies: the set is empty"),
        ({"method": "greedy-step", "policies": []}, "policies: the set is empty"),
        ({"method": "greedy-step", "policies": np.zeros(2, int)}, "policies: expected a list of policies"),
        ({"method": "greedy-step", "policies": [[0, 0, 0]]}, r"policies\[0\]: expected int \[2\] or float \[2, 2\]"),
        ({"method": "greedy-step", "policies": [[0, 5]]}, r"policies\[0\]: action 5 of state 1"),
        ({"horizon": 3}, "horizon: 'auto' has no horizon"),
        ({"method": "value-iteration", "horizon": 3}, "horizon: 'value-iteration' has no horizon"),
        (
            {"method": "greedy-step", "horizon": 0},
            f"horizon: {WHOLE}, got 0",
        ),
        (
            {"method": "greedy-step", "horizon": 2.0},
            f"horizon: {WHOLE}, got 2.0",
        ),
        (
            {"method": "greedy-step", "horizon": True},
            f"horizon: {WHOLE}, got True",
        ),
        ({"tolerance": 0}, "tolerance: expected a finite number > 0, got 0"),
        ({"tolerance": -1.0}, "tolerance: expected a finite number > 0, got -1.0"),
        ({"tolerance": np.nan}, "tolerance: expected a finite number > 0, got nan"),
        ({"tolerance": "small"}, "tolerance: expected a finite number > 0, got 'small'"),
        ({"tolerance": None}, "tolerance: expected a finite number > 0, got None"),
        ({"tolerance": 1j}, "tolerance: expected a finite number > 0, got 1j"),
        ({"tolerance": np.array([1e-6])}, r"tolerance: expected a finite number > 0, got array"),
        ({"max_iterations": 0}, f"max_iterations: {WHOLE}, got 0"),
        (
            {"max_iterations": "many"},
            f"max_iterations: {WHOLE}, got 'many'",
        ),
        ({"max_iterations": np.nan}, f"max_iterations: {WHOLE}, got nan"),
        ({"time_limit": 0}, "time_limit: expected a finite number > 0, got 0"),
        ({"time_limit": "1 s"}, "time_limit: expected a finite number > 0, got '1 s'"),
        ({"initial": np.zeros(3)}, r"initial: expected values float \[2\], action values float \[2, 2\] or a policy"),
        ({"initial": "zero"}, "initial: expected values float"),
        ({"initial": np.array([0.0, np.nan])}, "initial: values must be finite"),
        ({"initial": np.full((2, 2), np.inf)}, "initial: values must be finite"),
        ({"initial": np.array([0, 7])}, "initial: action 7 of state 1 is not in"),
    ],
)
def test_bad_arguments_are_answered_in_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message) as problem:
        solve(MDP_22, **arguments)
    assert "\n" not in str(problem.value)


def test_something_else_than_an_mdp():
    with pytest.raises(TypeError, match="mdp: expected a greedystep MDP, got ndarray"):
        solve(np.zeros(3))

"""Planning: what stops a solve, what it says then, the same answer every time, and what it answers to bad input."""

import itertools
import time

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from planning_models import EXACT, MODELS, consistent

from greedystep import models, provenance
from greedystep.mdp import MDP
from greedystep.planning import (
    METHODS,
    backups,
    dynamic_programming,
    kernels,
    policy_evaluation,
    policy_iteration,
    solve,
    transition_tables,
)
from greedystep.planning.backups import Iteration

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

"""Discount 1: bounds hold against exact rational values, are finite where every policy ends, and say why if not."""

import time
from fractions import Fraction
from typing import Any

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from fuzz_models import (
    exact_action_policy,
    exact_longest_walk,
    exact_policy_values,
    exact_values,
    random_undiscounted_model,
)

from greedystep import models
from greedystep.mdp import MDP
from greedystep.planning import METHODS, solve
from greedystep.planning.certificate import longest_episode
from greedystep.planning.undiscounted import UndiscountedModel
from greedystep.signals import Deadline

LARGEST = Fraction(np.finfo(float).max)
TEXTBOOK = [method for method in METHODS if method != "auto"]


def error_of(v, truth) -> Fraction:
    return max(abs(Fraction(float(x)) - y) for x, y in zip(v, truth, strict=True))


def check(mdp, exact, truth, solution, what):
    """The bounds are true, and finite unless they would overflow; no number is nan."""
    assert np.isfinite(solution.v).all(), what
    assert not np.isnan([solution.error_bound, solution.policy_loss_bound]).any(), what
    if truth is None:
        assert solution.error_bound == np.inf, what
        assert "never ends" in solution.message, what
        return
    assert "never ends" not in solution.message, what
    if solution.error_bound == np.inf:
        product = exact_longest_walk(exact) * (1 + max(abs(x) for x in truth))
        assert product > LARGEST / 10**40, f"no bound: {solution.message}: {what}"
        assert "float64" in solution.message, what
        return
    assert error_of(solution.v, truth) <= Fraction(solution.error_bound), what
    if np.isfinite(solution.policy_loss_bound):
        worth = exact_policy_values(exact, exact_action_policy(exact, mdp, solution.policy))
        assert max(y - x for x, y in zip(worth, truth, strict=True)) <= Fraction(solution.policy_loss_bound), what


def fuzz(seed: int, cases: int) -> tuple[int, int]:
    """(models of which every policy ends, how many of them `auto` solved to 1e-6 or 12 digits)."""
    ending = solved = 0
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        mdp, exact = random_undiscounted_model(rng)
        truth = exact_values(exact)
        what = f"seed {seed}, case {case}, {mdp}"
        solution = solve(mdp, max_iterations=1000)
        check(mdp, exact, truth, solution, what)
        if truth is not None and max(abs(x) for x in truth) < LARGEST:
            ending += 1
            solved += solution.error_bound <= max(1e-6, 1e-12 * np.abs(solution.v).max())
        method = str(rng.choice(TEXTBOOK))
        options: dict[str, Any] = {"policies": [mdp.available.argmax(axis=1)]} if method == "multi-step" else {}
        if rng.random() < 0.3 and truth is not None:
            options["initial"] = rng.normal(size=mdp.num_states) * 10.0 ** rng.integers(-3, 12)
        try:
            solution = solve(mdp, method, max_iterations=int(rng.integers(1, 40)), **options)
            refused = ""
        except ValueError as problem:  # policy iteration may meet a policy without a value, or one that overflows
            refused = str(problem)
        if refused:
            assert method == "policy-iteration", what
            assert "float64 cannot hold" in refused or ("never ends" in refused and truth is None), f"{refused}: {what}"
            continue
        check(mdp, exact, truth, solution, f"{what}, {method}, {options}")
    return ending, solved


@pytest.mark.parametrize("seed", range(4))
def test_no_bound_is_violated_and_none_is_missing(seed):
    ending, solved = fuzz(seed, 100)
    assert solved >= 0.95 * ending > 50


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_bound_is_violated_and_none_is_missing_in_many_models(seed):
    ending, solved = fuzz(seed, 500)
    assert solved >= 0.95 * ending > 250


# -- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [1e-6, 1e-7, 1e-17, 1e-300])
@pytest.mark.parametrize("form", [np.asarray, lambda p: sp.csr_array(p.reshape(-1, p.shape[-1]))])
def test_a_state_that_is_left_seldom_is_no_end(form, leave):
    """Staying 1 - leave, leave to a state worth 5: the value is 5."""
    p = np.zeros((3, 1, 3))
    p[0, 0, [0, 1]] = 1 - leave, leave
    p[1, 0, 2] = p[2, 0, 2] = 1.0
    mdp = MDP(form(p), [[0.0], [5.0], [0.0]], 1.0)
    np.testing.assert_array_equal(mdp.terminal, [False, False, True])
    for method in ("auto", "policy-iteration"):
        solution = solve(mdp, method)
        np.testing.assert_allclose(solution.v, [5.0, 5.0, 0.0], rtol=1e-15)
        assert solution.error_bound <= 1e-13
        assert solution.converged
    # Value iteration would take 1 / leave steps; what it proves on the way is true.
    solution = solve(mdp, "value-iteration", max_iterations=20)
    assert abs(5.0 - solution.v[0]) <= solution.error_bound < 20


def test_value_iteration_stops_where_float64_stands_still():
    mdp = MDP([[[1.0, 1e-300]], [[0.0, 0.0]]], [[0.0], [5.0]], 1.0, termination=[[0.0], [1.0]])
    solution = solve(mdp, "value-iteration", time_limit=60)
    assert "time limit" not in solution.message
    assert abs(5.0 - solution.v[0]) <= solution.error_bound < 20


def test_rows_are_weights():
    """A float32 table: rows that miss 1 by 1e-7 neither end nor grow."""
    p = np.array([[[0.9, 0.1, 0.0]], [[0.3, 0.3, 0.4]], [[0.0, 0.0, 1.0]]])
    rewards = [[-1.0], [-1.0], [0.0]]
    truth = np.linalg.solve([[0.1, -0.1], [-0.3, 0.7]], [-1.0, -1.0])
    for scale in (1 - 5e-7, 1 + 5e-7):
        mdp = MDP(p * scale, rewards, 1.0)
        for method in ("auto", "policy-iteration", "value-iteration", "modified-policy-iteration", "greedy-step"):
            solution = solve(mdp, method)
            assert solution.converged
            np.testing.assert_allclose(solution.v[:2], truth, atol=1e-6)
            np.testing.assert_allclose(solution.q[:2, 0], truth, atol=1e-6)


# -- long walks -------------------------------------------------------------------------------------------------------


def chain(states: int, *, numbered_at_random: bool = False) -> MDP:
    """From each state to the next; a step costs 1, and the last one ends."""
    number = np.random.default_rng(0).permutation(states) if numbered_at_random else np.arange(states)
    here, there = number[:-1], number[1:]
    transitions = sp.csr_array((np.ones(states - 1), (here, there)), shape=(states, states))
    ends = np.zeros((states, 1))
    ends[number[-1]] = 1.0
    return MDP(transitions, -np.ones((states, 1)), 1.0, termination=ends)


@pytest.mark.parametrize("numbered_at_random", [False, True])
def test_a_walk_of_many_steps_is_one_that_ends(numbered_at_random):
    mdp = chain(20_000, numbered_at_random=numbered_at_random)
    solution = solve(mdp, time_limit=60)
    assert solution.converged
    assert solution.v.min() == -20_000


@pytest.mark.parametrize("states", [4, 14, 20, 40])
def test_a_walk_with_setbacks_is_one_that_ends(states):
    """On with probability 1/2, else back to the start: 2^(S + 1) - 2 steps, proved at once."""
    p = np.zeros((states, 1, states))
    p[:, 0, 0] = 0.5
    p[np.arange(states - 1), 0, np.arange(1, states)] = 0.5
    ends = np.where(np.arange(states) == states - 1, 0.5, 0.0)[:, None]
    began = time.perf_counter()
    solution = solve(MDP(p, -np.ones((states, 1)), 1.0, termination=ends))
    assert time.perf_counter() - began < 10
    assert solution.error_bound <= max(1e-6, 1e-9 * 2.0**states)
    np.testing.assert_allclose(solution.v[0], -(2.0 ** (states + 1) - 2), rtol=1e-12)


def test_a_random_walk_of_a_million_steps():
    """Left or right with probability 1/2 among 2,000 states: S² / 4 steps from the middle."""
    states = 2000
    here = np.arange(states)
    inner = np.concatenate([here[1:] - 1, here[:-1] + 1])
    transitions = sp.csr_array((np.full(inner.size, 0.5), (np.concatenate([here[1:], here[:-1]]), inner)))
    ends = np.zeros((states, 1))
    ends[[0, -1]] = 0.5
    mdp = MDP(transitions, -np.ones((states, 1)), 1.0, termination=ends)
    solution = solve(mdp, tolerance=1e-2)
    truth = -(here + 1.0) * (states - here)
    assert np.abs(solution.v - truth).max() <= solution.error_bound <= 1e-2
    assert 1e6 < longest_episode(mdp, UndiscountedModel(mdp, Deadline()), Deadline()).jumps < 3e6


@pytest.mark.long
def test_a_walk_of_a_million_states():
    solution = solve(chain(1_000_000, numbered_at_random=True), time_limit=120)
    assert solution.converged
    assert solution.v.min() == -1_000_000


def test_a_circle_that_is_seldom_left_among_many_states():
    """More states than elimination or fractions are used for: the bound is weak, but finite and true."""
    states, leave = 300, 1e-30
    here = np.arange(states)
    entries = (np.full(states, 1.0), (here, (here + 1) % states))
    ends = np.zeros((states, 1))
    ends[7] = leave
    mdp = MDP(sp.csr_array(entries, shape=(states, states)), np.zeros((states, 1)), 1.0, termination=ends)
    solution = solve(mdp)
    assert np.isfinite(solution.error_bound)
    walk = longest_episode(mdp, UndiscountedModel(mdp, Deadline()), Deadline())
    assert states / leave * (1 - 1e-9) <= walk.jumps < 1e4 * states / leave


def test_a_walk_too_long_for_float64_is_called_so():
    """Two circles in a row, left with 1e-200 each; back from the second to the first: 1e400 steps."""
    p = np.zeros((4, 1, 4))
    p[0, 0, 1] = p[2, 0, 3] = 1.0
    p[1, 0, [0, 2]] = 1.0, 1e-200
    p[3, 0, 0] = 1.0
    ends = np.array([[0.0], [0.0], [0.0], [1e-200]])
    solution = solve(MDP(p, -np.ones((4, 1)), 1.0, termination=ends))
    assert solution.error_bound == np.inf
    assert np.isfinite(solution.v).all()
    assert "every policy ends, but the longest episode has more steps than float64 can count" in solution.message


# -- numbers that overflow --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "value-iteration", "policy-iteration", "modified-policy-iteration"])
@pytest.mark.parametrize("discount", [0.99, 1.0])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("reward", [1e307, -1.7e308])
def test_values_that_overflow_are_called_so(reward, dense, discount, method):
    p = oracles.dense(models.garnet(20, 2, 3, discount=0.99))
    if discount == 1.0:
        p = p * (1 - 1e-3)
    ends = np.full((20, 2), 1e-3) if discount == 1.0 else None
    transitions = p if dense else sp.csr_array(p.reshape(40, 20))
    mdp = MDP(transitions, np.full((20, 2), reward), discount, termination=ends)
    if discount == 1.0 and method == "policy-iteration":
        with pytest.raises(ValueError, match="float64 cannot hold"):
            solve(mdp, method)
        return
    solution = solve(mdp, method, max_iterations=5000, time_limit=60)
    assert np.isfinite(solution.v).all()
    assert not np.isnan(solution.q).any()
    assert solution.error_bound == solution.policy_loss_bound == np.inf
    assert "too large for float64" in solution.message
    assert "never ends" not in solution.message


@pytest.mark.parametrize("method", ["auto", "value-iteration", "policy-iteration"])
def test_large_values_that_fit_have_a_bound(method):
    mdp = models.garnet(20, 2, 3, discount=0.9)
    mdp = mdp.with_rewards(np.where(mdp.rewards > -np.inf, 1e307 * np.sign(mdp.rewards - 0.5), mdp.rewards))
    solution = solve(mdp, method, tolerance=1e300)
    assert solution.converged
    assert solution.error_bound <= 1e300


# -- warm starts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "value-iteration", "modified-policy-iteration", "greedy-step"])
@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_a_start_far_off_ends_as_well_as_none(discount, method):
    """In a model where nothing ends a constant stays in the values, and its rounding in the bound."""
    mdp = models.garnet(100, 3, 4, discount=discount)
    cold = solve(mdp, method, tolerance=1e-300, max_iterations=3000)
    for start in (np.full(100, 1e10), 1e10 * np.random.default_rng(0).normal(size=100)):
        warm = solve(mdp, method, tolerance=1e-300, initial=start, max_iterations=3000)
        assert warm.error_bound <= 5 * cold.error_bound

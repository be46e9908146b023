"""Finite horizons, average rewards, simulation, and models given as one matrix per action."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import greedystep as gs
import greedystep.planning  # compiles its loops now, and not within the time of the first test


def random_model(seed, S=6, A=3, discount=0.9, sparse=False):
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(S) * (0.2 if sparse else 1.0), size=(S, A))
    return p, random.normal(size=(S, A)), discount


def best_gains(p, r):
    """Return the optimal average reward of each state of any model, by trying every deterministic policy."""
    S, A = r.shape
    best = np.full(S, -np.inf)
    for number in range(A**S):
        policy = number // A ** np.arange(S) % A
        lazy = 0.5 * (np.eye(S) + p[np.arange(S), policy])
        best = np.maximum(best, np.linalg.matrix_power(lazy, 2**20) @ r[np.arange(S), policy])
    return best


def best_gain(p, r):
    """Return the optimal average reward of an ergodic model, by trying every deterministic policy."""
    S, A = r.shape
    best = -np.inf
    for number in range(A**S):
        policy = np.array([number // A**s % A for s in range(S)])
        chain = p[np.arange(S), policy]
        system = np.vstack([(chain.T - np.eye(S)), np.ones(S)])
        stationary = np.linalg.lstsq(system, np.append(np.zeros(S), 1.0), rcond=None)[0]
        best = max(best, float(stationary @ r[np.arange(S), policy]))
    return best


@given(st.integers(0, 10**6))
def test_backward_induction_is_the_best_of_all_plans(seed):
    p, r, discount = random_model(seed, S=3, A=2)
    mdp = gs.MDP(p, r, discount)
    found = gs.solve_finite_horizon(mdp, 3)

    def value(t, s):
        if t == 3:
            return 0.0
        return max(r[s, a] + discount * sum(p[s, a, k] * value(t + 1, k) for k in range(3)) for a in range(2))

    for t in range(3):
        for s in range(3):
            assert found.v[t, s] == pytest.approx(value(t, s))
            a = found.policy[t, s]
            assert r[s, a] + discount * p[s, a] @ found.v[t + 1] == pytest.approx(found.v[t, s])


def test_a_long_horizon_comes_close_to_the_infinite_one_and_discount_one_needs_no_end():
    p, r, discount = random_model(4)
    mdp = gs.MDP(p, r, discount)
    np.testing.assert_allclose(gs.solve_finite_horizon(mdp, 400).v[0], gs.solve(mdp).v, atol=1e-6)
    undiscounted = gs.solve_finite_horizon(mdp, 5000, discount=1.0).v
    gain = gs.solve_average_reward(mdp).gain
    assert undiscounted[0].mean() / 5000 == pytest.approx(gain, abs=1e-2)


@given(st.integers(0, 10**6), st.booleans())
def test_the_average_reward_lies_within_its_bounds(seed, sparse):
    p, r, _ = random_model(seed, S=4, A=2, sparse=sparse)
    found = gs.solve_average_reward(gs.MDP(p, r, 0.9), 1e-9, max_iterations=200_000)
    truth = best_gain(p, r)
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
    if found.converged:
        chain = p[np.arange(4), found.policy]
        played = np.linalg.matrix_power(0.5 * (np.eye(4) + chain), 2**20)[0] @ r[np.arange(4), found.policy]
        assert played >= found.lower - 1e-6


def test_a_periodic_chain_has_an_average_reward():
    p = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    found = gs.solve_average_reward(gs.MDP(p, [[0.0], [1.0]], 0.9))
    assert found.converged
    assert found.gain == pytest.approx(0.5, abs=1e-6)


def test_states_with_different_gains_do_not_converge_and_keep_true_bounds():
    p = np.eye(2)[:, None, :]
    found = gs.solve_average_reward(gs.MDP(p, [[0.0], [1.0]], 0.9), max_iterations=500)
    assert not found.converged
    assert found.lower <= 0 < 1 <= found.upper


def test_states_that_never_meet_are_noticed_at_once():
    p = np.eye(4)[:, None, :]
    found = gs.solve_average_reward(gs.MDP(p, np.arange(4.0)[:, None], 0.9))
    assert (found.converged, found.iterations) == (False, 16)
    assert found.lower <= 0 < 3 <= found.upper
    assert "at most 0 from state 0, at least 3 from state 3; solve the states that" in found.message


def test_a_state_that_is_left_for_less_is_noticed():
    p = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])  # state 1 is for ever, and worse
    found = gs.solve_average_reward(gs.MDP(p, [[2.0, 5.0], [1.0, 1.0]], 0.9))
    assert "at most 1 from state 1, at least 2 from state 0" in found.message
    better = gs.solve_average_reward(gs.MDP(p, [[1.0, -5.0], [2.0, 2.0]], 0.9))  # the state that is left may be worse
    assert (better.converged, better.message) == (True, "")
    assert better.gain == pytest.approx(2)


@given(st.integers(0, 10**6))
def test_different_average_rewards_are_told_apart_and_equal_ones_are_found(seed):
    random = np.random.default_rng(seed)
    S, A = 4, 2
    p = random.integers(1, 4, size=(S, A, S)) * (random.random((S, A, S)) < 0.3) + 0.0
    p[np.arange(S), :, random.integers(0, S, S)] += 1.0
    p /= p.sum(axis=2, keepdims=True)
    r = random.integers(0, 3, size=(S, A)) + 0.0
    gains = best_gains(p, r)
    for transitions in (p, sp.csr_array(p.reshape(S * A, S))):
        found = gs.solve_average_reward(gs.MDP(transitions, r, 0.9), 1e-7, max_iterations=100_000)
        assert found.lower - 1e-6 <= gains.min() <= gains.max() <= found.upper + 1e-6
        assert found.converged == (np.ptp(gains) < 1e-6)
        assert bool(found.message) != found.converged
        if found.message:
            low, high = (int(state) for state in re.findall(r"from state (\d+)", found.message))
            most, least = (float(x) for x in re.findall(r"at (?:most|least) (\S+)", found.message))
            assert gains[low] <= most + 1e-5
            assert gains[high] >= least - 1e-5
            assert found.iterations <= 1024


def test_an_average_reward_that_stops_early_says_why():
    mdp = gs.models.garnet(20, 3, 4)
    assert gs.solve_average_reward(mdp).message == ""
    assert "after 3 iterations" in gs.solve_average_reward(mdp, max_iterations=3).message
    assert "time limit" in gs.solve_average_reward(mdp, 1e-13, time_limit=1e-9).message
    rounded = gs.solve_average_reward(mdp.with_rewards(1e12 * mdp.rewards), 1e-6)
    assert "float64 cannot prove more" in rounded.message
    assert rounded.iterations < 1000
    assert 0 < rounded.upper - rounded.lower < 0.1


def test_average_rewards_too_large_for_float64_have_no_bounds():
    mdp = gs.MDP(np.full((2, 1, 2), 0.5), [[1.5e308], [-1.5e308]], 0.9)
    with np.errstate(over="ignore", invalid="ignore"):
        found = gs.solve_average_reward(mdp, max_iterations=100)
    assert (found.lower, found.upper) == (-np.inf, np.inf)
    assert "too large for float64" in found.message


@pytest.mark.parametrize("solve", [gs.solve_average_reward, lambda mdp: gs.solve_finite_horizon(mdp, 3)])
def test_what_is_no_model_is_refused(solve):
    with pytest.raises(TypeError, match="mdp: expected a greedystep MDP, got str"):
        solve("grid")


def test_models_that_end_have_no_average_reward():
    mdp = gs.MDP.from_gymnasium("FrozenLake-v1")
    with pytest.raises(ValueError, match="mdp: the average reward is for models that never end"):
        gs.solve_average_reward(mdp)
    with pytest.raises(ValueError, match="horizon: expected an integer"):
        gs.solve_finite_horizon(mdp, 0)


def test_simulated_frequencies_are_those_of_the_model():
    p, r, discount = random_model(1, S=3, A=2)
    mdp = gs.MDP(p * 0.9, r, discount, termination=np.full((3, 2), 0.1))
    policy = np.array([[0.3, 0.7], [1.0, 0.0], [0.5, 0.5]])
    played = gs.simulate(mdp, policy, episodes=3000, max_steps=50, seed=2)
    assert np.mean([len(one) for one in played]) == pytest.approx(10, rel=0.05)
    states = np.concatenate([one.observations[:-1] for one in played])
    actions = np.concatenate([one.actions for one in played])
    rewards = np.concatenate([one.rewards for one in played])
    np.testing.assert_array_equal(rewards, r[states, actions])
    assert np.mean(actions[states == 0]) == pytest.approx(0.7, abs=0.02)
    after = np.concatenate([one.observations[1:][~one.terminated] for one in played])
    before = np.concatenate([one.observations[:-1][~one.terminated] for one in played])
    taken = np.concatenate([one.actions[~one.terminated] for one in played])
    for a in range(2):
        chosen = after[(before == 2) & (taken == a)]
        np.testing.assert_allclose(np.bincount(chosen, minlength=3) / len(chosen), p[2, a], atol=0.04)
    np.testing.assert_array_equal(np.concatenate([one.behaviour_prob for one in played]), policy[states, actions])
    again = gs.simulate(mdp, policy, episodes=3000, max_steps=50, seed=2)
    assert all(np.array_equal(a.observations, b.observations) for a, b in zip(played, again, strict=True))


def test_the_mean_return_of_a_simulated_policy_is_its_value():
    mdp = gs.MDP.from_gymnasium("FrozenLake-v1", discount=0.99)
    solution = gs.solve(mdp)
    played = gs.simulate(mdp, solution.policy, episodes=3000, max_steps=2000, seed=0)
    returns = [float(np.sum(one.rewards * 0.99 ** np.arange(len(one)))) for one in played]
    assert np.mean(returns) == pytest.approx(solution.v[0], abs=4 * np.std(returns) / len(returns) ** 0.5)


@pytest.mark.parametrize("kind", ["dense", "sparse", "list"])
@pytest.mark.parametrize("rewards", ["states and actions", "states", "on arrival"])
def test_one_matrix_per_action_is_the_same_model(kind, rewards):
    p, r, discount = random_model(7)
    by_action = np.swapaxes(p, 0, 1)
    paid = np.random.default_rng(3).normal(size=p.shape)
    r = {"states and actions": r, "states": np.repeat(r[:, :1], 3, axis=1), "on arrival": (p * paid).sum(axis=2)}[
        rewards
    ]
    given_rewards = {"states and actions": r, "states": r[:, 0], "on arrival": np.swapaxes(paid, 0, 1)}[rewards]
    matrices = {"dense": by_action, "sparse": [sp.csr_matrix(one) for one in by_action], "list": list(by_action)}[kind]
    if rewards == "on arrival" and kind == "sparse":
        given_rewards = [sp.csr_matrix(one) for one in given_rewards]
    found = gs.MDP.from_action_matrices(matrices, given_rewards, discount)
    expected = gs.MDP(p, r, discount)
    np.testing.assert_allclose(found.rewards, expected.rewards, atol=1e-12)
    np.testing.assert_allclose(gs.solve(found).v, gs.solve(expected).v, atol=1e-5)


def test_matrices_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"transitions: expected one square matrix \[S, S\] per action, got shapes"):
        gs.MDP.from_action_matrices([np.eye(2), np.eye(3)], np.zeros((2, 2)), 0.9)
    with pytest.raises(ValueError, match="rewards: expected"):
        gs.MDP.from_action_matrices([np.eye(2)] * 2, np.zeros((3, 2)), 0.9)

# pyright: reportCallIssue=false
# `*x["rdv"]` unpacks three arrays, but pyright takes their number as unknown.

import math
import os
import re
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep import returns
from greedystep.returns import _jax

with warnings.catch_warnings():  # what rlax imports uses deprecated names of JAX
    warnings.simplefilter("ignore", DeprecationWarning)
    import rlax

LENGTHS = (1, 2, 5, 24)  # few, since every shape is compiled; 24 is long enough for a tree

ESTIMATORS = {
    "greedy_step": lambda x: returns.greedy_step(*x["rdv"], cuts=x["cuts"]).returns,
    "greedy_step, horizon 3": lambda x: returns.greedy_step(*x["rdv"], cuts=x["cuts"], horizon=3).returns,
    "greedy_step_twin": lambda x: returns.greedy_step_twin(*x["rdv"], x["taken"], cuts=x["cuts"]).returns,
    "soft_greedy_step": lambda x: returns.soft_greedy_step(*x["rdv"], 1.5, cuts=x["cuts"]),
    "off_policy": lambda x: returns.off_policy(*x["rdv"], x["taken"], x["pi"], cuts=x["cuts"]),
    "lambda_return": lambda x: returns.lambda_return(*x["rdv"], 0.7, cuts=x["cuts"]),
    "watkins": lambda x: returns.watkins(*x["rdv"], x["pi"] > 0.5, 0.7, cuts=x["cuts"]),
    "q_lambda": lambda x: returns.q_lambda(*x["rdv"], x["taken"], 0.7, cuts=x["cuts"]),
    "tree_backup": lambda x: returns.tree_backup(*x["rdv"], x["taken"], x["pi"], 0.7, cuts=x["cuts"]),
    "retrace": lambda x: returns.retrace(*x["rdv"], x["taken"], x["pi"], x["mu"], 0.7, cuts=x["cuts"]),
    "q_sigma": lambda x: returns.q_sigma(*x["rdv"], x["taken"], x["pi"], x["mu"], 0.6, cuts=x["cuts"]),
    "importance_sampled": lambda x: returns.importance_sampled(*x["rdv"], x["pi"], x["mu"], cuts=x["cuts"]),
    "importance_sampled, n 3": lambda x: returns.importance_sampled(*x["rdv"], x["pi"], x["mu"], 3, cuts=x["cuts"]),
    "n_step": lambda x: returns.n_step(*x["rdv"], 3, cuts=x["cuts"]),
    "sarsa": lambda x: returns.sarsa(*x["rdv"], 2, cuts=x["cuts"]),
    "monte_carlo": lambda x: returns.monte_carlo(*x["rdv"], cuts=x["cuts"]),
    "weighted": lambda x: returns.weighted(*x["rdv"], [0.5, 0.2, 0.3], cuts=x["cuts"]),
}
GREEDY_TREE = jax.jit(_jax.greedy_tree)
WINDOWS = [jax.jit(way, static_argnames=("n", "greedy")) for way in (_jax.window_scan, _jax.window_tree)]

every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def make(seed, shape, gamma=0.9, dtype=np.float64, ends=0.15):
    """A random stretch of packed episodes, with everything that any of the estimators wants."""
    rng = np.random.default_rng(seed)
    rewards, values, taken = (2 * rng.normal(size=(3, *np.atleast_1d(shape)))).astype(dtype)
    discounts = (gamma * (rng.random(shape) > ends)).astype(dtype)
    pi, mu = rng.random(shape).astype(dtype), rng.uniform(0.3, 1, shape).astype(dtype)
    cuts = rng.random(shape) < ends
    return {"rdv": (rewards, discounts, values), "cuts": cuts, "taken": taken, "pi": pi, "mu": mu}


def to_jax(x):
    return jax.tree.map(jnp.asarray, x)


def everywhere(oracle, x, *arguments):
    """What the oracle says for each step."""
    return [oracle(*x["rdv"], *arguments, x["cuts"], t) for t in range(len(x["cuts"]))]


@st.composite
def stretches(draw):
    """Packed episodes with dyadic numbers: at γ ∈ {0, ½, 1} float64 is exact, so that ties are ties."""
    length = draw(st.integers(1, 12))
    gamma = draw(st.sampled_from([0.0, 0.5, 0.99, 1.0]))
    number = st.one_of(st.just(0.0), st.integers(-8, 8).map(lambda k: k / 4), st.sampled_from([-1e6, 1e6]))

    def row(of):
        return np.array(draw(st.lists(of, min_size=length, max_size=length)))

    rewards, values, taken = row(number), row(number), row(number)
    discounts = gamma * (1.0 - row(st.sampled_from([0, 0, 0, 1])))
    return {
        "rdv": (rewards, discounts, values),
        "cuts": row(st.sampled_from([False, False, False, True])),
        "taken": taken,
        "pi": row(st.sampled_from([0.0, 0.25, 1.0])),
        "mu": row(st.sampled_from([0.25, 0.5, 1.0])),
        "exact": gamma != 0.99,
    }


# --- against the definitions -----------------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(stretches(), st.sampled_from([None, 1, 2, 3, 5, 12]))
def test_greedy_step_is_the_largest_n_step_return(x, horizon):
    got = returns.greedy_step(*x["rdv"], cuts=x["cuts"], horizon=horizon)
    for t in range(len(x["cuts"])):
        best, n = oracles.greedy_step(*x["rdv"], x["cuts"], t, horizon or math.inf)
        np.testing.assert_allclose(got.returns[t], best, rtol=1e-12, atol=1e-9)
        assert 1 <= got.steps[t] <= min(horizon or math.inf, oracles.steps_left(x["rdv"][1], x["cuts"], t))
        chosen = oracles.n_step(*x["rdv"], x["cuts"], t, got.steps[t])
        np.testing.assert_allclose(chosen, best, rtol=1e-12, atol=1e-9)
        assert got.steps[t] == n or not x["exact"]


@settings(max_examples=200, deadline=None)
@given(stretches(), st.integers(1, 14))
def test_returns_that_take_steps_as_they_come(x, n):
    ratios = x["pi"] / x["mu"]
    expected = everywhere(lambda *a: oracles.n_step(*a, n), x)
    np.testing.assert_allclose(returns.n_step(*x["rdv"], n, cuts=x["cuts"]), expected, atol=1e-8)
    np.testing.assert_allclose(returns.sarsa(*x["rdv"], n, cuts=x["cuts"]), expected, atol=1e-8)
    expected = everywhere(lambda *a: oracles.n_step(*a, 100), x)
    np.testing.assert_allclose(returns.monte_carlo(*x["rdv"], cuts=x["cuts"]), expected, atol=1e-8)
    got = returns.importance_sampled(*x["rdv"], x["pi"], x["mu"], n, cuts=x["cuts"])
    expected = everywhere(lambda *a: oracles.n_step(*a, n, ratios), x)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-7)
    weights = np.arange(1, n + 1) / np.arange(1, n + 1).sum()
    expected = everywhere(oracles.weighted, x, weights)
    np.testing.assert_allclose(returns.weighted(*x["rdv"], weights, cuts=x["cuts"]), expected, atol=1e-8)


@settings(max_examples=200, deadline=None)
@given(stretches(), st.sampled_from([0.0, 0.3, 1.0]))
def test_returns_with_traces(x, lambda_):
    rdv, cuts, taken, pi, mu = (x[k] for k in ("rdv", "cuts", "taken", "pi", "mu"))

    def agree(got, taken, traces):
        expected = everywhere(oracles.off_policy, x, taken, traces)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-6)

    same = np.full(len(cuts), lambda_)
    agree(returns.off_policy(*rdv, taken, pi, cuts=cuts), taken, pi)
    agree(returns.q_lambda(*rdv, taken, lambda_, cuts=cuts), taken, same)
    agree(returns.tree_backup(*rdv, taken, pi, lambda_, cuts=cuts), taken, lambda_ * pi)
    agree(returns.retrace(*rdv, taken, pi, mu, lambda_, cuts=cuts), taken, lambda_ * np.minimum(1, pi / mu))
    sigma = lambda_
    agree(returns.q_sigma(*rdv, taken, pi, mu, sigma, cuts=cuts), taken, sigma * pi / mu + (1 - sigma) * pi)
    agree(returns.watkins(*rdv, pi == 1, lambda_, cuts=cuts), rdv[2], lambda_ * (pi == 1))
    expected = everywhere(oracles.lambda_return, x, lambda_)
    np.testing.assert_allclose(returns.lambda_return(*rdv, lambda_, cuts=cuts), expected, atol=1e-8)


@settings(max_examples=200, deadline=None)
@given(stretches(), st.sampled_from([0.0, 0.5, 3.0]))
def test_soft_and_twin(x, alpha):
    got = returns.soft_greedy_step(*x["rdv"], alpha, cuts=x["cuts"])
    np.testing.assert_allclose(got, everywhere(oracles.soft_greedy_step, x, alpha), rtol=1e-9, atol=1e-8)
    if x["exact"]:
        got = returns.greedy_step_twin(*x["rdv"], x["taken"], cuts=x["cuts"])
        np.testing.assert_allclose(got.returns, everywhere(oracles.greedy_step_twin, x, x["taken"]), atol=1e-8)
        alone = returns.greedy_step(*x["rdv"], cuts=x["cuts"])
        np.testing.assert_array_equal(got.steps, alone.steps)


@pytest.mark.parametrize("gamma", [0.99, 1.0])
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_long_stretches_have_no_power_of_gamma_to_underflow(gamma, backend):
    """γᵗ of the whole stretch is 10⁻⁴³⁶ here: prefix sums divided by it are worthless."""
    x = make(0, 100_000, gamma, np.float32, ends=0)
    rdv = x["rdv"] if backend == "numpy" else to_jax(x["rdv"])
    some = np.random.default_rng(1).integers(0, 100_000, 8)
    for horizon in (50, 600):  # 600 is beyond what JAX carries through a scan
        greedy, stepped = returns.greedy_step(*rdv, horizon=horizon), returns.n_step(*rdv, horizon)
        for t in some:
            # The same numbers in double precision, and only those within the horizon.
            seen = [a[t : t + horizon].astype(float).tolist() for a in x["rdv"]]
            nowhere = [False] * len(seen[0])
            best, _ = oracles.greedy_step(*seen, nowhere, 0)
            chosen = oracles.n_step(*seen, nowhere, 0, int(greedy.steps[t]))
            np.testing.assert_allclose([greedy.returns[t], chosen], best, rtol=1e-4, atol=1e-4)
            expected = oracles.n_step(*seen, nowhere, 0, horizon)
            np.testing.assert_allclose(stepped[t], expected, rtol=1e-4, atol=1e-3)


# --- against rlax ----------------------------------------------------------------------------------------------------


@pytest.fixture
def control():
    """Action values, actions and policies around 24 steps, as rlax wants them; no cuts, which rlax does not know."""
    keys = jax.random.split(jax.random.key(0), 6)
    q = jax.random.normal(keys[0], (25, 4))
    actions = jax.random.randint(keys[1], (25,), 0, 4)
    pi = jax.nn.softmax(jax.random.normal(keys[2], (25, 4)))
    mu = jax.nn.softmax(jax.random.normal(keys[3], (25, 4)))
    rewards = jax.random.normal(keys[4], (24,))
    discounts = 0.9 * (jax.random.uniform(keys[5], (24,)) > 0.1)
    return q, actions, pi, mu, rewards, discounts


def of_actions(table, actions):
    return jnp.take_along_axis(table, actions[:, None], axis=1)[:, 0]


def test_agrees_with_rlax_on_lambda_and_n_step(control):
    q, _, _, _, rewards, discounts = control
    values = q[1:].max(axis=1)
    for lambda_ in (0.0, 0.4, 1.0):
        expected = rlax.lambda_returns(rewards, discounts, values, lambda_)
        np.testing.assert_allclose(returns.lambda_return(rewards, discounts, values, lambda_), expected, atol=1e-5)
    for n in (1, 2, 5, 24):
        expected = rlax.n_step_bootstrapped_returns(rewards, discounts, values, n)
        np.testing.assert_allclose(returns.n_step(rewards, discounts, values, n), expected, atol=1e-5)


def test_agrees_with_rlax_on_peng_and_watkins(control):
    q, actions, _, _, rewards, discounts = control
    values = q[1:].max(axis=1)
    before = of_actions(q, actions)[:-1]
    expected = before + rlax.q_lambda(q[:-1], actions[:-1], rewards, discounts, q[1:], jnp.full(24, 0.7))
    np.testing.assert_allclose(returns.lambda_return(rewards, discounts, values, 0.7), expected, atol=1e-5)
    greedy = of_actions(q, actions)[1:] == values
    expected = before + rlax.q_lambda(q[:-1], actions[:-1], rewards, discounts, q[1:], 0.7 * greedy)
    np.testing.assert_allclose(returns.watkins(rewards, discounts, values, greedy, 0.7), expected, atol=1e-5)


def test_agrees_with_rlax_on_retrace_and_the_general_form(control):
    q, actions, pi, mu, rewards, discounts = control
    values, taken = (pi * q).sum(axis=1)[1:], of_actions(q, actions)[1:]
    target, behaviour = of_actions(pi, actions)[1:], of_actions(mu, actions)[1:]
    expected = of_actions(q, actions)[:-1] + rlax.retrace(
        q[:-1], q[1:], actions[:-1], actions[1:], rewards, discounts, pi[1:], behaviour, 0.8
    )
    got = returns.retrace(rewards, discounts, values, taken, target, behaviour, 0.8)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    for traces, got in (
        (target, returns.tree_backup(rewards, discounts, values, taken, target)),
        (target / behaviour, returns.q_sigma(rewards, discounts, values, taken, target, behaviour, 1.0)),
        (0.6 + 0 * target, returns.q_lambda(rewards, discounts, values, taken, 0.6)),
        (target, returns.off_policy(rewards, discounts, values, taken, target)),
    ):
        expected = rlax.general_off_policy_returns_from_action_values(
            q[1:], actions[1:], rewards, discounts, traces, pi[1:]
        )
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


# --- identities ------------------------------------------------------------------------------------------------------


def test_greedy_step_is_at_least_every_n_step_return():
    x = make(1, 200)
    best = returns.greedy_step(*x["rdv"], cuts=x["cuts"]).returns
    for n in (1, 2, 3, 10, 200):
        assert (best >= returns.n_step(*x["rdv"], n, cuts=x["cuts"]) - 1e-12).all()
    assert (best >= returns.monte_carlo(*x["rdv"], cuts=x["cuts"]) - 1e-12).all()


def test_horizons_grow_from_the_one_step_return_to_the_whole_episode():
    x = make(2, 200)
    rdv, cuts = x["rdv"], x["cuts"]
    one_step = rdv[0] + rdv[1] * rdv[2]
    np.testing.assert_array_equal(returns.greedy_step(*rdv, cuts=cuts, horizon=1).returns, one_step)
    np.testing.assert_array_equal(returns.n_step(*rdv, 1, cuts=cuts), one_step)
    previous = one_step
    for horizon in (2, 3, 7, 50, 199):
        current = returns.greedy_step(*rdv, cuts=cuts, horizon=horizon).returns
        assert (current >= previous - 1e-12).all()
        previous = current
    for horizon in (200, 10_000):
        whole = returns.greedy_step(*rdv, cuts=cuts, horizon=horizon)
        np.testing.assert_array_equal(whole.returns, returns.greedy_step(*rdv, cuts=cuts).returns)
    np.testing.assert_allclose(previous, whole.returns, atol=1e-12)


def test_limits_of_lambda_and_of_the_soft_maximum():
    x = make(3, 200)
    rdv, cuts = x["rdv"], x["cuts"]
    np.testing.assert_allclose(
        returns.lambda_return(*rdv, 0, cuts=cuts), returns.n_step(*rdv, 1, cuts=cuts), atol=1e-12
    )
    np.testing.assert_allclose(
        returns.lambda_return(*rdv, 1, cuts=cuts), returns.monte_carlo(*rdv, cuts=cuts), atol=1e-12
    )
    np.testing.assert_allclose(
        returns.soft_greedy_step(*rdv, 1e8, cuts=cuts),
        returns.greedy_step(*rdv, cuts=cuts).returns,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        returns.soft_greedy_step(*rdv, 0, cuts=cuts), returns.lambda_return(*rdv, 0.5, cuts=cuts), atol=1e-12
    )


def test_greedy_step_is_peng_with_a_lambda_chosen_by_the_data():
    x = make(4, 200)
    greedy = returns.greedy_step(*x["rdv"], cuts=x["cuts"])
    follows = (greedy.steps > 1).astype(float)
    np.testing.assert_allclose(returns.lambda_return(*x["rdv"], follows, cuts=x["cuts"]), greedy.returns, atol=1e-12)


def test_twin_with_the_same_values_is_greedy_step():
    x = make(5, 200)
    twin = returns.greedy_step_twin(*x["rdv"], x["rdv"][2], cuts=x["cuts"])
    alone = returns.greedy_step(*x["rdv"], cuts=x["cuts"])
    np.testing.assert_allclose(twin.returns, alone.returns, atol=1e-12)
    np.testing.assert_array_equal(twin.steps, alone.steps)


def test_relatives_among_the_traces():
    x = make(6, 200)
    rdv, cuts, taken, pi, mu = (x[k] for k in ("rdv", "cuts", "taken", "pi", "mu"))
    greedy = pi > 0.5
    at_greedy = np.where(greedy, rdv[2], taken)  # for a greedy π the value is that of its action
    np.testing.assert_allclose(
        returns.tree_backup(*rdv, at_greedy, greedy, 0.7, cuts=cuts),
        returns.watkins(*rdv, greedy, 0.7, cuts=cuts),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        returns.q_sigma(*rdv, taken, pi, mu, 0, cuts=cuts),
        returns.tree_backup(*rdv, taken, pi, cuts=cuts),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        returns.retrace(*rdv, taken, mu, mu, cuts=cuts),
        returns.q_lambda(*rdv, taken, 1.0, cuts=cuts),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        returns.importance_sampled(*rdv, mu, mu, cuts=cuts), returns.monte_carlo(*rdv, cuts=cuts), atol=1e-12
    )
    weights = np.zeros(4)
    weights[3] = 1
    np.testing.assert_allclose(
        returns.weighted(*rdv, weights, cuts=cuts), returns.n_step(*rdv, 4, cuts=cuts), atol=1e-12
    )


# --- where a stretch ends --------------------------------------------------------------------------------------------


@every_estimator
@pytest.mark.parametrize("kind", ["termination", "cut"])
def test_packed_episodes_equal_separate_ones(name, kind):
    """Full rings, n-step windows and λ-returns leaked across episodes in FastTD3 #6, TF-Agents #939, TorchRL #952."""
    first, second = make(7, 9, ends=0), make(8, 6, ends=0)
    if kind == "termination":
        first["rdv"][1][-1] = 0
    packed = jax.tree.map(lambda a, b: np.concatenate([a, b]), first, second)
    packed["cuts"][8] = kind == "cut"
    estimator = ESTIMATORS[name]
    expected = np.concatenate([estimator(first), estimator(second)])
    np.testing.assert_allclose(estimator(packed), expected, atol=1e-12)
    np.testing.assert_allclose(estimator(to_jax(packed)), expected, rtol=1e-4, atol=1e-4)


@every_estimator
def test_what_cannot_be_known_is_not_read(name):
    """No next state after a termination, no next action after any end: NaN may stand there."""
    x = make(9, 24)
    expected = ESTIMATORS[name](x)
    assert np.isfinite(expected).all()
    ended = (x["rdv"][1] == 0) | x["cuts"]
    ended[-1] = True
    terminated = x["rdv"][1] == 0
    x["rdv"][2][terminated] = np.nan
    x["taken"][terminated if name == "greedy_step_twin" else ended] = np.nan
    for key in ("pi", "mu"):
        x[key][ended] = np.nan
    np.testing.assert_array_equal(ESTIMATORS[name](x), expected)
    np.testing.assert_allclose(ESTIMATORS[name](to_jax(x)), expected, rtol=1e-4, atol=1e-4)


@every_estimator
def test_a_reward_at_the_end_only(name):
    """RLlib #59958 dropped terminal rewards from value targets: the first unit test of every estimator."""
    x = {
        "rdv": (np.array([0.0, 1.0]), np.array([0.5, 0.0]), np.array([0.0, 99.0])),
        "cuts": np.array([False, False]),
        "taken": np.array([0.0, 99.0]),
        "pi": np.array([1.0, 1.0]),
        "mu": np.array([1.0, 1.0]),
    }
    got = ESTIMATORS[name](x)
    assert got[1] == 1.0
    assert got[0] <= 0.5
    if name in ("greedy_step", "n_step", "monte_carlo", "importance_sampled", "q_sigma"):
        assert got[0] == 0.5


def test_a_shortened_window_is_discounted_for_the_steps_it_took():
    """RLlib #4626 discounted windows cut short by γⁿ all the same."""
    got = returns.n_step(np.zeros(4), np.full(4, 0.5), np.full(4, 8.0), 3, cuts=[False, True, False, False])
    np.testing.assert_array_equal(got, [2.0, 4.0, 2.0, 4.0])


def test_a_truncated_episode_bootstraps_from_its_own_last_state():
    """TF-Agents #939 took the reward and the value of the next episode; SB3 #284 took none."""
    rewards, values = np.array([1.0, 1.0, 100.0]), np.array([0.0, 8.0, 100.0])
    cuts = np.array([False, True, False])
    for got in (
        returns.n_step(rewards, np.full(3, 0.5), values, 3, cuts=cuts),
        returns.greedy_step(rewards, np.full(3, 0.5), values, cuts=cuts).returns,
        returns.monte_carlo(rewards, np.full(3, 0.5), values, cuts=cuts),
    ):
        np.testing.assert_array_equal(got, [3.5, 5.0, 150.0])


def test_gamma_is_data_not_configuration():
    """SB3 #2274 kept a second γ in the buffer. Here every step may have its own, and n never meets a power of it."""
    got = returns.n_step(np.ones(3), np.array([0.5, 0.25, 1.0]), np.full(3, 16.0), 3)
    np.testing.assert_array_equal(got, [1 + 0.5 * (1 + 0.25 * 17), 1 + 0.25 * 17, 17])


def test_a_value_of_minus_infinity_is_never_bootstrapped_from():
    """As for a state in which every action is masked; also where powers of the discount underflow."""
    length = 400
    rewards, discounts = np.ones(length, np.float32), np.full(length, 0.5, np.float32)
    values = np.full(length, -np.inf, np.float32)
    values[-1] = 0
    for rdv in ((rewards, discounts, values), to_jax((rewards, discounts, values))):
        got = returns.greedy_step(*rdv)
        np.testing.assert_array_equal(got.steps, np.arange(length, 0, -1))
        np.testing.assert_allclose(got.returns, 2 - 0.5 ** np.arange(length - 1.0, -1, -1), rtol=1e-6)
        windowed = returns.greedy_step(*rdv, horizon=300).returns
        assert np.isneginf(windowed[:100]).all()
        np.testing.assert_allclose(windowed[100:], got.returns[100:], rtol=1e-6)
    tree = GREEDY_TREE(*to_jax((rewards, discounts, values)), None)
    np.testing.assert_array_equal(tree[1], np.arange(length, 0, -1))
    np.testing.assert_allclose(tree[0], got.returns, rtol=1e-6)
    values[-1] = -np.inf
    assert np.isneginf(GREEDY_TREE(*to_jax((rewards, discounts, values)), None)[0]).all()
    assert np.isneginf(returns.greedy_step(rewards, discounts, values).returns).all()


def test_nan_in_the_data_is_passed_on_within_its_episode():
    rewards, discounts, values = np.zeros(6), np.array([0.9, 0.9, 0.0, 0.9, 0.9, 0.9]), np.zeros(6)
    rewards[4] = np.nan
    for rdv in ((rewards, discounts, values), to_jax((rewards, discounts, values))):
        for horizon in (None, 3):
            got = returns.greedy_step(*rdv, horizon=horizon).returns
            np.testing.assert_array_equal(np.isnan(got), [False, False, False, True, True, False])


@pytest.mark.parametrize("length", [3, 20])
def test_nan_in_the_last_value_is_taken_by_every_step_that_may_look_so_far(length):
    rdv = np.ones(length), np.full(length, 0.9), np.where(np.arange(length) < length - 1, 0, np.nan)
    expected = np.arange(length, 0, -1)
    for x in (rdv, to_jax(rdv)):
        np.testing.assert_array_equal(returns.greedy_step(*x).steps, expected)
        np.testing.assert_array_equal(returns.greedy_step(*x, horizon=2).steps, np.minimum(expected, 2))
    np.testing.assert_array_equal(GREEDY_TREE(*to_jax(rdv), None)[1], expected)


# --- backends --------------------------------------------------------------------------------------------------------


@every_estimator
@pytest.mark.parametrize("length", LENGTHS)
def test_jax_agrees_with_numpy(name, length):
    x = make(10, length)
    got = ESTIMATORS[name](to_jax(x))
    assert isinstance(got, jax.Array)
    np.testing.assert_allclose(got, ESTIMATORS[name](x), rtol=1e-4, atol=1e-4)
    x["cuts"] = None
    np.testing.assert_allclose(ESTIMATORS[name](to_jax(x)), ESTIMATORS[name](x), rtol=1e-4, atol=1e-4)


@every_estimator
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_keeps_kind_and_dtype(name, dtype):
    got = ESTIMATORS[name](make(11, 12, dtype=dtype))
    assert type(got) is np.ndarray
    assert got.dtype == dtype
    np.testing.assert_allclose(got, ESTIMATORS[name](make(11, 12)), rtol=1e-4, atol=1e-4)


@every_estimator
def test_further_axes_are_independent_stretches(name):
    x = make(12, (17, 3, 2))
    got, on_jax = ESTIMATORS[name](x), ESTIMATORS[name](to_jax(x))
    assert got.shape == on_jax.shape == (17, 3, 2)
    for i in range(3):
        alone = ESTIMATORS[name](jax.tree.map(lambda a, i=i: a[:, i, 1], x))
        np.testing.assert_allclose(got[:, i, 1], alone, atol=1e-12)
        np.testing.assert_allclose(on_jax[:, i, 1], alone, rtol=1e-4, atol=1e-4)


@every_estimator
def test_jit_and_vmap(name):
    x = to_jax(make(13, (17, 3)))
    mapped = jax.jit(jax.vmap(ESTIMATORS[name], in_axes=1, out_axes=1))
    np.testing.assert_allclose(mapped(x), ESTIMATORS[name](x), rtol=1e-5, atol=1e-5)


@every_estimator
def test_gradients_are_right_and_finite(name):
    """By finite differences in float64 where NumPy computes; NaN where nothing may be read must not get in."""
    x = make(14, 24)
    terminated = x["rdv"][1] == 0

    def total(rewards, values):
        return ESTIMATORS[name](to_jax(x) | {"rdv": (rewards, jnp.asarray(x["rdv"][1]), values)}).sum()

    by_reward, by_value = jax.grad(total, (0, 1))(*to_jax((x["rdv"][0], x["rdv"][2])))
    for k in (0, 9, 23):
        for row, gradient in ((0, by_reward), (2, by_value)):
            moved = [a.copy() for a in x["rdv"]]
            moved[row][k] += 1e-6
            difference = (ESTIMATORS[name](x | {"rdv": tuple(moved)}) - ESTIMATORS[name](x)).sum() / 1e-6
            np.testing.assert_allclose(gradient[k], difference, rtol=1e-3, atol=1e-3)
    with_nan = jnp.where(terminated, jnp.nan, x["rdv"][2])
    assert jnp.isfinite(jax.grad(total, 1)(jnp.asarray(x["rdv"][0]), with_nan)).all()


def test_gradients_for_lambda_and_the_weights():
    rdv = to_jax(make(15, 24)["rdv"])
    at_zero = jax.grad(lambda lambda_: returns.lambda_return(*rdv, lambda_).sum())(0.0)
    difference = (
        returns.lambda_return(*make(15, 24)["rdv"], 1e-6).sum() - returns.lambda_return(*make(15, 24)["rdv"], 0).sum()
    )
    np.testing.assert_allclose(at_zero, difference / 1e-6, rtol=1e-3)
    numpy_data = make(15, 24, dtype=np.float32)["rdv"]
    by_weight = jax.grad(lambda w: returns.weighted(*numpy_data, w).sum())(jnp.array([0.5, 0.5]))
    np.testing.assert_allclose(by_weight[1], returns.n_step(*numpy_data, 2).sum(), rtol=1e-4)


@pytest.mark.parametrize("length", [1, 7, 100])
@pytest.mark.parametrize("with_cuts", [False, True])
def test_both_ways_through_the_recursions_agree(length, with_cuts):
    """Numbers on a coarse dyadic grid and γ = ½ or 1: hardly any rounding, so that ties are ties."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rewards, values = jnp.asarray(rng.integers(-4, 5, (2, length)) / 4, jnp.float32)
        discounts = jnp.asarray(rng.choice([0.0, 0.5, 1.0, 1.0], length), jnp.float32)
        cuts = jnp.asarray(rng.random(length) < 0.1) if with_cuts else None
        one, other = _jax.greedy_scan(rewards, discounts, values, cuts), GREEDY_TREE(rewards, discounts, values, cuts)
        np.testing.assert_allclose(one[0], other[0], atol=1e-5)
        np.testing.assert_array_equal(one[1], other[1])

        live = (discounts != 0) & (jnp.arange(length) < length - 1)
        live = live & ~cuts if with_cuts else live
        bests, b = rewards + discounts * values, jnp.where(live, discounts, 0)
        np.testing.assert_allclose(_jax.linear_scan(bests, b), _jax.linear_tree(bests, b), atol=1e-5)
        for n in {1, min(6, length)}:
            for greedy in (True, False):
                one, other = (way(bests, rewards, discounts, live, n=n, greedy=greedy) for way in WINDOWS)
                np.testing.assert_allclose(one[0], other[0], atol=1e-5)
                np.testing.assert_array_equal(one[1], other[1])


def test_chosen_steps_never_cross_a_cut_however_the_sums_are_rounded():
    """Returns that go on as far as they may, in numbers that round: a tree that compares sums alone crosses cuts."""
    rng = np.random.default_rng(0)
    length = 4096
    rewards = jnp.asarray(rng.normal(size=length), jnp.float32)
    discounts = jnp.full(length, 0.97, jnp.float32)
    values = jnp.full(length, -1e3, jnp.float32)
    cuts = jnp.asarray(rng.random(length) < 0.05)
    last = np.flatnonzero(np.asarray(cuts) | (np.arange(length) == length - 1))
    left = last[np.searchsorted(last, np.arange(length))] - np.arange(length) + 1
    for way in (_jax.greedy_scan, GREEDY_TREE):
        np.testing.assert_array_equal(way(rewards, discounts, values, cuts)[1], left)
    maps = rewards + discounts * values, rewards, discounts, ~cuts & (jnp.arange(length) < length - 1)
    for way in WINDOWS:
        np.testing.assert_array_equal(way(*maps, n=50, greedy=True)[1], np.minimum(left, 50))


def test_steps_that_are_not_used_are_not_computed():
    rdv = to_jax(make(16, 64, dtype=np.float32)["rdv"])

    def program(part, horizon):
        used = jax.jit(lambda *rdv: returns.greedy_step(*rdv, horizon=horizon)[part])
        return used.lower(*rdv).compile().as_text()

    for horizon in (None, 3):
        assert re.search(r"s32\[64\]\S* dynamic-update-slice", program(1, horizon))
        assert not re.search(r"s32\[64\]\S* dynamic-update-slice", program(0, horizon))


def test_neither_compiler_is_imported_for_the_other(tmp_path):
    script = """
import sys
import numpy as np
from greedystep import returns
x = np.ones(3)
returns.greedy_step(x, x, x)
assert "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    script = """
import sys
import jax.numpy as jnp
from greedystep import returns
x = jnp.ones(3)
returns.greedy_step(x, x, x)
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_float64_in_jax_where_the_user_has_switched_it_on():
    script = """
import sys
import jax
import numpy as np
from test_returns import ESTIMATORS, make, to_jax
for name, estimator in ESTIMATORS.items():
    for dtype in (np.float32, np.float64):
        x = make(0, 24, dtype=dtype)
        got = estimator(to_jax(x))
        assert got.dtype == dtype, (name, got.dtype)
        np.testing.assert_allclose(got, estimator(x), rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-4)
"""
    env = os.environ | {"JAX_ENABLE_X64": "1", "PYTHONPATH": os.path.dirname(__file__)}
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, env=env)
    assert not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def test_integers_become_floats_and_follow_the_floating_arguments():
    rewards, discounts = np.array([1, 2]), np.array([1, 0])
    assert returns.greedy_step(rewards, discounts, np.array([5, 5])).returns.dtype == np.float64
    assert returns.n_step(rewards, discounts, np.array([5, 5], np.float32), 2).dtype == np.float32
    assert returns.lambda_return(rewards, discounts, [5, 5], np.float64(0.5)).tolist() == [1 + 0.5 * (5 + 2), 2]
    single = np.ones(2, np.float32)
    assert returns.lambda_return(single, single, single, np.float64(0.5)).dtype == np.float32
    on_jax = returns.greedy_step(jnp.array([1, 2]), jnp.array([1, 0]), jnp.array([5, 5]))
    assert on_jax.returns.dtype == jnp.float32
    assert on_jax.steps.dtype == jnp.int32


def test_input_is_left_alone_and_any_layout_will_do():
    x = make(17, (12, 2))
    kept = jax.tree.map(np.copy, x)
    strided = jax.tree.map(lambda a: a[::-1, 0], x)
    frozen = jax.tree.map(lambda a: np.ascontiguousarray(a[::-1, 0]), x)
    for leaf in jax.tree.leaves(frozen):
        leaf.flags.writeable = False
    for estimator in ESTIMATORS.values():
        np.testing.assert_array_equal(estimator(strided), estimator(frozen))
        estimator(x)
    jax.tree.map(np.testing.assert_array_equal, x, kept)


# --- bad input -------------------------------------------------------------------------------------------------------

ONES = np.ones(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: returns.greedy_step([], [], []), "rewards must hold at least one step .* got shape \\(0,\\)"),
        (lambda: returns.greedy_step(1.0, 1.0, 1.0), "rewards must hold at least one step .* got shape \\(\\)"),
        (lambda: returns.greedy_step(ONES, ONES[:2], ONES), "discounts must have .* \\(3,\\), got \\(2,\\)"),
        (lambda: returns.greedy_step(ONES, 0.9, ONES), "discounts must have the shape .* got \\(\\)"),
        (lambda: returns.greedy_step(ONES, ONES, ONES[None]), "values must have the shape"),
        (lambda: returns.greedy_step(ONES, -ONES, ONES), "discounts must not be negative, got -1.0"),
        (lambda: returns.greedy_step(ONES, ONES, ONES, cuts=[True]), "cuts must have the shape"),
        (lambda: returns.greedy_step(ONES, ONES, ONES, cuts=[0.0, 0.0, 1.0]), "cuts must hold booleans"),
        (
            lambda: returns.greedy_step(ONES, ONES, ONES, horizon=0),
            "horizon: expected an integer >= 1, got 0",
        ),
        (lambda: returns.greedy_step(ONES, ONES, ONES, horizon=2.5), "horizon: expected an integer .* got 2.5"),
        (lambda: returns.greedy_step(ONES, ONES, ONES, horizon=True), "horizon: expected an integer"),
        (
            lambda: returns.n_step(ONES, ONES, ONES, 0),
            "n: expected an integer >= 1, got 0",
        ),
        (lambda: returns.importance_sampled(ONES, ONES, ONES, 1, 1, -1), "n: expected an integer"),
        (lambda: returns.lambda_return(ONES, ONES, ONES, 1.5), "lambda_ must lie in \\[0, 1\\], got 1.5"),
        (lambda: returns.lambda_return(ONES, ONES, ONES, ONES[:2]), "lambda_ must have the shape"),
        (lambda: returns.watkins(ONES, ONES, ONES, ONES, -0.1), "lambda_ must lie in"),
        (lambda: returns.q_lambda(ONES, ONES, ONES, ONES, np.nan), "lambda_ must lie in"),
        (lambda: returns.q_sigma(ONES, ONES, ONES, ONES, ONES, ONES, 2 * ONES), "sigma must lie in .* from 2.0 to 2.0"),
        (lambda: returns.soft_greedy_step(ONES, ONES, ONES, -1), "alpha must be finite and at least 0, got -1"),
        (lambda: returns.soft_greedy_step(ONES, ONES, ONES, np.inf), "alpha must be finite .* got inf"),
        (lambda: returns.weighted(ONES, ONES, ONES, [0.5, 0.4]), "weights must sum to one, got a sum of 0.9"),
        (lambda: returns.weighted(ONES, ONES, ONES, []), "weights must sum to one"),
        (lambda: returns.weighted(ONES, ONES, ONES, [[1.0]]), "weights must be one row"),
        (lambda: returns.retrace(ONES, ONES, ONES, ONES, ONES, 0 * ONES), "behaviour_prob must be positive"),
        (lambda: returns.retrace(ONES, ONES, ONES, ONES, -ONES, ONES), "target_prob must not be negative"),
        (lambda: returns.tree_backup(ONES, ONES, ONES, ONES, -ONES), r"target_prob must lie in \[0, 1\]"),
        (lambda: returns.q_sigma(ONES, ONES, ONES, ONES, 2 * ONES, ONES, 0.5), r"target_prob must lie in \[0, 1\]"),
        (lambda: returns.watkins(ONES, ONES, ONES, 3 * ONES), r"greedy must lie in \[0, 1\]"),
        (lambda: returns.off_policy(ONES, ONES, ONES, ONES, -ONES), "traces must not be negative"),
        (lambda: returns.off_policy(ONES, ONES, ONES, ONES[:2], ONES), "taken must have the shape"),
        (lambda: returns.n_step(ONES.astype(np.float16), ONES, ONES, 1), "rewards must hold float32, float64"),
        (lambda: returns.n_step(ONES, ONES, ONES.astype(complex), 1), "values must hold"),
        (lambda: returns.n_step(jnp.ones(3), jnp.ones(2), jnp.ones(3), 1), "discounts must have the shape"),
        (lambda: returns.n_step(jnp.ones(3, complex), jnp.ones(3), jnp.ones(3), 1), "rewards must hold"),
    ],
)
def test_bad_input_is_answered_by_a_sentence(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_complex_weights_are_refused():
    with pytest.raises(ValueError, match="weights must be real numbers, got complex128"):
        returns.weighted(np.zeros(3), np.zeros(3), np.zeros(3), np.array([0.5 + 0j, 0.5]))

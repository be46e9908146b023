"""The estimators as functions of arrays: NumPy and JAX agree, dtypes, axes, gradients, compilers, bad input."""

# pyright: reportCallIssue=false
# `*x["rdv"]` unpacks three arrays, but pyright takes their number as unknown.

import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_returns import ESTIMATORS, GREEDY_TREE, every_estimator, make, to_jax

from greedystep import returns
from greedystep.returns import _jax

LENGTHS = (1, 2, 5, 24)  # few, since every shape is compiled; 24 is long enough for a tree
WINDOWS = [jax.jit(way, static_argnames=("n", "greedy")) for way in (_jax.window_scan, _jax.window_tree)]


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


def test_probabilities_that_rounding_puts_above_one_are_taken():
    above = ONES * (1 + 1e-7)
    np.testing.assert_allclose(returns.tree_backup(ONES, ONES, ONES, ONES, above), [4, 3, 2], atol=1e-5)

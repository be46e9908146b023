"""Learning curves: against brute force, and when runs end before they arrive."""

import math

import numpy as np
import oracles_stats as oracle
import pytest
import scipy.integrate
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep import learning_curves

episodes = st.lists(st.tuples(st.integers(0, 60), st.floats(-100, 100, allow_subnormal=False)), max_size=30)
grids = st.lists(st.integers(0, 70), min_size=1, max_size=8)

# -- from episodes to a grid ------------------------------------------------------------------------------------------


@given(episodes, grids, st.integers(1, 12))
def test_the_last_episodes_equal_brute_force(rows, grid, window):
    ends, returns = zip(*sorted(rows, key=lambda row: row[0]), strict=True) if rows else ((), ())
    expected = [oracle.last_episodes(ends, returns, g, window) for g in grid]
    np.testing.assert_allclose(learning_curves.last_episodes(ends, returns, grid, window), expected, atol=1e-9)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-9, 9, allow_subnormal=False)), max_size=10), st.integers(1, 9))
def test_chunks_of_equal_episodes_are_like_the_episodes_themselves(chunks, window):
    chunk_ends = 10 * np.arange(1, len(chunks) + 1)
    counts = [count for count, _ in chunks]
    means = [mean if count else math.nan for count, mean in chunks]
    ends, returns = np.repeat(chunk_ends, counts), np.repeat(means, counts)
    grid = range(0, 120, 5)
    np.testing.assert_allclose(
        learning_curves.last_episodes(chunk_ends, means, grid, window, counts),
        learning_curves.last_episodes(ends, returns, grid, window),
        atol=1e-9,
    )


def test_a_window_of_a_hundred_episodes():
    ends, returns = np.arange(1, 301), np.arange(1.0, 301.0)
    made = learning_curves.last_episodes(ends, returns, [0, 1, 100, 101, 300])
    np.testing.assert_allclose(made, [np.nan, 1, 50.5, 51.5, 250.5])


# -- what a curve says ------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=9), st.randoms(use_true_random=False))
def test_the_area_is_the_mean_height(curve, rng):
    steps = np.cumsum([rng.randint(1, 9) for _ in curve])
    expected = scipy.integrate.trapezoid(curve, steps) / (steps[-1] - steps[0])
    assert learning_curves.area(steps, curve) == pytest.approx(expected, abs=1e-9)
    assert learning_curves.area(steps, [curve, np.full(len(curve), 3.0)])[1] == pytest.approx(3)
    assert min(curve) - 1e-9 <= learning_curves.area(steps, curve) <= max(curve) + 1e-9


@given(st.lists(st.floats(-50, 50) | st.just(math.nan), min_size=1, max_size=9), st.floats(-50, 50))
def test_steps_to_a_level_equal_brute_force(curve, level):
    steps = np.arange(1, len(curve) + 1) * 10
    expected = oracle.steps_to_level(steps, curve, level)
    assert learning_curves.steps_to_level(steps, curve, level) == expected
    assert learning_curves.steps_to_level(steps, [curve, curve], [level, math.inf]).tolist() == [expected, math.inf]


# -- times faster -----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(2, 5),
    st.integers(2, 5),
    st.none() | st.floats(-5, 5),
    st.sampled_from([0.5, 0.9]),
)
def test_times_faster_equals_brute_force(seed, runs, other_runs, level, confidence):
    make = np.random.default_rng(seed)
    own, other = oracle.random_walk_curves(make, runs, 12), oracle.random_walk_curves(make, other_runs, 8)
    steps, other_steps = np.arange(1, 13) * 10, np.arange(1, 9) * 25

    def compare(a, b):
        goal = b[-1] if level is None else level
        need, other_need = oracle.steps_to_level(steps, a, goal), oracle.steps_to_level(other_steps, b, goal)
        return *oracle.ratio_bounds(need, 120, other_need, 200), need, other_need

    draw = np.random.default_rng(3)
    pairs = zip(oracle.resamples([own], 25, draw), oracle.resamples([other], 25, draw), strict=True)
    bounds = [compare(np.mean(a[0], axis=0), np.mean(b[0], axis=0))[:2] for a, b in pairs]
    made = learning_curves.times_faster(
        steps, own, other_steps, other, level, confidence=confidence, resamples=25, seed=3
    )
    at_least, at_most, need, other_need = compare(own.mean(axis=0), other.mean(axis=0))
    assert (made.steps, made.other_steps) == (need, other_need)
    assert_ratio(made.at_least, at_least)
    assert_ratio(made.at_most, at_most)
    tail = oracle.expanded_tail((1 - confidence) / 2, (runs, other_runs))
    if any(low < 1e-9 or high > 1e9 for low, high in bounds):
        ordered = [sorted(bound) for bound in zip(*bounds, strict=True)]
        assert_ratio(made.low, ordered[0][math.floor(24 * tail)])
        assert_ratio(made.high, ordered[1][math.ceil(round(24 * (1 - tail), 9))])
    else:
        assert_ratio(made.low, oracle.percentile([low for low, _ in bounds], tail))
        assert_ratio(made.high, oracle.percentile([high for _, high in bounds], 1 - tail))


def assert_ratio(actual, expected):
    """The oracle's very long time stands for infinity."""
    if expected > 1e9:
        assert actual == math.inf
    elif expected < 1e-9:
        assert actual == 0
    else:
        assert actual == pytest.approx(expected)


def test_half_the_samples():
    steps = np.arange(10, 1010, 10)
    slow = np.minimum(steps / 800, 1.0) + np.zeros((5, 1))
    fast = np.minimum(steps / 400, 1.0) + np.zeros((5, 1))
    made = learning_curves.times_faster(steps, fast, steps, slow)
    assert made == (2, 2, 2, 2, 400, 800)
    back = learning_curves.times_faster(steps, slow, steps, fast)
    assert back == (0.5, 0.5, 0.5, 0.5, 800, 400)


def test_a_method_that_never_arrives_bounds_the_ratio_on_one_side_only():
    steps = np.arange(1, 11) * 100
    arrives, never = np.tile(steps / 500, (3, 1)), np.zeros((3, 10))
    assert learning_curves.times_faster(steps, arrives, steps, never, level=1.0) == (
        2,
        math.inf,
        2,
        math.inf,
        500,
        math.inf,
    )
    assert learning_curves.times_faster(steps, never, steps, arrives, level=1.0) == (0, 0.5, 0, 0.5, math.inf, 500)
    made = learning_curves.times_faster(steps, never, steps, never, level=1.0)
    assert made == (0, math.inf, 0, math.inf, math.inf, math.inf)


def test_the_other_methods_final_level_is_as_uncertain_as_its_runs():
    rng = np.random.default_rng(0)
    steps = np.arange(1, 101)
    own = steps / 100 + np.zeros((4, 1))
    other = steps / 100 * rng.uniform(0.5, 0.9, (4, 1))
    fixed = learning_curves.times_faster(steps, own, steps, other, level=float(other.mean(axis=0)[-1]))
    made = learning_curves.times_faster(steps, own, steps, other)
    assert made.at_least == fixed.at_least
    assert fixed.high == math.inf  # half of the resamples miss a level that is taken for certain
    assert made.high < 2


def test_one_run_has_no_interval():
    made = learning_curves.times_faster([1, 2], [[0.0, 1.0]], [1, 2], [[0.0, 1.0]] * 2)
    assert (made.at_least, made.at_most) == (1, 1)
    assert math.isnan(made.low)
    assert math.isnan(made.high)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: learning_curves.last_episodes([2, 1], [0, 0], [3]), "ends must not decrease"),
        (
            lambda: learning_curves.last_episodes([1, 2], [0, math.nan], [3]),
            "returns must be finite, got nan at step 2",
        ),
        (lambda: learning_curves.last_episodes([1, 2], [0], [3]), "must be of one length"),
        (lambda: learning_curves.last_episodes([1], [0], [3], 0), "episodes must be at least 1, got 0"),
        (lambda: learning_curves.area([1, 1], [0, 0]), "steps must be positive and increasing"),
        (lambda: learning_curves.area([1], [0]), "at least two points"),
        (lambda: learning_curves.steps_to_level([0, 1], [0, 0], 0), "steps must be positive and increasing"),
        (
            lambda: learning_curves.steps_to_level([1, 2, 3], [0, 0], 0),
            r"one for each point of the curve \(2,\), got \(3,\)",
        ),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()

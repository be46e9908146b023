"""Statistics of scores: against SciPy, brute force, and what must hold for any scores."""

import math

import numpy as np
import oracles_stats as oracle
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from greedystep import stats

numbers = st.floats(-1e3, 1e3, allow_subnormal=False)
runs_of_a_task = st.lists(numbers, min_size=2, max_size=6)
ragged = st.lists(runs_of_a_task, min_size=1, max_size=4)
STATISTICS = ("iqm", "mean", "median")


def named(tasks) -> dict:
    return {str(number): task for number, task in enumerate(tasks)}


def assert_interval(actual, expected):
    np.testing.assert_allclose(tuple(actual), expected, rtol=1e-9, atol=1e-9)


# -- statistics -------------------------------------------------------------------------------------------------------


@given(hnp.arrays(float, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=numbers))
def test_iqm_is_scipys_trimmed_mean(scores):
    np.testing.assert_allclose(stats.iqm(scores, axis=0), scipy.stats.trim_mean(scores, 0.25, axis=0), atol=1e-9)
    np.testing.assert_allclose(stats.iqm(scores), oracle.iqm(scores.reshape(-1).tolist()), atol=1e-9)


def test_iqm_of_known_scores():
    assert stats.iqm([100.0, 1.0, 2.0, 3.0, -50.0]) == 2.0
    assert stats.iqm([[1, 2, 3, 4], [0, 0, 8, 8]], axis=1).tolist() == [2.5, 4.0]
    assert stats.iqm([7.0]) == 7.0


@given(ragged, st.sampled_from(STATISTICS))
def test_aggregates_equal_brute_force(tasks, statistic):
    assert stats.aggregate(named(tasks), statistic) == pytest.approx(oracle.aggregate(tasks, statistic), abs=1e-9)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_columns_of_an_array_are_tasks(statistic):
    array = np.random.default_rng(0).normal(size=(5, 3))
    expected = stats.interval(named(array.T), statistic, resamples=50)
    assert stats.interval(array, statistic, resamples=50) == expected
    assert stats.interval(array[:, 0], statistic, resamples=50) == stats.interval(array[:, :1], statistic, resamples=50)


def test_one_lucky_run_moves_the_mean_and_not_the_iqm():
    scores, lucky = np.arange(8.0), np.r_[np.arange(7.0), 1e6]
    assert stats.aggregate(lucky, "iqm") == stats.aggregate(scores, "iqm")
    assert stats.aggregate(lucky, "mean") > 1e5


# -- intervals --------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(ragged, st.sampled_from(STATISTICS), st.sampled_from([0.5, 0.95]), st.integers(0, 9))
def test_stratified_intervals_equal_brute_force(tasks, statistic, confidence, seed):
    values = [oracle.aggregate(t, statistic) for t in oracle.resamples(tasks, 40, np.random.default_rng(seed))]
    tail = oracle.expanded_tail((1 - confidence) / 2, [len(task) for task in tasks])
    ends = [oracle.percentile(values, tail), oracle.percentile(values, 1 - tail)]
    actual = stats.interval(named(tasks), statistic, confidence=confidence, resamples=40, seed=seed)
    assert_interval(actual, [oracle.aggregate(tasks, statistic), *ends])


@pytest.mark.parametrize(
    ("statistic", "theirs"),
    [("mean", np.mean), ("iqm", lambda x, axis: scipy.stats.trim_mean(x, 0.25, axis=axis))],
)
def test_intervals_of_one_task_are_scipys(statistic, theirs):
    x, y = np.random.default_rng(1).gamma(2, size=(2, 9))

    def expected(function, *samples):
        rng = np.random.default_rng(5)
        made = scipy.stats.bootstrap(
            samples,
            function,
            n_resamples=500,
            confidence_level=1 - 2 * oracle.expanded_tail(0.05, [9] * len(samples)),
            method="percentile",
            random_state=rng,  # pyright: ignore[reportCallIssue] SciPy calls it rng as well
        )
        return function(*samples, axis=0), *made.confidence_interval

    same = {"confidence": 0.9, "resamples": 500, "seed": 5}
    assert_interval(stats.interval(x, statistic, **same), expected(theirs, x))
    gap = expected(lambda x, y, axis: theirs(x, axis=axis) - theirs(y, axis=axis), x, y)
    assert_interval(stats.difference(x, y, statistic, **same), gap)
    times = expected(lambda x, y, axis: theirs(x, axis=axis) / theirs(y, axis=axis), x, y)
    assert_interval(stats.ratio(x, y, statistic, **same), times)


def test_small_groups_give_the_same_interval(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(5, 3, 4))
    whole = stats.interval(scores, resamples=100)
    wins = stats.probability_of_improvement(scores[:3], scores[2:], resamples=100)
    monkeypatch.setattr(stats, "LARGEST_GATHER", 200)
    for one, two in [
        (whole, stats.interval(scores, resamples=100)),
        (wins, stats.probability_of_improvement(scores[:3], scores[2:], resamples=100)),
    ]:
        np.testing.assert_array_equal(one, two)


def test_the_interval_of_a_curve_is_that_of_each_of_its_points():
    curves = np.random.default_rng(0).normal(size=(5, 2, 7))
    whole = stats.interval(curves, resamples=300, seed=3)
    for point in range(7):
        assert_interval([part[point] for part in whole], stats.interval(curves[:, :, point], resamples=300, seed=3))


@settings(max_examples=30, deadline=None)
@given(ragged, st.floats(0.1, 10), numbers)
def test_intervals_move_and_stretch_with_the_scores(tasks, scale, shift):
    before = stats.interval(named(tasks), resamples=30)
    after = stats.interval({k: np.array(t) * scale + shift for k, t in named(tasks).items()}, resamples=30)
    assert_interval(after, [end * scale + shift for end in before])
    assert before.low <= before.high


def test_the_seed_decides_and_the_interval_narrows_with_more_runs():
    rng = np.random.default_rng(0)
    few, many = rng.normal(size=5), rng.normal(size=500)
    assert stats.interval(few, seed=1) == stats.interval(few, seed=1)
    assert stats.interval(few, resamples=50, seed=1) != stats.interval(few, resamples=50, seed=2)
    narrow, wide = stats.interval(many), stats.interval(few)
    assert narrow.high - narrow.low < (wide.high - wide.low) / 3


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = 0
    for trial in range(300):
        made = stats.interval(rng.normal(size=(10, 3)), "mean", resamples=300, seed=trial)
        held += made.low <= 0 <= made.high
    assert 0.92 < held / 300 < 0.98


@pytest.mark.parametrize(("runs", "least", "usual"), [(3, 0.87, 0.80), (5, 0.92, 0.87), (10, 0.93, 0.92)])
def test_intervals_of_few_runs_are_wide_enough(runs, least, usual):
    """Differences of two means that are equal. With three runs no resample reaches far enough for 95 %."""
    rng, held, held_usually = np.random.default_rng(runs), 0, 0
    for trial in range(1_000):
        scores, other = rng.normal(size=(2, runs))
        made = stats.difference(scores, other, "mean", resamples=500, seed=trial)
        held += made.low <= 0 <= made.high
        draws = [x[rng.integers(runs, size=(500, runs))].mean(axis=1) for x in (scores, other)]
        low, high = np.percentile(draws[0] - draws[1], [2.5, 97.5])
        held_usually += low <= 0 <= high
    assert least < held / 1_000 < 0.97
    assert held_usually / 1_000 == pytest.approx(usual, abs=0.03)


def test_many_runs_have_the_usual_percentiles():
    assert stats.tail_share(0.95, (100_000,)) == pytest.approx(0.025, rel=1e-4)
    assert stats.tail_share(0.95, (3, 3)) < stats.tail_share(0.95, (3, 30)) < stats.tail_share(0.95, (30, 30)) < 0.025


def test_one_run_says_nothing_about_chance():
    for made in [
        stats.interval([3.0]),
        stats.interval({"a": [3.0, 3.0], "b": [3.0]}),
        stats.difference([4.0], [1.0, 1.0]),
        stats.ratio([3.0, 3.0], [1.0]),
    ]:
        assert made.estimate == 3.0
        assert math.isnan(made.low)
        assert math.isnan(made.high)
    assert math.isnan(stats.probability_of_improvement([1.0], [0.0, 0.0]).low)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_nan_is_never_averaged_away(statistic):
    scores = np.arange(8.0)
    scores[3] = np.nan
    assert np.isnan(stats.interval(scores, statistic)).all()
    assert np.isnan(stats.ratio(np.arange(8.0), scores, statistic)).all()
    assert np.isnan(stats.probability_of_improvement(scores, np.arange(8.0))).all()


# -- comparisons ------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(runs_of_a_task, runs_of_a_task), min_size=1, max_size=3))
def test_the_probability_of_improvement_equals_brute_force(pairs):
    ours, theirs = ([task for task, _ in pairs], [other for _, other in pairs])
    rng = np.random.default_rng(4)
    resampled = zip(oracle.resamples(ours, 30, rng), oracle.resamples(theirs, 30, rng), strict=True)
    values = [oracle.win_rate(x, y) for x, y in resampled]
    tail = oracle.expanded_tail(0.025, [len(task) for task in (*ours, *theirs)])
    expected = [oracle.win_rate(ours, theirs), oracle.percentile(values, tail), oracle.percentile(values, 1 - tail)]
    assert_interval(stats.probability_of_improvement(named(ours), named(theirs), resamples=30, seed=4), expected)


@given(runs_of_a_task, runs_of_a_task)
def test_the_probability_of_improvement_is_mann_and_whitneys(x, y):
    u = scipy.stats.mannwhitneyu(x, y, method="asymptotic").statistic if len({*x, *y}) > 1 else len(x) * len(y) / 2
    made = stats.probability_of_improvement(x, y, resamples=2)
    assert made.estimate == pytest.approx(u / (len(x) * len(y)))
    back = stats.probability_of_improvement(y, x, resamples=2)
    assert made.estimate + back.estimate == pytest.approx(1)


def test_clear_cases():
    assert stats.probability_of_improvement([5, 6, 7], [1, 2, 3]) == (1, 1, 1)
    assert stats.ratio([4, 4, 4], [2, 2, 2]) == (2, 2, 2)
    assert stats.difference([4, 4, 4], [2, 2, 2]) == (2, 2, 2)


def test_a_ratio_over_scores_that_may_be_zero_has_no_upper_end():
    made = stats.ratio([4.0, 4.0, 4.0], [1.0, 0.0, 0.0])
    assert made.estimate == pytest.approx(12)
    assert made.low == pytest.approx(4)
    assert made.high == math.inf


def test_a_ratio_of_scores_that_are_not_positive_says_nothing():
    made = stats.ratio([-1.0, -2.0, -3.0], [-2.0, -1.0, -3.0])
    assert math.isnan(made.estimate)
    assert (made.low, made.high) == (-math.inf, math.inf)


def test_tasks_are_matched_by_name():
    ours, theirs = {"a": [1.0, 1.0], "b": [9.0, 9.0]}, {"b": [5.0, 5.0], "a": [0.0, 0.0]}
    assert stats.probability_of_improvement(ours, theirs).estimate == 1
    for compare in (stats.probability_of_improvement, stats.ratio, stats.difference):
        with pytest.raises(ValueError, match=r"other must have the tasks of `scores`, \['a', 'b'\], got \['b', 'c'\]"):
            compare(ours, {"b": [1.0], "c": [1.0]})
        with pytest.raises(ValueError, match="other must have 2 tasks like `scores`, got 3"):
            compare(np.zeros((2, 2)), np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: stats.interval([]), "at least one run"),
        (lambda: stats.interval({}), "at least one task"),
        (lambda: stats.interval({"a": [1.0], "b": []}), "every task needs at least one run"),
        (lambda: stats.interval(3.0), "every task needs at least one run"),
        (lambda: stats.interval({"a": np.zeros((2, 3)), "b": np.zeros((2, 4))}), "tasks differ in shape"),
        (lambda: stats.interval([1.0], "mode"), "statistic must be one of iqm, mean, median, got 'mode'"),
        (lambda: stats.interval([1.0], confidence=95), "confidence must lie between 0 and 1, got 95"),
        (lambda: stats.interval([1.0], resamples=0), "resamples must be at least 1, got 0"),
        (lambda: stats.iqm([]), "at least one score"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()

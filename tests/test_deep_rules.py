"""The rules for Figures 3 to 5 and the horizon, on made-up trainings."""

from dataclasses import replace

import numpy as np
import pytest
from made_runs import SPREAD, against, made, verdicts

from greedystep.experiments import fig4, fig5, horizon, paper_protocol
from greedystep.experiments.deep import judging
from greedystep.experiments.deep.method_runs import from_records
from greedystep.experiments.deep.suite import GREEDY, LARGEST_GAINS, METHODS, TASKS
from greedystep.experiments.fig3 import greedy_play, performance_claims, training_time

# -- intervals --------------------------------------------------------------------------------------------------------


def test_estimates_are_written_without_exponents():
    assert f"{judging.Estimate(-671.2, -1000, -158):.3g}" == "-671 (-1000 to -158)"
    assert f"{judging.Estimate(1.5, -np.inf, np.inf)}" == "1.50 (-∞ to ∞)"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.6, 2.4, "confirmed"),
        (1.1, 1.4, "refuted"),
        (1.4, 1.6, "undecided"),
        (1.5, 1.6, "undecided"),
        (np.nan, np.nan, "untested"),
    ],
)
def test_an_interval_is_above_below_or_around_a_bar(low, high, expected):
    one = judging.Estimate(1.5, low, high)
    assert one.above(1.5) == expected
    opposite = {"confirmed": "refuted", "refuted": "confirmed"}.get(expected, expected)
    assert one.below(1.5) == opposite


def test_tasks_together_and_conditions_together():
    assert judging.over_tasks(["confirmed", "confirmed", "untested"]) == "confirmed"
    assert judging.over_tasks(["refuted"]) == "refuted"
    assert judging.over_tasks(["confirmed", "refuted"]) == judging.over_tasks(["confirmed", "partly"]) == "partly"
    assert judging.over_tasks(["confirmed", "undecided"]) == "partly"
    assert judging.over_tasks(["refuted", "undecided"]) == judging.over_tasks(["undecided", "untested"]) == "undecided"
    assert judging.over_tasks([]) == judging.over_tasks(["untested"]) == "untested"
    assert judging.worst(["confirmed", "partly"]) == "partly"
    assert judging.worst(["confirmed", "partly", "undecided"]) == "undecided"
    assert judging.worst(["confirmed", "refuted", "untested"]) == "refuted"
    assert judging.worst(["confirmed", "untested"]) == "untested"


# -- Figure 3 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "expected"), [(20, "confirmed"), (16, "confirmed"), (15, "undecided"), (12, "refuted"), (5, "refuted")]
)
def test_almost_twice_the_best_baseline(ours, expected):
    found = against("breakout", made(ours), made(3), made(10), made(7))
    claim = performance_claims.twice(found, "breakout")
    assert claim.verdict == expected
    assert "Maxmin DQN" in claim.measured


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [(20.0, 21.0, ("confirmed", "confirmed")), (12.0, 21.0, ("refuted", "confirmed")), (12.0, 11.0, ("refuted",) * 2)],
)
def test_greedy_play_beside_training_returns(ours, theirs, expected):
    """The best baseline has 10 in training, Greedy-Step DQN 8; what each gets in greedy play is given."""
    found = {}
    for task in LARGEST_GAINS:
        mine, dqn, best, other = (
            replace(made(final), greedy_play=played + SPREAD[:, 0], final_greedy_return=played + SPREAD[:, 0])
            for final, played in ((8, ours), (3, 3), (10, theirs), (7, 7))
        )
        found |= against(task, mine, dqn, best, other)
    assert tuple(claim.verdict for claim in greedy_play.claims(found)) == expected
    protocol = paper_protocol.mixed(found), paper_protocol.baseline_alone(found)
    assert tuple(claim.verdict for claim in protocol) == expected
    found[LARGEST_GAINS[0], GREEDY] = made(8)  # never evaluated
    assert "greedy play was not evaluated" in greedy_play.mixed(found).measured
    assert {claim.verdict for claim in greedy_play.claims({})} == {"untested"}


def test_nothing_is_judged_without_all_baselines_or_before_its_length():
    found = against("breakout", made(20), made(10))
    short = against("breakout", made(20, steps=100_000), made(10, steps=100_000))
    assert performance_claims.twice(short, "breakout").verdict == "untested"
    assert "100,000" in performance_claims.twice(short, "breakout").measured
    del found["breakout", "sarsa"]
    assert performance_claims.twice(found, "breakout").verdict == "untested"
    assert METHODS["sarsa"].label in performance_claims.twice(found, "breakout").measured
    assert set(verdicts(performance_claims.claims({})).values()) == {"untested"}


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (made(50, reached=0.1), made(50, reached=0.5), "confirmed"),
        (made(50, reached=0.4), made(50, reached=0.5), "refuted"),
        (made(50, reached=0.1), made(30, reached=0.1), "confirmed"),  # never gets there, and had ten times the steps
        (made(50, reached=0.9), made(30, reached=0.1), "undecided"),  # never gets there, but the runs were too short
        (made(30, reached=0.1), made(50, reached=0.9), "refuted"),  # ends above
    ],
)
def test_half_the_samples(ours, theirs, expected):
    assert performance_claims.half_the_samples(against("pong", ours, theirs), "pong").verdict == expected


def test_half_the_samples_is_judged_at_three_levels():
    """The baseline is as fast up to 92 % of the way, and never covers more of it."""
    ours, theirs = made(50, reached=0.1, spread=0.1), made(46, reached=0.092, spread=0.1)
    claim = performance_claims.half_the_samples(against("pong", ours, theirs), "pong")
    assert claim.verdict == "partly"
    assert [part.split("(")[-1].rstrip(")") for part in claim.measured.split("; steps to ")[1:]] == ["confirmed"] * 2
    assert "(refuted); steps to 95%" in claim.measured


def test_a_small_gain_is_no_learning():
    found = against("pong", made(-15.9, first=-16, spread=0.1), made(-5, first=-16))
    assert not judging.has_learned(found, "pong", GREEDY)
    assert judging.has_learned(found, "pong", "dqn")
    assert performance_claims.same_level(found, "pong").verdict == "refuted"
    samples = performance_claims.half_the_samples(found, "pong")
    assert (samples.verdict, samples.brief) == ("refuted", "(it has not learned)")


def test_one_fast_baseline_refutes_half_the_samples():
    found = against("pong", made(50, reached=0.1), made(50, reached=0.9), made(50, reached=0.11), made(50))
    assert performance_claims.half_the_samples(found, "pong").verdict == "refuted"


def test_negative_returns_converge_too():
    ours, theirs = made(-100, first=-1000, reached=0.1), made(-100, first=-1000, reached=0.9)
    claim = performance_claims.half_the_samples(against("mountaincar", ours, theirs), "mountaincar")
    assert claim.verdict == "confirmed"


def test_worse_on_pixelcopter():
    expected = {5.0: "confirmed", 10.0: "undecided", 15.0: "refuted"}
    for ours, verdict in expected.items():
        assert (
            performance_claims.not_better(against("pixelcopter", made(ours), made(10.0)), "pixelcopter").verdict
            == verdict
        )


@pytest.mark.parametrize(("wins", "expected"), [(6, "confirmed"), (5, "confirmed"), (4, "partly"), (2, "refuted")])
def test_outperforms_counts_pairs(wins, expected):
    named = [*LARGEST_GAINS, *performance_claims.FEWER_SAMPLES]
    found = {}
    for place, task in enumerate(named):
        found |= against(task, made(20 if place < wins else 5), made(10))
    assert performance_claims.outperforms(found).verdict == expected
    del found["pong", "dqn"]
    assert performance_claims.outperforms(found).verdict == "untested"


def test_a_higher_curve_that_ends_lower_is_no_win():
    ours, theirs = made(9, reached=0.01), made(10, reached=1.0)
    assert ours.mean_return().mean() > theirs.mean_return().mean()
    assert not performance_claims.wins(ours, theirs)


def test_sooner_than_dqn_is_judged_at_any_length():
    found = {("catcher", GREEDY): made(10, reached=0.1, steps=1000), ("catcher", "dqn"): made(10, steps=1000)}
    assert performance_claims.sooner_than_dqn(found).verdict == "confirmed"
    worse = {("pong", GREEDY): made(5), ("pong", "dqn"): made(10)}
    assert performance_claims.sooner_than_dqn(found | worse).verdict == "partly"
    assert "over 1,000 steps" in performance_claims.sooner_than_dqn(found).measured


@pytest.mark.parametrize(
    ("greedy_1", "one_6", "greedy_6", "expected"),
    [
        (1.05, 1.1, 1.15, "confirmed"),
        (1.05, 1.5, 1.6, "partly"),  # six networks take longer, whatever the returns
        (1.05, 1.1, 1.6, "partly"),  # one of two
        (1.5, 1.1, 1.6, "refuted"),
        (1.5, 1.6, 1.6, "partly"),
    ],
)
def test_equal_time(greedy_1, one_6, greedy_6, expected):
    noise = np.array([1.0, 1.01, 0.99, 3.0])  # the last round was disturbed, for all alike
    seconds = {"one-step, 1": 1.0, "greedy-step, 1": greedy_1, "one-step, 6": one_6, "greedy-step, 6": greedy_6}
    times = {
        "task": "freeway",
        "preset": "fast",
        "device": "cpu",
        "seconds": {name: x * noise for name, x in seconds.items()},
    }
    claim = training_time.claim(times)
    assert claim.verdict == expected
    assert "Freeway, cpu: " in claim.measured
    assert f"{greedy_1:.2f}" in claim.measured
    assert ("as they do in Maxmin" in claim.reason) == (one_6 == 1.5)


def test_what_was_not_timed_is_untested():
    assert training_time.claim(None).verdict == "untested"


# -- Figures 4 and 5 --------------------------------------------------------------------------------------------------


def ensemble(task, finals, **more):
    return {
        (task, fig4.networks(number)): made(final, q=20.0 - number, over=10.0 - number, **more)
        for number, final in zip(fig4.NETWORKS, finals, strict=True)
    }


def test_more_networks_as_the_paper_says():
    found = ensemble("breakout", (5, 7, 9, 11))
    got = verdicts(fig4.claims(found))
    assert got.pop("fig4-stable") == "undecided"  # all lines end where they are highest
    assert set(got.values()) == {"confirmed"}


def test_more_networks_otherwise():
    got = verdicts(fig4.claims(ensemble("breakout", (11, 9, 7, 5))))
    assert got["fig4-better"] == got["fig4-six"] == "refuted"
    assert got["fig4-smaller-q"] == "confirmed"
    both = ensemble("breakout", (11, 9, 7, 5)) | ensemble("seaquest", (5, 7, 9, 11))
    assert verdicts(fig4.claims(both))["fig4-better"] == "partly"
    assert set(verdicts(fig4.claims({})).values()) == {"untested"}


def test_stable_means_that_little_of_the_best_is_lost():
    found = ensemble("breakout", (5, 7, 9, 11))
    alone = found["breakout", fig4.ONE]
    alone.returns[:, -1] -= 3.0
    np.testing.assert_allclose(fig4.lost_return(alone), 3.0)
    assert verdicts(fig4.claims(found))["fig4-stable"] == "confirmed"


@pytest.mark.parametrize(("begin", "end", "expected"), [(9, 2, "confirmed"), (2, 9, "refuted")])
def test_the_chosen_step(begin, end, expected):
    found = {("breakout", GREEDY): made(10, n=np.linspace(begin, end, 100))}
    assert set(verdicts(fig5.claims(found)).values()) == {expected}
    assert set(verdicts(fig5.claims({})).values()) == {"untested"}


def test_a_rise_after_the_first_points_is_no_fall():
    n = np.concatenate([np.full(5, 9.0), np.linspace(2, 8, 95)])
    got = verdicts(fig5.claims({("breakout", GREEDY): made(10, n=n)}))
    assert got == {"fig5-larger-at-first": "confirmed", "fig5-getting-smaller": "refuted"}


# -- the horizon ------------------------------------------------------------------------------------------------------


def horizons(task="breakout", **over):
    """Over-estimation by name; sooner with a longer horizon."""
    return {
        (task, horizon.ONE_STEP): made(10, reached=0.9, over=over["short"]),
        (task, horizon.horizon(1, 6)): made(10, reached=0.9, over=over["short"]),
        (task, horizon.FULL): made(8, reached=0.1, over=over["long"]),
        (task, horizon.FULL_MAXMIN): made(12, reached=0.1, over=over["cured"]),
        (task, horizon.FULL_DOUBLE): made(11, reached=0.1, over=over["cured"]),
    }


@pytest.mark.parametrize(
    ("cured", "expected"),
    [(1.0, "confirmed"), (4.0, "partly"), (5.0, "undecided"), (8.0, "refuted"), (10.0, "refuted")],
)
def test_the_horizon(cured, expected):
    got = verdicts(horizon.claims(horizons(short=1.0, long=9.0, cured=cured)))
    assert got.pop("horizon-addressed") == expected
    assert set(got.values()) == {"confirmed"}


def test_where_nothing_is_over_estimated_nothing_needs_a_cure():
    got = verdicts(horizon.claims(horizons(short=1.0, long=1.0, cured=1.0)))
    assert got["horizon-overestimation"] == "undecided"
    assert got["horizon-addressed"] == "untested"


def test_a_horizon_that_helps_nothing():
    found = horizons(short=5.0, long=1.0, cured=1.0)
    found["breakout", horizon.FULL_MAXMIN] = made(9, reached=1.0, over=6.0)
    found["breakout", horizon.FULL_DOUBLE] = made(5)
    got = verdicts(horizon.claims(found))
    assert got.pop("horizon-addressed") == "untested"  # it over-estimates less than N = 1
    assert got == dict.fromkeys(got, "refuted")
    assert set(verdicts(horizon.claims({})).values()) == {"untested"}


# -- from the store to arrays -----------------------------------------------------------------------------------------


def lane(seed, steps, returns):
    return {
        "seed": seed,
        "steps": steps[-1],
        "curve": {
            "step": steps,
            "episode_return": returns,
            "episodes": [0 if value is None else 100 for value in returns],
            "mean_q": [None, *[1.0] * (len(steps) - 1)],
            "mean_n": [None] * len(steps),
            "overestimation": [None, *[0.5] * (len(steps) - 1)],
        },
        "phase": 10,
        "n_first": [0] * 16,
        "n_last": [0] * 16,
        "evaluation": 7.0,
        "steps_per_second": 10.0,
        "side_by_side": 1,
        "setting": {},
        "preset": "paper",
        "env": {},
        "device": "cpu",
        "part": "a",
        "seconds": 1.0,
        "diverged": None,
    }


def test_longer_trainings_are_read_as_far_as_asked():
    lanes = [lane(0, [10, 20, 30, 40], [None, 2.0, 3.0, 4.0]), lane(1, [20, 40], [2.0, 6.0])]
    found = from_records(lanes, 40)
    np.testing.assert_array_equal(found.steps, [20, 40])
    np.testing.assert_array_equal(found.returns, [[2.0, 4.0], [2.0, 6.0]])
    np.testing.assert_array_equal(found.q, [[1.0, 1.0], [np.nan, 1.0]])
    assert np.isnan(found.n).all()
    assert list(found.greedy_play) == [7.0, 7.0]
    shorter = from_records(lanes, 20)
    np.testing.assert_array_equal(shorter.final_return, [2.0, 2.0])
    assert shorter.greedy_play is None


def test_a_short_last_row_is_passed_over_but_its_episodes_count():
    one = lane(0, [10, 20, 30, 31], [1.0, 1.0, 1.0, 9.0])
    one["curve"]["overestimation"] = [1.0, 2.0, 3.0, 50.0]
    found = from_records([one], 31)
    np.testing.assert_array_equal(found.overestimation, [[1.0, 2.0, 3.0, 3.0]])
    assert found.final_return[0] > 1


def test_every_method_has_four_settings_and_every_task_an_environment():
    from greedystep import envs
    from greedystep.deep.presets import make_config

    for task in TASKS.values():
        envs.make(task.env, **task.env_options)
        for method in METHODS.values():
            settings = method.settings(task.rates)
            assert len({repr(setting) for setting in settings}) == 4
            for setting in settings:
                make_config(task.env, "fast", **setting)

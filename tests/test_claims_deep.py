"""Rules for Figures 3 to 5 that came after the first quick runs, and the reasons of failures, on made-up trainings."""

from dataclasses import replace

import numpy as np
import pytest
from made_runs import against, made, verdicts

from greedystep.experiments import fig4, fig5, horizon
from greedystep.experiments.claims import NOT_KNOWN, UNDECIDED, WITH_REASON, Claim
from greedystep.experiments.deep.suite import GREEDY, METHODS, TASKS
from greedystep.experiments.fig3 import performance_claims


def everyone(task, ours, theirs):
    """Greedy-Step and all nine others on one task."""
    return {(task, GREEDY): ours} | {(task, method): theirs for method in METHODS if method != GREEDY}


# -- what must be there -----------------------------------------------------------------------------------------------


def test_a_reason_belongs_to_a_failure():
    Claim("a", "b", "c", 1, 2, "refuted", "because")
    with pytest.raises(ValueError, match="reason: only a claim that is partly or undecided or refuted has one"):
        Claim("a", "b", "c", 1, 2, "confirmed", "because")


def test_a_single_seed_judges_nothing():
    one = made(20)
    one = type(one)(one.steps, *(curve[:1] for curve in (one.returns, one.q, one.n, one.overestimation)))
    found = against("breakout", one, made(10))
    assert performance_claims.twice(found, "breakout").verdict == "untested"
    assert "a single seed: Greedy-Step DQN" in performance_claims.twice(found, "breakout").measured


def test_times_of_chance_are_not_judged():
    idle = made(0.4, first=0.4)
    assert performance_claims.twice(against("seaquest", idle, made(0.1, first=0.1)), "seaquest").verdict == "untested"
    claim = performance_claims.twice(against("seaquest", made(20), made(0.1, first=0.1)), "seaquest")
    assert claim.verdict == "confirmed"
    assert performance_claims.twice(against("seaquest", idle, made(20)), "seaquest").verdict == "refuted"
    nobody = performance_claims.half_the_samples(against("pong", idle, idle), "pong")
    assert (nobody.verdict, nobody.measured) == ("untested", "no method has learned here")
    alone = performance_claims.half_the_samples(against("pong", idle, made(20)), "pong")
    assert (alone.verdict, alone.reason) == ("refuted", "it has not learned here")
    assert "is higher by 19.60" in alone.measured


# -- Figure 3 ---------------------------------------------------------------------------------------------------------


def test_a_method_that_never_reaches_the_level_gives_a_bound():
    reaches = made(20, reached=0.8)
    for slow, brief in ((reaches, "1.6 to 1.6"), (made(10), "1.6 to more than 2.2")):
        found = against("freeway", made(20, reached=0.5), reaches, reaches, reaches, slow)
        assert performance_claims.half_the_samples(found, "freeway").brief == brief


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ((50, 50, 10, 10), "confirmed"),
        ((50, 45.6, 10, 10), "undecided"),  # the level is 90 % of the way from 5.9 at the first point
        ((50, 10, 10, 10), "refuted"),
    ],
)
def test_several_converge_to_the_same_level(theirs, expected):
    found = against("pong", made(50, first=5), *map(made, theirs))
    claim = performance_claims.same_level(found, "pong")
    assert claim.verdict == expected
    assert claim.reason == {"confirmed": "", "undecided": UNDECIDED, "refuted": "most of them end lower"}[expected]


def test_there_is_no_level_where_greedy_step_has_not_learned():
    found = against("mountaincar", made(-1000, first=-1000), made(-100, first=-1000))
    claim = performance_claims.same_level(found, "mountaincar")
    assert (claim.verdict, claim.reason) == ("refuted", "Greedy-Step DQN itself has not learned here")
    assert performance_claims.same_level({}, "mountaincar").verdict == "untested"


def falls_back(seeds):
    """So many of five seeds end below their beginning."""
    one = made(10, first=1)
    one.returns[:seeds, -1] = 0.0
    return one


THREE = ("pong", "breakout", "freeway")


@pytest.mark.parametrize(("bad", "expected"), [(0, "confirmed"), (1, "partly"), (2, "refuted")])
def test_reliable_counts_seeds_that_learn(bad, expected):
    claim = performance_claims.reliable({(task, GREEDY): falls_back(bad) for task in THREE})
    assert claim.verdict == expected
    assert f"{5 - bad} of 5 seeds" in claim.measured
    assert claim.reason == (NOT_KNOWN if bad else "")


def test_reliable_counts_seeds_that_diverge():
    lost = made(10, first=1, seeds=[3, 4, 5, 6, 7], diverged=[4, 6])
    claim = performance_claims.reliable({(task, GREEDY): lost for task in THREE})
    assert claim.verdict == "refuted"
    assert "the loss of 2 of its 5 seeds was not finite" in claim.reason
    assert performance_claims.reliable({(task, GREEDY): made(10) for task in THREE[:2]}).verdict == "untested"
    assert performance_claims.reliable({(task, GREEDY): made(10, steps=1000) for task in THREE}).verdict == "untested"


def on_three(ours, theirs):
    return {key: one for task in THREE for key, one in everyone(task, ours, theirs).items()}


@pytest.mark.parametrize(("ours", "expected"), [(20, "confirmed"), (10, "undecided"), (5, "refuted")])
def test_state_of_the_art_is_judged_against_all_others(ours, expected):
    found = on_three(made(ours), made(8)) | {(task, "peng"): made(10) for task in THREE}
    claim = performance_claims.state_of_the_art(found)
    assert claim.verdict == expected
    assert "Peng" in claim.measured
    del found["breakout", "twin"]
    assert performance_claims.state_of_the_art(found).verdict == "untested"


def test_state_of_the_art_compares_after_the_same_steps():
    claim = performance_claims.state_of_the_art(on_three(made(20, reached=1.0, steps=4_000_000), made(12, reached=0.1)))
    assert claim.verdict == "refuted"  # 20 at the end, 10 after the two million that all have
    assert "after 2,000,000 steps" in claim.measured


@pytest.mark.parametrize(("varying", "expected"), [(4, "confirmed"), (1, "partly"), (0, "refuted")])
def test_priors_are_tuned_case_by_case(varying, expected):
    found = {}
    for place, (method, option) in enumerate(performance_claims.PRIORS.items()):
        for number, task in enumerate(THREE):
            value = number if place < varying else 3
            found[task, method] = made(1, setting={option: value})
    claim = performance_claims.tuned_case_by_case(found)
    assert claim.verdict == expected
    assert ("fig3-settings" in claim.reason) == (expected in WITH_REASON)
    del found["pong", "peng"]
    assert performance_claims.tuned_case_by_case(found).verdict == "untested"


@pytest.mark.parametrize(
    ("ours", "expected"), [(15, "confirmed"), (10, "undecided"), (5, "refuted"), (np.nan, "untested")]
)
def test_sooner_than_dqn(ours, expected):
    found = {("catcher", GREEDY): made(ours, steps=1000), ("catcher", "dqn"): made(10, steps=1000)}
    assert performance_claims.sooner_than_dqn(found).verdict == expected


# -- Figures 4 and 5 --------------------------------------------------------------------------------------------------


def by_networks(*finals, **many):
    numbers = [fig4.networks(n) for n in fig4.NETWORKS]
    found = {("breakout", name): made(final) for name, final in zip(numbers, finals, strict=True)}
    return found | {("breakout", fig4.SIX): made(finals[-1], **many)}


@pytest.mark.parametrize(
    ("finals", "expected"), [((5, 9, 9, 9), "confirmed"), ((9, 9, 9, 9), "undecided"), ((9, 12, 9, 9), "refuted")]
)
def test_six_is_good_only_if_something_is_worse(finals, expected):
    assert verdicts(fig4.claims(by_networks(*finals)))["fig4-six"] == expected


@pytest.mark.parametrize(
    ("claim", "many", "expected"),
    [
        ("fig4-better", {"final": 9}, "confirmed"),
        ("fig4-better", {"final": 5}, "undecided"),
        ("fig4-better", {"final": 3}, "refuted"),
        ("fig4-smaller-q", {"q": 0.0}, "confirmed"),
        ("fig4-smaller-q", {"q": 1.0}, "undecided"),
        ("fig4-smaller-q", {"q": 2.0}, "refuted"),
        ("fig4-overestimation", {"over": -1.0}, "confirmed"),
        ("fig4-overestimation", {"over": 0.0}, "undecided"),
        ("fig4-overestimation", {"over": 1.0}, "refuted"),
    ],
)
def test_six_networks_against_one(claim, many, expected):
    found = {("pong", fig4.ONE): made(5), ("pong", fig4.SIX): made(**({"final": 5} | many))}
    assert verdicts(fig4.claims(found))[claim] == expected


@pytest.mark.parametrize(("loses", "other", "expected"), [(1, 5, "confirmed"), (3, 3, "undecided"), (5, 1, "refuted")])
def test_more_stable_means_less_lost(loses, other, expected):
    many, one = made(10), made(10)
    many.returns[:, -1] -= loses
    one.returns[:, -1] -= other
    found = {("pong", fig4.ONE): one, ("pong", fig4.SIX): many}
    assert verdicts(fig4.claims(found))["fig4-stable"] == expected


@pytest.mark.parametrize(("early", "expected"), [(0.1, "confirmed"), (0.5, "undecided"), (0.9, "refuted")])
def test_a_longer_horizon_is_faster_early(early, expected):
    found = {("pong", horizon.FULL_MAXMIN): made(10, reached=early), ("pong", horizon.horizon(1, 6)): made(10)}
    assert verdicts(horizon.claims(found))["horizon-faster"] == expected


@pytest.mark.parametrize(("double", "expected"), [(9, "confirmed"), (5, "undecided"), (3, "refuted")])
def test_double_beside_greedy_step_alone(double, expected):
    found = {("pong", horizon.FULL): made(5), ("pong", horizon.FULL_DOUBLE): made(double)}
    assert verdicts(horizon.claims(found))["horizon-double"] == expected


def test_steps_that_stay_are_undecided():
    n = 5 + np.array([[0.3], [-0.3]] * 2 + [[0.0]]) * np.linspace(-1, 1, 100)  # two rise, two fall, one stays
    got = fig5.claims({("pong", GREEDY): made(10, n=n)})
    assert {claim.verdict for claim in got} <= {"undecided", "untested"}
    assert got[0].reason == f"Pong: {UNDECIDED}"


def test_the_phases_are_the_first_and_the_last_hundred_thousand_steps():
    n = np.concatenate([np.full(5, 9.0), np.full(90, 100.0), np.full(5, 2.0)])
    first, last = fig5.phases(made(10, n=n, spread=0))
    np.testing.assert_allclose(first, 9)
    np.testing.assert_allclose(last, 2)
    first, last = fig5.phases(made(10, n=n, spread=0, steps=1000))  # a fifth of a short training
    np.testing.assert_allclose(first, (5 * 9 + 15 * 100) / 20)
    nothing = made(10, n=np.nan)
    assert verdicts(fig5.claims({("pong", GREEDY): nothing})) == {
        "fig5-larger-at-first": "untested",
        "fig5-getting-smaller": "untested",
    }


# -- reasons ----------------------------------------------------------------------------------------------------------


def test_a_failure_that_nothing_explains_says_so():
    claim = performance_claims.twice(against("breakout", made(10), made(10)), "breakout")
    assert (claim.verdict, claim.reason) == ("refuted", NOT_KNOWN)
    claim = performance_claims.twice(against("breakout", made(15), made(10)), "breakout")
    assert (claim.verdict, claim.reason) == ("undecided", UNDECIDED)


def test_over_estimation_is_a_reason_where_it_is_larger_than_the_rivals():
    behind = against("breakout", made(9, over=5.0), made(10, over=1.0))
    assert "horizon-overestimation" in performance_claims.twice(behind, "breakout").reason
    ahead = against("breakout", made(11, over=5.0), made(10, over=1.0))
    assert "horizon-overestimation" not in performance_claims.twice(ahead, "breakout").reason
    for ours, theirs in ((1.0, 5.0), (-1.0, -5.0)):
        own = {GREEDY: made(1, over=ours), "dqn": made(1, over=theirs)}
        assert performance_claims.overestimates(own, "dqn") == []


def test_over_estimation_is_no_reason_where_a_better_method_over_estimates_as_much():
    own = {GREEDY: made(9, over=5.0), "multi-step": made(12, over=1.0), "dqn": made(11, over=7.0)}
    assert performance_claims.overestimates(own, "multi-step") == []
    assert "Q of DQN exceeds" in performance_claims.not_overestimation_alone(own)[0]
    own["dqn"] = made(8, over=7.0)  # it over-estimates more, and ends lower
    assert "horizon-overestimation" in performance_claims.overestimates(own, "multi-step")[0]


def test_greedy_play_is_explained_by_q_beside_greedy_play():
    def played(final, q_minus_play):
        q = np.full(5, q_minus_play) + np.arange(5) / 100
        return replace(made(final, over=5.0), final_greedy_overestimation=q)

    own = {GREEDY: played(9, 4.0), "dqn": played(12, 1.0)}
    assert performance_claims.overestimates(own, "dqn") == []
    (said,) = performance_claims.overestimates(own, "dqn", in_greedy_play=True)
    assert "return of greedy play" in said
    assert "evaluation-overestimation" in said
    assert performance_claims.overestimates({**own, GREEDY: made(9, over=5.0)}, "dqn", in_greedy_play=True) == []


def test_pessimism_is_a_reason_with_several_networks_only():
    assert "too pessimistic" in performance_claims.too_pessimistic(made(1, over=-5.0))[0]
    assert (
        performance_claims.too_pessimistic(made(1, over=5.0))
        == performance_claims.too_pessimistic(made(1, over=-5.0, setting={"ensemble": 1}))
        == []
    )
    claims = {c.id: c for c in fig4.claims(by_networks(11, 9, 7, 5, over=-3.0))}
    assert "Breakout: too pessimistic" in claims["fig4-better"].reason
    assert "too pessimistic" in claims["fig4-six"].reason
    step = fig5.claims({("pong", GREEDY): made(1, over=-3.0, n=np.linspace(2, 9, 100))})
    assert all("long returns still win" in claim.reason for claim in step)


def test_steps_that_shorten_with_one_inflated_network_are_a_reason():
    rising, falling = np.linspace(2, 9, 100), np.linspace(9, 2, 100)
    found = {("pong", GREEDY): made(1, over=3.0, n=rising)}

    def said(alone):
        return [claim.reason for claim in fig5.claims(found | alone)]

    one = ("pong", fig4.ONE)
    assert all("with one network n falls here too" in reason for reason in said({one: made(1, over=30.0, n=falling)}))
    for alone in ({}, {one: made(1, over=3.0, n=falling)}, {one: made(1, over=30.0, n=rising)}):
        assert said(alone) == [f"Pong: {NOT_KNOWN}"] * 2


def test_a_rival_that_looks_ahead_too_is_a_reason():
    found = against("breakout", made(10), made(3), made(3), made(10), made(3))
    assert "without the choice" in performance_claims.twice(found, "breakout").reason
    as_good = against("breakout", made(10), made(10), made(3), made(10), made(3))
    assert performance_claims.multi_step_suffices(as_good, "breakout", "multi-step") == []


def test_larger_q_with_larger_returns_is_explained():
    found = by_networks(5, 5, 5, 11, q=9.0, over=-2.0)
    claim = next(c for c in fig4.claims(found) if c.id == "fig4-smaller-q")
    assert claim.verdict == "refuted"
    assert "grows with the return" in claim.reason


def test_a_training_whose_values_are_unknown_is_judged_by_its_returns():
    unknown = made(5, over=np.nan, q=np.nan, n=np.nan, seeds=range(5), diverged=[0, 1, 2, 3, 4])
    claim = performance_claims.twice(against("breakout", unknown, made(10)), "breakout")
    assert claim.verdict == "refuted"
    assert claim.reason == "the loss of 5 of its 5 seeds was not finite (fig3)"
    got = verdicts(fig4.claims({("pong", fig4.ONE): unknown, ("pong", fig4.SIX): made(10)}))
    assert got["fig4-better"] == "confirmed"
    assert got["fig4-smaller-q"] == got["fig4-overestimation"] == "untested"


def test_double_that_still_over_estimates_is_a_reason():
    found = {("pong", horizon.FULL): made(9, over=3.0), ("pong", horizon.FULL_DOUBLE): made(5, over=3.5)}
    claim = next(c for c in horizon.claims(found) if c.id == "horizon-double")
    assert claim.verdict == "refuted"
    assert "over-estimation is 0.50" in claim.reason
    found |= {("pong", horizon.FULL_DOUBLE): made(5, over=2.0), ("pong", horizon.ONE_STEP): made(5, over=0.5)}
    claim = next(c for c in horizon.claims(found) if c.id == "horizon-double")
    assert "over-estimates less, but still by 2.00" in claim.reason
    found["pong", horizon.ONE_STEP] = made(5, over=2.5)
    claim = next(c for c in horizon.claims(found) if c.id == "horizon-double")
    assert claim.reason == f"Pong: {NOT_KNOWN}"


def test_every_failure_has_a_reason_and_nothing_else_has():
    found, setting = {}, {"ensemble": 6, "n": 3, "lambda_": 0.7}
    for task in TASKS:
        found |= everyone(task, made(5), made(10, setting=setting))
    claims = performance_claims.claims(found)
    assert {claim.verdict for claim in claims} >= {"refuted", "confirmed"}
    assert all(bool(claim.reason) == (claim.verdict in WITH_REASON) for claim in claims)
    assert len({claim.id for claim in claims}) == len(claims)

"""The experiment on Figure 2: what it measures with, how it judges, and what it hands on."""

import json

import numpy as np
import pytest

from greedystep import envs, io
from greedystep.experiments import fig2
from greedystep.experiments.claims import NOT_KNOWN, VERDICTS
from greedystep.experiments.fig2 import delayed, grid_world, toy_claims
from greedystep.tabular import collect, episodes_to_solve, greedy_policy, replay, rudder_episodes_to_solve

TINY = {
    "delays": {"trace-back": [4, 5, 6], "choice": [3, 4, 6]},
    "epsilons": [1.0],
    "trials": {"fast": 4, "medium": 2, "slow": 3},
    "limit": 600,
    "noise": [0.0, 0.5],
    "noisy_delay": 3,
    "noisy_episodes": 300,
    "sizes": [3, 4, 5],
    "logged": 4,
    "offline_trials": 2,
}


def run_tiny(**more):
    shares, words = [], []

    def progress(share, what):
        shares.append(share)
        words.append(what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fig2.SCALES, "quick", TINY)
        result = fig2.run("quick", progress, **more)
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] == pytest.approx(1.0)
    assert words[-1].startswith("0 of ") or "already" in words[-1]
    return result


@pytest.fixture(scope="module")
def tiny():
    return run_tiny()


# -- the contract -----------------------------------------------------------------------------------------------------


def test_figures_and_tables_come_from_the_json_alone(tiny):
    stored = json.loads(json.dumps(io.jsonable(tiny)))
    assert set(stored) == {"title", "settings", "numbers", "claims"}
    drawn, tables = fig2.draw(stored), fig2.tables(stored)
    assert set(drawn) == {"fig2", "order", "limits"}
    assert all(figure.axes for figure in drawn.values())
    assert all(table.rows for table in tables)
    assert tables[0].id == fig2.NAME
    assert len({table.id for table in tables}) == len(tables)


def test_claims_are_complete(tiny):
    assert all(claim["verdict"] in VERDICTS for claim in tiny["claims"])
    assert len({claim["id"] for claim in tiny["claims"]}) == len(tiny["claims"]) == 8
    assert all(claim["id"].startswith("fig2-") for claim in tiny["claims"])


def test_the_same_run_gives_the_same_numbers_whatever_the_threads_do(tiny):
    assert io.jsonable(run_tiny()) == io.jsonable(tiny)


def test_every_trial_is_there_and_those_given_up_are_marked(tiny):
    for task in ("choice", "trace-back"):
        for row in tiny["numbers"][task]:
            count = delayed.trials_of(TINY, task, row["method"])
            assert len(row["solved"]["trials"]) == len(row["seen"]["trials"]) == count
            assert row["censored"] == row["solved"]["trials"].count(None)
            assert all(one is None or 1 <= one <= 600 for one in row["solved"]["trials"])
    lost = [row for row in tiny["numbers"]["trace-back"] if row["censored"]]
    assert lost  # 600 episodes are too few for Q(λ)
    texts = {cell for table in fig2.tables(tiny) for row in table.rows for cell in row if isinstance(cell, str)}
    assert any(text.startswith("> 600") and "unsolved" in text for text in texts)


# -- what it measures -------------------------------------------------------------------------------------------------


def test_a_row_is_its_trials_one_by_one(tiny):
    for row in (*tiny["numbers"]["trace-back"][::4], *tiny["numbers"]["exploration"]):
        task, seeds = delayed.make("trace-back", row["delay"]), range(len(row["solved"]["trials"]))
        found = [delayed.trial(task, row["method"], seed=s, limit=600, epsilon=row["epsilon"]) for s in seeds]
        assert row["solved"]["trials"] == [one.solved for one in found]
        assert row["seen"]["trials"] == [one.seen for one in found]


def test_with_noise_the_share_of_right_choices_is_counted(tiny):
    assert [(row["noise"], row["method"]) for row in tiny["numbers"]["noise"]] == [
        (level, method) for level in TINY["noise"] for method in delayed.NOISE_METHODS
    ]
    model = [row["right"] for row in tiny["numbers"]["noise"] if row["method"] == "model"]
    assert model[0] == 1.0
    assert all(row["right"] * row["trials"] == int(row["right"] * row["trials"]) for row in tiny["numbers"]["noise"])


@pytest.mark.parametrize("method", delayed.METHODS)
def test_a_trial_counts_as_the_library_counts(method):
    task, how = delayed.make("choice", 5), delayed.METHODS[method]
    same = {"limit": 400, "seed": 3, "resolution": 0.02 if how.pace == "slow" else 0.001}
    if how.method is None:
        expected = rudder_episodes_to_solve(task, **same)
    else:
        expected = episodes_to_solve(task, how.method, **same, **how.options)
    assert delayed.trial(task, method, seed=3, limit=400).solved == expected


def test_seen_is_the_first_episode_with_the_best_return(monkeypatch):
    task = delayed.make("choice", 3)
    returns = iter([[0.5], [0.5], [1.0], [0.5], [1.0]])
    monkeypatch.setattr(delayed, "learner", lambda *_, **__: lambda n: (np.zeros((5, 2)), np.array(next(returns))))
    assert delayed.trial(task, "greedy-step", seed=0, limit=5) == (None, 3)


def test_greedy_step_solves_when_it_sees():
    task = delayed.make("trace-back", 8)
    trials = [delayed.trial(task, "greedy-step", seed=seed, limit=5000) for seed in range(20)]
    assert all(one.solved == one.seen for one in trials)


@pytest.mark.parametrize(
    ("trials", "low", "median", "high"),
    [
        ([5, 1, 3, 2, 4], 2.5, 3.0, 3.5),
        ([1, 2, 3, 4], 2.0, 2.5, 3.0),
        ([7], 7.0, 7.0, 7.0),
        ([1, None, 3, None, 2], 2.5, 3.0, None),
        ([None, 1, None], None, None, None),
        ([1, None], 1.0, None, None),
    ],
)
def test_trials_that_were_given_up_count_as_the_longest(trials, low, median, high):
    assert delayed.summary(trials) == {"trials": trials, "low": low, "median": median, "high": high}


def test_quality_is_one_for_the_best_policy_and_zero_for_never_arriving():
    task = envs.make_task("toy/grid-world", size=4)
    down_right = np.zeros((16, 4))
    down_right[:, 2] = 1.0
    down_right[12:, 1] = 2.0
    assert grid_world.quality(task, down_right) == pytest.approx(1.0)
    up = np.zeros((16, 4))
    up[:, 0] = 1.0
    assert grid_world.quality(task, up) == pytest.approx(0.0)


@pytest.mark.parametrize("size", [2, 5, 9])
def test_quality_is_that_of_the_exact_return(size):
    task, random = envs.make_task("toy/grid-world", size=size), np.random.default_rng(size)
    low = task.lowest_return
    for levels in (1, 2, 3, 100):
        q = random.integers(levels, size=(size * size, 4)).astype(float)
        exact = (task.expected_return(greedy_policy(q)) - low) / (task.optimal_return - low)
        assert grid_world.quality(task, q) == exact


def test_passes_are_counted_until_the_policy_is_good():
    task = envs.make_task("toy/grid-world", size=5)
    log = collect(task, episodes=10, seed=1)
    slow = grid_world.OFFLINE_METHODS["q-learning"]
    first, passes = grid_world.learn_from_log(task, log, slow)
    assert passes in grid_world.PASSES[1:]
    low = np.full((25, 4), task.lowest_return)

    def after(sweeps):
        return grid_world.quality(task, replay(log, low, "q-learning", discount=0.99, sweeps=sweeps, alpha=0.1))

    assert after(1) == pytest.approx(first)
    assert after(passes) >= grid_world.GOOD > after(grid_world.PASSES[grid_world.PASSES.index(passes) - 1])
    # From 0, actions that the log does not show stay the best: no number of passes helps.
    assert (
        grid_world.learn_from_log(task, collect(task, episodes=1, seed=1), grid_world.OFFLINE_METHODS["forward-zero"])[
            1
        ]
        is None
    )


# -- growth -----------------------------------------------------------------------------------------------------------


def row(task, delay, method, median, seen=None, epsilon=0.2, trials=50):
    """Trials around a median, or given up where there is none."""
    found = (
        [None] * trials
        if median is None
        else [float(round(median * factor, 6)) for factor in np.linspace(0.9, 1.1, trials)]
    )
    first = median if seen is None else seen
    trials = [delayed.Trial(one, first) for one in found]
    return delayed.row(trials, task=task, delay=delay, method=method, epsilon=epsilon, limit=10**6)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5])
def test_a_power_is_recognised(exponent):
    found = toy_claims.growth([row("t", delay, "m", 3 * delay**exponent) for delay in (5, 10, 20, 40)])
    assert found.exponent == pytest.approx(exponent, abs=0.01)
    assert found.low < exponent < found.high
    assert exponent == 0 or not found.exponential


def test_an_exponential_is_recognised():
    found = toy_claims.growth([row("t", delay, "m", 2.0**delay) for delay in (5, 8, 10, 12)])
    assert found.exponential
    assert found.low > 1


def test_growth_needs_three_medians():
    assert toy_claims.growth([row("t", delay, "m", 7.0) for delay in (5, 8)]) is None
    assert toy_claims.growth([row("t", delay, "m", None if delay == 8 else 7.0) for delay in (5, 8, 10)]) is None


# -- how it judges ----------------------------------------------------------------------------------------------------

DELAYS = (6, 10, 15, 20)
MEDIANS = {
    "greedy-step": lambda d: 40.0,
    "backward": lambda d: 40.0,
    "rudder": lambda d: 800.0,
    "watkins": lambda d: 400.0 * d**2,
    "peng": lambda d: 400.0 * d**2,
    "sarsa-lambda": lambda d: 300.0 * d**2.3,
}
QUALITY = {"greedy-step": [1, 1, 1], "backward": [1, 1, 1], "q-learning": [0.9, 0.5, 0.1]}
QUALITY |= {"forward": [1, 0.8, 0.5], "forward-zero": [0.5, 0.3, 0.2]}


def numbers(medians=None, epsilon_one=11.0, quality=None, tasks=("choice", "trace-back"), seen=None):
    """Made-up results: `medians` (method -> delay -> median) are changed in these tasks."""
    made = {}
    for task in ("choice", "trace-back"):
        chosen = MEDIANS | (medians or {} if task in tasks else {})
        made[task] = [row(task, d, method, median(d), seen) for method, median in chosen.items() for d in DELAYS]
    made["exploration"] = [row("trace-back", d, "greedy-step", epsilon_one, seen, epsilon=1.0) for d in DELAYS]
    made["offline"] = [
        {"size": size, "method": method, "mean_quality": share}
        for method, shares in (QUALITY | (quality or {})).items()
        for size, share in zip((5, 10, 20), shares, strict=True)
    ]
    return made


@pytest.mark.parametrize(
    ("rule", "change", "verdict"),
    [
        (toy_claims.about_twenty, {}, "confirmed"),
        (toy_claims.about_twenty, {"medians": {"greedy-step": lambda d: 41.0}}, "partly"),
        (toy_claims.about_twenty, {"medians": {"greedy-step": lambda d: 41.0}, "epsilon_one": 9.0}, "refuted"),
        (toy_claims.about_twenty, {"medians": {"greedy-step": lambda d: None}, "epsilon_one": None}, "refuted"),
        (toy_claims.no_growth, {}, "confirmed"),
        (toy_claims.no_growth, {"medians": {"greedy-step": lambda d: d**1.0}, "tasks": ["choice"]}, "partly"),
        (toy_claims.no_growth, {"medians": {"greedy-step": lambda d: d**1.0}}, "refuted"),
        (toy_claims.no_growth, {"medians": {"greedy-step": lambda d: d**0.5}}, "undecided"),
        (toy_claims.no_growth, {"medians": {"greedy-step": lambda d: None}}, "untested"),
        (toy_claims.steep_growth, {}, "partly"),
        (toy_claims.steep_growth, {"medians": {"watkins": lambda d: 2.0**d}}, "confirmed"),
        (toy_claims.steep_growth, {"medians": {"watkins": lambda d: d**0.8}}, "refuted"),
        (toy_claims.steep_growth, {"medians": {"watkins": lambda d: None}}, "untested"),
        (toy_claims.more_than_thousand, {}, "refuted"),
        (toy_claims.more_than_thousand, {"medians": {"rudder": lambda d: 80.0 * d}}, "partly"),
        (toy_claims.more_than_thousand, {"medians": {"rudder": lambda d: 1001.0}}, "confirmed"),
        (toy_claims.outperforms, {}, "confirmed"),
        (toy_claims.outperforms, {"medians": {"peng": lambda d: 40.0}, "tasks": ["choice"]}, "partly"),
        (toy_claims.outperforms, {"medians": {"rudder": lambda d: 39.0}}, "refuted"),
        (toy_claims.outperforms, {"medians": {"greedy-step": lambda d: None}}, "refuted"),
        (toy_claims.looking_ahead, {}, "refuted"),
        (toy_claims.looking_ahead, {"medians": {"backward": lambda d: 60.0}}, "partly"),
        (toy_claims.looking_ahead, {"medians": {"backward": lambda d: 80.0}}, "confirmed"),
        (toy_claims.looking_ahead, {"medians": {"backward": lambda d: None}}, "confirmed"),
        (toy_claims.looking_ahead, {"medians": {"greedy-step": lambda d: None}}, "untested"),
        (toy_claims.wider_gap, {}, "confirmed"),
        (toy_claims.wider_gap, {"quality": {"forward": [1, 1, 1]}}, "partly"),
        (toy_claims.wider_gap, {"quality": {"greedy-step": [0.9, 0.5, 0.1]}}, "refuted"),
        (toy_claims.like_published, {}, "confirmed"),
        (toy_claims.like_published, {"medians": {"rudder": lambda d: 100.0}}, "partly"),
        (
            toy_claims.like_published,
            {"medians": dict.fromkeys(("rudder", "watkins", "sarsa-lambda"), lambda d: 100.0)},
            "refuted",
        ),
    ],
)
def test_every_verdict_has_its_numbers(rule, change, verdict):
    claim = rule(numbers(**change))
    assert claim.verdict == verdict
    assert claim.measured


def test_what_fails_says_why_where_the_experiment_knows():
    assert "share of random actions" in toy_claims.about_twenty(numbers(medians={"greedy-step": lambda d: 41.0})).reason
    assert toy_claims.about_twenty(numbers()).reason == ""
    assert "like a power too" in toy_claims.steep_growth(numbers()).reason
    assert "published fewer" in toy_claims.more_than_thousand(numbers()).reason
    assert "from the end of an episode" in toy_claims.looking_ahead(numbers()).reason
    assert toy_claims.outperforms(numbers(medians={"rudder": lambda d: 39.0}, seen=30.0)).reason == NOT_KNOWN
    as_good = numbers(medians={"peng": lambda d: 40.0}, tasks=["choice"], seen=40.0)
    assert toy_claims.outperforms(as_good).reason.startswith("choice: it is solved when the best return is first seen")
    nothing = numbers(quality={"q-learning": [0.1, 0.02, 0.01]})
    assert toy_claims.wider_gap(nothing).reason.startswith(
        "Q-learning, α = 0.1: next to nothing is learned from size 10"
    )
    assert toy_claims.wider_gap(numbers(quality={"forward": [1, 1, 1]})).reason == NOT_KNOWN


def test_where_exploration_explains_a_figure_it_is_said():
    assert "exploration alone explains all" in toy_claims.about_twenty(numbers()).measured
    assert "exploration alone" not in toy_claims.about_twenty(numbers(seen=5.0)).measured
    assert toy_claims.by_exploration_alone(row("t", 5, "m", 44.0, seen=40.0)) is True
    assert toy_claims.by_exploration_alone(row("t", 5, "m", 45.0, seen=40.0)) is False
    assert toy_claims.by_exploration_alone(row("t", 5, "m", None)) is None


def test_the_published_growth_of_q_lambda_stands_beside_ours():
    said = toy_claims.steep_growth(numbers()).measured
    assert said.endswith("the medians published for RUDDER's Task III: 2.10, nearer to a power of the delay")


def test_a_gap_of_nothing_has_no_sign():
    claim = toy_claims.wider_gap(numbers(quality={"backward": [1, 1, 1.001]}))
    assert claim.measured.endswith("backward Q-learning: 0.00 to 0.00, widest 0.00")


def test_what_was_published_is_looked_up_by_delay():
    assert delayed.published("rudder", 20) == 699
    assert delayed.published("watkins", 25) is None
    assert delayed.published("rudder", 7) is None
    assert delayed.published("model", 20) is None

"""The contest of auto with fixed settings: what is trained, how it is normalised and judged, on made-up trainings."""

import numpy as np
import pytest
from deep_experiments import silent

from greedystep.experiments import auto, settings
from greedystep.experiments.claims import UNDECIDED
from greedystep.experiments.deep.protocol import SELECTION_SEEDS
from greedystep.experiments.deep.suite import FIGURE_3


def test_fixed_settings_are_chosen_on_seeds_of_their_own_and_auto_is_never_chosen(made_up, tmp_path):
    result = auto.run("quick", silent, tmp_path)
    cells = [one for one in made_up.trained if one[2] in SELECTION_SEEDS]
    fresh = [one for one in made_up.trained if one[2] not in SELECTION_SEEDS]
    (grid,) = settings.SCALES["quick"]
    assert len(cells) == len(grid.cells) * len(SELECTION_SEEDS)
    assert [setting for _, setting, _, _ in fresh].count(auto.AUTO_SETTING) == 2
    assert [setting for _, setting, _, _ in fresh].count(auto.RANDOM_PLAY) == 1
    methods = result["numbers"]["tasks"]["mountaincar"]["methods"]
    assert set(methods) == {auto.AUTO, auto.BEST}  # one task: no single setting for all
    assert methods[auto.BEST]["setting"] == {"returns": "lambda", "lambda_": 0.7, "ensemble": 1, "learning_rate": 1e-4}
    assert result["numbers"]["missing"] == []
    before = len(made_up.trained)
    assert auto.run("quick", silent, tmp_path)["claims"] == result["claims"]
    assert len(made_up.trained) == before
    assert set(auto.draw(result)) == {"auto", "auto-heads"}
    assert [table.id for table in auto.tables(result)] == ["auto", "auto-final"]


def test_all_nine_tasks_are_asked_for_at_full_length_on_ten_fresh_seeds():
    assert [contest.grid.task for contest in auto.SCALES["paper"]] == list(FIGURE_3)
    assert {len(contest.seeds) for contest in auto.SCALES["paper"]} == {10}
    assert not {seed for contest in auto.SCALES["paper"] for seed in contest.seeds} & set(SELECTION_SEEDS)
    assert auto.SCALES["paper"][0].steps == 5_000_000


def task(auto_returns, best_returns, single_returns, random=0.0):
    returns = {auto.AUTO: auto_returns, auto.BEST: best_returns, auto.SINGLE: single_returns}
    methods = {role: {"final": {"returns": values}} for role, values in returns.items()}
    return {"title": "Task", "random_play": random, "methods": methods}


def test_scores_are_zero_for_random_play_and_one_for_the_best_fixed_setting():
    tasks = {"a": task([30.0, 10.0], [20.0, 22.0], [10.0, 11.0], random=10.0)}
    np.testing.assert_allclose(auto._scores(tasks, auto.AUTO)["a"], [20 / 11, 0.0])
    np.testing.assert_allclose(auto._scores(tasks, auto.BEST)["a"].mean(), 1.0)
    assert auto._scores({"a": task([1.0], [5.0], [1.0], random=None)}, auto.AUTO) == {}
    assert auto._scores({"a": task([1.0], [5.0], [1.0], random=6.0)}, auto.AUTO) == {}  # the best is no better


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([1.0, 1.2], "confirmed"),
        ([0.96, 1.2], "partly"),  # the first CI contains 0.95
        ([0.9, 1.2], "partly"),
        ([0.94, 0.96], "undecided"),
        ([0.9, 0.8], "refuted"),
        ([1.2], "untested"),
    ],
)
def test_auto_is_as_good_if_it_is_on_every_task(means, verdict):
    seeds = np.linspace(-0.03, 0.03, 10)
    scores = {
        auto.AUTO: {str(i): mean + seeds for i, mean in enumerate(means)},
        auto.BEST: {str(i): 1 + seeds for i in range(len(means))},
    }
    claim = auto.as_good(scores, {str(i): {"title": f"Task {i}"} for i in range(len(means))})
    assert claim.verdict == verdict
    if means == [0.96, 1.2]:
        assert claim.brief == "0.95 or more on 2 of 2 tasks (95 % CI above 0.95 on 1)"
        assert claim.reason == f"Task 0: {UNDECIDED}"
    if means == [0.9, 1.2]:
        assert claim.reason == "Task 0: behind"


def test_the_seeds_of_the_best_setting_widen_the_interval_too():
    seeds = np.linspace(-0.3, 0.3, 10)
    exact, noisy = (
        auto.scores_beside_best({auto.AUTO: {"a": 1 + seeds}, auto.BEST: {"a": best}}, auto.AUTO)["a"]
        for best in (np.ones(10), 1 + seeds)
    )
    assert noisy.estimate == pytest.approx(exact.estimate)
    assert noisy.high - noisy.low > 1.3 * (exact.high - exact.low)


def test_a_task_without_trainings_keeps_auto_from_being_as_good():
    tasks = {name: {"title": name} for name in ("Pong", "Catcher", "Asterix")}
    seeds = {"Pong": np.full(5, 1.0), "Catcher": np.full(5, 1.1)}
    claim = auto.as_good({auto.AUTO: seeds, auto.BEST: {task: np.ones(5) for task in seeds}}, tasks)
    assert (claim.verdict, claim.reason, claim.brief) == (
        "partly",
        "Asterix: not trained",
        "0.95 or more on 2 of 3 tasks (95 % CI above 0.95 on 2)",
    )


@pytest.mark.parametrize(("shift", "verdict"), [(0.5, "confirmed"), (-0.5, "refuted"), (0.0, "undecided")])
def test_auto_is_better_than_the_single_setting_if_the_interval_says_so(shift, verdict):
    noise = np.random.default_rng(0).normal(size=(2, 10)) / 10
    scores = {auto.AUTO: {"a": noise[0] + shift}, auto.SINGLE: {"a": noise[1]}}
    assert auto.better_than_single(scores).verdict == verdict
    assert auto.better_than_single({auto.AUTO: {"a": noise[0]}, auto.SINGLE: {}}).verdict == "untested"

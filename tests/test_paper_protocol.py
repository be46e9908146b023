"""The paper's protocol in full: what is tried and trained, and how it is judged, on made-up trainings."""

import deep_experiments
import pytest
from deep_experiments import silent

from greedystep.experiments import paper_protocol
from greedystep.experiments.deep.protocol import SELECTION_SEEDS
from greedystep.experiments.deep.suite import GREEDY, PAPER

GAMES = ("breakout", "seaquest", "space-invaders")
SETTINGS = {"dqn": 5, "maxmin": 20, "multi-step": 15, "sarsa": 15, GREEDY: 20}


def test_the_whole_grid_is_tried_on_two_seeds_and_the_choice_trained_on_five_others(made_up, tmp_path):
    result = paper_protocol.run("paper", silent, tmp_path, ("breakout",))
    chosen_on = [one for one in made_up.trained if one[2] in SELECTION_SEEDS]
    assert len(chosen_on) == 2 * sum(SETTINGS.values())
    assert {steps for *_, steps in chosen_on} == {2_000_000}
    fresh = [one for one in made_up.trained if one[2] not in SELECTION_SEEDS]
    assert {(seed, steps) for _, _, seed, steps in fresh} == {(seed, 5_000_000) for seed in range(5)}
    assert len(fresh) == 5 * len(PAPER)
    (task,) = (one for one in result["numbers"]["tasks"].values() if one["methods"])
    assert {method: len(one["tried"]) for method, one in task["methods"].items()} == SETTINGS
    assert all(one["curves"]["greedy_returns"] for one in task["methods"].values())
    tables = {table.id: table for table in paper_protocol.tables(result)}
    tried = tables["protocol-settings"]
    assert len(tried.rows) == sum(SETTINGS.values())
    assert sum(row[-1] for row in tried.rows) == len(PAPER)


def test_one_environment_batches_of_32_and_the_rates_of_the_paper(made_up, tmp_path):
    from greedystep.experiments.deep.training import RunSpec

    for method, grid in paper_protocol.GRIDS.items():
        rates = {setting["learning_rate"] for setting in grid}
        assert rates == {3e-3, 1e-3, 3e-4, 1e-4, 3e-5}, method
        config = RunSpec("breakout", "paper", grid[0], 0).config
        assert (config.num_envs, config.batch_size, config.updates) == (1, 32, 1)
    assert {setting["ensemble"] for setting in paper_protocol.GRIDS[GREEDY]} == {1, 2, 4, 6}


@pytest.mark.parametrize(("base", "verdict"), [(40.0, "confirmed"), (10.0, "refuted")])
def test_both_kinds_of_return_are_judged(base, verdict, made_up, tmp_path, monkeypatch):
    monkeypatch.setitem(deep_experiments.BASE, "greedy-step", base)
    claims = paper_protocol.run("paper", silent, tmp_path, GAMES)["claims"][:2]
    assert [claim["verdict"] for claim in claims] == [verdict, verdict]
    assert "Breakout: " in claims[0]["measured"]
    assert "times Maxmin DQN" in claims[0]["measured"]


def test_a_claim_about_three_games_waits_for_all_of_them(made_up, tmp_path):
    *ratios, like_published = paper_protocol.run("paper", silent, tmp_path, GAMES[:2])["claims"]
    assert like_published["verdict"] == "untested"
    for claim in ratios:
        assert claim["verdict"] == "untested"
        assert "Seaquest: " in claim["measured"]
        assert "Space Invaders: not trained" in claim["measured"]


def test_without_trainings_nothing_is_judged():
    assert {claim.verdict for claim in paper_protocol.claims({})} == {"untested"}

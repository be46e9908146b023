"""Evaluation along the training: what is trained, and how it is judged, on made-up trainings."""

import deep_experiments
import pytest
from deep_experiments import silent

from greedystep.experiments import greedy_curves as evaluation
from greedystep.experiments.deep.protocol import SELECTION_SEEDS, runs_of
from greedystep.experiments.deep.runner import RunStore
from greedystep.experiments.deep.suite import PAPER

GAMES = ("breakout", "seaquest", "space-invaders")


def test_the_settings_of_figure_3_are_trained_anew_on_seeds_of_their_own(made_up, tmp_path):
    evaluation.run("paper", silent, tmp_path, ("breakout",))
    fresh = [one for one in made_up.trained if one[2] not in SELECTION_SEEDS]
    assert {(seed, steps) for _, _, seed, steps in fresh} == {(seed, 5_000_000) for seed in range(100, 105)}
    assert len(fresh) == 5 * len(PAPER)
    (protocol,) = (one for one in evaluation.SCALES["paper"] if one.task == "breakout")
    runs = runs_of(RunStore(tmp_path), protocol, "dqn")
    assert runs is not None
    assert runs.greedy_returns is not None
    assert runs.greedy_returns.shape == runs.returns.shape


@pytest.mark.parametrize(("base", "times", "verdict"), [(26.0, "1.98", "confirmed"), (10.0, "1.00", "refuted")])
def test_greedy_play_is_compared_with_greedy_play(base, times, verdict, made_up, tmp_path, monkeypatch):
    """Made up so that Greedy-Step DQN gets so many times the best baseline, Maxmin DQN with 16."""
    monkeypatch.setitem(deep_experiments.BASE, "greedy-step", base)
    twice, over = evaluation.run("paper", silent, tmp_path, GAMES)["claims"]
    assert twice["verdict"] == verdict
    assert f"Breakout: {times}" in twice["measured"]
    assert over["verdict"] == "refuted"  # six networks instead of one


def test_the_table_has_both_kinds_of_return(made_up, tmp_path):
    (table,) = evaluation.tables(evaluation.run("paper", silent, tmp_path, ("breakout",)))
    row = next(row for row in table.rows if row[:2] == ["Breakout", "DQN"])
    assert row[4] == pytest.approx(2 * row[3], rel=0.05)
    assert row[6] == pytest.approx(row[5] - 1)


def test_trainings_without_evaluations_are_not_judged():
    assert {claim.verdict for claim in evaluation.claims({})} == {"untested"}

"""Fixed rules by number of networks and learning rate: what is trained, what is said of it, on made-up trainings."""

import numpy as np
import pytest
from deep_experiments import silent

from greedystep.experiments import settings
from greedystep.experiments.deep.protocol import SELECTION_SEEDS
from greedystep.experiments.deep.suite import FIGURE_3


def grid_of(cells):
    """A map of one task with one rule per entry, one network and one learning rate."""
    return {
        "title": "Task",
        "steps": 1000,
        "rules": list(cells),
        "columns": [[1, 1e-4]],
        "cells": [{"rule": k, "ensemble": 1, "learning_rate": 1e-4, "returns": v} for k, v in cells.items()],
    }


def test_every_rule_is_trained_with_every_number_of_networks_and_rate(made_up, tmp_path):
    result = settings.run("paper", silent, tmp_path, ["breakout"])
    assert {task for task, *_ in made_up.trained} == {"breakout"}
    assert len(made_up.trained) == len(settings.RULES) * 3 * 3 * len(SELECTION_SEEDS)
    assert {seed for *_, seed, _ in made_up.trained} == set(SELECTION_SEEDS)
    assert len(result["numbers"]["maps"]["breakout"]["cells"]) == len(settings.RULES) * 9
    assert f"Seaquest: 0 of {len(settings.RULES) * 9} settings are trained" in result["numbers"]["missing"]
    assert not any(sentence.startswith("Breakout") for sentence in result["numbers"]["missing"])
    before = len(made_up.trained)
    assert settings.run("paper", silent, tmp_path, ["breakout"])["claims"] == result["claims"]
    assert len(made_up.trained) == before


def test_lanes_that_differ_in_numbers_alone_share_a_program():
    (grid,) = (grid for grid in settings.SCALES["paper"] if grid.task == "asterix")
    sizes = sorted(len(lanes) for lanes in grid.programs())
    # The three λ of Peng's Q(λ) are lanes of one program, and so are one-step and n-step returns.
    assert sizes == [6] * 6 + [18] * 6
    assert [grid.task for grid in settings.SCALES["paper"]] == list(FIGURE_3)


def test_shares_lie_between_the_worst_and_the_best_cell():
    shares = settings.shares(grid_of({"one-step": [0.0, 2.0], "Watkins": [5.0, 5.0], "greedy-step": [3.0, 3.0]}))
    assert list(shares.values()) == [0.0, 1.0, 0.5]
    assert settings.shares(grid_of({"one-step": [1.0, 1.0]})) == {}
    lost = settings.shares(grid_of({"one-step": [np.nan, 9.0], "Watkins": [1.0, 1.0], "greedy-step": [0.0, 0.0]}))
    assert list(lost.values()) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ({"one-step": [9.8], "Watkins": [10.0], "greedy-step": [0.0]}, {}, "confirmed"),
        ({}, {"one-step": [1.0], "Watkins": [10.0], "greedy-step": [9.0]}, "partly"),
        (
            {"one-step": [10.0], "Watkins": [0.0], "greedy-step": [8.0]},
            {"one-step": [0.0], "Watkins": [10.0], "greedy-step": [8.0]},
            "refuted",
        ),
    ],
)
def test_one_setting_for_all_is_judged_by_its_share_on_each_task(first, second, verdict):
    usual = {"one-step": [10.0], "Watkins": [5.0], "greedy-step": [0.0]}
    claim = settings.one_for_all({"breakout": grid_of(first or usual), "freeway": grid_of(second or usual)})
    assert claim.verdict == verdict


def test_a_single_task_or_one_that_is_not_complete_judges_nothing():
    whole, half = (grid_of({"one-step": [1.0], "Watkins": [2.0]}) for _ in range(2))
    half["cells"].pop()
    for maps in ({"breakout": whole}, {"breakout": whole, "freeway": half}, {}):
        claim = settings.one_for_all(maps)
        assert (claim.verdict, claim.reason) == ("untested", "")


def test_figures_and_tables_come_from_the_result_alone(made_up, tmp_path):
    result = settings.run("paper", silent, tmp_path, ["breakout", "pong"])
    assert set(settings.draw(result)) == {"settings"}
    best, cells = settings.tables(result)
    assert [row[0] for row in best.rows] == ["Breakout", "Pong"]
    assert best.rows[0][1] == "greedy-step, 4 networks, lr 0.0001"  # the best by construction
    assert len(cells.rows) == 2 * len(settings.RULES) * 9


def test_what_was_chosen_is_trained_on_fresh_seeds_once_all_maps_are_complete(made_up, tmp_path, monkeypatch):
    two = [grid for grid in settings.SCALES["paper"] if grid.task in ("breakout", "pong")]
    monkeypatch.setitem(settings.SCALES, "paper", two)
    settings.run("paper", silent, tmp_path, ["breakout"])
    assert not any(seed in settings.FRESH_SEEDS for *_, seed, _ in made_up.trained)
    result = settings.run("paper", silent, tmp_path)
    fresh = [one for one in made_up.trained if one[2] in settings.FRESH_SEEDS]
    assert {(task, steps) for task, _, _, steps in fresh} == {("breakout", 5_000_000), ("pong", 5_000_000)}
    best = "greedy-step, 4 networks, lr 0.0001"  # by construction, for each task and for all
    assert result["numbers"]["fresh"]["pong"]["best single"]["setting"] == best
    assert len(result["numbers"]["fresh"]["pong"]["best of the task"]["returns"]) == len(settings.FRESH_SEEDS)
    (table,) = (table for table in settings.tables(result) if table.id == "settings-fresh")
    assert [row[:2] for row in table.rows[:2]] == [["Breakout", "best of the task"], ["Breakout", "best single"]]
    assert all(low <= mean <= high for *_, mean, low, high, _ in table.rows)

"""The benchmark of learning from logs: its scores, targets and table, on made-up fits. No timing is judged here."""

import pytest

from benchmarks import offline
from greedystep.io import read_json

CAR = "classic/mountaincar"


@pytest.fixture
def made_up(monkeypatch):
    """Logs with returns 0 and 100, and fits that return what `plays` says by package and method."""
    plays = {"auto": [5.0]}

    class Fit:
        def __init__(self, task, setting, rows):
            self.setting = setting

        def run(self, log):
            return {"returns": plays[self.setting["returns"]], "microseconds": 100.0}

    monkeypatch.setattr(offline, "LaneFit", Fit)
    monkeypatch.setattr(offline, "fit_peer", lambda task, name, log: {"returns": plays[name], "microseconds": 450.0})
    monkeypatch.setattr(offline, "make_logs", lambda task, folder: {"random": ["r"], "expert": ["e"]})
    monkeypatch.setattr(offline, "behaviour_return", lambda log: {"r": 0.0, "e": 100.0}[log[0]])
    return plays


def test_the_better_of_the_peers_sets_the_target(made_up, monkeypatch, tmp_path):
    made_up |= {"lambda": [88.0, 92.0], "greedy-step": [10.0, 10.0], "one-step": [0.0, 0.0]}
    made_up |= {"DQN": [50.0, 50.0], "CQL": [98.0, 102.0], "BC": [900.0, 900.0]}
    monkeypatch.setattr(offline, "peer_is_installed", lambda: True)
    result = offline.run(tmp_path, 2, [CAR])
    assert read_json(tmp_path / "offline.json")["rows"] == result["rows"]
    assert offline.scores(result)[CAR, "expert", "greedystep", offline.DEFAULT] == pytest.approx(0.9)
    values = {target["what"].removeprefix(CAR).split(":")[0]: target for target in result["targets"]}
    assert [values[kind]["value"] for kind in (", random log", ", expert log")] == pytest.approx([0.9, 0.9])
    assert [(one["value"], one["met"]) for what, one in values.items() if what == ""] == [(4.5, True)]
    assert not values[", expert log"]["met"]
    text = (tmp_path / "offline.md").read_text(encoding="utf-8")
    assert f"| {CAR} | expert | d3rlpy | CQL | 100 | 98 to 102 | 1.00 | 450 |" in text


def test_without_the_peer_there_is_a_table_of_ours(made_up, monkeypatch, tmp_path):
    made_up |= {"lambda": [1.0], "greedy-step": [2.0], "one-step": [3.0]}
    monkeypatch.setattr(offline, "peer_is_installed", lambda: False)
    result = offline.run(tmp_path, 1, [CAR])
    assert {row["package"] for row in result["rows"]} == {"greedystep"}
    assert result["targets"] == []
    assert "Not installed, so not compared: d3rlpy." in (tmp_path / "offline.md").read_text(encoding="utf-8")


def test_where_the_peers_learn_nothing_the_difference_decides(made_up, monkeypatch, tmp_path):
    """A share of a score of 0 or less would mean nothing."""
    made_up |= {"lambda": [0.0], "greedy-step": [0.0], "one-step": [0.0], "DQN": [0.0], "CQL": [-5.0], "BC": [0.0]}
    monkeypatch.setattr(offline, "peer_is_installed", lambda: True)
    result = offline.run(tmp_path, 1, [CAR])
    shares = [target for target in result["targets"] if "share" in target["what"]]
    assert [target["value"] for target in shares] == [1.0, 1.0]
    assert all(target["met"] for target in shares)

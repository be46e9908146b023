"""The benchmark of training: what it records is consistent. No timing is judged here."""

import pytest

from benchmarks import train
from benchmarks.command import Bench
from benchmarks.train import markdown, speedups, targets
from greedystep.cli import main
from greedystep.deep.train_speed import TimedTrainer
from greedystep.io import read_json

CAR = "classic/mountaincar"


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(train, "SECONDS", 1e-3)
    monkeypatch.setattr(train, "TURNS", 1)
    monkeypatch.setattr(train, "AGENTS", (("one-step", 2), ("greedy-step", 2)))
    monkeypatch.setattr(train, "first_rows", lambda game: {"cold": 12.0, "warm": 3.0})


def test_without_the_peer_there_is_a_table_of_ours(monkeypatch, tmp_path):
    monkeypatch.setattr(train, "peer_is_installed", lambda: False)
    result = train.run(tmp_path, 3, [CAR])
    assert read_json(tmp_path / "train.json")["rows"] == result["rows"]
    one, greedy = result["rows"]
    assert [(row["returns"], row["ensemble"], row["lanes"]) for row in result["rows"]] == [
        *(("one-step", 2, 1), ("greedy-step", 2, 1)),
    ]
    for row in (one, greedy):
        assert len(row["rounds"]) == 3
        assert sorted(row["rounds"])[1] == row["steps_per_second"] > 0
        assert row["steps"] % 100 == 0  # whole periods
    ratios = sorted(a / b for a, b in zip(one["rounds"], greedy["rounds"], strict=True))
    assert (one["cost"], greedy["cost"]) == (None, ratios[1])
    text = (tmp_path / "train.md").read_text(encoding="utf-8")
    assert "Not installed, so not compared: stable-baselines3." in text
    assert f"| {CAR} | 12.0 | 3.0 |" in text
    assert result["memory"]["minatar/breakout"] < 8e6


def test_the_peer_is_set_beside_ours(monkeypatch):
    """A stand-in: our own agent under the other name."""
    monkeypatch.setattr(train, "peer_is_installed", lambda: True)
    monkeypatch.setattr(train, "TimedPeer", lambda game: TimedTrainer(game, "paper", 1, returns="one-step"))
    monkeypatch.setattr(train, "AGENTS", (("one-step", 1),))
    rows = train.measure(CAR, "paper", 1, 1, with_peer=True)
    assert [row["package"] for row in rows] == ["greedystep", "stable-baselines3"]
    assert speedups(rows) == {CAR: rows[0]["steps_per_second"] / rows[1]["steps_per_second"]}


def test_the_lanes_of_a_timing_count_together(monkeypatch):
    monkeypatch.setattr(train, "AGENTS", (("one-step", 1),))
    monkeypatch.setattr(TimedTrainer, "time", lambda self, steps: 0.5)
    (row,) = train.measure(CAR, "paper", 3, 1, with_peer=False)
    assert row["steps_per_second"] == 3 * row["steps"] / 0.5


def row(game, package, returns, ensemble, lanes, rate, cost=None):
    names = ("game", "package", "returns", "ensemble", "lanes", "steps_per_second", "cost", "compile_seconds")
    return dict(zip(names, (game, package, returns, ensemble, lanes, rate, cost, 1.0), strict=True))


def test_targets_are_compared_with_what_was_measured():
    rows = [
        row(CAR, "greedystep", "one-step", 1, 1, 9000.0),
        row(CAR, "greedystep", "greedy-step", 1, 1, 8000.0, 1.125),
        row(CAR, "greedystep", "auto", 3, 1, 5000.0, 1.8),
        row(CAR, "stable-baselines3", "one-step", 1, 1, 300.0),
    ]
    memory = {"minatar/breakout": 7_000_000, "minatar/seaquest": 16_000_000}
    result = {
        "rows": rows,
        "starts": [{"game": CAR, "cold": 31.0, "warm": 9.0}],
        "memory": memory,
        "absent": [],
        "load": 3.0,
    }
    met = {target["what"]: (target["value"], target["met"]) for target in targets(result, True, "paper")}
    assert met == {
        f"{CAR}: cost of greedy-step over one-step returns, ensemble 1": (1.125, False),
        f"{CAR}: cost of auto over one-step returns, 1 network": (1.8, True),
        f"{CAR}: times as fast as stable-baselines3": (30.0, True),
        f"{CAR}: seconds to the first row, never compiled before": (31.0, False),
        f"{CAR}: seconds to the first row, compiled before": (9.0, True),
        "minatar/breakout: bytes of the replay of 100,000 rows": (7_000_000, True),
        "minatar/seaquest: bytes of the replay of 100,000 rows": (16_000_000, False),
    }
    result["targets"] = targets(result, True, "paper")
    made = {"device": "cpu", "cpu": "some", "config": {"preset": "paper", "repeats": 1, "turns": 2}}
    text = markdown(result | {"provenance": made})
    assert "cost of greedy-step over one-step returns, ensemble 1 | ≤ 1.1 | 1.12 | **no** |" in text
    assert f"| {CAR} | greedystep | greedy-step | 1 | 1 | 8,000 | 1.12 | 1.0 |" in text
    assert "busy before the benchmark began (load 3.0)" in text
    assert "busy" not in markdown(result | {"provenance": made, "load": 0.2})


def test_lanes_are_added_up_on_an_accelerator():
    rows = [
        row(CAR, "greedystep", returns, ensemble, lanes, 1e5 * lanes * (2 - (ensemble == 6)), cost)
        for lanes in (1, 5)
        for returns, ensemble, cost in (("one-step", 1, None), ("greedy-step", 6, 1.05))
    ]
    memory = {"minatar/breakout": 1, "minatar/seaquest": 1}
    found = targets({"rows": rows, "starts": [], "memory": memory}, False, "fast")
    rates = {target["what"]: target["value"] for target in found if target["what"].startswith("lane-steps")}
    assert list(rates.values()) == [1e6, 5e5]
    assert all(target["met"] for target in found)
    small_batches = targets({"rows": rows, "starts": [], "memory": memory}, False, "paper")
    assert not any(target["what"].startswith("lane-steps") for target in small_batches)


def test_the_preset_and_games_that_are_asked_for():
    options = Bench(("train",), games=("seaquest",), preset="paper")._options()["train"]
    assert options == {"names": ["minatar/seaquest"], "preset": "paper"}
    assert Bench(("train",), preset="fast")._options()["train"] == {"preset": "fast"}


def test_what_cannot_be_chosen_is_refused(tmp_path, capsys):
    for words, sentence in {
        ("train", "--games", "chess"): "games: no name contains 'chess'",
        ("train", "--numbers", "0"): "numbers: expected an integer from 1 to 2147483647, got 0",
        ("returns", "--numbers", "3"): "numbers: only devices, envs and train have this option",
        ("returns", "--preset", "fast"): "preset: only train has this option",
        ("offline", "--games", "cartpole", "--numbers", "3"): "numbers: only devices, envs and train have this option",
    }.items():
        assert main(["bench", *words, "--out", str(tmp_path / "out")]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_first_row_of_a_command(tmp_path):
    assert train._first_row("toy/choice", tmp_path, "cold") > 0.1
    assert (tmp_path / "cold" / "metrics.jsonl").is_file()
    with pytest.raises(OSError, match="failed: greedystep: name"):
        train._first_row("classic/nothing", tmp_path, "bad")


def test_values_that_diverge_while_they_are_timed_are_no_concern(recwarn):
    timed = TimedTrainer(CAR, "paper", 1, returns="greedy-step", learning_rate=1e6, warmup=100)
    assert timed.time(2000) > 0
    assert len(recwarn) == 0

"""The benchmark of the environments: what it records is consistent. No timing is judged here."""

from importlib.util import find_spec

import jax
import pytest

from benchmarks import env_peers
from benchmarks import envs as bench
from benchmarks.envs import markdown, targets
from greedystep import envs
from greedystep.cli import main
from greedystep.io import read_json

BREAKOUT = "minatar/breakout"


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(bench, "SECONDS", 1e-4)


def test_without_peers_there_is_a_table_of_ours(monkeypatch, tmp_path):
    monkeypatch.setattr(env_peers, "installed", lambda package: package == "greedystep")
    result = bench.run(tmp_path, 3, [BREAKOUT], [1, 5])
    assert read_json(tmp_path / "envs.json")["rows"] == result["rows"]
    assert [(row["package"], row["number"]) for row in result["rows"]] == [("greedystep", 1), ("greedystep", 5)]
    for row in result["rows"]:
        assert len(row["rounds"]) == 3
        assert sorted(row["rounds"])[1] == row["steps_per_second"] > 0
        assert row["compile_seconds"] > 0
        assert row["length"] >= 1
    text = (tmp_path / "envs.md").read_text(encoding="utf-8")
    assert "Not installed, so not compared: pgx, gymnax." in text
    assert f"| {BREAKOUT} | 5 |" in text
    assert not list(tmp_path.glob("*.part"))


def test_the_size_of_a_state_is_that_of_its_arrays(monkeypatch):
    env = envs.make(BREAKOUT)
    (row,) = bench.measure(BREAKOUT, 1, ["greedystep"], 1)
    assert row["state_bytes"] == sum(leaf.nbytes for leaf in jax.tree.leaves(env.reset(jax.random.key(0))))


def test_peers_that_have_a_game_are_set_beside_ours(monkeypatch, tmp_path):
    """Stand-ins: our own game under the other names."""
    stand_in = env_peers._ours(BREAKOUT)
    monkeypatch.setattr(env_peers, "installed", lambda package: package != "pgx")
    monkeypatch.setattr(env_peers, "make_game", lambda package, name: stand_in)
    result = bench.run(tmp_path, 1, [BREAKOUT], [256])
    ours, theirs = (row["steps_per_second"] for row in result["rows"])
    compared = next(target for target in result["targets"] if target["what"].startswith("times as fast"))
    assert compared["value"] == pytest.approx(ours / theirs)
    assert result["absent"] == ["pgx"]
    assert "- gymnax: " in (tmp_path / "envs.md").read_text(encoding="utf-8")


def test_a_number_that_does_not_fit_is_said_to_have_failed(monkeypatch, tmp_path):
    def too_many(game, number):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory\nand so on")

    monkeypatch.setattr(env_peers, "installed", lambda package: package == "greedystep")
    monkeypatch.setattr(bench, "Loop", too_many)
    result = bench.run(tmp_path, 1, [BREAKOUT], [256])
    assert result["rows"][0]["failed"] == "RESOURCE_EXHAUSTED: out of memory"
    assert "| failed |" in (tmp_path / "envs.md").read_text(encoding="utf-8")


def row(package, game, number, rate, size=100):
    measured = {"failed": None, "compile_seconds": 1.0, "steps_per_second": rate}
    return {"package": package, "game": f"minatar/{game}", "number": number, "state_bytes": size, **measured}


def test_targets_name_the_worst_game():
    rows = [
        *(row("greedystep", "breakout", 256, 100.0), row("pgx", "breakout", 256, 80.0)),
        *(row("greedystep", "seaquest", 256, 90.0, 3000), row("pgx", "seaquest", 256, 2.0)),
        *(row("gymnax", "seaquest", 256, 3.0), row("gymnax", "breakout", 256, 125.0)),
        *(row("greedystep", "freeway", 256, 9.0), row("greedystep", "freeway", 1, 1e5)),
    ]
    size, peers, seaquest, share, single = targets(rows, on_cpu=True)
    assert (size["worst"], size["value"], size["met"]) == ("minatar/seaquest", 3000, False)
    assert (peers["worst"], peers["value"], peers["met"]) == ("minatar/breakout", 0.8, False)
    assert (seaquest["value"], seaquest["met"]) == (30, True)
    assert (share["worst"], share["value"], share["met"]) == ("minatar/freeway", 0.09, False)
    assert (single["worst"], single["value"], single["met"]) == ("minatar/freeway", 1e5, True)


def test_elsewhere_the_best_number_counts():
    rows = [row("greedystep", "breakout", 4096, 1e6), row("greedystep", "breakout", 65536, 3e7)]
    _, best = targets(rows, on_cpu=False)
    assert (best["value"], best["met"]) == (3e7, True)
    made = {"device": "a device", "cpu": "a CPU", "config": {"repeats": 1}}
    table = markdown({"absent": [], "rows": rows, "targets": [best], "provenance": made})
    assert "| ≥ 20,000,000 | minatar/breakout | 30,000,000 | yes |" in table
    assert "| minatar/breakout | 65,536 | 30,000,000 | 1.0 | 100 | – | – | – |" in table


def test_games_and_numbers_are_chosen_on_the_command_line(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    asked = {}

    def run(out, repeats, names, numbers=None):
        asked.update(names=names, numbers=numbers)
        (out / "envs.md").write_text("a table\n")

    monkeypatch.setattr(bench, "run", run)
    assert main(["bench", "envs", "--games", "breakout", "--numbers", "1", "4e3"]) == 0
    assert asked == {"names": [BREAKOUT], "numbers": [1, 4000]}
    assert main(["bench", "envs", "--games", "minatar"]) == 0
    assert asked["numbers"] is None
    assert main(["bench", "envs", "--games", "pacman"]) == 2
    assert "games: no name contains 'pacman'" in capsys.readouterr().err
    assert main(["bench", "envs", "--numbers", "0"]) == 2
    assert "numbers: expected an integer from 1 to 2147483647, got 0" in capsys.readouterr().err
    assert main(["bench", "returns", "--games", "breakout"]) == 2
    said = capsys.readouterr().err
    assert "games: only auto-alternatives, devices, envs, offline, settings and train have this option" in said


@pytest.mark.parametrize("package", ["pgx", "gymnax"])
def test_peers_have_six_actions_and_go_on_by_themselves(package):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    game = env_peers.make_game(package, BREAKOUT)
    assert game.num_actions == 6
    (measured,) = bench.measure(BREAKOUT, 2, [package], 1)
    assert measured["failed"] is None
    assert env_peers.make_game(package, "ple/catcher") is None

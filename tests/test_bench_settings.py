"""The benchmark of settings: what is trained, kept and judged, on made-up runs."""

import pytest

from benchmarks import settings
from benchmarks.train_peers import PEER
from greedystep.io import read_json

CART = "CartPole-v1"
SEED = settings.FIRST_SEED


@pytest.fixture
def made_up(monkeypatch):
    """Runs that return what `plays` says by package and seed; the runs that were made."""
    plays, made = {}, []

    def run(package):
        def train(name, seed):
            made.append((package, name, seed))
            return {"minutes": 2.0, "cpu_minutes": 1.0, "returns": plays[package, seed]}

        return train

    monkeypatch.setattr(settings, "train_ours", run(settings.OURS))
    monkeypatch.setattr(settings, "train_peer", run(PEER))
    monkeypatch.setattr(settings, "peer_is_installed", lambda: True)
    return plays, made


def test_finished_runs_are_kept_and_the_share_of_solved_seeds_is_judged(made_up, tmp_path):
    plays, made = made_up
    plays |= {(settings.OURS, SEED): [500.0, 500.0], (settings.OURS, SEED + 1): [480.0, 460.0]}
    plays |= {(PEER, SEED): [500.0], (PEER, SEED + 1): [100.0]}
    settings.run(tmp_path, 1, [CART])
    result = settings.run(tmp_path, 2, [CART])
    assert made == [
        (settings.OURS, CART, SEED),
        (PEER, CART, SEED),
        (settings.OURS, CART, SEED + 1),
        (PEER, CART, SEED + 1),
    ]
    assert read_json(tmp_path / "settings.json")["rows"] == result["rows"]
    (target,) = result["targets"]
    assert (target["value"], target["met"]) == (0.5, False)
    text = (tmp_path / "settings.md").read_text(encoding="utf-8")
    assert f"| {CART} | greedystep | default | 100,000 | 500, 470 | 485 | 2.0 | 1.0 |" in text
    assert f"| {CART} | {PEER} | of its zoo | 50,000 | 500, 100 | 300 | 2.0 | 1.0 |" in text


def test_runs_with_other_settings_are_made_again(made_up, monkeypatch, tmp_path):
    plays, made = made_up
    plays |= {(settings.OURS, SEED): [500.0], (PEER, SEED): [500.0]}
    settings.run(tmp_path, 1, [CART])
    monkeypatch.setitem(settings.TASKS, CART, settings.TASKS[CART]._replace(steps=7))
    result = settings.run(tmp_path, 1, [CART])
    assert made == [(settings.OURS, CART, SEED), (PEER, CART, SEED), (settings.OURS, CART, SEED)]
    assert len(settings.scores(result["rows"])[CART, settings.OURS]) == 1

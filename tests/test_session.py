"""What a command that trains tells and leaves behind: progress, notes, marks of processes, half-way states."""

import os
import subprocess
import sys

import pytest
from deep_experiments import silent
from deep_runs import SETTINGS

from greedystep import io
from greedystep.experiments import NOTHING, fig3, fig5
from greedystep.experiments.deep import protocol
from greedystep.experiments.deep.runner import Runner, RunStore
from greedystep.experiments.deep.training import Budget
from greedystep.runs.part_store import PartStore


def test_progress_is_of_what_is_still_missing(made_up, tmp_path):
    made_up.fail_at = 60
    with pytest.raises(KeyboardInterrupt):
        fig3.run("paper", silent, tmp_path, ["breakout"])
    made_up.fail_at = None
    shares = []
    fig3.run("paper", lambda share, what: shares.append(share), tmp_path, ["breakout"])
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    last = [*tmp_path.glob("breakout-soft-*.json"), *tmp_path.glob("breakout-greedy-step-twin-*.json")]
    for path in last:
        if io.read_json(path)["lanes"][0]["seed"] == 0:
            path.unlink()  # three trainings of 2M steps each
    shares.clear()
    fig3.run("paper", lambda share, what: shares.append(share), tmp_path, ["breakout"])
    assert shares == sorted(shares)
    assert 0 < next(share for share in shares if share) <= 0.5
    assert shares[-1] == 1.0


def test_a_command_notes_what_it_trained_and_how_long_it_took(made_up, tmp_path):
    made_up.fail_at = 60
    with pytest.raises(KeyboardInterrupt):
        fig3.run("paper", silent, tmp_path, ["breakout"])
    first = {lane["name"] for path in tmp_path.glob("*.json") for lane in io.read_json(path)["lanes"]}
    (noted,) = PartStore(tmp_path).sessions()[0]
    assert noted["trainings"] == len(first) > 0
    assert noted["tasks"] == ["Breakout"]
    assert noted["seconds"] > 0
    made_up.fail_at = None
    made_up.trained.clear()
    fig3.run("paper", silent, tmp_path, ["breakout"])
    trained = [noted["trainings"] for noted in PartStore(tmp_path).sessions()[0]]
    assert sorted(trained) == sorted([len(first), len(made_up.trained)])
    result = fig3.run("paper", silent, tmp_path, ["breakout"])  # which trains nothing
    assert result["numbers"]["sessions"] == PartStore(tmp_path).sessions()[0]
    assert len(result["numbers"]["sessions"]) == 2
    (table,) = [table for table in fig3.tables(result) if table.id == "fig3-sessions"]
    assert sum(row[3] for row in table.rows) == sum(noted["steps"] for noted in result["numbers"]["sessions"])


def test_trainings_tell_how_many_processes_shared_the_machine(made_up, tmp_path):
    def side_by_side():
        paths = tmp_path.glob("*.json")
        return {lane["side_by_side"] for path in paths for lane in io.read_json(path)["lanes"]}

    marks = tmp_path / "half-way"
    marks.mkdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (marks / f"{ended.pid}.process").touch()  # as a kill leaves it
    (marks / "foreign.process").touch()
    fig5.run("quick", silent, tmp_path)
    assert side_by_side() == {1}
    assert not (marks / f"{os.getpid()}.process").exists()
    for path in tmp_path.glob("*.json"):
        path.unlink()
    (marks / f"{os.getppid()}.process").touch()  # somebody who is alive
    fig5.run("quick", silent, tmp_path)
    assert side_by_side() == {2}
    assert PartStore().processes() == 1


def test_gathering_writes_nothing_beside_the_trainings(made_up, tmp_path):
    fig3.run("paper", silent, tmp_path, NOTHING)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_of_once(made_up, tmp_path, monkeypatch):
    kept = []

    def full(path, content):
        kept.append(path)
        if len(kept) > 3:
            raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("greedystep.runs.part_store.write_json", full)
    with pytest.raises(OSError, match="No space left on device") as problem:
        fig3.run("paper", silent, tmp_path, ["breakout"])
    assert problem.value.filename == str(kept[3])  # of the training that could not be kept, not of the note
    assert "sessions" in kept[-1].parts


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"session": {"trainings": "many"}, "provenance": {}}'])
def test_a_damaged_note_is_one_sentence(made_up, tmp_path, damage):
    fig5.run("quick", silent, tmp_path)
    (path,) = tmp_path.glob("sessions/*.json")
    path.write_text(damage)
    result = fig3.run("paper", silent, tmp_path, ["breakout"])
    (problem,) = result["numbers"]["problems"]
    assert path.name in problem
    assert len(result["numbers"]["sessions"]) == 1


def test_half_way_states_are_kept_on_interrupt_and_go_when_finished(tmp_path):
    leg = protocol.TaskProtocol(
        "catcher", "paper", Budget(600, points=6, episodes=0), changes=SETTINGS | {"returns": "one-step"}
    )
    store = RunStore(tmp_path)

    def interrupted(share, what):
        if share > 0.5:
            raise KeyboardInterrupt

    def train(progress):
        trainer = Runner(store, progress, 600)
        trainer.all(protocol.training_jobs(trainer, leg, ["dqn"], [0]))

    with pytest.raises(KeyboardInterrupt):
        train(interrupted)
    assert len(list(tmp_path.glob("half-way/*/*.ckpt"))) == 1
    assert not list(tmp_path.glob("*.json"))
    train(silent)
    assert len(list(tmp_path.glob("*.json"))) == 1
    assert not list(tmp_path.glob("half-way/*"))

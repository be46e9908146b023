"""Runs whose state is damaged or missing say so, and never begin at step 0 in silence."""

import shutil

import numpy as np
import pytest
from deep_runs import assert_equal_runs, tiny

import greedystep as gs
from greedystep import checkpoint
from greedystep.cli import main
from greedystep.deep.dqn_run import DQNRun
from greedystep.experiments.deep.training import PartialTraining
from greedystep.tabular.tabular_run import TabularRun, TabularRunConfig

STARTED = {
    "network": lambda folder: DQNRun.start(folder, tiny()).train(0.0),
    "table": lambda folder: TabularRun.start(
        folder, TabularRunConfig("toy/choice", {"delay": 5}, episodes=200)
    ).train(),
}
HALF = {"network": 600, "table": 100}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{kind: (a run that was stopped half-way, the same run to its end)}."""
    base = tmp_path_factory.mktemp("runs")
    for kind, start in STARTED.items():
        pieces = start(base / kind / "half")
        assert any(done[0] >= HALF[kind] for done in pieces)
        pieces.close()
        for _ in start(base / kind / "whole"):
            pass
    return {kind: (base / kind / "half", base / kind / "whole") for kind in STARTED}


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content)


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lose_state(folder, damage):
    """Damage all checkpoints of a run, or its agent; their names."""
    states = sorted(folder.glob("checkpoints/*")) or [folder / "agent.npz"]
    for path in states:
        damage(path)
    return [path.name for path in states]


@pytest.mark.parametrize("damage", [change_a_byte, lambda path: path.unlink()], ids=["changed", "missing"])
@pytest.mark.parametrize("kind", STARTED)
def test_a_run_whose_state_is_lost_asks_for_restart_and_stays_as_it_is(kind, damage, runs, tmp_path, capsys):
    folder = shutil.copytree(runs[kind][0], tmp_path / "run")
    names = lose_state(folder, damage)
    before = content(folder)
    assert main(["train", "--resume", str(folder)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    if damage is change_a_byte:
        assert all(name in said for name in names)
    else:
        assert f"it has metrics.jsonl but no {'checkpoint' if kind == 'network' else 'agent.npz'}" in said
    assert "--restart (in Python: restart=True) begins again at step 0 and keeps what the run has written" in said
    assert content(folder) == before


@pytest.mark.parametrize("kind", STARTED)
def test_a_restarted_run_equals_a_new_one_and_keeps_what_it_had(kind, runs, tmp_path):
    half, whole = runs[kind]
    folder = shutil.copytree(half, tmp_path / "run")
    lose_state(folder, change_a_byte)
    before = content(folder)
    assert main(["train", "--resume", str(folder), "--restart"]) == 0
    for path, data in before.items():
        assert data in content(folder).values() or path.name == "config.json"
    assert (folder / "metrics-before-restart-1.jsonl").read_bytes() == (half / "metrics.jsonl").read_bytes()
    if kind == "network":
        assert_equal_runs(whole, folder)
    else:
        assert (gs.TabularAgent.load(folder / "agent.npz").q == gs.TabularAgent.load(whole / "agent.npz").q).all()


def test_a_second_restart_takes_another_name(runs, tmp_path):
    folder = shutil.copytree(runs["table"][0], tmp_path / "run")
    for number in (1, 2):
        for _ in TabularRun.resume(folder, restart=True).train():
            pass
        left = [path.name for path in folder.glob("*-before-restart-*")]
        assert len(left) == 2 * number
        assert f"agent-before-restart-{number}.npz" in left


@pytest.mark.parametrize("kind", STARTED)
def test_a_run_that_saved_nothing_yet_begins_at_step_0_and_says_so(kind, runs, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    shutil.copy(runs[kind][0] / "config.json", tmp_path / "run")
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert f"Note: {tmp_path / 'run'} was stopped before it saved anything; it begins at step 0\n" in said
    assert not list(tmp_path.rglob("*restart*"))


def test_restart_is_for_runs_that_are_resumed(tmp_path, capsys):
    assert main(["train", "toy/choice", "--restart", "--out", str(tmp_path / "run")]) == 2
    assert "restart: only a run that is resumed can begin again" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["eval", "watch"])
def test_who_only_reads_names_the_damaged_files(command, runs, tmp_path, capsys):
    folder = shutil.copytree(runs["network"][0], tmp_path / "run")
    for path in folder.glob("checkpoints/*"):
        cut(path)
    assert main([command, str(folder)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert all(path.name in said for path in folder.glob("checkpoints/*"))
    with pytest.raises(ValueError, match="no checkpoint is whole"):
        gs.load(folder)


def test_a_damaged_half_way_state_is_named_and_the_training_begins_again(tmp_path):
    class Stand:
        def save(self, folder, **more):
            return checkpoint.save(folder, 5, {"x": np.zeros(3)}, more)

        def restore(self, path):
            restored.append(path)

    def restore(trainer):
        so_far = PartialTraining([], {})
        so_far.restore(trainer, tmp_path / "half-way")
        return so_far

    restored = []
    rows = [{"step": 5, "lane": 0, "n_histogram": [1, 2]}]
    PartialTraining(rows, {}).save(Stand(), tmp_path / "half-way")
    assert restore(Stand()) == (rows, {})
    (state,) = tmp_path.glob("half-way/*.ckpt")
    cut(state)
    with pytest.warns(RuntimeWarning, match=rf"{state.name} is damaged.*; this training begins again"):
        assert restore(Stand()) == ([], {})
    assert restored == [state]
    assert not list(tmp_path.iterdir())  # a later state must not be taken for an older one than this


@pytest.mark.parametrize("kind", STARTED)
def test_a_run_with_a_line_that_is_no_row_is_refused_before_anything_is_written(kind, runs, tmp_path, capsys):
    folder = shutil.copytree(runs[kind][0], tmp_path / "run")
    rows = folder / "metrics.jsonl"
    first, *rest = rows.read_bytes().splitlines(keepends=True)
    rows.write_bytes(b"".join([first, b"{\n", *rest]))
    before = content(folder)
    assert main(["train", "--resume", str(folder)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert f"{rows}, line 2, is not a row of metrics" in said
    assert content(folder) == before

"""Runs of networks in folders: their files, stopping, killing, resuming, full disks."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from deep_runs import assert_equal_runs, rows, tiny, words

from greedystep import checkpoint
from greedystep.cli import main
from greedystep.deep.divergence import DivergedError
from greedystep.deep.dqn_run import DQNRun, read_config


def train(run, save_every=0.0):
    for _ in run.train(save_every):
        pass
    return run.folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run of 1000 steps."""
    return train(DQNRun.start(tmp_path_factory.mktemp("runs") / "whole", tiny()))


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_run_writes_its_settings_its_rows_and_two_checkpoints(whole):
    saved = [f"checkpoints/step-{step:012d}.ckpt" for step in (800, 1000)]
    assert files(whole) == [*saved, "config.json", "metrics.jsonl"]
    content = json.loads((whole / "config.json").read_text())
    assert content["kind"] == "dqn"
    assert content["provenance"]["config"] == content["config"]
    assert read_config(whole) == (tiny(), False)
    assert [row["step"] for row in rows(whole)] == [200, 400, 600, 800, 1000]
    assert {"lane", "seed", "episode_return", "loss", "mean_q", "mean_n", "overestimation"} <= set(rows(whole)[0])
    about = checkpoint.read_about(whole / saved[-1])
    assert about["run"] == content["config"]


def test_a_stopped_run_goes_on_as_if_it_had_not_been(whole, tmp_path):
    run = DQNRun.start(tmp_path / "parts", tiny())
    pieces = run.train(save_every=1e9)
    for done in pieces:
        if done.done == 400:
            break
    pieces.close()
    assert files(run.folder)[:2] == [f"checkpoints/step-{step:012d}.ckpt" for step in (0, 400)]
    assert train(DQNRun.resume(run.folder)) == run.folder
    assert_equal_runs(whole, run.folder)


def test_a_longer_run_goes_on_beyond_its_end(whole, tmp_path):
    folder = train(DQNRun.start(tmp_path / "short", tiny(steps=600)))
    assert DQNRun.resume(folder).finished
    assert not DQNRun.resume(folder, 1000).finished
    train(DQNRun.resume(folder, 1000))
    assert_equal_runs(whole, folder)
    with pytest.raises(ValueError, match="has 1000 already, got 900"):
        DQNRun.resume(folder, 900)


def test_rows_after_the_last_checkpoint_are_written_again(whole, tmp_path):
    folder = train(DQNRun.start(tmp_path / "killed", tiny(steps=600)))
    with open(folder / "metrics.jsonl", "a") as file:  # as if it had gone on and been killed
        file.write('{"step": 800, "lane": 0, "episode_return": 77.0}\n{"step": 10')
    train(DQNRun.resume(folder, 1000))
    assert_equal_runs(whole, folder)


def test_a_run_that_was_killed_before_it_saved_what_it_learned_goes_on_from_step_0(whole, tmp_path):
    pieces = DQNRun.start(tmp_path / "run", tiny()).train(save_every=1e9)
    next(pieces)
    shutil.copytree(tmp_path / "run", tmp_path / "killed")  # what a kill would have left
    pieces.close()
    assert files(tmp_path / "killed") == [".lock", "checkpoints/step-000000000000.ckpt", "config.json", "metrics.jsonl"]
    train(DQNRun.resume(tmp_path / "killed"))
    assert_equal_runs(whole, tmp_path / "killed")


def test_a_run_that_was_killed_before_its_first_checkpoint_says_that_it_begins_at_step_0(whole, tmp_path):
    (tmp_path / "killed").mkdir()
    shutil.copy(whole / "config.json", tmp_path / "killed")
    with pytest.warns(RuntimeWarning, match=r"killed was stopped before it saved anything; it begins at step 0"):
        run = DQNRun.resume(tmp_path / "killed")
    train(run)
    assert_equal_runs(whole, tmp_path / "killed")


def test_a_damaged_checkpoint_is_passed_over(whole, tmp_path):
    folder = train(DQNRun.start(tmp_path / "run", tiny()))
    newest = folder / "checkpoints" / "step-000000001000.ckpt"
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="passed over"):
        run = DQNRun.resume(folder)
    assert run.steps == 800
    train(run)
    assert_equal_runs(whole, folder)


def test_a_seed_gives_the_same_rows_alone_and_among_others(whole, tmp_path):
    folder = train(DQNRun.start(tmp_path / "lanes", tiny(seeds=(1, 3), steps=400)))
    assert [(row["step"], row["lane"], row["seed"]) for row in rows(folder)] == [
        *((200, 0, 1), (200, 1, 3), (400, 0, 1), (400, 1, 3)),
    ]
    for column in ("episode_return", "mean_q", "loss"):
        assert rows(folder)[1][column] == pytest.approx(rows(whole)[0][column], rel=1e-4)


def test_a_loss_that_is_not_finite_leaves_the_last_checkpoint(tmp_path):
    wild = {"learning_rate": 1e30, "optimiser": "adam", "max_gradient_norm": None, "loss": "squared"}
    run = DQNRun.start(tmp_path / "run", tiny(warmup=300, **wild))
    with pytest.raises(DivergedError, match=r"was not finite at step \d+"):
        train(run)
    saved = [f"checkpoints/step-{step:012d}.ckpt" for step in (0, 200)]
    assert files(run.folder) == [*saved, "config.json", "metrics.jsonl"]
    assert len(rows(run.folder)) == 1


def full_disk(suffix):
    """os.fsync on a disk that has no room left for files whose name holds `suffix`."""
    real = os.fsync

    def fsync(descriptor):
        if suffix in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    return fsync


@pytest.mark.parametrize("suffix", ["ckpt", "metrics", "config"])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_later(suffix, whole, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    assert main(words(400, folder)) == 0
    before = files(folder)
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk(suffix))
        assert main(["train", "--resume", str(folder), "--steps", "1000", "--save-every", "0"]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("greedystep: ")]
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert set(before) <= set(files(folder))
    assert main(["train", "--resume", str(folder), "--steps", "1000"]) == 0
    assert_equal_runs(whole, folder)


# -- signals ----------------------------------------------------------------------------------------------------------

LONG = 100_000


def start(arguments):
    return subprocess.Popen([sys.executable, "-m", "greedystep.cli", *arguments], stderr=subprocess.PIPE, text=True)


def wait_for_rows(process, folder, number):
    deadline = time.monotonic() + 120
    path = folder / "metrics.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") < number:
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_leaves_a_usable_run(number, status, tmp_path):
    process = start(words(10**9, tmp_path / "run"))
    try:
        wait_for_rows(process, tmp_path / "run", 3)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == status, said
    run = DQNRun.resume(tmp_path / "run")
    assert f"Saved after {run.steps} steps; go on with: greedystep train --resume" in said
    assert rows(tmp_path / "run")[-1]["step"] == run.steps >= 600


def kill_and_resume(tmp_path, kills, steps, moment):
    """A run that is killed again and again, and one that is not."""
    folder, arguments = tmp_path / "killed", words(steps, tmp_path / "killed", "--save-every", "0")
    for turn in range(kills):
        begun = (folder / "config.json").exists()
        process = start(["train", "--resume", str(folder), "--save-every", "0"] if begun else arguments)
        try:
            moment(turn, process, folder)
        finally:
            process.kill()
            process.communicate()
    train(DQNRun.resume(folder), save_every=60)
    whole = train(DQNRun.start(tmp_path / "whole", tiny(steps=steps)), save_every=60)
    assert_equal_runs(whole, folder)


def test_a_killed_run_equals_one_that_was_not(tmp_path):
    def after_some_rows(turn, process, folder):
        wait_for_rows(process, folder, (3, 40)[turn])
        time.sleep((0.003, 0.011)[turn])  # in the middle of something

    kill_and_resume(tmp_path, 2, LONG // 5, after_some_rows)


@pytest.mark.long
def test_a_run_killed_at_a_hundred_moments_equals_one_that_was_not(tmp_path):
    rng = random.Random(0)

    def at_random(turn, process, folder):
        time.sleep(rng.uniform(0.0, 6.0))

    kill_and_resume(tmp_path, 100, 10 * LONG, at_random)

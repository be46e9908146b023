"""One writer per folder: what a lock does, and that commands and runs hold one."""

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from deep_runs import tiny, words

import greedystep as gs
from greedystep import experiments
from greedystep.cli import main
from greedystep.deep.dqn_run import DQNRun
from greedystep.runs import lock
from greedystep.runs.lock import InUseError, lock_file, lock_folder
from greedystep.runs.part_store import PartStore
from greedystep.tabular.tabular_run import TabularRun, TabularRunConfig

TABLE = TabularRunConfig("toy/choice", {"delay": 5}, episodes=200)
HELD = rf"is being written to by process {os.getpid()} on {socket.gethostname()} \(.*, since \d{{4}}-.*\); wait for it"


def snapshot(folder):
    """Every file with its content and the time of its last change, and every folder."""
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
    }


# -- the lock ---------------------------------------------------------------------------------------------------------


def test_the_second_one_is_told_who_holds_the_lock_until_it_is_released(tmp_path):
    with lock_folder(tmp_path / "a" / "b"):
        before = snapshot(tmp_path)
        with pytest.raises(InUseError, match=HELD):
            lock_folder(tmp_path / "a" / "b")
        assert snapshot(tmp_path) == before
        (tmp_path / "a" / "written").touch()
    with lock_folder(tmp_path / "a" / "b"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "written"]  # b was made for the lock alone


def test_a_file_has_a_lock_of_its_own(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "x.agent")
    others = (lock_file(tmp_path / "y.agent"), lock_folder(tmp_path))
    with lock_file(tmp_path / "x.agent"), pytest.raises(InUseError, match=HELD):
        lock_file(tmp_path / "link")
    for other in others:
        other.release()
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_lock_that_is_dropped_is_released(tmp_path):
    held = lock_folder(tmp_path)
    assert held.held
    del held
    lock_folder(tmp_path).release()


HOLD = """
import sys
from greedystep.runs.lock import lock_folder
held = lock_folder(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InUseError, match=f"by process {holder.pid} on .*-c {tmp_path}"):
            lock_folder(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    assert (tmp_path / ".lock").exists()  # stays, and is in nobody's way
    with lock_folder(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["process"] == os.getpid()
    assert not list(tmp_path.iterdir())


def test_many_who_want_a_folder_hold_it_one_at_a_time(tmp_path):
    """Folders and lock files come and go under the hands of others."""
    inside, most, problems = [], [], []

    def work():
        for _ in range(100):
            try:
                with lock_folder(tmp_path / "new" / "folder"):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()
            except InUseError:
                pass
            except BaseException as problem:
                problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert set(most) == {1}


def test_a_folder_that_vanishes_while_it_is_made_is_made_again(tmp_path, monkeypatch):
    problems = [FileExistsError(errno.EEXIST, "the other one made it"), FileNotFoundError(errno.ENOENT, "and left")]
    mkdir = Path.mkdir

    def race(self, *args, **options):
        if problems:
            raise problems.pop()
        mkdir(self, *args, **options)

    monkeypatch.setattr(Path, "mkdir", race)
    with lock_folder(tmp_path / "new" / "folder"):
        assert not problems


def test_a_folder_that_can_never_be_made_is_an_error(tmp_path, monkeypatch):
    def never(self, *args, **options):  # as /proc answers
        raise FileNotFoundError(errno.ENOENT, "no such file", str(self))

    monkeypatch.setattr(Path, "mkdir", never)
    with pytest.raises(FileNotFoundError, match="new"):
        lock_folder(tmp_path / "new")


@pytest.mark.parametrize("below", [".", "deeper"])
def test_a_file_or_a_dangling_link_in_the_place_of_the_folder_is_an_error_at_once(tmp_path, below):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(OSError, match=r"File exists|Not a directory|No such file"):
            lock_folder(tmp_path / name / below)


def test_a_link_in_a_folder_that_somebody_sent_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=r"\.lock"):
        lock_folder(tmp_path / "run")
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_file_system_without_locks_is_told_of(tmp_path, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock, "_lock", refuse)
    with pytest.warns(UserWarning, match="its file system has no locks"):
        lock_folder(tmp_path).release()


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "config"), [(DQNRun, tiny()), (TabularRun, TABLE)], ids=["network", "table"])
def test_a_run_is_the_only_writer_of_its_folder_until_it_ends(kind, config, tmp_path):
    run = kind.start(tmp_path / "run", config)
    for again in (kind.start, lambda folder, config: kind.resume(folder)):
        pieces = run.train()
        next(pieces)
        before = snapshot(tmp_path)
        with pytest.raises(InUseError, match=HELD):
            again(tmp_path / "run", config)
        assert snapshot(tmp_path) == before
        pieces.close()
        with pytest.raises(ValueError, match=r"has ended or was closed; `resume` goes on with it"):
            next(run.train())
        run = kind.resume(tmp_path / "run")
    run.close()
    kind.resume(tmp_path / "run").close()
    assert not list(tmp_path.rglob(".lock"))


def test_a_run_that_is_not_trained_leaves_nothing(tmp_path):
    TabularRun.start(tmp_path / "runs" / "run", TABLE).close()
    assert not list(tmp_path.iterdir())


def test_the_lock_file_of_a_killed_process_is_in_nobodys_way(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").write_text("left by a killed process")
    DQNRun.start(tmp_path / "run", tiny()).close()
    TabularRun.start(tmp_path / "run", TABLE).close()


def test_bad_settings_leave_no_folder_behind(tmp_path, capsys):
    for arguments in (
        words(10, tmp_path / "runs" / "x", "--save-every", "-1"),
        ["train", "toy/choice", "--epsilon", "2", "--out", str(tmp_path / "runs" / "x")],
    ):
        assert main(arguments) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert not list(tmp_path.iterdir())


def trajectories(tmp_path):
    rng = np.random.default_rng(0)
    seen, done = rng.normal(size=(31, 2)), np.arange(30) == 29
    log = gs.Trajectory(seen, rng.integers(0, 3, 30), -np.ones(30), done, np.zeros(30, bool))
    gs.trajectory.save(tmp_path / "log.npz", [log])
    return str(tmp_path / "log.npz")


def commands(tmp_path):
    """Commands that write, and a lock on what they write."""
    run, results = tmp_path / "run", tmp_path / "results"
    assert main(["train", "toy/choice", "--options", "delay=5", "--episodes", "10", "--out", str(run)]) == 0
    yield lock_folder(run), ["train", "--resume", str(run), "--episodes", "20"]
    yield lock_folder(run), ["train", "--resume", str(run), "--restart"]
    yield lock_folder(run), ["train", "toy/choice", "--out", str(run)]
    yield lock_folder(run), words(100, run)
    out, how = tmp_path / "fitted.agent", ["--batches", "2", "--hidden", "8"]
    fit = ["fit", trajectories(tmp_path), "--env", "classic/mountaincar", "--out", str(out), *how]
    yield lock_file(out), fit
    yield lock_folder(results), ["reproduce", "fig1", "--out", str(results)]
    yield lock_folder(results), ["reproduce", "fig3", "--gather", "--out", str(results)]


def test_a_second_command_is_refused_and_touches_nothing(tmp_path, capsys):
    for held, arguments in commands(tmp_path):
        with held:
            before = snapshot(tmp_path)
            capsys.readouterr()
            assert main(arguments) == 2, arguments
            said = capsys.readouterr().err
            assert len(said.splitlines()) == 1
            assert f"is being written to by process {os.getpid()}" in said
            assert snapshot(tmp_path) == before


def test_the_experiments_of_one_command_share_its_folder(tmp_path, monkeypatch):
    """Trainings mark their processes in the folder and take no lock: the command has it."""

    class Stand:
        NAME, TITLE, IN_PARTS = "fig5", "stands for it", True

        def run(self, scale, progress, parts, only):
            with parts.working(), PartStore(parts.folder).working(), pytest.raises(InUseError):
                lock_folder(parts.folder.parent)
            parts.log_session({"tasks": []})
            return {"title": self.TITLE, "settings": {}, "numbers": {}, "claims": []}

        def draw(self, result):
            return {}

        def tables(self, result):
            return []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiments, "load", lambda name: Stand())
    assert main(["reproduce", "fig5", "--out", str(tmp_path / "out")]) == 0
    assert len(list(tmp_path.glob("out/parts/sessions/*.json"))) == 1
    assert not list(tmp_path.rglob(".lock"))


def test_agents_saved_to_one_file_at_the_same_time_leave_one_whole_file(tmp_path):
    agents = [gs.TabularAgent("toy/choice", seed=seed) for seed in range(4)]
    for agent in agents:
        agent.learn(20 + agent.episodes)

    def save(agent):
        for _ in range(20):
            agent.save(tmp_path / "one.npz")

    threads = [threading.Thread(target=save, args=[agent]) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = gs.TabularAgent.load(tmp_path / "one.npz")
    assert any(np.array_equal(found.q, agent.q) for agent in agents)
    assert [path.name for path in tmp_path.iterdir()] == ["one.npz"]

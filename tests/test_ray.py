"""Runs in the workers of a local Ray cluster: workers that are killed, files, failures and stops.

All tests share one Ray with two CPUs (the fixture `cluster`).
"""

import json
import os
import random
import re
import signal
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from deep_runs import assert_equal_runs, rows, tiny, words

import greedystep as gs
from greedystep.cli import main
from greedystep.datasets import Dataset
from greedystep.deep.divergence import DivergedError
from greedystep.deep.dqn_run import DQNRun
from greedystep.deep.seed_fits import FitConfig, fit_seed
from greedystep.deep.seed_runs import SeedRuns, train_seed
from greedystep.experiments.deep.runner import Runner, RunStore
from greedystep.experiments.deep.training import Budget, RunSpec
from greedystep.experiments.fig2.trial_store import Batch, TrialStore, run_trials
from greedystep.runs.job_queue import StoppedError
from greedystep.runs.part_store import PartStore
from greedystep.runs.ray_cluster import ClusterError
from greedystep.runs.ray_workers import ChangedFiles, RayWorkers, read_files, write_files
from greedystep.trajectory import Trajectory


def worker_of(folder):
    """The worker of Ray that holds the lock of a run's folder, None if none does (a killed one leaves its lock)."""
    try:
        process = json.loads((folder / ".lock").read_text())["process"]
        return process if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::") else None
    except (OSError, ValueError):
        return None


def kill_workers(folder, times, rng, killed):
    """Kill workers of unfinished runs under `folder` at random times: first one with rows, later also before."""
    while len(killed) < times:
        busy = [one for one in folder.glob("seed*") if worker_of(one)]
        if not killed:
            busy = [one for one in busy if (one / "metrics.jsonl").exists()]
        process = worker_of(victim) if busy and (victim := rng.choice(busy)) else None
        if process is None:
            time.sleep(0.02)
            continue
        time.sleep(rng.uniform(0.0, 0.5))
        if process == worker_of(victim):
            os.kill(process, signal.SIGKILL)
            killed.append(victim.name)
            time.sleep(rng.uniform(0.0, 3.0))


def train_with_kills(cluster, folder, config, kills, seed):
    killed, reports = [], []
    killer = threading.Thread(target=kill_workers, args=(folder, kills, random.Random(seed), killed), daemon=True)
    runs = SeedRuns.start(folder, config)
    with RayWorkers(cluster, folder) as workers:
        killer.start()
        results = runs.train(workers, lambda share, what: reports.append(share), save_every=0.0)
    runs.close()
    assert len(killed) == kills
    assert 0.0 <= min(reports) <= max(reports) == 1.0
    return results


def check_kills(cluster, tmp_path, seeds, steps):
    config = tiny(steps=steps, seeds=tuple(range(seeds)), log_every=200)
    with pytest.warns(UserWarning, match=r"seed \d+: its worker died; another one goes on from its last checkpoint"):
        results = train_with_kills(cluster, tmp_path / "killed", config, 2, 5)
    quiet = SeedRuns.start(tmp_path / "quiet", config)
    with RayWorkers(cluster, tmp_path / "quiet") as workers:
        expected = quiet.train(workers, lambda share, what: None)
    quiet.close()
    assert [result[:2] for result in results] == [(seed, steps) for seed in range(seeds)]
    assert results == expected
    for seed in range(seeds):
        one, other = (tmp_path / name / f"seed{seed}" for name in ("killed", "quiet"))
        assert [row["step"] for row in rows(one)] == list(range(200, steps + 1, 200))
        assert rows(one) == rows(other)
    for seed in (0, seeds - 1):
        assert_equal_runs(tmp_path / "killed" / f"seed{seed}", tmp_path / "quiet" / f"seed{seed}")


def test_killed_workers_change_nothing(cluster, tmp_path):
    check_kills(cluster, tmp_path, seeds=3, steps=20_000)


@pytest.mark.long
def test_twenty_runs_with_killed_workers(cluster, tmp_path):
    check_kills(cluster, tmp_path, seeds=20, steps=20_000)


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_trains_extends_and_says_what_is_done(cluster, tmp_path, capsys):
    out = tmp_path / "runs"
    assert main(words(400, out, "--seeds", "2", "--on", "ray")) == 0
    said = capsys.readouterr()
    assert "2 of 2 runs trained now, 400 steps each." in said.out
    assert "cartpole, 2 runs: done in" in said.err
    alone = tmp_path / "alone"
    assert main(words(400, alone)) == 0
    assert_equal_runs(out / "seed3", alone)
    assert sorted(path.name for path in out.iterdir()) == ["config.json", "seed3", "seed4"]
    assert main(["train", "--resume", str(out), "--on", "ray"]) == 0
    assert "all 400 steps of all runs are done" in capsys.readouterr().err
    assert main(["train", "--resume", str(out), "--on", "ray", "--steps", "600"]) == 0
    assert [rows(out / name)[-1]["step"] for name in ("seed3", "seed4")] == [600, 600]


REFUSED = {
    ("--ray-address", "x:1"): "ray_address: only --on ray has workers elsewhere",
    ("--on", "spark"): "invalid choice 'spark' for argument '--on'",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_refused(arguments, tmp_path, capsys):
    assert main(words(400, tmp_path / "run", *arguments)) == 2
    assert REFUSED[arguments] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_table_is_trained_here(capsys):
    assert main(["train", "toy/choice", "--on", "ray"]) == 2
    assert "on: toy/choice trains a table, which has no such option" in capsys.readouterr().err


def test_runs_of_ray_and_single_runs_are_told_apart(tmp_path, capsys):
    for kind, more in (("dqn-seeds", []), ("dqn", ["--on", "ray"])):
        (tmp_path / "config.json").write_text(json.dumps({"kind": kind}))
        assert main(["train", "--resume", str(tmp_path), *more]) == 2
        assert f"on: {tmp_path} holds" in capsys.readouterr().err


def random_log(episodes):
    rng = np.random.default_rng(0)
    return [
        Trajectory(
            observations=rng.normal(size=(21, 4)).astype(np.float32),
            actions=rng.integers(2, size=20),
            rewards=rng.normal(size=20).astype(np.float32),
            terminated=np.arange(20) == 19,
            truncated=np.zeros(20, bool),
        )
        for _ in range(episodes)
    ]


def assert_equal_agents(one, other):
    leaves = [jax.tree.leaves(gs.load(path).networks) for path in (one, other)]
    for mine, theirs in zip(*leaves, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_fits_on_ray_are_those_made_here(cluster, tmp_path, capsys):
    gs.trajectory.save(tmp_path / "log.npz", random_log(5))
    fit = ["fit", str(tmp_path / "log.npz"), "--env", "classic/cartpole", "--batches", "300", "--hidden", "8"]
    assert main([*fit, "--seed", "1", "--out", str(tmp_path / "alone.agent")]) == 0
    fits = tmp_path / "fits"
    assert main([*fit, "--seeds", "2", "--on", "ray", "--out", str(fits)]) == 0
    assert "2 of 2 agents fitted now, 300 updates each." in capsys.readouterr().out
    assert sorted(path.name for path in fits.iterdir()) == ["config.json", "seed0.agent", "seed1.agent"]
    assert_equal_agents(tmp_path / "alone.agent", fits / "seed1.agent")
    assert main([*fit, "--seeds", "3", "--out", str(fits)]) == 0
    assert "1 of 3 agents fitted now" in capsys.readouterr().out
    assert main([*fit, "--seeds", "3", "--ensemble", "2", "--out", str(fits)]) == 2
    assert "holds fits with other settings or data" in capsys.readouterr().err
    assert main([*fit, "--on", "ray"]) == 2
    assert "on: Ray fits several agents side by side; give --seeds" in capsys.readouterr().err


def test_a_fit_goes_on_exactly_where_it_was_stopped(tmp_path):
    data = Dataset.of(random_log(2))
    config = FitConfig(None, 300, settings={"hidden": (8,), "target_period": 20, "batch_size": 8})
    whole = fit_seed(config, data, 0, folder=tmp_path / "whole", report=lambda done, what: None)

    def stop(done, what):
        if done >= 100:
            raise StoppedError

    with pytest.raises(StoppedError):
        fit_seed(config, data, 0, folder=tmp_path / "stopped", report=stop)
    told = []
    rest = fit_seed(config, data, 0, folder=tmp_path / "stopped", report=lambda done, what: told.append(done))
    assert min(told) > 100
    assert rest == whole
    assert_equal_agents(tmp_path / "whole" / "agent", tmp_path / "stopped" / "agent")


def test_an_experiment_on_ray_is_the_one_made_here(cluster, tmp_path):
    """Records of networks and trials of tables, apart from the times that they took."""
    runs = [RunSpec("mountaincar", "paper", {"returns": "one-step", "hidden": (8,)}, seed) for seed in (0, 1)]
    budget, found = Budget(400, points=4, episodes=0), []
    for folder, on_ray in ((tmp_path / "here", False), (tmp_path / "ray", True)):
        shares = []
        with RayWorkers(cluster, folder) as workers:
            parts = PartStore(folder, workers if on_ray else None)
            store, trials = RunStore(parts), TrialStore(parts)
            with Runner(store, lambda share, what, shares=shares: shares.append(share), 800) as runner:
                runner.all([partial(runner.ensure, runs, budget, "two runs")])
            batch = Batch("powers", "powers", {}, 5, 1e8, partial(partial, pow, 2), lambda one: type(one) is int)
            run_trials([batch], trials, lambda share, what: None)
        assert shares[-1] == 1.0
        assert trials.of(batch) == [1, 2, 4, 8, 16]
        assert not list(folder.glob("half-way/*"))
        found.append([store.get(run, 400) for run in runs])
    for mine, theirs in zip(*found, strict=True):
        times = ("seconds", "steps_per_second", "side_by_side")
        assert {k: v for k, v in mine.items() if k not in times} == {k: v for k, v in theirs.items() if k not in times}


# -- calls -------------------------------------------------------------------------------------------------------------


def dies(*, folder, report):
    os.kill(os.getpid(), signal.SIGKILL)


def fails(*, folder, report):
    raise DivergedError("the loss of lane 0 was not finite")


def counts(*, folder, report):
    """Count to ten in a file, however often it is begun; die once, at 5."""
    folder.mkdir(exist_ok=True)
    path = folder / "count"
    for number in range(int(path.read_text()) if path.exists() else 0, 10):
        path.write_text(str(number + 1))
        time.sleep(0.1)
        report(number + 1, f"at {number + 1}")
        if number == 5 and not (folder / "died").exists():
            (folder / "died").touch()
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)
    return path.read_text()


def test_what_a_function_raises_is_raised_here(cluster):
    with RayWorkers(cluster) as workers, pytest.raises(DivergedError, match="the loss of lane 0 was not finite"):
        workers.call("fit", fails)


def test_a_worker_that_always_dies_is_given_up(cluster):
    with RayWorkers(cluster) as workers, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ClusterError, match=r"seed 7: 3 workers in a row have died \(.*\); what was finished stays"):
            workers.call("seed 7", dies)


def test_the_work_goes_on_where_the_dead_worker_was(cluster, tmp_path):
    told = []
    with RayWorkers(cluster, tmp_path) as workers, pytest.warns(UserWarning, match="its worker died"):
        result = workers.call(
            "counting", counts, folder=tmp_path / "job", on_report=lambda done, what: told.append(done)
        )
    assert result == "10"
    assert (tmp_path / "job" / "died").exists()
    assert told == sorted(told)
    assert not list(tmp_path.glob(".ray-*"))


def test_files_come_here_from_workers_that_do_not_see_the_folder(cluster, tmp_path, monkeypatch):
    """The mark is removed, as if the worker were on another machine."""
    runs = tmp_path / "runs"
    with RayWorkers(cluster, runs) as workers:
        workers.close()
        found = workers.call("seed 3", train_seed, tiny(600), False, None, folder=runs / "seed3")
        longer = workers.call("seed 3", train_seed, tiny(1000), False, None, folder=runs / "seed3")
    assert (found.steps, longer.steps) == (600, 1000)
    alone = DQNRun.start(tmp_path / "alone", tiny(600))
    for _ in alone.train():
        pass
    alone = DQNRun.resume(tmp_path / "alone", 1000)
    for _ in alone.train():
        pass
    assert_equal_runs(runs / "seed3", tmp_path / "alone")


def test_a_stop_saves_what_was_trained(cluster, tmp_path):
    reported = threading.Event()
    with RayWorkers(cluster, tmp_path) as workers, pytest.raises(StoppedError):
        workers.call(
            "seed 3",
            partial(train_seed, tiny(5_000_000), False, None),
            folder=tmp_path / "seed3",
            on_report=lambda done, what: reported.set(),
            should_stop=reported.is_set,
        )
    done = rows(tmp_path / "seed3")[-1]["step"]
    assert done > 0
    assert re.fullmatch(rf"step-0*{done}.ckpt", max((tmp_path / "seed3" / "checkpoints").iterdir()).name)


def test_only_changed_files_are_sent(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    write_files(here, {"a": b"1", "sub/b": b"2"})
    write_files(there, read_files(here))
    changed = ChangedFiles(here)
    assert changed.changes() == {}
    assert changed.now_and_then() is None
    write_files(here, {"a": b"longer", "sub/b": None, "sub/c": b"3"})
    (here / ".lock").touch()
    sent = changed.changes()
    assert sent == {"a": b"longer", "sub/b": None, "sub/c": b"3"}
    write_files(there, sent)
    assert read_files(there) == read_files(here) == {"a": b"longer", "sub/c": b"3"}

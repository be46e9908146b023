"""Two processes on one folder: one of them writes, and the run is what it would be without the other."""

import json
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from deep_runs import assert_equal_runs, tiny, words

import greedystep as gs
from greedystep.deep.dqn_run import DQNRun
from greedystep.metrics import read_metrics
from greedystep.tabular.tabular_run import TabularRun, TabularRunConfig

STEPS, EPISODES = 2000, 3000
TABLE = TabularRunConfig("toy/choice", {"delay": 5}, seed=3, episodes=EPISODES)
TOLD = ("is being written to by process", "is not empty; resume", "holds another run; resume", "are done; a higher")
WORKER = """
import io, json, sys, time
from contextlib import redirect_stderr, redirect_stdout
from greedystep.cli import main
import greedystep.deep.dqn_run, greedystep.tabular.tabular_run
for line in sys.stdin:
    delay, arguments = json.loads(line)
    time.sleep(delay)
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        status = main(arguments)
    print(json.dumps([status, said.getvalue()]), flush=True)
"""


class Worker:
    """A process that runs one command after another."""

    def __init__(self):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, "-c", WORKER], stdin=pipe, stdout=pipe, text=True)

    def start(self, delay, arguments):
        self._process.stdin.write(json.dumps([delay, arguments]) + "\n")
        self._process.stdin.flush()

    def result(self):
        return json.loads(self._process.stdout.readline())

    def kill(self):
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def workers():
    both = [Worker(), Worker()]
    yield both
    for worker in both:
        worker.kill()


def finish(run, stop_at=None):
    pieces = run.train()
    for done in pieces:
        if stop_at is not None and done[0] >= stop_at:
            break
    pieces.close()
    return run.folder


def stopped_run(kind, folder):
    """A run that has been stopped half-way."""
    if kind == "network":
        return finish(DQNRun.start(folder, tiny(steps=STEPS)), STEPS // 2)
    return finish(TabularRun.start(folder, TABLE), EPISODES // 2)


def command(kind, resume, folder):
    if resume:
        return ["train", "--resume", str(folder)]
    if kind == "network":
        return words(STEPS, folder, "--save-every", "0")
    return [
        "train",
        TABLE.env,
        "--options",
        "delay=5",
        "--seed",
        "3",
        "--episodes",
        str(EPISODES),
        "--out",
        str(folder),
    ]


def assert_equal_tables(whole, folder):
    """The table and the rows are equal; where a run was stopped there may be a row more."""
    (rows,), (wanted,) = (read_metrics(path / "metrics.jsonl").values() for path in (folder, whole))
    assert np.isin(wanted["episodes"], rows["episodes"]).all()
    assert (np.diff(rows["episodes"]) > 0).all()
    agents = [gs.TabularAgent.load(path / "agent.npz") for path in (folder, whole)]
    np.testing.assert_array_equal(agents[0].q, agents[1].q)
    assert agents[0].steps == agents[1].steps == rows["step"][-1]


def race(workers, tmp_path, pairs):
    """Let pairs of commands loose on folders; how they ended."""
    rng, ends = random.Random(0), Counter()
    whole = {
        "network": finish(DQNRun.start(tmp_path / "network", tiny(steps=STEPS))),
        "table": finish(TabularRun.start(tmp_path / "table", TABLE)),
    }
    for pair in range(pairs):
        kind, resume = ("network", "table")[pair % 2], pair % 3 == 2
        folder = tmp_path / f"pair-{pair}"
        if resume:
            stopped_run(kind, folder)
        for worker in workers:
            worker.start(rng.choice([0.0, rng.uniform(0.0, 0.5)]), command(kind, resume, folder))
        results = [worker.result() for worker in workers]
        statuses = sorted(status for status, _ in results)
        assert statuses == [0, 2] or (resume and statuses == [0, 0]), results
        assert any(sentence in said for _, said in results for sentence in TOLD), results
        ends[statuses[1]] += 1
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert set(Counter((row["step"], row["lane"]) for row in rows).values()) == {1}
        (assert_equal_runs if kind == "network" else assert_equal_tables)(whole[kind], folder)
        assert not [path for path in folder.rglob("*") if path.name.startswith(".")]
    return ends


def test_two_processes_never_spoil_a_run(workers, tmp_path):
    assert race(workers, tmp_path, 3)[2] > 0


@pytest.mark.long
def test_fifty_pairs_of_processes_never_spoil_a_run(workers, tmp_path):
    ends = race(workers, tmp_path, 50)
    print(f"{ends[2]} of 50 second commands were refused, {ends[0]} came when all was done")
    assert ends[2] >= 34

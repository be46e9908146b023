"""`greedystep train`: runs in folders, their files, Ctrl-C, resuming, and what is refused."""

import inspect
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import greedystep as gs
from greedystep.cli import main, train
from greedystep.metrics import read_metrics
from greedystep.tabular import METHODS
from greedystep.tabular.tabular_run import TabularRun, TabularRunConfig

CHOICE = ["train", "toy/choice", "--options", "delay=5", "--seed", "3"]


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def rows(folder):
    (lane,) = read_metrics(folder / "metrics.jsonl").values()
    return {name: values for name, values in lane.items() if name != "wall_seconds"}


def test_a_run_writes_its_settings_its_rows_and_its_agent(tmp_path, capsys):
    assert main([*CHOICE, "--episodes", "250", "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    assert "250 episodes, 1250 steps." in said.out
    assert "expected return: 1\n" in said.out
    assert files(tmp_path / "run") == ["agent.npz", "config.json", "metrics.jsonl"]
    content = json.loads((tmp_path / "run" / "config.json").read_text())
    assert content["kind"] == "tabular"
    assert content["config"]["options"] == {"delay": 5}
    assert content["provenance"]["config"] == content["config"]
    table = rows(tmp_path / "run")
    np.testing.assert_array_equal(table["episodes"], [*range(3, 251, 3), 250])
    np.testing.assert_array_equal(table["step"], 5 * table["episodes"])
    agent = gs.TabularAgent.load(tmp_path / "run" / "agent.npz")
    alone = gs.TabularAgent(gs.envs.make("toy/choice", delay=5), seed=3)
    returns = alone.learn(250).returns
    np.testing.assert_array_equal(agent.q, alone.q)
    assert table["episode_return"][0] == pytest.approx(returns[:3].mean())
    assert table["episode_return"][-1] == pytest.approx(returns[249:].mean())


@pytest.mark.parametrize("method", ["greedy-step", "model", "watkins"])
def test_a_stopped_and_resumed_run_equals_one_that_was_not(method, tmp_path, capsys):
    how = [*CHOICE, "--method", method]
    assert main([*how, "--episodes", "400", "--out", str(tmp_path / "whole")]) == 0
    assert main([*how, "--episodes", "100", "--out", str(tmp_path / "parts")]) == 0
    assert main(["train", "--resume", str(tmp_path / "parts"), "--episodes", "400"]) == 0
    agents = [gs.TabularAgent.load(tmp_path / name / "agent.npz") for name in ("whole", "parts")]
    np.testing.assert_array_equal(agents[0].q, agents[1].q)
    assert agents[0]._random.bit_generator.state == agents[1]._random.bit_generator.state
    capsys.readouterr()
    assert main(["train", "--resume", str(tmp_path / "parts")]) == 0
    assert "all 400 episodes are done" in capsys.readouterr().err


def test_rows_after_the_last_save_are_written_again(tmp_path):
    config = TabularRunConfig("toy/choice", {"delay": 5}, method_options={"form": "expected"}, episodes=300)
    for _ in TabularRun.start(tmp_path / "whole", config).train():
        pass
    pieces = TabularRun.start(tmp_path / "killed", config).train()
    for done in pieces:
        if done.done >= 100:
            break
    pieces.close()
    with open(tmp_path / "killed" / "metrics.jsonl", "a") as file:  # as if it had gone on and been killed
        file.write('{"step": 900, "lane": 0, "episodes": 180, "episode_return": 77.0}\n{"step": 9')
    for _ in TabularRun.resume(tmp_path / "killed").train():
        pass
    whole, killed = rows(tmp_path / "whole"), rows(tmp_path / "killed")
    assert 77.0 not in killed["episode_return"]
    assert set(whole["step"]) <= set(killed["step"])  # where it was stopped there may be one more
    at = np.isin(killed["step"], whole["step"])
    np.testing.assert_array_equal(killed["episodes"][at], whole["episodes"])


def test_ctrl_c_keeps_what_was_learned(tmp_path):
    command = [sys.executable, "-m", "greedystep.cli", *CHOICE, "--episodes", "1e9", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "run" / "metrics.jsonl").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "go on with: greedystep train --resume" in said
    agent = gs.TabularAgent.load(tmp_path / "run" / "agent.npz")
    assert agent.episodes > 0
    assert rows(tmp_path / "run")["episodes"][-1] == agent.episodes
    alone = gs.TabularAgent(gs.envs.make("toy/choice", delay=5), seed=3)
    alone.learn(agent.episodes)
    np.testing.assert_array_equal(agent.q, alone.q)


def test_chance_is_noted(tmp_path, capsys):
    noisy = ["train", "toy/choice", "--options", "noise=1", "--episodes", "50", "--out", str(tmp_path / "run")]
    assert main(noisy) == 0
    assert 'form="expected"' in capsys.readouterr().err


def test_gymnasium_with_options(tmp_path, capsys):
    how = ["train", "FrozenLake-v1", "--options", "is_slippery=false", "discount=0.9", "limit=30", "--epsilon", "0.5"]
    assert main([*how, "--episodes", "600", "--out", str(tmp_path / "run")]) == 0
    assert "expected return: 0.59049" in capsys.readouterr().out
    assert main(["train", "--resume", str(tmp_path / "run"), "--episodes", "700"]) == 0
    assert "700 episodes" in capsys.readouterr().out


def test_all_methods_can_be_named():
    assert tuple(METHODS) == train.METHODS
    for name in METHODS:
        assert name in " ".join(inspect.getsource(train.TableMethod).split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train"], "env: give an environment, or --resume FOLDER"),
        (["train", "toy/nothing"], "name: 'toy/nothing' is not one of"),
        (["train", "minatar/breakout", "--agent", "table"], "agent: minatar/breakout does not number its states"),
        (["train", "toy/choice", "--ensemble", "2"], "ensemble: toy/choice trains a table"),
        (["train", "Nothing-v7"], "env: gymnasium cannot make 'Nothing-v7'"),
        (["train", "CartPole-v1", "--agent", "table"], "a table needs a Discrete one"),
        (["train", "toy/choice", "--options", "size=3"], "size: toy/choice has no such option"),
        (["train", "toy/choice", "--options", "delay"], "options: expected NAME=VALUE, got 'delay'"),
        (["train", "toy/choice", "--method-options", "alpha=0.5"], "alpha: greedy-step has no such option"),
        (["train", "toy/choice", "--method-options", "env=x"], "env: greedy-step has no such option"),
        (["train", "FrozenLake-v1", "--method-options", "seed=1"], "seed: greedy-step has no such option"),
        (["train", "toy/choice", "--method", "magic"], "expected one of greedy-step"),
        (
            ["train", "toy/choice", "--episodes", "0"],
            "episodes: expected an integer >= 1, got 0",
        ),
        (["train", "toy/choice", "--epsilon", "2"], "epsilon: expected a number in [0, 1]"),
        (["train", "toy/choice", "--alpha", "1"], "--alpha"),
        (["train", "--resume", "nowhere"], "resume: nowhere holds no run"),
        (["train", "toy/choice", "--resume", "nowhere"], "resume: nowhere holds no run"),
        (["train", "--resume", "nowhere", "--seed", "0"], "seed: a resumed run keeps its own"),
    ],
)
def test_bad_input_is_answered_by_one_sentence_and_leaves_nothing(arguments, sentence, is_refused):
    is_refused(arguments, sentence)


def test_a_run_is_never_written_over(tmp_path, capsys):
    how = [*CHOICE, "--episodes", "10", "--out", str(tmp_path / "run")]
    assert main(how) == 0
    before = (tmp_path / "run" / "agent.npz").read_bytes()
    assert main(how) == 2
    assert "holds another run" in capsys.readouterr().err
    assert (tmp_path / "run" / "agent.npz").read_bytes() == before
    assert main(["train", "--resume", str(tmp_path / "run"), "--episodes", "5"]) == 2
    assert "has 10 already, got 5" in capsys.readouterr().err


def test_a_damaged_configuration_is_reported(tmp_path, capsys):
    for content in ('{"kind": "deep", "config": {}}', '{"kind": "tabular", "config": {"what": 1}}', "hello", "{}"):
        (tmp_path / "config.json").write_text(content)
        assert main(["train", "--resume", str(tmp_path)]) == 2
        assert "config.json is not" in capsys.readouterr().err


def test_values_without_bound_are_reported_and_the_last_save_stays(tmp_path, capsys):
    how = ["train", "toy/grid-world", "--method", "harutyunyan", "--method-options", "lambda_=1.0", "alpha=0.5"]
    assert main([*how, "--episodes", "20000", "--out", str(tmp_path / "run")]) == 1
    assert f"greedystep: {tmp_path / 'run'}: harutyunyan: its values have no bound" in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "config.json").read_text())["config"]["method"] == "harutyunyan"

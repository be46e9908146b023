"""`greedystep train` of networks: options made from the config, folders, and what is refused."""

import dataclasses
import json

import pytest
from deep_runs import rows, tiny, words

from greedystep.cli import deep_settings, main
from greedystep.deep.config import DQNConfig
from greedystep.deep.dqn_run import DQNRun, read_config


def test_every_setting_is_an_option(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    said = capsys.readouterr().out
    for field in dataclasses.fields(DQNConfig):
        assert f"--{field.name.strip('_').replace('_', '-')} " in said


def test_settings_reach_the_run_and_the_rest_is_the_presets(tmp_path):
    more = ["--returns", "lambda", "--lambda", "0.5", "--double", "--max-gradient-norm", "none", "--preset", "paper"]
    assert main(words(200, tmp_path / "run", *more, "--options", "limit=100")) == 0
    config, _ = read_config(tmp_path / "run")
    wanted = tiny(returns="lambda", lambda_=0.5, double=True, max_gradient_norm=None).agent
    assert config.agent == wanted
    assert config.options == {"limit": 100}
    assert (config.seeds, config.steps) == ((3,), 200)


def test_many_hidden_layers():
    import tyro

    parsed = tyro.cli(deep_settings.DeepSettings, args=["--hidden", "64", "32", "--warmup", "1e4"])
    assert deep_settings.given(parsed) == {"hidden": (64, 32), "warmup": 10_000}


def test_seeds_are_lanes_and_events_are_written(tmp_path, capsys):
    pytest.importorskip("tensorboardX")
    assert main(words(400, tmp_path / "run", "--seeds", "2", "--tensorboard")) == 0
    assert [row["seed"] for row in rows(tmp_path / "run")] == [3, 4, 3, 4]
    events = tmp_path / "run" / "tensorboard"
    assert sorted(path.name for path in events.iterdir()) == ["lane-0", "lane-1"]
    assert "400 steps per seed" in capsys.readouterr().out
    assert main(["train", "--resume", str(tmp_path / "run"), "--steps", "600"]) == 0
    assert len(list(events.rglob("events*"))) == 4


def test_a_finished_run_says_so(tmp_path, capsys):
    assert main(words(200, tmp_path / "run")) == 0
    capsys.readouterr()
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert "all 200 steps are done; a higher --steps lets it go on." in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_the_usual_folder_is_named_after_what_is_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = words(200, "unused", "--agent", "network", "--ensemble", "2")
    arguments[1] = "toy/choice"
    arguments = [word for word in arguments if word not in ("--out", "unused")]
    assert main(arguments) == 0
    folder = tmp_path / "runs" / "toy-choice-greedy-step-ensemble2-seed3"
    assert DQNRun.resume(folder).finished
    assert json.loads((folder / "config.json").read_text())["config"]["env"] == "toy/choice"
    assert main(arguments) == 2
    assert "is not empty; resume the run in it, or choose another folder" in capsys.readouterr().err


BREAKOUT = ["train", "minatar/breakout"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*BREAKOUT, "--returns", "greedy"], "invalid choice 'greedy' for argument '--returns'"),
        (
            [*BREAKOUT, "--returns", "greedy-step", "--lambda", "0.5"],
            "lambda_: returns='greedy-step' has no such option",
        ),
        ([*BREAKOUT, "--returns", "lambda", "--horizon", "5"], "horizon: returns='lambda' has no such option"),
        ([*BREAKOUT, "--returns", "greedy-step-twin"], "ensemble: greedy-step-twin needs at least 2 networks"),
        ([*BREAKOUT, "--epsilon", "0.5"], "epsilon: minatar/breakout trains a network, which has no such option"),
        ([*BREAKOUT, "--method", "watkins"], "method: minatar/breakout trains a network"),
        ([*BREAKOUT, "--steps", "0"], "steps: expected an integer from 1 to 2147483647, got 0"),
        ([*BREAKOUT, "--seeds", "0"], "seeds: expected an integer from 1 to 1000000, got 0"),
        ([*BREAKOUT, "--seed", "-1"], "seed: expected an integer from 0 to 4294967295, got -1"),
        ([*BREAKOUT, "--save-every", "-1"], "save_every: expected a finite number >= 0, got -1"),
        ([*BREAKOUT, "--preset", "slow"], "invalid choice 'slow'"),
        ([*BREAKOUT, "--options", "sticki=0"], "sticki: minatar/breakout has no such option"),
        ([*BREAKOUT, "--batch-size", "2.5"], "expected an integer such as 1000 or 5e6, got '2.5'"),
        (["train", "minatar/brakeout"], "did you mean 'minatar/breakout'?"),
        (["train", "toy/choice", "--steps", "100"], "steps: toy/choice trains a table"),
        (["train", "--resume", "nowhere", "--returns", "lambda"], "returns: a resumed run keeps its own"),
        (["train", "--resume", "nowhere", "--tensorboard"], "tensorboard: a resumed run keeps its own"),
    ],
)
def test_bad_input_is_answered_by_one_sentence_and_leaves_nothing(arguments, sentence, is_refused):
    is_refused(arguments, sentence)


def test_a_run_that_counts_steps_is_not_resumed_by_episodes(tmp_path, capsys):
    assert main(words(200, tmp_path / "run")) == 0
    capsys.readouterr()
    assert main(["train", "--resume", str(tmp_path / "run"), "--episodes", "5"]) == 2
    assert "episodes: " in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "run"), "--steps", "100"]) == 2
    assert "has 200 already, got 100" in capsys.readouterr().err


def test_a_damaged_configuration_is_reported(tmp_path, capsys):
    for content in (
        '{"kind": "dqn", "config": {}}',
        '{"kind": "dqn", "tensorboard": false, "config": {"env": "x", "agent": {"hidden": [], "a": 1}, "seeds": []}}',
    ):
        (tmp_path / "config.json").write_text(content)
        assert main(["train", "--resume", str(tmp_path)]) == 2
        assert "config.json is not the configuration of a DQN run" in capsys.readouterr().err


def test_a_loss_without_bound_is_one_sentence(tmp_path, capsys):
    wild = ("--learning-rate", "1e30", "--loss", "squared", "--max-gradient-norm", "none")
    assert main(words(400, tmp_path / "run", *wild)) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("greedystep: ")]
    assert len(said) == 1
    assert said[0].startswith(f"greedystep: {tmp_path / 'run'}: the loss of lane 0")
    assert "was not finite at step" in said[0]
    assert (tmp_path / "run" / "config.json").exists()

"""`greedystep train` of networks: options made from the config, folders, and what is refused."""

import dataclasses
import json
import sys

import gymnasium
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
        (["train", "toy/choice", "--seeds", "0"], "seeds: toy/choice trains a table"),
        (["train", "--resume", "nowhere", "--returns", "lambda"], "returns: a resumed run keeps its own"),
        (["train", "--resume", "nowhere", "--tensorboard"], "tensorboard: a resumed run keeps its own"),
    ],
)
def test_bad_input_is_answered_by_one_sentence_and_leaves_nothing(arguments, sentence, is_refused):
    is_refused(arguments, sentence)


ENVIRONMENTS = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Sound(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    seen = np.zeros(2, np.float32)

    def __init__(self):
        self.taken = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.seen, {}

    def step(self, action):
        self.t, self.taken = self.t + 1, self.taken + 1
        return self.seen, 1.0, self.t == 7, False, {}


class Four(Sound):
    def step(self, action):
        return super().step(action)[:4]


class Nothing(Sound):
    def step(self, action):
        return None


class OldReset(Sound):
    def reset(self, *, seed=None, options=None):
        return self.seen


class NoSeed(Sound):
    def reset(self):
        return super().reset()


class NoSpace(Sound):
    observation_space = None


class Raising(Sound):
    def step(self, action):
        raise KeyError("x")


class NotFinite(Sound):
    seen = np.float32([np.nan, 0])


class NotMade(Sound):
    def __init__(self):
        raise OSError("no licence")


class Late(Sound):
    def step(self, action):
        if self.taken == 330:
            raise OSError("lost")
        return super().step(action)


for one in (Four, Nothing, OldReset, NoSeed, NoSpace, Raising, NotFinite, NotMade, Late):
    gymnasium.register(f"{one.__name__}-v0", one)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of environments that break one rule each, in a folder that is the current one afterwards."""
    (tmp_path / "breaking_envs.py").write_text(ENVIRONMENTS)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield "breaking_envs"
    sys.modules.pop("breaking_envs", None)
    for name in [*FIRST_FAULTS, "Late"]:
        gymnasium.registry.pop(f"{name}-v0", None)


FIRST_FAULTS = {
    "Four": "env: breaking_envs:Four-v0: step must return (observation, reward, terminated, truncated, info), got 4",
    "Nothing": "step must return (observation, reward, terminated, truncated, info), got a NoneType",
    "OldReset": "env: breaking_envs:OldReset-v0: reset must return (observation, info), info a dict, got a ndarray",
    "NoSeed": "reset of breaking_envs:NoSeed-v0 raised TypeError: NoSeed.reset() got an unexpected keyword argument",
    "NoSpace": "env: observation_space must be a gymnasium.spaces.Space, got None",
    "Raising": "env: step of breaking_envs:Raising-v0 raised KeyError: 'x'",
    "NotFinite": "env: breaking_envs:NotFinite-v0 returned an observation that is not finite: [[nan, 0.0]]",
    "NotMade": "env: gymnasium cannot make 'breaking_envs:NotMade-v0': OSError: no licence",
}


@pytest.mark.parametrize("name", FIRST_FAULTS)
def test_an_environment_that_breaks_the_rules_at_once_is_refused_and_leaves_nothing(name, module, tmp_path, capsys):
    for agent in ([], ["--agent", "network"]):
        assert main(["train", f"{module}:{name}-v0", *agent]) == 2
        said = capsys.readouterr().err
        assert FIRST_FAULTS[name] in said
        assert len(said.splitlines()) == 1
    assert not list((tmp_path / "here").iterdir())


def test_a_run_whose_environment_fails_is_saved_and_can_be_resumed(module, tmp_path, capsys):
    arguments = words(500, "run")
    arguments[1] = f"{module}:Late-v0"
    assert main(arguments) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == (
        "greedystep: run: env: step of breaking_envs:Late-v0 raised OSError: lost; saved after 330 steps; go on with: "
        "greedystep train breaking_envs:Late-v0 --resume run"
    )
    assert [row["step"] for row in rows(tmp_path / "here" / "run")] == [200, 330]
    assert main(["train", f"{module}:Late-v0", "--resume", "run"]) == 0
    assert [row["step"] for row in rows(tmp_path / "here" / "run")] == [200, 330, 400, 500]


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

"""`greedystep eval RUN` and `greedystep watch RUN`, and what a player tells."""

import json
import sys

import gymnasium
import jax
import numpy as np
import pytest
from deep_runs import tiny
from PIL import Image

import greedystep as gs
from greedystep import returns
from greedystep.cli import main
from greedystep.deep.dqn_run import DQNRun, trained
from greedystep.deep.q_annotations import QAnnotator
from greedystep.envs.rendering import add_q_panel
from greedystep.envs.rollout import QAnnotation, describe_annotation, play
from greedystep.stats import interval


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    for _ in DQNRun.start(folder, tiny(steps=400, seeds=(3, 4))).train():
        pass
    return folder


# -- eval -------------------------------------------------------------------------------------------------------------


def test_all_lanes_are_tabulated_with_intervals(run, tmp_path, capsys):
    out = tmp_path / "new" / "eval.json"
    assert main(["eval", str(run), "--episodes", "20", "--epsilon", "0.5", "--seed", "2", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "classic/cartpole after 400 steps: 20 episodes, 0.5 of the actions at random" in said
    content = json.loads(out.read_text())
    assert content["seeds"] == [3, 4]
    assert np.shape(content["returns"]) == np.shape(content["lengths"]) == (2, 20)
    assert content["provenance"]["config"]["trained"] == tiny(steps=400, seeds=(3, 4)).as_json()
    header, rows = content["table"]["header"], content["table"]["rows"]
    assert [row[0] for row in rows] == [3, 4, "all"]
    first = dict(zip(header, rows[0], strict=True))
    np.testing.assert_allclose(
        [first[name] for name in ("mean return", "from", "to")], interval(content["returns"][0], "mean"), rtol=1e-6
    )
    assert dict(zip(header, rows[2], strict=True))["mean return"] == pytest.approx(np.mean(content["returns"]))
    assert main(["eval", str(run), "--episodes", "20", "--epsilon", "0.5", "--seed", "2"]) == 0
    assert said.startswith(capsys.readouterr().out.rstrip("\n"))  # the same numbers


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--episodes", "0"], "episodes: expected an integer from 1 to 2147483647, got 0"),
        (["--epsilon", "1.5"], "epsilon: expected a number in [0, 1], got 1.5"),
        (["--limit", "0"], "limit: expected an integer from 1 to 2147483647, got 0"),
        (["--out", "a.txt"], "out: expected a file that ends in .json, got 'a.txt'"),
    ],
)
def test_what_makes_no_sense_is_refused(run, arguments, sentence, capsys):
    assert main(["eval", str(run), *arguments]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "watch"])
def test_what_is_no_run_is_answered_by_one_sentence(command, tmp_path, capsys):
    unstarted = DQNRun.start(tmp_path / "unstarted", tiny())
    pieces = unstarted.train(1e9)
    next(pieces)
    (tmp_path / "empty").mkdir()
    for folder, sentence in {
        tmp_path / "empty": "holds no run (it has no config.json)",
        unstarted.folder: "unstarted has no checkpoint yet",
    }.items():
        capsys.readouterr()
        assert main([command, str(folder)]) == 2
        said = capsys.readouterr().err
        assert sentence in said
        assert len(said.splitlines()) == 1
    pieces.close()


def test_a_table_is_played_from_its_folder_and_from_its_file(tmp_path, capsys):
    folder, file = tmp_path / "table", tmp_path / "table.npz"
    assert main(["train", "toy/choice", "--episodes", "300", "--out", str(folder)]) == 0
    gs.load(folder).save(file)
    for path in (folder, file):
        capsys.readouterr()
        assert main(["eval", str(path), "--episodes", "3"]) == 0
        assert "| 0 | 1 | 1 | 1 | 20 | 0 |" in capsys.readouterr().out
        assert main(["watch", str(path), "--steps", "2"]) == 0
        assert capsys.readouterr().out.splitlines()[0].startswith("episode 1  step 0  start  reward 0  return 0  Q ")
    for words, sentence in {
        ("eval", "--env", "toy/bomb"): "is a run in 'toy/choice', got 'toy/bomb'",
        ("eval", "--limit", "5"): "limit: a table's task has a limit of its own",
        ("watch", "--lane", "1"): "lane: a table has one",
        ("watch", "--env", "toy/bomb"): "is a run in 'toy/choice', got 'toy/bomb'",
    }.items():
        assert main([words[0], str(folder), *words[1:]]) == 2
        assert sentence in capsys.readouterr().err


MODULE = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.toy_text import FrozenLakeEnv

gymnasium.register("Pole-v0", CartPoleEnv, max_episode_steps=9)
gymnasium.register("Lake-v0", FrozenLakeEnv, max_episode_steps=9)
"""


@pytest.fixture
def forget(tmp_path, monkeypatch):
    """Writes a module of environments; returns the function that makes this process forget having imported it."""
    (tmp_path / "own_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)

    def forgotten():
        sys.modules.pop("own_module", None)
        for name in ("Pole-v0", "Lake-v0"):
            gymnasium.registry.pop(name, None)

    yield forgotten
    forgotten()


@pytest.mark.parametrize("name", ["own_module:Pole-v0", "own_module:Lake-v0"])
def test_a_module_is_imported_for_an_agent_if_the_user_names_its_environment(name, forget, tmp_path, capsys):
    run, file = tmp_path / "run", tmp_path / "agent.npz"
    length = ["--episodes", "5"] if "Lake" in name else ["--steps", "80", "--hidden", "4", "--returns", "one-step"]
    assert main(["train", name, *length, "--out", str(run)]) == 0
    gs.load(run).save(file)
    commands = [("eval", "--episodes", "2"), ("watch", "--steps", "2")]
    if "Pole" in name:
        log, policy = str(tmp_path / "log.npz"), str(tmp_path / "policy.npz")
        commands.append(("export", "--episodes", "2", "--out", log, "--policy", policy))
    for path in (run, file):
        for command, *words in commands:
            forget()
            capsys.readouterr()
            assert main([command, str(path), *words]) == 2
            said = capsys.readouterr().err
            assert f"if you trust it, name the environment yourself: --env {name}" in said
            assert len(said.splitlines()) == 1
            assert main([command, str(path), *words, "--env", name]) == 0
    forget()
    assert gs.load(file, env=name).steps == gs.load(run, env=name).steps > 0


# -- exported policies, and agents that know no environment -----------------------------------------------------------


@pytest.fixture(scope="module")
def pole(tmp_path_factory):
    """A folder with an agent that was fitted to steps like cart-pole's, and its policy, neither with an environment."""
    folder, random = tmp_path_factory.mktemp("pole"), np.random.default_rng(0)
    log = {"observations": random.normal(size=(80, 4)), "actions": random.integers(2, size=80)}
    log |= {"rewards": np.ones(80), "terminals": np.arange(80) % 20 == 19}
    agent = gs.DQN.from_dataset(log, "one-step", hidden=(4,)).fit(updates=20)
    agent.save(folder / "pole.agent")
    agent.export_policy(folder / "pole.npz")
    return folder


@pytest.mark.parametrize("file", ["pole.agent", "pole.npz"])
@pytest.mark.parametrize("env", ["CartPole-v1", "classic/cartpole"])
def test_what_knows_no_environment_is_evaluated_and_watched_where_env_says(file, env, pole, tmp_path, capsys):
    path = str(pole / file)
    assert main(["eval", path, "--env", env, "--episodes", "3", "--out", str(tmp_path / "eval.json")]) == 0
    said = capsys.readouterr().out
    assert f"{env}, {file}: 3 episodes" in said
    assert np.shape(json.loads((tmp_path / "eval.json").read_text())["returns"]) == (1, 3)
    assert main(["watch", path, "--env", env, "--steps", "3", "--options", "limit=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("episode 1  step 0  start  reward 0  return 0  Q ")
    assert any("truncated" in line for line in lines)
    assert main(["watch", path, "--env", env, "--steps", "2", "--out", str(tmp_path / "a.gif"), "--scale", "0.2"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("watch pole.agent", "pole.agent learned from dataset alone; say where it plays with --env ID"),
        ("watch pole.npz", "pole.npz does not say which environment it is for; give --env"),
        ("eval pole.npz", "pole.npz does not say which environment it is for; give --env"),
        ("eval pole.npz --env Acrobot-v1", "env: expected observations of shape (4,), got (6,) in Acrobot-v1"),
        ("watch pole.npz --env Acrobot-v1", "env: expected observations of shape (4,), got (6,) in Acrobot-v1"),
        ("watch pole.agent --env Acrobot-v1", "env: expected observations of shape (4,), got (6,) in Acrobot-v1"),
        (
            "watch pole.npz --env CartPole-v1 --lane 1",
            "lane: pole.npz is an exported policy, which plays; leave it out",
        ),
        ("watch CartPole-v1 --env CartPole-v1", "env: only a run has that; CartPole-v1 is played at random"),
        ("watch classic/cartpole --pretrained --env CartPole-v1", "env: a pretrained agent plays in its own environ"),
        ("export pole.npz --out log.npz", "pole.npz is an exported policy, not an agent: gs.NumpyPolicy.load reads it"),
        ("watch pole.onnx", "pole.onnx is an ONNX model, for ONNX Runtime; greedystep plays policies that end in .npz"),
        ("watch runs/pole.npz", "no such file: runs/pole.npz"),
        ("watch FrozenLake-v1 --options map_name=9x9", "gymnasium cannot make 'FrozenLake-v1': KeyError: '9x9'"),
        ("train --env CartPole-v1", "Unrecognized options: --env; give it without --env"),
    ],
)
def test_what_cannot_be_played_is_answered_by_one_sentence(words, sentence, pole, monkeypatch, capsys):
    monkeypatch.chdir(pole)
    (pole / "pole.onnx").write_bytes(b"onnx")
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_a_policy_plays_in_the_environment_that_its_file_names(tmp_path, capsys):
    agent = gs.DQN("CartPole-v1", "one-step", hidden=(4,), replay_size=100)
    policy = agent.export_policy(tmp_path / "policy.npz")
    assert main(["eval", str(tmp_path / "policy.npz"), "--episodes", "5", "--seed", "3"]) == 0
    mean = gs.evaluate_policy(policy, "CartPole-v1", 5, seed=3)[0]
    assert mean == agent.evaluate(5, seed=3).mean
    assert f"| 3 | {mean:.4g} |" in capsys.readouterr().out
    assert main(["eval", str(tmp_path / "policy.npz"), "--episodes", "50", "--epsilon", "1"]) == 0
    assert "50 episodes, 1 of the actions at random" in capsys.readouterr().out


# -- watch ------------------------------------------------------------------------------------------------------------


def test_an_agent_is_watched(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", str(run), "--episodes", "2", "--lane", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("episode 1  step 0  start  reward 0  return 0  Q ")
    assert all(("▸" in line) == ("minated" not in line) for line in lines)
    assert " n " in lines[0]
    assert " target " in lines[0]
    assert main(["watch", str(run), "--steps", "5", "--scale", "0.25", "--fps", "20", "--out", "a.gif"]) == 0
    with Image.open("a.gif") as image:
        assert image.n_frames == 6  # pyright: ignore[reportAttributeAccessIssue]
        assert image.size[0] > 90 + 50  # cart-pole's own width and the panel's
    for more, sentence in {
        ("--options", "limit=3"): "options: a run keeps its own",
        ("--lane", "2"): "lane: expected an integer from 0 to 1, got 2",
        ("--epsilon", "2"): "epsilon: expected a number in [0, 1]",
    }.items():
        assert main(["watch", str(run), *more]) == 2
        assert sentence in capsys.readouterr().err


def test_chance_has_no_epsilon(capsys):
    assert main(["watch", "minatar/breakout", "--epsilon", "0.5"]) == 2
    assert "epsilon: only a run has that" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("chosen", "steps"),
    [
        ({"returns": "greedy-step"}, 70),  # longer than the padding of one episode
        ({"returns": "greedy-step", "horizon": 2}, 20),
        ({"returns": "n-step", "n": 3}, 20),
        ({"returns": "one-step"}, 20),
        ({"returns": "lambda", "lambda_": 0.5}, 20),
    ],
)
def test_thoughts_are_the_returns_of_what_happened(chosen, steps):
    trainer = tiny(**chosen).trainer()
    player = QAnnotator(trainer, epsilon=0.0)
    told = list(player.annotate(play(trainer.env, player.policy, 0, steps=steps)))
    networks = jax.tree.map(lambda x: x[0], trainer.params)
    ends = [i for i, moment in enumerate(told) if i + 1 == len(told) or told[i + 1].decision is None]
    begin = 0
    for end in ends:
        episode = told[begin : end + 1]
        begin = end + 1
        seen = np.stack([trainer.env.observe(moment.state) for moment in episode])
        q = np.asarray(trainer.learner.acting_q(networks, seen))
        np.testing.assert_allclose([moment.annotation.values for moment in episode], q, rtol=1e-5, atol=1e-6)
        rewards = np.array([moment.reward for moment in episode[1:]], np.float32)
        over = np.array([moment.end == "terminated" for moment in episode[1:]])
        stretch = (rewards, (0.99 * ~over).astype(np.float32), q[1:].max(axis=1))
        n = None
        if chosen["returns"] == "greedy-step":
            y, n = returns.greedy_step(*stretch, horizon=chosen.get("horizon"))
        elif chosen["returns"] == "lambda":
            y = returns.lambda_return(*stretch, 0.5)
        else:
            y = returns.n_step(*stretch, chosen.get("n", 1))
            n = np.minimum(chosen.get("n", 1), len(rewards) - np.arange(len(rewards)))
        thoughts = [moment.annotation for moment in episode[:-1]]
        np.testing.assert_allclose([thought.target for thought in thoughts], y, rtol=1e-5)
        assert [thought.lookahead for thought in thoughts] == ([None] * len(y) if n is None else n.tolist())
        assert [t.action for t in thoughts] == [moment.decision.action for moment in episode[1:]]
        assert episode[-1].annotation.action is None


def test_a_thought_is_drawn_beside_the_game(run):
    env = trained(run).env
    image = np.zeros((120, 180, 3), np.uint8)
    thought = QAnnotation((1.0, -2.0), 0, 1.5, 7)
    frame, other, empty = (add_q_panel(image, env, t) for t in (thought, thought._replace(action=1), None))
    assert frame.shape == other.shape == empty.shape == (120, 180 + 2 + 100, 3)
    np.testing.assert_array_equal(frame[:, :180], image)
    assert (frame != other).any()
    assert len(np.unique(empty[:, 182:].reshape(-1, 3), axis=0)) == 1
    assert describe_annotation(env, thought) == ["Q ▸left 1  right -2", "n 7  target 1.5"]
    assert describe_annotation(env, thought._replace(lookahead=None))[1] == "target 1.5"

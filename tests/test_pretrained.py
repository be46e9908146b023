"""Pretrained agents: the files of the package, the commands that use them, and the program that makes them."""

import hashlib
import subprocess
import sys
from importlib import resources

import jax
import numpy as np
import pytest

import greedystep as gs
from benchmarks import pretrained as maker
from greedystep import io
from greedystep.cli import main
from greedystep.deep.dqn_run import DQNRunConfig
from greedystep.deep.evaluator import PolicyEvaluator
from greedystep.deep.learner import Learner
from greedystep.deep.policy_export import numpy_policy
from greedystep.numpy_policy import NumpyPolicy

TINY = {"returns": "one-step", "hidden": (8,), "replay_size": 300, "batch_size": 4, "warmup": 40, "log_every": 50}
RECIPES = {"classic/cartpole": maker.Recipe(200, 2, "paper", TINY)}


# -- the files of the package ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", gs.pretrained.names())
def test_every_agent_fits_its_card_and_its_environment(name):
    card, policy = gs.pretrained.card(name), gs.load_pretrained(name)
    content = (resources.files("greedystep.pretrained") / card["policy"]["file"]).read_bytes()
    assert card["policy"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert card["policy"]["bytes"] == len(content) <= 300_000
    env = gs.envs.make(name, **card["options"])
    assert (env.observation.shape, env.num_actions, name) == (policy.shape, policy.num_actions, policy.env)
    assert str(env.observation.dtype) == policy.dtype
    assert card["version"]
    score, random, trial = card["score"], card["random"], card["selection"]
    assert random["high"] < score["low"] <= score["mean"] <= score["high"]
    assert score["episodes"] >= 500
    assert trial["seed"] == card["training"]["seeds"][np.argmax(trial["mean_returns"])]


def test_a_policy_of_every_recipe_fits_into_its_file(tmp_path):
    """With normal random weights, which are harder to compress than trained ones."""
    random = np.random.default_rng(0)
    for game, recipe in maker.RECIPES.items():
        config = DQNRunConfig.from_preset(game, recipe.preset, **recipe.settings)
        env = config.make_env()
        learner = Learner(config.agent, env.observation, env.num_actions)
        shapes = jax.eval_shape(learner.init, jax.random.key(0)).params
        policy = numpy_policy(learner, jax.tree.map(lambda x: random.normal(size=x.shape), shapes))
        policy.save(tmp_path / "policy.npz", max_bytes=maker.MAX_BYTES)


def test_the_cards_are_those_of_the_recipes():
    assert set(gs.pretrained.names()) == set(maker.RECIPES) <= set(gs.envs.names())


def test_the_best_known_players_are_there():
    assert gs.pretrained.card("classic/cartpole")["score"]["mean"] > 475
    assert gs.pretrained.card("classic/acrobot")["score"]["mean"] > -100
    assert gs.pretrained.card("classic/mountaincar")["score"]["mean"] > -110


def test_loading_needs_neither_jax_nor_gymnasium():
    script = (
        "import sys, greedystep as gs; p = gs.load_pretrained('classic/cartpole'); print(p.predict([0, 0, 0.1, 0.1]),"
        "sorted({'jax', 'gymnasium', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "1 []\n", done.stderr  # push the cart to where the pole falls


def test_a_game_without_one_names_those_that_have_one():
    sentence = r"^pretrained: there is no pretrained agent for 'toy/bomb'; these have one: classic/acrobot, "
    for ask in (gs.load_pretrained, gs.pretrained.card):
        with pytest.raises(ValueError, match=sentence):
            ask("toy/bomb")


# -- the commands ------------------------------------------------------------------------------------------------------


def test_one_is_watched(capsys):
    words = ["watch", "classic/cartpole", "--pretrained", "--steps", "2", "--options"]
    assert main([*words, "limit=500"]) == 0  # as in its card
    said = capsys.readouterr()
    assert said.err.startswith("classic/cartpole, pretrained: mean return 500 (95 % CI 500 to 500) over 1000 episodes")
    assert main([*words, "limit=2"]) == 0
    said = capsys.readouterr()
    assert said.err == "classic/cartpole, pretrained; its score is of other options\n"
    first, _, last = said.out.splitlines()
    assert " Q " in first
    assert first.count("▸") == 1
    assert last.split("  Q ")[0].endswith("return 2  truncated")


def test_one_is_evaluated(tmp_path, capsys):
    out = tmp_path / "x.json"
    assert main(["eval", "classic/cartpole", "--pretrained", "--episodes", "3", "--out", str(out)]) == 0
    assert "| 500 | 500 | 500 | 500 | 0 |" in capsys.readouterr().out
    assert io.read_json(out)["returns"] == [[500, 500, 500]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["watch", "toy/bomb"], "pretrained: there is no pretrained agent for 'toy/bomb'; these have one: classic/"),
        (["eval", "runs/x"], "pretrained: there is no pretrained agent for 'runs/x'; these have one: classic/"),
        (["watch", "classic/cartpole", "--policy", "random"], "policy: a pretrained agent plays, leave it out"),
        (["watch", "classic/cartpole", "--lane", "0"], "lane: a pretrained agent plays, leave it out"),
        (["watch", "classic/cartpole", "--epsilon", "2"], "epsilon: expected a number in [0, 1], got 2"),
        (["eval", "classic/cartpole", "--env", "x"], "env: a pretrained agent plays in its own environment"),
    ],
)
def test_what_makes_no_sense_is_refused(words, sentence, capsys):
    assert main([*words, "--pretrained"]) == 2
    assert sentence in capsys.readouterr().err


def test_the_list_of_environments_shows_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    assert main(["envs"]) == 0
    assert "classic/cartpole 500, " in capsys.readouterr().out.splitlines()[-1]
    assert main(["envs", "classic/cartpole"]) == 0
    assert "classic/cartpole, pretrained: mean return 500" in capsys.readouterr().out


# -- the program that makes them ---------------------------------------------------------------------------------------


WORDS = ["--episodes", "20", "--selection-episodes", "20"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of an agent that was made by a tiny training in cart-pole, which was stopped half-way."""
    folder = tmp_path_factory.mktemp("made")
    config = DQNRunConfig.from_preset("classic/cartpole", "paper", seeds=(0, 1), steps=100, **TINY)
    maker.train(folder / "runs" / "classic-cartpole", config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maker, "RECIPES", RECIPES)
        assert maker.main([*WORDS, "--out", str(folder / "out"), "--runs", str(folder / "runs")]) == 0
    return folder


def test_an_agent_is_made_and_scored(made):
    assert len((made / "runs" / "classic-cartpole" / "metrics.jsonl").read_text().splitlines()) == 2 * 4
    card = io.read_json(made / "out" / "classic-cartpole.json")
    assert card["training"]["steps"] == 200
    play = PolicyEvaluator(NumpyPolicy.load(made / "out" / "classic-cartpole.npz"), gs.envs.make("classic/cartpole"))
    assert card["score"]["mean"] == pytest.approx(play(maker.SCORE_SEED, episodes=20).mean)
    assert max(card["selection"]["mean_returns"]) == pytest.approx(play(maker.SELECTION_SEED, episodes=20).mean)
    assert 10 < card["random"]["mean"] < 40


def test_what_is_made_is_not_made_again(made, monkeypatch, capsys):
    monkeypatch.setattr(maker, "RECIPES", RECIPES)
    files = sorted((made / "out").iterdir())
    before = [file.stat().st_mtime_ns for file in files]
    assert maker.main([*WORDS, "--out", str(made / "out"), "--runs", str(made / "runs")]) == 0
    assert "classic-cartpole.json is there already" in " ".join(capsys.readouterr().out.split())
    assert [file.stat().st_mtime_ns for file in files] == before


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--seeds", "3"], "classic-cartpole is a run with other settings; choose another folder or delete it"),
        (["chess"], "games: no name contains 'chess'; known are classic/cartpole"),
        (["--seeds", "0"], "seeds: expected an integer"),
        (["--episodes", "0"], "episodes: expected an integer"),
    ],
)
def test_the_maker_refuses_what_makes_no_sense(more, sentence, made, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(maker, "RECIPES", RECIPES)
    assert maker.main(["--out", str(tmp_path / "out"), "--runs", str(made / "runs"), *more]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

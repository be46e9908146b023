"""Habits from stable-baselines3 and CleanRL: evaluation while training, `evaluate_policy`, and logs with known tags."""

import csv
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from test_host import TINY, Counting
from test_metrics import events_in

import greedystep as gs
from greedystep.metrics import TAGS, tagged


class Wandb:
    """Stands for the package wandb."""

    def __init__(self):
        self.started, self.logged, self.finished = [], [], 0

    def init(self, **options):
        self.started.append(options)
        return SimpleNamespace(log=lambda what, step: self.logged.append((step, what)), finish=self._finish)

    def _finish(self):
        self.finished += 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An agent after three chunks with all loggers, its rows, the folder and what wandb was told."""
    folder, wandb = tmp_path_factory.mktemp("logs"), Wandb()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "wandb", wandb)
        to_wandb = gs.callbacks.WandB(project="p", config={"mine": 1})
    agent = gs.DQN(Counting, **TINY)
    loggers = [gs.callbacks.TensorBoard(folder / "events"), gs.callbacks.CSV(folder / "log" / "rows.csv"), to_wandb]
    rows = agent.learn(120, callback=loggers, eval_env=Counting, eval_freq=80, n_eval_episodes=3)
    to_wandb.finish()
    return agent, rows, folder, wandb


def test_the_greedy_policy_plays_every_so_many_steps_and_at_the_end(trained):
    _, rows, _, _ = trained
    assert [row["step"] for row in rows] == [40, 80, 120]
    assert [row["eval_return"] for row in rows] == [None, 10.0, 10.0]  # 1 + 2 + 3 + 4 in the first episode of each


def test_an_evaluation_in_the_same_environment_cuts_the_running_episode():
    env = Counting()
    agent = gs.DQN(env, **TINY)
    rows = agent.learn(40, eval_env=env, n_eval_episodes=2)
    assert rows[-1]["eval_return"] > 0
    assert gs.evaluate_policy(agent, env, 2)[0] > 0
    assert agent.learn(40)[-1]["step"] == 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eval_env": "FrozenLake-v1"}, "expected observations of shape"),
        ({"eval_freq": 0}, "eval_freq: expected an integer >= 1, got 0"),
        ({"n_eval_episodes": 0}, "n_eval_episodes: expected an integer >= 1, got 0"),
    ],
)
def test_evaluations_that_make_no_sense_are_refused_before_the_training(trained, arguments, message):
    agent = trained[0]
    with pytest.raises(ValueError, match=message):
        agent.learn(40, **arguments)
    assert agent.steps == 120


# -- logs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("progress_bar", [None, True, False])
def test_progress_is_shown_on_a_terminal_or_if_asked_for(is_terminal, progress_bar, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("rich.console.Console.is_terminal", is_terminal)
    agent = gs.DQN(Counting, **TINY)
    agent.learn(40, progress_bar=progress_bar)
    log = {"observations": np.zeros((20, 2)), "actions": np.zeros(20, int), "rewards": np.ones(20)}
    agent.fit(log | {"terminals": np.arange(20) % 5 == 4}, updates=5, progress_bar=progress_bar)
    said = capsys.readouterr().err
    assert said.count("done in") == (2 if progress_bar or (is_terminal and progress_bar is None) else 0)


def test_tags_are_cleanrls():
    row = {"step": 1, "lane": 0, "seed": 3, "episode_return": 2.0, "loss": None, "mean_n": 1, "n_histogram": [1, 2]}
    assert tagged(row) == {"charts/episodic_return": 2.0, "charts/mean_n": 1.0}
    assert {"charts/episodic_return", "charts/SPS", "losses/td_loss", "losses/q_values"} <= set(TAGS.values())


def test_tensorboard_and_wandb_get_the_same_numbers(trained):
    _, rows, folder, wandb = trained
    expected = [(row["step"], tagged(row)) for row in rows]
    assert "eval/episodic_return" in expected[1][1]
    assert wandb.logged == expected
    assert wandb.finished == 1
    (started,) = wandb.started
    assert started["project"] == "p"
    assert (started["config"]["batch_size"], started["config"]["env"], started["config"]["mine"]) == (4, "Counting", 1)
    _, *events = events_in(folder / "events" / "lane-0")
    for event, (step, numbers) in zip(events, expected, strict=True):
        assert event.step == step
        assert {one.tag: one.simple_value for one in event.summary.value} == pytest.approx(numbers, rel=1e-6)


def test_the_csv_has_a_cell_for_every_number(trained):
    _, rows, folder, _ = trained
    with open(folder / "log" / "rows.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["global_step"] for row in found] == ["40", "80", "120"]
    for cells, row in zip(found, rows, strict=True):
        numbers = tagged(row)
        assert {name: float(cell) for name, cell in cells.items() if cell and name != "global_step"} == numbers
    assert found[0]["losses/td_loss"] == ""  # the warm-up is not over
    assert float(found[-1]["losses/td_loss"]) > 0


def test_a_csv_that_is_there_goes_on(tmp_path):
    path, agent = tmp_path / "rows.csv", gs.DQN(Counting, **TINY)
    first = gs.callbacks.CSV(path)
    agent.learn(80, callback=first)
    agent.learn(40, callback=first, eval_env=Counting, n_eval_episodes=2)
    agent.learn(40, callback=gs.callbacks.CSV(path))
    with open(path, newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["global_step"] for row in found] == ["40", "80", "120", "160"]
    assert [row["eval/episodic_return"] for row in found] == ["", "", "10.0", ""]


def test_a_csv_of_something_else_is_refused_and_left_alone(tmp_path):
    path, agent = tmp_path / "rows.csv", gs.DQN(Counting, **TINY)
    path.write_text("name,age\nAda,36\n")
    with pytest.raises(ValueError, match=r"^path: expected a new file or one .*rows.csv, which begins with 'name'$"):
        gs.callbacks.CSV(path)
    assert path.read_text() == "name,age\nAda,36\n"
    path.write_text("global_step,charts/episodic_return\n")
    with pytest.raises(ValueError, match=r"rows.csv has no column charts/\w+; choose another file$"):
        agent.learn(40, callback=gs.callbacks.CSV(path))
    assert path.read_text() == "global_step,charts/episodic_return\n"


def test_wandb_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match="Weights & Biases is not installed: pip install wandb"):
        gs.callbacks.WandB()


# -- evaluate_policy ---------------------------------------------------------------------------------------------------


def test_any_policy_is_evaluated(trained, tmp_path):
    agent = trained[0]
    exported = agent.export_policy(tmp_path / "policy.npz")
    like_sb3 = SimpleNamespace(predict=lambda seen, deterministic=False: (np.full(len(seen), 5 + deterministic), None))
    for model in (agent, exported, like_sb3, lambda seen: np.full(len(seen), 5)):
        returns, lengths = gs.evaluate_policy(model, Counting, 4, return_episode_rewards=True)
        assert (returns, lengths) == ([10.0] * 4, [4] * 4)
    assert gs.evaluate_policy(exported, Counting(), 3) == pytest.approx((np.mean([10, 15, 6]), np.std([10, 15, 6])))
    assert gs.evaluate_policy(agent, Counting, 2, deterministic=False) == (10.0, 0.0)


@pytest.mark.parametrize("make", [lambda: Counting, Counting], ids=["several", "one"])
def test_a_function_may_return_a_plain_int_for_one_environment(make):
    sizes = []

    def choose(seen):
        sizes.append(len(seen))
        return 5 + int(seen[0].sum()) % 2

    expected = gs.evaluate_policy(lambda seen: np.full(len(seen), 5), make(), 3)
    assert gs.evaluate_policy(lambda seen: 5, make(), 3) == expected
    expected = gs.evaluate_policy(lambda seen: 5 + seen.reshape(len(seen), -1).sum(axis=1).astype(int) % 2, make(), 3)
    assert gs.evaluate_policy(choose, make(), 3) == expected
    assert 1 in sizes
    with pytest.raises(ValueError, match=r"model: expected \d actions from 5 to 6, got array"):
        gs.evaluate_policy(lambda seen: 2, make(), 3)


def test_tables_and_compiled_environments():
    """The greedy actions of an untrained table are all 0, so that a function of zeros gets the same."""
    agent = gs.TabularAgent("toy/choice")
    assert gs.evaluate_policy(agent, "toy/choice", 2, limit=20) == gs.evaluate_policy(
        lambda seen: np.zeros(len(seen), int), "toy/choice", 2, limit=20
    )


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (3, {}, "model: expected an agent, a policy or a function of observations, got 3"),
        (lambda seen: np.zeros(len(seen)), {}, r"model: expected 3 actions from 5 to 6, got array\(\[0., 0., 0.\]\)"),
        (lambda seen: np.full(len(seen), 2), {}, "model: expected 3 actions from 5 to 6, got array"),
        (lambda seen: seen, {"deterministic": False}, "deterministic: this policy always takes the same action"),
        (lambda seen: seen, {"n_eval_episodes": 0}, "episodes: expected an integer from 1"),
    ],
)
def test_what_is_no_policy_is_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        gs.evaluate_policy(model, Counting, **{"n_eval_episodes": 3} | options)

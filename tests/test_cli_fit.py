"""`greedystep fit`: agents from logged trajectories, good and bad input, and Ctrl-C."""

import numpy as np
import pytest

import greedystep as gs
from greedystep.cli import main
from greedystep.deep.presets import offline_settings
from greedystep.trajectory import Trajectory, save

SMALL = ["--updates", "300", "--hidden", "16", "--batch-size", "8", "--target-period", "50"]


def walk(actions, reward, observations):
    length = len(actions)
    last = np.arange(length) == length - 1
    return Trajectory(observations, np.array(actions), last * reward, last, np.zeros(length, bool))


@pytest.fixture
def cars(tmp_path):
    """A file of walks in MountainCar's space."""
    logs = [walk([1] * 20, float(i % 2), np.random.default_rng(i).normal(size=(21, 2)) * 0.1) for i in range(6)]
    save(tmp_path / "cars.npz", logs)
    return tmp_path / "cars.npz"


@pytest.fixture
def chains(tmp_path):
    """A file of walks along the ten states of a chain, to the reward at its end or not."""
    logs = [walk([1] * 10, 1.0, np.arange(11) % 10), walk([1, 0], 0.0, np.array([0, 1, 0]))]
    save(tmp_path / "chains.npz", logs)
    return tmp_path / "chains.npz"


def test_a_network_learns_from_a_file_and_is_played(cars, tmp_path, capsys):
    out = tmp_path / "here" / "car.agent"
    command = ["fit", str(cars), "--env", "classic/mountaincar", *SMALL, "--out", str(out)]
    assert main(command) == 0
    assert "6 trajectories, 120 steps; 300 updates, loss " in capsys.readouterr().out
    agent = gs.load(out)
    assert (agent.config.returns, agent.config.hidden, agent.steps) == ("lambda", (16,), 0)
    same = gs.DQN("classic/mountaincar", **offline_settings({"hidden": (16,), "batch_size": 8, "target_period": 50}))
    logs = gs.trajectory.load(cars)
    np.testing.assert_array_equal(same.fit(logs, 300).values(np.zeros(2)), agent.values(np.zeros(2)))
    assert main(["eval", str(out), "--episodes", "2", "--limit", "50"]) == 0
    assert "classic/mountaincar, car.agent: 2 episodes" in capsys.readouterr().out
    assert main(["watch", str(out), "--steps", "3"]) == 0
    assert main(command) == 2
    assert "exists already; choose another file" in capsys.readouterr().err


def test_pieces_are_the_same_as_a_whole(cars, monkeypatch):
    settings = {"hidden": (8,), "batch_size": 8, "target_period": 5}
    whole, pieces = (gs.DQN("classic/mountaincar", **settings) for _ in range(2))
    logs = gs.trajectory.load(cars)
    told = [done for done, _ in pieces.fit_in_pieces(logs, 333)]
    assert len(told) > 10
    assert told[-1] == 166 + 333
    monkeypatch.setattr(gs.deep.agent, "PIECES", 1)
    assert [done for done, _ in whole.fit_in_pieces(logs, 333)] == [166, 496, 499]  # cloning, whole periods, the rest
    np.testing.assert_array_equal(whole.values(np.zeros(2)), pieces.values(np.zeros(2)))


def test_a_table_learns_from_several_files(chains, tmp_path, capsys):
    out = tmp_path / "table.npz"
    assert main(["fit", str(chains), str(chains), "--env", "toy/n-horizon", "--sweeps", "2", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "4 trajectories, 24 steps; 2 sweeps. The greedy policy's expected return: " in said
    assert gs.load(out).predict(np.arange(9)).tolist() == [1] * 9


def test_ctrl_c_keeps_what_was_learned(cars, tmp_path, capsys, monkeypatch):
    real = gs.DQN.fit_in_pieces

    def interrupted(self, *args, **more):
        for done, loss in real(self, *args, **more):
            yield done, loss
            if done == 50:  # while the behaviour is cloned
                raise KeyboardInterrupt

    monkeypatch.setattr(gs.DQN, "fit_in_pieces", interrupted)
    out = tmp_path / "car.agent"
    assert main(["fit", str(cars), "--env", "classic/mountaincar", *SMALL, "--out", str(out)]) == 130
    assert "Saved after 50 of 450 updates" in capsys.readouterr().err
    assert gs.load(out).config.batch_size == 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "data: give at least one file of trajectories"),
        (["CARS", "--agent", "table"], "agent: a table needs the environment that the data come from; give --env"),
        (["nothing.npz", "--env", "classic/mountaincar"], "no such trajectory file: nothing.npz"),
        (["nothing.hdf5", "--env", "classic/mountaincar"], "no such file: nothing.hdf5"),
        (["minari:no/such-v0", "--env", "classic/mountaincar"], "`minari download no/such-v0` gets it"),
        ([".", "--env", "classic/mountaincar"], ".: a folder; expected a file, or the folder of a Minari dataset"),
        (
            ["CARS", "--env", "minatar/breakout", "--batches", "5"],
            "episode 0: expected observations of shape (10, 10, 4)",
        ),
        (["CARS", "--env", "classic/mountaincar", "--sweeps", "5"], "sweeps: classic/mountaincar is for a network"),
        (
            ["CARS", "--env", "classic/mountaincar", "--batches", "0"],
            "batches: expected an integer from 1 to 2147483647, got 0",
        ),
        (
            ["CARS", "--env", "classic/mountaincar", "--updates", "0"],
            "updates: expected an integer from 1 to 2147483647, got 0",
        ),
        (
            ["CARS", "--env", "classic/mountaincar", "--updates", "5", "--batches", "5"],
            "updates: another name of batches; give one of them",
        ),
        (["CARS", "--env", "classic/mountaincar", "--returns", "retrace"], "retrace needs behaviour_prob"),
        (
            ["CARS", "--env", "classic/mountaincar", "--warmup", "5"],
            "warmup: means nothing where all is learned from a log",
        ),
        (["CHAINS", "--env", "toy/n-horizon", "--double"], "double: toy/n-horizon is for a table"),
        (["CARS", "--env", "toy/n-horizon"], "states"),
        (["CARS", "--env", "classic/mountaincar", "--out", "CARS"], "exists already"),
        (["CARS", "--eval-env", "Acrobot-v1"], "eval_env: expected observations of shape (2,), got (6,) in Acrobot-v1"),
        (["CARS", "--seeds", "2", "--eval-env", "Acrobot-v1"], "eval_env: expected observations of shape (2,), got"),
        (["CARS", "--eval-env", "CartPole-v2x"], "eval_env: gymnasium cannot make 'CartPole-v2x'"),
        (["CHAINS", "--env", "toy/n-horizon", "--eval-env", "CartPole-v1"], "eval_env: a table is evaluated exactly"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(words, message, cars, chains, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = [{"CARS": str(cars), "CHAINS": str(chains)}.get(word, word) for word in words]
    assert main(["fit", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "runs").exists()


def test_a_loss_without_bound_is_a_failure_that_writes_nothing(cars, capsys, tmp_path):
    how = ["--env", "classic/mountaincar", "--learning-rate", "1e30", "--out", str(tmp_path / "cars.agent")]
    assert main(["fit", str(cars), *how]) == 1
    assert "the loss was not finite" in capsys.readouterr().err
    assert not (tmp_path / "cars.agent").exists()

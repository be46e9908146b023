"""The agent's face: names, learning, answers, evaluation, logged data, files."""

import numpy as np
import pytest

import greedystep as gs
from greedystep.deep import offline
from greedystep.trajectory import Trajectory

SMALL = {"hidden": (8,), "replay_size": 300, "batch_size": 8, "warmup": 40, "target_period": 30, "log_every": 100}


@pytest.fixture(scope="module")
def car():
    agent = gs.DQN("classic/mountaincar", seed=3, ensemble=2, **SMALL)
    agent.learn(150)
    return agent


def test_learn_trains_so_many_more_steps(car):
    assert car.steps == 150
    assert [row["step"] for row in car.learn(100)] == [200, 250]
    assert car.steps == 250
    assert car.trainer.env.limit == 1000  # the time limit of the experiments


def test_answers_for_one_observation_and_for_many(car):
    one, many = np.array([-0.5, 0.01], np.float32), np.array([[-0.5, 0.01], [0.2, -0.01]])
    assert isinstance(car.predict(one), int)
    assert car.predict(many).shape == (2,)
    assert car.predict(many)[0] == car.predict(one)
    assert car.values(many).shape == (2, 3)
    np.testing.assert_array_equal(car.values(many).argmax(axis=1), car.predict(many))
    with pytest.raises(ValueError, match=r"^observations: expected shape \(2,\), or many of them, got \(3,\)$"):
        car.predict(np.zeros(3))
    with pytest.raises(ValueError, match=r"^observations: expected real numbers, got complex128$"):
        car.predict(np.zeros(2, complex))


def test_evaluation_plays_whole_episodes_and_learns_nothing():
    agent = gs.DQN("classic/cartpole", "lambda", **SMALL)
    before = agent.networks
    found = agent.evaluate(episodes=7, epsilon=0.5)
    assert found.returns.shape == (7,)
    np.testing.assert_array_equal(found.returns, found.lengths)  # cartpole pays 1 a step
    assert found.mean == found.returns.mean()
    assert not found.unfinished.any()
    assert agent.evaluate(episodes=7, limit=3).unfinished.all()
    assert agent.evaluate(episodes=7, limit=3).lengths.tolist() == [3] * 7
    np.testing.assert_array_equal(found.returns, agent.evaluate(episodes=7, epsilon=0.5).returns)
    assert (found.returns != agent.evaluate(episodes=7, epsilon=0.5, seed=1).returns).any()
    np.testing.assert_array_equal(before.layers[0].weight, agent.networks.layers[0].weight)
    assert agent.steps == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": 0}, "^episodes: expected"),
        ({"epsilon": 2.0}, "^epsilon: expected"),
        ({"limit": 1.5}, "^limit: "),
    ],
)
def test_evaluations_that_make_no_sense_are_refused(car, arguments, message):
    with pytest.raises(ValueError, match=message):
        car.evaluate(**arguments)


def test_a_loaded_agent_goes_on_as_the_saved_one(car, tmp_path):
    path = tmp_path / "some" / "car.agent"
    car.save(path)
    loaded = gs.load(path)
    assert [file.name for file in path.parent.iterdir()] == ["car.agent"]
    assert loaded.env == car.env
    assert loaded.config == car.config
    rows, expected = loaded.learn(60), car.learn(60)
    assert rows[-1]["loss"] == expected[-1]["loss"]
    np.testing.assert_array_equal(loaded.values(np.eye(2)), car.values(np.eye(2)))


def test_an_agent_is_not_saved_over_a_folder(car, tmp_path):
    with pytest.raises(IsADirectoryError, match=f"Is a directory: '{tmp_path}'$"):
        car.save(tmp_path)
    assert not [*tmp_path.iterdir(), *tmp_path.parent.glob(f".{tmp_path.name}*")]


def test_options_of_an_environment_outlive_the_file(tmp_path):
    env = gs.envs.make("minatar/breakout", sticky=0.25, limit=77)
    gs.DQN(env, **SMALL).save(tmp_path / "agent")
    assert gs.load(tmp_path / "agent").env == env


def test_a_lane_of_a_run_is_loaded_alone(tmp_path):
    from greedystep.deep.trainer import Trainer

    config = gs.DQN("classic/mountaincar", "lambda", **SMALL).config
    lane_hyperparams = {"learning_rate": [0.01, 0.002]}
    both = Trainer(config, gs.envs.make("classic/mountaincar"), [5, 6], lane_hyperparams=lane_hyperparams)
    both.run(100)
    both.save(tmp_path / "checkpoints")
    both.run(50)
    one = gs.load(tmp_path, lane=1)
    assert one.trainer.seeds == [6]
    one.learn(50)
    weights = both.params.layers[0].weight
    np.testing.assert_array_equal(one.networks.layers[0].weight, weights[1])
    with pytest.raises(ValueError, match=r"^lane: expected an integer from 0 to 1, got 2$"):
        gs.load(tmp_path, lane=2)


def test_numbers_beyond_their_ends_are_refused(car, tmp_path):
    car.save(tmp_path / "agent")
    with pytest.raises(ValueError, match=r"^lane: expected an integer from 0 to 0, got 5$"):
        gs.load(tmp_path / "agent", lane=5)
    for steps in (-1, 2.5, 5.0, 2**31, True):
        with pytest.raises(ValueError, match=r"^steps: expected an integer from 0 to \d+, got "):
            car.learn(steps)
    data = [logged([0, 1, 2], 1.0)]
    for updates in (-1, 2.5, 2**31):
        with pytest.raises(ValueError, match=r"^updates: expected an integer from 0 to 2147483647, got "):
            car.fit(data, updates=updates)
    with pytest.raises(ValueError, match=r"^seed: expected an integer from 0 to 4294967295, got 4294967296$"):
        car.fit(data, updates=1, seed=2**32)


def test_load_reads_tables_too(tmp_path):
    gs.TabularAgent("toy/trace-back", seed=0).save(tmp_path / "table.npz")
    assert isinstance(gs.load(tmp_path / "table.npz"), gs.TabularAgent)


def test_what_is_no_agent_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^no such agent file: "):
        gs.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is not the folder of a run"):
        gs.load(tmp_path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="is no agent file of greedystep"):
        gs.load(tmp_path / "text")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": 5}, "^env: expected an environment, its name or a function that makes one, got int$"),
        ({"env": "minatar/breakuot"}, "did you mean 'minatar/breakout'"),
        ({"env": "minatar/breakout", "returns": "lambda", "horizon": 3}, "^horizon: "),
        ({"env": "minatar/breakout", "lr": 3}, "^lr: DQN has no such setting"),
        ({"env": "minatar/breakout", "preset": "slow"}, "^preset: "),
        ({"env": "minatar/breakout", "seed": -1}, "^seed: "),
    ],
)
def test_agents_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        gs.DQN(**arguments)


# -- logged data ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("returns", ["greedy-step", "one-step", "tree-backup"])
def test_fit_learns_from_logged_trajectories_without_behaviour_probabilities(returns):
    """A reward that comes only at the end (RLlib PR #59958: such rewards were dropped) reaches the first step."""
    log = [logged([1] * right + [wrong], 0.0) for right in range(4) for wrong in (0, 2)] + [logged([1] * 4, 1.0)]
    agent = offline_agent(returns).fit(log, updates=1500)
    states = np.stack([np.arange(4) / 4, np.ones(4)], axis=1)
    expected = [[0, 0.9 ** (3 - t), 0] for t in range(4)]
    np.testing.assert_allclose(agent.values(states), expected, atol=0.1)
    assert agent.predict(states).tolist() == [1, 1, 1, 1]
    assert agent.steps == 0


def offline_agent(returns):
    settings = SMALL | {"hidden": (32,), "discount": 0.9, "learning_rate": 3e-3, "batch_size": 32}
    return gs.DQN("classic/mountaincar", returns, conservatism="none", **settings)


def logged(actions, reward, **more):
    """A walk along numbered states that ends with that reward."""
    length = len(actions)
    observations = np.stack([np.arange(length + 1) / 4, np.ones(length + 1)], axis=1).astype(np.float32)
    last = np.arange(length) == length - 1
    return Trajectory(observations, np.array(actions), last * reward, last, np.zeros(length, bool), **more)


def test_fit_refuses_what_it_cannot_learn_from():
    agent, good = offline_agent("retrace"), logged([0, 1], 1.0, behaviour_prob=np.full(2, 0.5))
    for dataset, message in (
        ([logged([0, 1], 1.0)], "^returns: retrace needs behaviour_prob, which dataset, episode 0 does not have$"),
        ([], "^dataset: expected at least one trajectory, got none$"),
        (
            [good, logged([7], 1.0, behaviour_prob=np.ones(1))],
            r"^dataset, episode 1: expected actions in 0\.\.2, got 7 in step 0",
        ),
        ([good, "text"], "^dataset: episode 1 is a str; expected a Trajectory, "),
    ):
        with pytest.raises(ValueError, match=message):
            agent.fit(dataset)


# -- spaces of a log ---------------------------------------------------------------------------------------------------


def episodes_of(*observations):
    return [(np.array(seen), [0], [1.0], True) for seen in observations]


@pytest.mark.parametrize(
    ("first", "second", "dtype"),
    [
        ([[0, 1], [1, 0]], [[0.7, -0.6], [0.9, 0.2]], "float32"),
        (np.zeros((2, 2), np.uint8), [[300, -1], [2, 2]], "int32"),
        ([[3_000_000_000, 1], [1, 2]], [[0, 1], [1, 2]], "float32"),
        (np.zeros((2, 2), np.uint8), np.full((2, 2), 255, np.uint8), "uint8"),
        (np.zeros((2, 2), bool), np.ones((2, 2), np.int8), "int8"),
    ],
)
def test_observations_are_stored_as_a_dtype_that_holds_those_of_every_episode(first, second, dtype):
    agent = gs.DQN.from_dataset(episodes_of(first, second), hidden=(4,))
    buffer, replay = offline.fill_replay(agent.trainer.learner, agent._data)
    assert agent.env.observation.dtype == dtype
    np.testing.assert_allclose(buffer.unpack(replay.observations[0]), np.concatenate([first, second]))


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([0, -3], "dataset, episode 1: expected states numbered from 0, got -3 in step 1"),
        ([2**40, 0], "dataset, episode 1: expected states of at most 2147483647, got 1099511627776 in step 0"),
    ],
)
def test_numbers_of_states_that_cannot_be_are_refused(states, message):
    with pytest.raises(ValueError, match=message):
        gs.DQN.from_dataset(episodes_of([0, 1], states))

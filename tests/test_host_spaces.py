"""Kinds of environments on the host: spaces of observations and actions, functions, vectors and names."""

from functools import partial

import gymnasium
import minari
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from host_games import TINY, Counting, Odd, stored
from minari.data_collector import EpisodeBuffer

import greedystep as gs
from greedystep import io, minari_store
from greedystep.deep.collect import collect
from greedystep.deep.env_spec import make_from_spec, spec_of
from greedystep.deep.networks import MLP
from greedystep.envs.host import HostEnvironment, LoggedEnvironment
from greedystep.envs.observation_spec import ObservationSpec
from greedystep.envs.space_json import space_from_json, space_to_json

# -- kinds of environments and observations ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (spaces.Discrete(5, start=2), (), "int32"),
        (spaces.MultiBinary(3), (3,), "int8"),
        (spaces.MultiDiscrete([2, 3]), (5,), "int32"),
        (spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)}), (5,), "float32"),
        (spaces.Tuple([spaces.Box(-1, 1, (2, 2), np.float64), spaces.MultiBinary(2)]), (6,), "float32"),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), (8, 8, 3), "uint8"),
        (spaces.Box(0, 1, (4,), bool), (4,), "bool"),
    ],
)
def test_observations_of_every_space_that_can_be_flattened(space, shape, dtype):
    space.seed(0)
    agent = gs.DQN(lambda: Odd(space, seen=lambda t: space.sample()), num_envs=2, **TINY)
    assert (agent.env.observation.shape, str(agent.env.observation.dtype)) == (shape, dtype)
    agent.learn(60)
    assert agent.evaluate(3).lengths.tolist() == [7, 7, 7]


def test_integers_that_may_not_fit_into_32_bits_are_stored_as_floats():
    wide = spaces.Box(0, 2**60, (2,), np.int64)
    agent = gs.DQN(lambda: Odd(wide, seen=lambda t: np.array([2**60, 2**40 + t])), **TINY)
    assert agent.env.observation.dtype == np.float32
    agent.learn(40)
    assert {float(seen[0]) for seen, *_ in stored(agent)} == {2.0**60}
    assert gs.DQN(lambda: Odd(spaces.Box(0, 9, (2,), np.uint32)), **TINY).env.observation.dtype == np.int32
    assert gs.DQN(lambda: Odd(spaces.Box(0, 2**32 - 1, (2,), np.uint32)), **TINY).env.observation.dtype == np.float32


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.MultiBinary([2, 2])])
def test_predict_flattens_several_numbers_as_training_does(space):
    space.seed(0)
    agent = gs.DQN(lambda: Odd(space, seen=lambda t: space.sample()), **TINY)
    agent.learn(60)
    one, other = space.sample(), space.sample()
    expected = agent.values(np.stack([spaces.flatten(space, one), spaces.flatten(space, other)]))
    np.testing.assert_allclose(agent.values(one), expected[0], rtol=1e-5)
    np.testing.assert_allclose(agent.values(np.stack([one, other])), expected, rtol=1e-5)
    assert isinstance(agent.predict(one), int)


def test_a_vector_environment_with_observations_of_several_parts():
    space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Tuple([spaces.Discrete(3)])})

    def make():
        return Odd(space, seen=lambda t: {"a": np.full(2, t / 7, np.float32), "b": (t % 3,)})

    agent = gs.DQN(SyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP), **TINY)
    agent.learn(80)
    for seen, *_, then in stored(agent):
        assert np.isclose(then[0], seen[0] + 1 / 7)
        assert then[2:].sum() == 1


def test_an_observation_is_flattened_as_gymnasium_does():
    space = spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Box(-1, 1, (2,))})
    env = HostEnvironment(Odd(space, seen=lambda t: {"a": np.array([0.5, -0.5], np.float32), "b": 2}))
    assert env.open(1).reset([(0, 0)]).tolist() == [[0.5, -0.5, 0, 0, 1]]


@pytest.mark.parametrize("play", [lambda agent: agent.evaluate(2).returns, lambda agent: collect(agent.trainer, 2)])
def test_playing_in_the_given_environment_truncates_the_running_episode(play):
    agent = gs.DQN(Counting(), **TINY)
    agent.learn(102)
    assert len(play(agent)) == 2
    agent.learn(40)
    for seen, *_, then in stored(agent):
        assert then.tolist() == [seen[0], seen[1] + 1]


class Parts(gymnasium.Env):
    """Dict observations with an image and a number; an action is 5 or 6; the reward is 1 where it is 6."""

    observation_space = spaces.Dict({"image": spaces.Box(0, 1, (2, 2)), "kind": spaces.Discrete(3, start=1)})
    action_space = spaces.Discrete(2, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        return self.observation_space.sample(), float(action == 6), True, False, {}


def test_an_agent_takes_observations_and_gives_actions_as_its_environment_does(tmp_path):
    agent = gs.DQN(Parts, **TINY, num_envs=2)
    env, many = Parts(), SyncVectorEnv([Parts] * 3)
    observation, _ = env.reset(seed=0)
    action = agent.predict(observation)
    env.step(action)
    by_hand = spaces.flatten(Parts.observation_space, observation)
    assert agent.predict(by_hand) == action == 5 + agent.values(observation).argmax()
    batch, _ = many.reset(seed=0)
    assert set(agent.predict(batch)) <= {5, 6}
    assert agent.values(batch).shape == (3, 2)
    first = {name: part[0] for name, part in batch.items()}
    np.testing.assert_allclose(agent.values(batch)[0], agent.values(first), rtol=1e-5)
    assert set(agent.predict(np.tile(by_hand, (200, 1)), deterministic=False)) == {5, 6}
    exported = agent.export_policy(tmp_path / "policy.npz")
    for policy in (exported, gs.NumpyPolicy.load(tmp_path / "policy.npz")):
        assert policy.predict(by_hand) == action
        assert 0 <= gs.evaluate_policy(policy, Parts, 5)[0] <= 1
    assert gs.evaluate_policy(lambda seen: np.full(len(seen), 6), Parts, 5) == (1.0, 0.0)
    with pytest.raises(ValueError, match=r"^model: expected 5 actions from 5 to 6, got "):
        gs.evaluate_policy(lambda seen: np.zeros(len(seen), int), Parts, 5)


def test_so_does_one_that_knows_the_environment_from_minari_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    seen = [Parts().reset(seed=seed)[0] for seed in range(9)]
    ends = {"rewards": [1.0], "terminations": [True], "truncations": [False], "infos": {}}
    log = []
    for i in range(8):
        parts = {name: np.stack([seen[i][name], seen[i + 1][name]]) for name in seen[i]}
        log.append(EpisodeBuffer(id=i, observations=parts, actions=[np.int64(5 + i % 2)], **ends))
    how = {"observation_space": Parts.observation_space, "action_space": Parts.action_space}
    with minari_store.without_advice():
        dataset = minari.create_dataset_from_buffers("toy/parts-v0", log, **how)
    observation = seen[0]
    agent = gs.DQN.from_dataset(dataset, hidden=(8,)).fit(updates=2)
    agent.save(tmp_path / "x.agent")
    loaded = gs.load(tmp_path / "x.agent")
    for one in (agent, loaded):
        assert one.predict(observation) in (5, 6)
        flat = spaces.flatten(Parts.observation_space, observation)
        np.testing.assert_array_equal(one.values(observation), agent.values(flat))
        assert one.export_policy(tmp_path / "x.npz").predict(flat) == agent.predict(observation)
    assert loaded.env.space == Parts.observation_space


def test_states_of_minari_s_are_counted_from_the_start_of_their_space_also_after_loading(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    log = gs.Trajectory([5, 6, 7], [0, 1], [0.0, 1.0], [False, True], [False, False])
    dataset = gs.trajectory.to_minari("toy/starts-v0", [log], spaces.Discrete(3, start=5), spaces.Discrete(2))
    agent = gs.DQN.from_dataset(dataset, hidden=(8,))
    agent.save(tmp_path / "x.agent")
    for one in (agent, gs.load(tmp_path / "x.agent")):
        assert one.values(np.array([5, 6, 7])).shape == (3, 2)
        with pytest.raises(ValueError, match="observations: expected states 0 to 2"):
            one.values(0)
        assert one.export_policy(tmp_path / "x.npz").predict(6) == agent.predict(6)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.array([1.0, 2.5], np.float32)),
        spaces.Box(0, 255, (2, 2, 1), np.uint8),
        spaces.Discrete(3, start=-2),
        spaces.MultiBinary([2, 3]),
        spaces.MultiDiscrete([3, 2], start=[1, 0]),
        spaces.Dict([("b", spaces.Discrete(2)), ("a", spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1)]))]),
    ],
)
def test_a_space_comes_back_from_json(space):
    content = io.from_json(io.to_json(space_to_json(space)))
    found = space_from_json(content, "it")
    assert found == space
    if isinstance(space, spaces.Dict):
        assert list(found.spaces) == ["b", "a"]
    for bad in ({}, 3, {"kind": "Graph"}, {"kind": "Dict", "spaces": [["a"]]}, content | {"kind": "Discrete"}):
        if bad != content:
            with pytest.raises(ValueError, match=r"^it describes no space of Gymnasium$"):
                space_from_json(bad, "it")


def test_states_of_a_discrete_space_are_counted_from_its_start(tmp_path):
    agent = gs.DQN(partial(Odd, spaces.Discrete(4, start=2), seen=lambda t: np.int64(2 + t % 4)), **TINY)
    assert agent.values(np.arange(2, 6)).shape == (4, 2)
    with pytest.raises(ValueError, match=r"^observations: expected states 0 to 3, got 4$"):
        agent.predict(6)
    policy = agent.export_policy(tmp_path / "policy.npz")
    assert [policy.predict(state) for state in range(2, 6)] == [agent.predict(state) for state in range(2, 6)]
    assert gs.evaluate_policy(policy, agent.env, 1) == (7.0, 0.0)


def test_a_single_integer_of_a_box_is_a_quantity_and_no_state(tmp_path):
    for high in (3, 2**31 - 1):  # an input for each of these would take terabytes
        space = spaces.Box(-high, high, (), np.int32)
        agent = gs.DQN(lambda space=space: Odd(space, seen=-2), **TINY)
        agent.learn(80)
        assert isinstance(agent.networks, MLP)
        assert len(set(agent.values(np.array([-3, -2, 2]))[:, 0])) == 3
    quantity = ObservationSpec((), np.dtype(np.int32), 0, 5, is_quantity=True)
    for spec in (quantity, quantity._replace(is_quantity=False)):
        assert make_from_spec(spec_of(LoggedEnvironment("log", spec, 2)), "file").observation == spec


def test_observations_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match=r"^observations: expected finite numbers"):
        gs.DQN("CartPole-v1", **TINY).predict([0.0, 0.0, np.nan, 0.0])


@pytest.mark.parametrize("count", [3, 7])
def test_defaults_are_rounded_to_any_number_of_environments(count):
    config = gs.DQN("CartPole-v1", num_envs=count).config
    assert all(getattr(config, name) % count == 0 for name in ("target_period", "replay_size", "log_every"))
    with pytest.raises(ValueError, match=rf"^replay_size: expected a multiple of num_envs={count} above 0, got 1000$"):
        gs.DQN("CartPole-v1", num_envs=count, replay_size=1000)


def test_functions_vectors_and_names():
    assert repr(gs.DQN("CartPole-v1", **TINY)) == "DQN('CartPole-v1', returns='one-step', 0 steps)"
    assert (
        gs.DQN(
            make_vec=lambda n: SyncVectorEnv([Counting] * n),
            num_envs=3,
            **TINY | {"warmup": 42, "target_period": 21, "log_every": 42, "replay_size": 399},
        ).config.num_envs
        == 3
    )
    two = gs.DQN(make_vec=lambda: SyncVectorEnv([Counting] * 2), **TINY)
    assert two.config.num_envs == 2
    two = gs.DQN(make_vec=partial(gymnasium.make_vec, "CartPole-v1", num_envs=2), **TINY)
    assert two.config.num_envs == 2
    two = gs.DQN(make_vec=partial(gymnasium.make_vec, "CartPole-v1"), num_envs=2, **TINY)
    assert two.config.num_envs == 2
    two = gs.DQN(make_vec=lambda count=2: SyncVectorEnv([Counting] * count), **TINY)
    assert two.config.num_envs == 2
    limited = gs.envs.host.HostEnvironment("CartPole-v1", limit=7)
    agent = gs.DQN("CartPole-v1", **TINY)
    assert max(agent.evaluate(5, env=lambda: gymnasium.make("CartPole-v1", max_episode_steps=7)).lengths) <= 7
    assert limited.options == {"limit": 7}

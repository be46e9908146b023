"""Fits to logs: the learning rate that falls to 0, and features standardised by the log."""

import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import oracles_deep
import pytest
from gymnasium import spaces

import greedystep as gs
from greedystep.datasets import Dataset
from greedystep.deep import offline
from greedystep.deep.learner import CLONING_RATE
from greedystep.deep.networks import ConvNet, StandardisedMLP
from greedystep.envs import observation_spec
from greedystep.replay import ReplayBuffer

SMALL = {"hidden": (3,), "batch_size": 4, "target_period": 2, "ensemble": 1}


def one_step(observations, reward=2.0):
    """An episode of one step with action 1, which every batch is made of where there is no other."""
    return gs.Trajectory(
        np.float32(observations), np.array([1]), np.array([reward]), np.array([True]), np.array([False])
    )


def layers(agent, network):
    """The layers of a network in float64, as the oracles take them."""
    mlp = agent.networks.mlp
    return [[np.asarray(x[network], float) for x in (layer.weight, layer.bias)] for layer in mlp.layers]


def test_updates_are_those_of_the_oracle_on_standardised_features_with_a_rate_that_falls_to_0():
    log = [one_step([[2.0, 300.0, 7.0], [4.0, 100.0, 7.0]])]
    agent = gs.DQN.from_dataset(log, "one-step", **SMALL)
    agent.choose_conservatism()
    expected = [layers(agent, network) for network in range(2)]
    agent.fit(updates=6)
    config, features = agent.config, [-1.0, 1.0, 0.0]  # the last one is constant in the log
    for network, kind in enumerate((config.loss, "cloning")):
        rate = config.learning_rate * (CLONING_RATE if kind == "cloning" else 1.0)
        updates = 3 if kind == "cloning" else 6
        rules = [
            [oracles_deep.Optimiser(config.optimiser, rate, 0.0, config.optimiser_epsilon) for _ in range(2)]
            for _ in expected[network]
        ]
        for i in range(updates):
            _, gradient = oracles_deep.batch_gradient(expected[network], [features], [1], [2.0], kind)
            for layer, own, slopes in zip(expected[network], rules, gradient, strict=True):
                for part in range(2):
                    own[part].rate = rate * (1 - i / updates)
                    layer[part] = own[part].step(layer[part], slopes[part])
        for found, layer in zip(layers(agent, network), expected[network], strict=True):
            np.testing.assert_allclose(found[0], layer[0], atol=1e-5)
            np.testing.assert_allclose(found[1], layer[1], atol=1e-5)


def random_log(seed, scale):
    random = np.random.default_rng(seed)
    ends = np.arange(20) == 19
    return [
        gs.Trajectory(
            scale * random.normal(3.0, 2.0, (21, 4)), random.integers(2, size=20), np.ones(20), ends, np.zeros(20, bool)
        )
        for _ in range(5)
    ]


def test_means_and_deviations_are_those_of_the_first_log_and_are_not_learned():
    log = random_log(0, np.array([1.0, 100.0, 0.01, 0.0]))
    seen = np.concatenate([one.observations for one in log])
    agent = gs.DQN.from_dataset(log, **SMALL).fit(updates=10)
    for _ in range(2):
        np.testing.assert_allclose(agent.networks.mean, np.tile(seen.mean(axis=0), (2, 1)), rtol=1e-4)
        deviation = np.where(np.arange(4) == 3, 1, seen.std(axis=0))
        np.testing.assert_allclose(agent.networks.deviation, np.tile(deviation, (2, 1)), rtol=1e-4)
        agent.fit(random_log(1, 5.0), updates=10)


def test_the_unit_of_a_feature_does_not_matter(tmp_path):
    units = np.array([1.0, 1000.0, 0.001, 1.0])
    agents = [gs.DQN.from_dataset(random_log(0, scale), **SMALL).fit(updates=50) for scale in (np.ones(4), units)]
    seen = np.random.default_rng(2).normal(3.0, 2.0, (9, 4))
    values = [agent.values(seen * scale) for agent, scale in zip(agents, (np.ones(4), units), strict=True)]
    np.testing.assert_allclose(*values, rtol=1e-3)
    agents[1].save(tmp_path / "agent")
    agents[1].export_policy(tmp_path / "policy.npz")
    np.testing.assert_array_equal(gs.load(tmp_path / "agent").values(seen * units), values[1])
    policy = gs.NumpyPolicy.load(tmp_path / "policy.npz")
    np.testing.assert_allclose(policy.values(seen * units), values[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, bool])
def test_moments_are_those_of_all_observations_block_by_block(dtype, monkeypatch):
    monkeypatch.setattr(offline, "MOMENT_ROWS", 4)
    rng = np.random.default_rng(0)
    log = []
    for steps in (3, 9, 1):
        seen = np.concatenate([rng.integers(0, 2, (steps + 1, 5)), np.ones((steps + 1, 1))], axis=1).astype(dtype)
        ended = np.arange(steps) == steps - 1
        log.append(gs.Trajectory(seen, np.zeros(steps, int), np.zeros(steps), ended, np.zeros(steps, bool)))
    buffer, replay = ReplayBuffer.from_episodes(log, 13, 3, (6,), np.dtype(dtype), rows=20)
    mean, deviation = offline.feature_moments(buffer, replay)
    everything = np.concatenate([one.observations for one in log]) / (255 if dtype == np.uint8 else 1)
    np.testing.assert_allclose(mean, everything.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(deviation[:5], everything.std(axis=0)[:5], rtol=1e-6)
    assert deviation[5] == 1  # constant


@pytest.mark.parametrize(("env", "network"), [("classic/cartpole", StandardisedMLP), ("minatar/breakout", ConvNet)])
def test_only_features_are_standardised(env, network):
    agent = gs.DQN(env, "one-step", observations="standardised", hidden=(4,))
    assert isinstance(agent.networks, network)


def test_an_agent_that_has_acted_keeps_its_observations():
    settings = {"warmup": 8, "replay_size": 100, "log_every": 16, "observations": "standardised"}
    agent = gs.DQN("classic/cartpole", "one-step", **SMALL | settings)
    agent.learn(16)
    agent.fit(random_log(0, 10.0), updates=4)
    assert not agent.networks.mean.any()
    assert (agent.networks.deviation == 1).all()


# -- logs that do not fit an environment -------------------------------------------------------------------------------


class Spaces(gymnasium.Env):
    """An environment of which only the spaces matter."""

    def __init__(self, seen, start=0):
        self.observation_space, self.action_space = seen, spaces.Discrete(2, start=start)


def log_of(observations, action=1):
    T, ends = len(observations) - 1, np.arange(len(observations) - 1) == len(observations) - 2
    return gs.Trajectory(np.array(observations), np.full(T, action), np.ones(T), ends, np.zeros(T, bool))


def learner_for(seen):
    return gs.DQN(Spaces(seen), "one-step", **SMALL).trainer.learner


@pytest.mark.parametrize(
    ("seen", "right", "wrong", "message"),
    [
        (spaces.Discrete(16), 15, 99, "states 0 to 15, got 99 in step 2"),
        (spaces.Discrete(16), 15, -1, "states 0 to 15, got -1 in step 2"),
        (spaces.Discrete(16), 0.0, 0.5, "states 0 to 15, got 0.5 in step 2"),
        (spaces.Box(0, 255, (), np.uint8), 255, 256, r"whole numbers from 0 to 255 \(uint8\), got 256 in step 2"),
        (
            spaces.Box(-9, 9, (), np.int64),
            -7.0,
            1e30,
            r"whole numbers from -2147483648 to 2147483647 \(int32\), got 1e",
        ),
        (spaces.Box(0, 1, (1,), np.bool_), [1.0], [2.0], r"true or false \(1 or 0\), got 2.0 in step 2"),
        (spaces.Box(-1, 1, (1,)), [1e30], [1e300], "finite numbers of float32, got 1e"),
    ],
)
def test_observations_that_would_be_stored_as_others_are_refused(seen, right, wrong, message, monkeypatch):
    learner = learner_for(seen)
    buffer, replay = offline.fill_replay(learner, [log_of([right, right, right])])
    stored = np.asarray(buffer.unpack(replay.observations[0]))
    np.testing.assert_array_equal(stored, np.array([right] * 3, stored.dtype))
    monkeypatch.setattr(observation_spec, "ENTRIES_AT_ONCE", 2)  # the wrong one is in the second block
    for fill in (offline.fill_replay, lambda *arguments: list(offline.checked(*arguments))):
        with pytest.raises(ValueError, match=f"^dataset, episode 1: expected observations to be .*{message}"):
            fill(learner, Dataset.of([log_of([right, right]), log_of([right, right, wrong])]))


def test_rewards_beyond_float32_are_refused():
    large = replace(log_of([0, 1, 2]), rewards=np.array([1.0, -1e300]))
    with pytest.raises(
        ValueError, match=r"^dataset, episode 0: expected rewards to be finite .* got -1e.300 in step 1"
    ):
        offline.fill_replay(learner_for(spaces.Discrete(16)), [large])


def test_images_of_other_dtypes_are_stored_only_if_they_are_bytes():
    learner, images = learner_for(spaces.Box(0, 255, (9, 9, 1), np.uint8)), np.full((3, 9, 9, 1), 200.0)
    buffer, replay = offline.fill_replay(learner, [log_of(images)])
    assert (buffer.unpack(replay.observations[0]) == 200).all()
    images[1, 3, 4, 0] = 0.25
    with pytest.raises(ValueError, match=r"episode 0: .* whole numbers from 0 to 255 \(uint8\), got 0.25 in step 1$"):
        offline.fill_replay(learner, [log_of(images)])
    with pytest.raises(ValueError, match=r"^observations: expected whole numbers from 0 to 255 \(uint8\), got 0.25$"):
        gs.DQN(Spaces(spaces.Box(0, 255, (9, 9, 1), np.uint8)), "one-step", **SMALL).values(images)


def test_features_that_float32_blurs_are_told():
    agent = gs.DQN(Spaces(spaces.Box(-np.inf, np.inf, (2,), np.float64)), "one-step", **SMALL)
    seconds = np.column_stack([np.zeros(50), 1.7e9 + 60.0 * np.arange(50)])
    with pytest.warns(UserWarning, match=r"dataset: feature 1 .* as large as 1.7e\+09 .* deviation of 8.7e\+02, which"):
        agent.fit([log_of(seconds)], updates=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for clear in (seconds - seconds.mean(axis=0), np.full((50, 2), 1.7e9)):  # the second one is constant
            agent.fit([log_of(clear)], updates=0)


def test_actions_of_a_log_are_counted_from_0_and_who_counts_otherwise_is_told():
    agent = gs.DQN(Spaces(spaces.Box(-1, 1, (1,)), start=1), **SMALL)
    with pytest.raises(ValueError, match=r"got 2 in step 0; actions are counted from 0, this space starts at 1$"):
        agent.fit([log_of(np.zeros((3, 1)), action) for action in (0, 2)], updates=2)
    with pytest.warns(UserWarning, match="dataset: no step has action 0; actions are counted from 0 .* starts at 1"):
        agent.fit([log_of(np.zeros((3, 1)))], updates=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.fit([log_of(np.zeros((3, 1)), action) for action in (1, 0)], updates=2)

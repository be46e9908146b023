"""stable-baselines3's names of settings: taken where they mean the same, a sentence where they do not."""

import inspect
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import greedystep as gs
from greedystep.deep.config import DQNConfig
from greedystep.deep.sb3_settings import POLICIES, SETTINGS, from_sb3, table

DEEP = Path(__file__).parents[1] / "docs" / "deep.md"


def test_the_table_of_the_docs_is_that_of_the_code():
    assert f"\n{table()}\n" in DEEP.read_text(encoding="utf-8")


def test_counterparts_are_settings_of_ours_and_never_change_the_meaning_of_one():
    ours = set(DQNConfig.__dataclass_fields__) | set(inspect.signature(gs.DQN.__init__).parameters)
    assert {counterpart.setting for counterpart in SETTINGS.values() if counterpart.setting} <= ours
    assert all(SETTINGS[name].setting == name for name in ours & set(SETTINGS))


def test_all_settings_of_stable_baselines3_are_known():
    sb3 = pytest.importorskip("stable_baselines3")
    theirs = set(inspect.signature(sb3.DQN.__init__).parameters) - {"self", "env", "_init_setup_model"}
    assert theirs == set(SETTINGS)


def test_an_agent_takes_them():
    agent = gs.DQN(
        "CartPole-v1",
        learning_rate=1e-3,
        buffer_size=500,
        learning_starts=40,
        batch_size=8,
        gamma=0.9,
        train_freq=(1, "step"),
        gradient_steps=-1,
        num_envs=2,
        tau=1.0,
        target_update_interval=20,
        exploration_initial_eps=0.5,
        exploration_final_eps=0.25,
        max_grad_norm=10,
        policy_kwargs={"net_arch": [5, 6]},
        log_every=40,
    )
    config = agent.config
    assert (config.learning_rate, config.replay_size, config.warmup, config.batch_size) == (1e-3, 500, 40, 8)
    assert (config.discount, config.updates, config.target_rate, config.target_period) == (0.9, 2, 1.0, 20)
    assert (config.epsilon_start, config.epsilon_end, config.max_gradient_norm) == (0.5, 0.25, 10)
    assert config.hidden == (5, 6)


def test_they_are_taken_for_datasets_and_for_vectors_of_a_fixed_size():
    log = {"observations": np.zeros((9, 2)), "actions": np.arange(9) % 2, "rewards": np.ones(9)}
    log["terminals"] = np.arange(9) % 3 == 2
    assert gs.DQN.from_dataset(log, buffer_size=9, gamma=0.5).config.discount == 0.5
    assert gs.DQN.from_dataset(log, buffer_size=9).config.replay_size == 9
    vector = SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")] * 5)
    assert gs.DQN(vector, gradient_steps=-1, train_freq=1).config.updates == 5


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"n_steps": 4}, {"n": 4}),
        ({"train_freq": 1}, {"updates": 1}),
        ({"train_freq": 1, "gradient_steps": 3}, {"updates": 3}),
        ({"tau": 0.01, "target_update_interval": 1}, {"target_rate": 0.01}),
        ({"target_update_interval": 50}, {"target_period": 50}),
        ({"seed": 1, "batch_size": 2, "hidden": (3,)}, {"seed": 1, "batch_size": 2, "hidden": (3,)}),
    ],
)
def test_what_they_become(given, setting):
    assert from_sb3(given) == setting


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"buffer_size": 9, "replay_size": 9}, "buffer_size: the same as replay_size, which is given, too"),
        ({"gradient_steps": 1, "train_freq": 1, "updates": 1}, "gradient_steps: the same as updates"),
        ({"train_freq": 4}, "train_freq: only 1 has an exact counterpart, got 4; updates="),
        ({"gradient_steps": 2}, "train_freq: only 1 has an exact counterpart, got 4, its default"),
        ({"train_freq": (1, "episode")}, r"train_freq: only 1 has an exact counterpart, got \(1, 'episode'\)"),
        ({"train_freq": 1, "gradient_steps": -1}, "gradient_steps: -1 is as many updates as there are environments"),
        ({"tau": 0.5}, "tau: 0.5 averages after every update here; .* target_update_interval=1, got nothing"),
        ({"tau": 0.5, "target_update_interval": 10}, "target_update_interval=1, got 10"),
        ({"tau": "x"}, r"tau: expected a number in \(0, 1\], got 'x'"),
        ({"policy_kwargs": {"net_arch": [4], "n_critics": 2}}, r"policy_kwargs: only dict\(net_arch=\[...\]\) has"),
        ({"policy_kwargs": {"net_arch": 4}}, "policy_kwargs: net_arch must be a list of sizes, got 4"),
        ({"exploration_fraction": 0.1}, "exploration_fraction: .* epsilon_steps, in steps: the fraction times"),
        ({"verbose": 1}, r"verbose: .* has no exact counterpart here; learn\(log_interval=1\)"),
    ],
)
def test_what_has_no_exact_counterpart_is_told(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        gs.DQN("CartPole-v1", **given)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_is_no_environment(policy):
    with pytest.raises(ValueError, match=f"env: expected an environment, got '{policy}'; the network follows"):
        gs.DQN(policy, "CartPole-v1")

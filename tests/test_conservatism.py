"""Conservatism: what it does to values, policies, files and resumed trainings. `test_deep` has its updates."""

import dataclasses
from functools import partial

import jax
import numpy as np
import pytest

import greedystep as gs
from greedystep.cli import main
from greedystep.deep import cloning, offline
from greedystep.deep.config import LATER_SETTINGS, DQNConfig, described
from greedystep.deep.env_spec import as_environment, config_for
from greedystep.deep.trainer import Trainer
from greedystep.numpy_policy import NumpyPolicy
from greedystep.replay import ReplayBuffer

ENV = "classic/mountaincar"
TINY = {"hidden": (8,), "batch_size": 8, "replay_size": 200, "warmup": 20, "target_period": 20, "log_every": 40}
KINDS = ["none", "cql", "bcq"]


def narrow_log():
    """Episodes of ten steps in which only action 2 is ever taken; each step costs 1, so that returns are negative."""
    random = np.random.default_rng(0)
    last = np.arange(10) == 9
    return [
        gs.Trajectory(random.normal(size=(11, 2)), np.full(10, 2), -np.ones(10), last, np.zeros(10, bool))
        for _ in range(20)
    ]


@pytest.fixture(scope="module")
def fitted():
    """By kind of conservatism: an agent that has learned from the narrow log, with three networks or four."""
    settings = TINY | {"hidden": (16,), "learning_rate": 3e-3, "ensemble": 2}
    return {
        kind: gs.DQN.from_dataset(narrow_log(), "greedy-step", conservatism=kind, **settings).fit(updates=600)
        for kind in KINDS
    }


def test_only_with_conservatism_does_an_agent_stay_with_the_actions_of_a_narrow_log(fitted):
    seen = np.concatenate([one.observations[:-1] for one in narrow_log()])
    share = {kind: np.mean(agent.predict(seen) == 2) for kind, agent in fitted.items()}
    assert share["none"] < 0.5  # it believes in what it has never tried
    assert share["cql"] > 0.95
    assert share["bcq"] > 0.95


def test_values_are_minus_infinity_outside_the_data_and_only_there(fitted):
    agent, seen = fitted["bcq"], narrow_log()[0].observations
    q, logits = [], []
    for network in range(3):
        x = (seen - np.asarray(agent.networks.mean[network], float)) / np.asarray(agent.networks.deviation[network])
        layers = agent.networks.mlp.layers
        for number, layer in enumerate(layers):
            x = x @ np.asarray(layer.weight[network], float) + np.asarray(layer.bias[network], float)
            x = np.maximum(x, 0) if number < len(layers) - 1 else x
        (q if network < 2 else logits).append(x)
    chances = np.exp(logits[0])
    allowed = chances >= 0.6 * chances.max(axis=1, keepdims=True)
    assert not allowed.all()
    np.testing.assert_allclose(agent.values(seen), np.where(allowed, np.min(q, axis=0), -np.inf), rtol=1e-4)


def test_a_threshold_of_one_is_behaviour_cloning():
    random = np.random.default_rng(1)
    seen = random.normal(size=(400, 2)).astype(np.float32)
    usual = (seen[:, 0] > 0).astype(int)  # the worse action, but what is done
    log = {"observations": seen, "actions": np.where(random.random(400) < 0.1, 1 - usual, usual)}
    log |= {"rewards": -np.float32(log["actions"] == usual), "terminals": np.ones(400, bool)}
    settings = TINY | {"returns": "one-step", "learning_rate": 1e-2}
    cloned, free = (
        gs.DQN.from_dataset(log, conservatism="bcq", bcq_threshold=threshold, **settings).fit(updates=600)
        for threshold in (1.0, 0.0)
    )
    clear = np.abs(seen[:, 0]) > 0.3
    assert np.mean(cloned.predict(seen) == usual, where=clear) > 0.95
    assert np.mean(free.predict(seen) == usual, where=clear) < 0.05


def test_the_behaviour_is_cloned_first_and_its_support_is_that_of_every_row(monkeypatch):
    agent = gs.DQN.from_dataset(narrow_log(), "one-step", **TINY)
    agent.choose_conservatism()
    told, after = [], []
    for done, _ in agent.fit_in_pieces(updates=100):
        told.append(done)
        after.append([np.asarray(x) for x in jax.tree.leaves(agent.networks)])
    assert told[-1] == offline.all_updates(agent.config, 100) == 150
    cloned = after[told.index(50)]
    for before, end in zip(cloned, after[-1], strict=True):
        np.testing.assert_array_equal(before[1], end[1])  # the behaviour stays
    assert any((before[0] != end[0]).any() for before, end in zip(cloned, after[-1], strict=True))
    learner = agent.trainer.learner
    buffer, replay = offline.fill_replay(learner, narrow_log())
    seen = np.concatenate([one.observations for one in narrow_log()]).astype(np.float32)
    expected = learner.q_and_support(agent.networks, seen)[1]
    assert len(seen) % 7  # so that the last block overlaps the one before
    for name, size in (("ROWS_AT_ONCE", cloning.ROWS_AT_ONCE), ("ROWS_AT_ONCE", 7), ("NUMBERS_AT_ONCE", 1)):
        monkeypatch.setattr(cloning, name, size)
        np.testing.assert_array_equal(cloning.find_support(learner, buffer, replay, agent.networks)[0], expected)


def test_the_support_is_found_without_a_copy_of_the_log():
    agent = gs.DQN.from_dataset(narrow_log(), "one-step", **TINY)
    agent.choose_conservatism()
    learner = agent.trainer.learner
    buffer = ReplayBuffer(1_000_000, 1, learner.observation.shape, learner.observation.dtype)
    replay = jax.eval_shape(buffer.init)
    find = jax.jit(partial(cloning.find_support, learner, buffer)).lower(replay, agent.networks).compile()
    memory = find.memory_analysis()
    assert memory.temp_size_in_bytes < replay.observations.size * replay.observations.dtype.itemsize / 4


@pytest.mark.parametrize(("returns", "stop"), [("one-step", 20), ("one-step", 50), ("lambda", 90), ("auto", 90)])
def test_a_fit_goes_on_exactly_after_a_restart(returns, stop, tmp_path):
    log = narrow_log()
    whole = gs.DQN.from_dataset(log, returns, **TINY).fit(updates=100)
    half = gs.DQN.from_dataset(log, returns, **TINY)
    done = 0
    for done, _ in half.fit_in_pieces(updates=100):
        if done >= stop:  # within the first 50 updates the behaviour is cloned
            break
    half.save(tmp_path / "agent")
    again = gs.load(tmp_path / "agent", half.env)
    for _ in again.fit_in_pieces(log, updates=100, begin=done):
        pass
    jax.tree.map(np.testing.assert_array_equal, again.networks, whole.networks)


def test_auto_is_bcq_in_a_log_and_nothing_where_an_agent_acts():
    log = narrow_log()
    agents = [gs.DQN.from_dataset(log, "one-step", **TINY), gs.DQN(ENV, "one-step", **TINY)]
    for agent in agents:
        agent.fit(log, 0)
        assert agent.config.conservatism == "bcq"
        assert jax.tree.leaves(agent.networks)[0].shape[0] == 2
    acted = gs.DQN(ENV, "one-step", **TINY)
    acted.learn(20)
    before = acted.networks
    acted.fit(log, 0)
    assert acted.config.conservatism == "auto"
    jax.tree.map(np.testing.assert_array_equal, acted.networks, before)


@pytest.mark.parametrize("kind", ["cql", "bcq"])
def test_files_keep_it(fitted, kind, tmp_path):
    agent, seen = fitted[kind], narrow_log()[0].observations
    agent.save(tmp_path / "agent")
    agent.export_policy(tmp_path / "policy.npz")
    loaded = gs.load(tmp_path / "agent")
    assert loaded.config == agent.config
    np.testing.assert_array_equal(loaded.values(seen), agent.values(seen))
    policy = NumpyPolicy.load(tmp_path / "policy.npz")
    np.testing.assert_allclose(policy.values(seen), agent.values(seen), rtol=1e-4, atol=1e-5)
    assert policy.predict(seen).tolist() == agent.predict(seen).tolist()
    if kind == "bcq":
        with pytest.raises(ValueError, match=r"^bcq_threshold: expected 0 to 1 and two networks or more, got 2\.0$"):
            NumpyPolicy(policy.kind, policy.shape, policy.layers, bcq_threshold=2.0)


def test_lanes_of_a_training_by_acting_go_on_exactly_after_a_restart(tmp_path):
    env = as_environment(ENV)
    config = config_for(env, returns="n-step", ensemble=2, conservatism="bcq", **TINY)
    whole = Trainer(config, env, [0, 1])
    rows = whole.run(120)
    assert all(np.isfinite(row["mean_q"]) for row in rows if row["mean_q"] is not None)
    half = Trainer(config, env, [0, 1])
    half.run(80)
    again = Trainer.load(half.save(tmp_path))
    again.run(40)
    jax.tree.map(np.testing.assert_array_equal, again.params, whole.params)


def test_what_earlier_versions_did_not_have_is_not_described_at_its_default():
    assert not set(described(DQNConfig())) & set(LATER_SETTINGS)
    cql = described(DQNConfig(conservatism="cql"))
    assert (cql["conservatism"], cql["cql_alpha"]) == ("cql", 1.0)
    assert set(dataclasses.asdict(DQNConfig())) == set(described(DQNConfig())) | set(LATER_SETTINGS)


def test_it_is_an_option_of_fit(tmp_path, capsys):
    gs.trajectory.save(tmp_path / "log.npz", narrow_log())
    small = ["--batches", "30", "--hidden", "4", "--out", str(tmp_path / "a.agent")]
    assert main(["fit", str(tmp_path / "log.npz"), "--conservatism", "cql", "--cql-alpha", "0.5", *small]) == 0
    assert gs.load(tmp_path / "a.agent").config.cql_alpha == 0.5
    capsys.readouterr()
    assert main(["fit", str(tmp_path / "log.npz"), "--conservatism", "none", "--cql-alpha", "0.5", *small]) == 2
    assert "cql_alpha: conservatism='none' has no such option, only cql" in capsys.readouterr().err
    other = [*small[:-1], str(tmp_path / "b.agent")]
    assert main(["fit", str(tmp_path / "log.npz"), "--bcq-threshold", "0.5", *other]) == 0  # bcq is the default
    assert gs.load(tmp_path / "b.agent").config.bcq_threshold == 0.5

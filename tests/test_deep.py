"""The agent's mathematics against NumPy: networks, optimisers, and one whole update of every choice of returns."""

import dataclasses
import math
import os
import subprocess
import sys
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles_deep
import pytest
from oracles_replay import ListColumn

from greedystep.deep import target_pool
from greedystep.deep.config import ONE_BOOTSTRAP, DQNConfig
from greedystep.deep.learner import Learner, LearnerState
from greedystep.deep.networks import (
    FILTERS,
    ConvNet,
    Dense,
    conv_by_patches,
    conv_by_rows,
    default_network,
    ensemble_q,
    make_ensemble,
)
from greedystep.deep.optimisers import make_optimiser
from greedystep.deep.presets import FAMILIES, PRESETS, make_config, preset
from greedystep.deep.targets import BootstrapValues, LaneHyperparams
from greedystep.envs.core import ObservationSpec
from greedystep.replay import ReplayBuffer
from greedystep.trajectory import Trajectory

FEATURES = ObservationSpec((4,), np.dtype(np.float32), -np.inf, np.inf)
BOARD = ObservationSpec((5, 4, 2), np.dtype(bool), False, True)
ACTIONS = 3


def layers(network, m):
    """Network m of an ensemble as the oracle wants it."""
    one = jax.tree.map(lambda x: np.asarray(x[m], float), network)
    if isinstance(one, ConvNet):
        weight = one.filters.weight
        first = [(weight.reshape(3, 3, weight.shape[0] // 9, -1), one.filters.bias)]
        return first + [(layer.weight, layer.bias) for layer in one.head.layers]
    return [(layer.weight, layer.bias) for layer in one.layers]


# -- networks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observation", [FEATURES, BOARD])
def test_ensembles_answer_as_their_networks_written_out(observation):
    networks = make_ensemble(default_network((7,)), jax.random.key(0), 3, observation, ACTIONS)
    seen = np.random.default_rng(0).normal(size=(5, *observation.shape)) > 0
    found = ensemble_q(networks, jnp.asarray(seen.astype(observation.dtype)))
    expected = [[oracles_deep.q_of(layers(networks, m), x) for x in seen] for m in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_convolutions_by_rows_and_by_patches_are_the_same():
    """One is for GPUs and one for CPUs; forward and backward."""
    picture = jax.random.normal(jax.random.key(0), (6, 5, 3))
    filters = Dense(jax.random.key(1), 27, FILTERS)
    filters = eqx.tree_at(lambda layer: layer.bias, filters, jnp.arange(16.0))

    def answer(filters, convolve):
        return (convolve(filters, picture).reshape(-1) ** 2).sum()

    found = [jax.value_and_grad(answer)(filters, convolve) for convolve in (conv_by_rows, conv_by_patches)]
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-4), *found)


def test_networks_begin_with_kaiming_weights_and_no_bias_and_differ():
    networks = make_ensemble(default_network((400,)), jax.random.key(0), 2, BOARD, ACTIONS)
    assert isinstance(networks, ConvNet)
    for layer in (networks.filters, *networks.head.layers):
        inputs = layer.weight.shape[1]
        share = layer.weight.std() / math.sqrt(2 / inputs)
        assert abs(share - 1) < 4 / math.sqrt(layer.weight.size)
        assert not layer.bias.any()
        assert (layer.weight[0] != layer.weight[1]).all()


def test_the_scale_of_the_first_weights_is_a_setting():
    learners = [Learner(DQNConfig(init_scale=scale), BOARD, ACTIONS) for scale in (1.0, 0.25)]
    large, small = (learner.init(jax.random.key(0)).params for learner in learners)
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x / 4, y), large, small)


def test_numbered_states_have_an_input_each():
    numbers = ObservationSpec((), np.dtype(np.int32), 0, 5)
    networks = make_ensemble(default_network((4,)), jax.random.key(0), 1, numbers, 2)
    assert ensemble_q(networks, jnp.arange(6)).shape == (1, 6, 2)


def test_a_network_of_ones_own():
    class Linear(eqx.Module):
        weight: jax.Array
        name: str = "not an array"

        def __call__(self, observation):
            return observation @ self.weight

    def make(key, observation, num_actions):
        return Linear(jax.random.normal(key, (*observation.shape, num_actions)))

    learner = Learner(DQNConfig(ensemble=2, hidden=()), FEATURES, ACTIONS, make)
    state = learner.init(jax.random.key(0))
    seen = jnp.ones((5, 4))
    found = jax.jit(learner.acting_q)(state.params, seen)
    np.testing.assert_allclose(found, (seen @ state.params.weight).min(axis=0), rtol=1e-5)


@pytest.mark.parametrize(
    ("answer", "message"),
    [(lambda x: x[:2], "expected one value for each of 3 actions"), (lambda x: x @ x[:, None, None], "cannot take")],
)
def test_a_network_that_does_not_fit_is_refused(answer, message):
    learner = Learner(DQNConfig(), FEATURES, ACTIONS, lambda key, observation, num_actions: answer)
    with pytest.raises(ValueError, match=f"^network: .*{message}"):
        learner.init(jax.random.key(0))


# -- optimisers -------------------------------------------------------------------------------------------------------


def updated(optimiser, params, gradients, learning_rate):
    """The parameters after a gradient step with each of the gradients, and whether all of them were finite."""

    def step(carry, gradient):
        params, state = carry
        updates, state = optimiser.update(gradient, state, params)
        params = jax.tree.map(lambda p, x: p - learning_rate * x, params, updates)
        return (params, state), jnp.isfinite(params["w"]).all()

    (params, _), finite = jax.lax.scan(step, (params, optimiser.init(params)), {"w": jnp.asarray(gradients)})
    return params["w"], finite


@pytest.mark.parametrize("kind", ["adam", "rmsprop", "centred-rmsprop"])
def test_optimisers_are_pytorchs(kind):
    random = np.random.default_rng(0)
    config = DQNConfig(optimiser=kind, optimiser_decay=0.95, optimiser_epsilon=0.01)
    oracle = oracles_deep.Optimiser(kind, 0.1, 0.95, 0.01)
    params = random.normal(size=(3, 2)).astype(np.float32)
    gradients = random.normal(size=(10, 3, 2)).astype(np.float32)
    expected = np.asarray(params, float)
    for gradient in gradients:
        expected = oracle.step(expected, gradient)
    found, _ = updated(make_optimiser(config), {"w": jnp.asarray(params)}, gradients, 0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("at_first", [1, 3])
def test_a_gradient_that_stays_the_same_does_not_break_centred_rmsprop(at_first):
    """A gradient that falls and stays there makes v - m² negative by rounding, the root of which is NaN in optax."""
    optimiser = make_optimiser(DQNConfig(optimiser="centred-rmsprop", optimiser_decay=0.95, optimiser_epsilon=0.01))
    gradients = jnp.where(jnp.arange(2000)[:, None] < 100, at_first, 1) * jnp.linspace(-3, 3, 1000)
    _, finite = updated(optimiser, {"w": jnp.zeros(1000)}, gradients, 1e-4)
    assert finite.all()


def test_clipping_scales_all_gradients_together():
    gradient = {"a": jnp.array([3.0]), "b": jnp.array([4.0])}
    config = DQNConfig(optimiser="rmsprop", optimiser_decay=1.0, optimiser_epsilon=1.0)  # which changes nothing
    for limit, expected in ((1.0, [0.6, 0.8]), (None, [3.0, 4.0]), (10.0, [3.0, 4.0])):
        optimiser = make_optimiser(dataclasses.replace(config, max_gradient_norm=limit))
        found, _ = optimiser.update(gradient, optimiser.init(gradient))
        np.testing.assert_allclose([found["a"][0], found["b"][0]], expected, rtol=1e-5)


# -- updates ----------------------------------------------------------------------------------------------------------

CASES = [
    {"returns": "one-step"},
    {"returns": "one-step", "double": True, "ensemble": 2, "ensemble_update": "all"},
    {"returns": "one-step", "observation": BOARD},
    {"returns": "n-step", "n": 4, "loss": "huber", "optimiser": "adam"},
    {"returns": "sarsa", "n": 2, "target_epsilon": 0.3, "ensemble": 2},
    {"returns": "monte-carlo", "loss": "huber"},
    {"returns": "lambda", "lambda_": 0.8, "max_gradient_norm": 0.1, "ensemble": 3, "ensemble_update": "all"},
    {"returns": "watkins", "lambda_": 0.9, "time_limits": "terminal", "optimiser": "rmsprop"},
    {"returns": "tree-backup", "target_epsilon": 0.2, "double": True, "ensemble": 2},
    {"returns": "retrace", "lambda_": 0.9, "target_epsilon": 0.1},
    {"returns": "greedy-step", "ensemble": 3},
    {"returns": "greedy-step", "horizon": 3, "time_limits": "terminal"},
    {"returns": "greedy-step", "observation": BOARD, "ensemble": 2, "target_rate": 0.1},
    {"returns": "soft-greedy-step", "gate": 1.5, "optimiser": "adam", "ensemble": 2, "ensemble_update": "all"},
    {"returns": "greedy-step-twin", "ensemble": 3},
    {"returns": "greedy-step-twin", "ensemble": 2, "ensemble_update": "all"},
    {"conservatism": "cql", "cql_alpha": 0.7, "returns": "one-step", "observation": BOARD},
    {"conservatism": "cql", "returns": "greedy-step", "ensemble": 2, "loss": "huber"},
    {"conservatism": "bcq", "bcq_threshold": 0.8, "returns": "one-step", "target_rate": 0.1},
    {"conservatism": "bcq", "bcq_threshold": 0.6, "returns": "lambda", "ensemble": 2, "ensemble_update": "all"},
    {"conservatism": "bcq", "bcq_threshold": 0.6, "returns": "greedy-step", "ensemble": 2, "optimiser": "adam"},
    {"conservatism": "bcq", "bcq_threshold": 0.6, "returns": "retrace", "target_epsilon": 0.2, "double": True},
    {"conservatism": "bcq", "bcq_threshold": 0.9, "returns": "watkins", "max_gradient_norm": 0.1},
    {"conservatism": "bcq", "bcq_threshold": 0.6, "returns": "greedy-step-twin", "ensemble": 2},
]


POOLED = [case for case in CASES if case["returns"] not in ONE_BOOTSTRAP and "conservatism" not in case]


@pytest.mark.parametrize(
    ("case", "whole_replay"),
    [(case, False) for case in CASES] + [(case, True) for case in POOLED],
    ids=lambda x: "-".join(map(str, x.values()))[:40] if isinstance(x, dict) else f"whole={x}",
)
def test_an_update_equals_the_one_written_out(case, whole_replay):
    case = dict(case)
    observation = case.pop("observation", FEATURES)
    shape = {"target_period": 1000 if whole_replay else 1, "replay_size": 60, "batch_size": 32, "hidden": (6, 5)}
    numbers = {"optimiser": "centred-rmsprop", "loss": "squared", "learning_rate": 0.01, "discount": 0.9}
    config = DQNConfig(**shape | numbers | case)
    learner = Learner(config, observation, ACTIONS)
    buffer, replay, column = random_replay(observation)
    keys = jax.random.split(jax.random.key(7), 4)
    state = learner.init(keys[0])._replace(target_params=learner.init(keys[1]).params)
    hyperparams = LaneHyperparams(*(jnp.float32(getattr(config, name) or 0) for name in LaneHyperparams._fields))

    @jax.jit
    def update(replay, state):
        pool = None
        if config.is_pooled:
            valued_by = partial(learner.bootstrap_q, state)
            pool = target_pool.make(config, buffer, hyperparams, keys[2], replay, valued_by)
        draws = learner.draw_update(keys[3], hyperparams)
        batch = learner.sample_batch(buffer, hyperparams, draws.bits, replay, pool, state)
        return batch, *learner.update(state, batch, draws.network, hyperparams.learning_rate)

    batch, after, info = update(replay, state)
    online = [layers(state.params, m) for m in range(config.num_networks)]
    targets = [layers(state.target_params, m) for m in range(config.num_networks)]
    episodes = {row.observation.tobytes(): [row, *following] for row, following in column.steps()}
    found = [episodes[np.asarray(x).tobytes()] for x in batch.observations]
    assert [rows[0].step[0] for rows in found] == batch.action.tolist()
    assert len({rows[0].observation.tobytes() for rows in found}) > 5
    for group in range(config.groups):
        expected = [oracles_deep.target(config, rows, group, targets, online) for rows in found]
        np.testing.assert_allclose(batch.targets[group], expected, rtol=1e-5, atol=1e-5)

    changed = cloned = 0
    losses = []
    for m in range(config.num_networks):
        now = layers(after.params, m)
        if all((a == b).all() for x, y in zip(now, online[m], strict=True) for a, b in zip(x, y, strict=True)):
            continue
        expected = [oracles_deep.target(config, rows, m % config.groups, targets, online) for rows in found]
        batch_of = [rows[0].observation for rows in found], [rows[0].step[0] for rows in found], expected
        kind = config.loss if m < config.ensemble else "cloning"
        loss, gradient = oracles_deep.batch_gradient(online[m], *batch_of, kind, config.cql_alpha or 0.0)
        if kind == "cloning":
            cloned += 1
        else:
            changed += 1
            losses.append(loss)
        gradient = oracles_deep.clip(gradient, config.max_gradient_norm)
        for layer, parts, arrays in zip(online[m], gradient, now, strict=True):
            for old, slope, new in zip(layer, parts, arrays, strict=True):
                rate = config.learning_rate * (10 if kind == "cloning" else 1)
                rule = (config.optimiser, rate, config.optimiser_decay, config.optimiser_epsilon)
                np.testing.assert_allclose(new, oracles_deep.Optimiser(*rule).step(old, slope), atol=1e-5)
    assert changed == (config.ensemble if config.ensemble_update == "all" else 1)
    assert cloned == (config.conservatism == "bcq")
    np.testing.assert_allclose(info.loss, np.mean(losses), rtol=1e-4)
    moved = jax.tree.map(
        lambda old, new: (1 - config.target_rate) * old + config.target_rate * new, state.target_params, after.params
    )
    expected = moved if config.target_rate < 1 else state.target_params
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), after.target_params, expected)


def random_replay(observation):
    """Episodes of one to nine steps that ended, were cut, and one that is still open, in a ring that has wrapped."""
    random = np.random.default_rng(3)
    buffer = ReplayBuffer(60, 1, observation.shape, observation.dtype)
    replay, column, add = buffer.init(), ListColumn(60), jax.jit(buffer.add)

    def fresh():
        seen = random.normal(size=observation.shape)
        return seen > 0 if observation is BOARD else seen.astype(np.float32)

    now = fresh()
    for t in range(130):
        after, end = fresh(), random.choice(["goes on"] * 5 + ["terminated", "truncated"])
        if t >= 127:
            end = "goes on"
        step = (int(random.integers(ACTIONS)), float(np.float32(random.normal())), end == "terminated")
        step += (end == "truncated", float(np.float32(random.uniform(0.1, 1))))
        replay = add(replay, now[None], *(jnp.asarray([x]) for x in step), after[None])
        column.add(now, step, after)
        now = after if end == "goes on" else fresh()
    return buffer, replay, column


@pytest.mark.parametrize(("rate", "double"), [(1.0, False), (1.0, True), (0.5, False)])
def test_a_period_begins_with_copies_of_all_networks_and_a_pool_valued_by_the_right_ones(rate, double):
    config = DQNConfig(ensemble=2, hidden=(3,), target_rate=rate, double=double, target_period=2, replay_size=60)
    learner = Learner(config, FEATURES, ACTIONS)
    one, other = (learner.init(jax.random.key(seed)) for seed in range(2))
    mixed = LearnerState(one.params, other.params, one.opt_state)
    buffer, replay, _ = random_replay(FEATURES)
    hyperparams = LaneHyperparams(*[jnp.float32(0)] * len(LaneHyperparams._fields))
    targets, pool = learner.refresh_targets(buffer, hyperparams, jax.random.key(2), replay, mixed)
    assert eqx.tree_equal(targets, one.params if rate == 1 else other.params)
    chooses = other.params if double and rate == 1 else one.params
    valued_by = partial(learner.bootstrap_q, mixed._replace(params=chooses, target_params=targets))
    expected = target_pool.make(config, buffer, hyperparams, jax.random.key(2), replay, valued_by)
    assert pool is not None
    np.testing.assert_allclose(pool.targets, expected.targets, rtol=1e-6)


def test_a_part_of_an_episode_that_does_not_fit_into_a_pool_bootstraps_where_it_ends():
    T, discount, nothing = 40, 0.5, np.zeros(40, bool)
    states = np.arange(T + 1, dtype=np.float32)[:, None]
    log = Trajectory(states, np.zeros(T, int), np.ones(T, np.float32), nothing, nothing)
    buffer, replay = ReplayBuffer.from_episodes([log], T, 1, (1,), np.dtype(np.float32))
    config = DQNConfig(returns="monte-carlo", discount=discount, target_period=3, batch_size=4)
    hyperparams = LaneHyperparams(*[jnp.float32(0)] * len(LaneHyperparams._fields))

    def bootstrap_q(observations):
        return BootstrapValues(jnp.broadcast_to(100 * observations[None], (1, len(observations), ACTIONS)))

    begins = set()
    for seed in range(20):
        pool = target_pool.make(config, buffer, hyperparams, jax.random.key(seed), replay, bootstrap_q)
        first, left = float(pool.observations[0, 0]), 11 - np.arange(11)
        assert pool.step_rows[: pool.count].tolist() == list(range(11))
        expected = (1 - discount**left) / (1 - discount) + discount**left * 100 * (first + 11)
        np.testing.assert_allclose(pool.targets[0, :11], expected, rtol=1e-5)
        begins.add(first)
    assert {0, T - 11} < begins


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"returns": "lambda", "horizon": 5}, "^horizon: returns='lambda' has no such option, only greedy-step$"),
        ({"returns": "greedy-step", "lambda_": 0.5}, "^lambda_: returns='greedy-step' has no such option"),
        ({"returns": "one-step", "n": 3}, "^n: returns='one-step' has no such option, only n-step or sarsa$"),
        ({"returns": "greedy-step-twin"}, "^ensemble: greedy-step-twin needs at least 2 networks, got 1$"),
        ({"returns": "greedystep"}, "did you mean 'greedy-step'"),
        (
            {"conservatism": "cqll"},
            "^conservatism: expected one of auto, none, cql, bcq, got 'cqll'",
        ),
        ({"cql_alpha": 1.0}, "^cql_alpha: conservatism='auto' has no such option, only cql$"),
        ({"conservatism": "cql", "bcq_threshold": 0.1}, "^bcq_threshold: conservatism='cql' has no such option"),
        ({"conservatism": "bcq", "bcq_threshold": 1.5}, "^bcq_threshold: "),
        ({"conservatism": "cql", "cql_alpha": -1.0}, "^cql_alpha: "),
        ({"returns": "sarsa", "double": True}, "^double: returns='sarsa' has no maximum"),
        ({"num_envs": 7}, "^warmup: expected a multiple of num_envs=7"),
        ({"ensemble": 0}, "^ensemble: expected an integer from 1 to 2147483647, got 0$"),
        ({"discount": 1.5}, r"^discount: expected a number in \[0, 1\], got 1.5$"),
        ({"learning_rate": 0.0}, "^learning_rate: expected a number in .1.17549e-38, 3.40282e.38., got 0.0$"),
        ({"target_rate": 0.0}, r"^target_rate: expected a number in \(0, 1\], got 0.0$"),
        ({"replay_size": 2}, "^replay_size: expected at least 3 rows"),
        ({"hidden": 64}, "^hidden: expected a sequence of integers, got 64$"),
        ({"hidden": "64"}, "^hidden: expected a sequence of integers, got '64'$"),
        ({"hidden": [64, 0]}, "^hidden: expected an integer from 1"),
        (
            {"returns": "auto", "batch_size": 2, "target_period": 1},  # a row of the pool for each learning rate
            "^target_period: too short for a pool of returns, got 1$",
        ),
        ({"batch_size": 32.5}, "^batch_size: expected an integer"),
    ],
)
def test_contradictory_settings_are_refused_in_one_sentence(settings, message):
    with pytest.raises(ValueError, match=message) as error:
        DQNConfig(**settings)
    assert "\n" not in str(error.value)


def test_hidden_layers_may_be_a_list():
    assert DQNConfig(hidden=[64, np.int64(32)]) == DQNConfig(hidden=(64, 32))  # type: ignore[arg-type]


def test_options_of_returns_are_filled_in():
    assert DQNConfig(returns="n-step").n == 3
    assert DQNConfig(returns="lambda").lambda_ == 0.7
    assert DQNConfig(returns="one-step").n is None
    assert DQNConfig().horizon is None


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", PRESETS)
def test_presets_train_on_32_samples_for_each_step(name, family):
    config = make_config(f"{family}something", name)
    assert config.updates * config.batch_size == 32 * config.num_envs
    assert set(preset(name, family)) <= {field.name for field in dataclasses.fields(DQNConfig)}


def test_unknown_settings_and_presets_are_refused():
    with pytest.raises(ValueError, match=r"^learning_rat: DQN has no such setting; did you mean 'learning_rate'\?$"):
        make_config("minatar/breakout", learning_rat=1.0)
    with pytest.raises(ValueError, match=r"^preset: expected one of paper, fast, got 'slow'$"):
        make_config("minatar/breakout", "slow")


@pytest.mark.parametrize("own", [False, True])
def test_compiled_programs_are_kept_where_the_user_keeps_none(own, tmp_path):
    script = """
import jax
from greedystep.deep.compilation_cache import keep_compiled_programs
keep_compiled_programs()
print(jax.config.values["jax_compilation_cache_dir"], jax.config.values["jax_persistent_cache_min_compile_time_secs"])
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    env |= {"XDG_CACHE_HOME": str(tmp_path), **({"JAX_COMPILATION_CACHE_DIR": "/mine"} if own else {})}
    said = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout
    assert said.split() == (["/mine", "1.0"] if own else [f"{tmp_path}/greedystep/xla", "0.1"])

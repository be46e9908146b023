"""The Pallas kernels for MinAtar's network, interpreted, beside the network itself and its gradients by JAX."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from greedystep import envs
from greedystep.deep import conv_gradient, conv_kernels
from greedystep.deep.conv_kernels import ConvShape
from greedystep.deep.learner import Learner
from greedystep.deep.networks import ABSENT, ConvNet, batch_q, ensemble_q, leave_out
from greedystep.deep.optimisers import scale_by_stddev
from greedystep.deep.presets import make_config
from greedystep.deep.target_pool import Batch

LANES, NETWORKS, ACTIONS = 2, 2, 6
DECAY, EPSILON = 0.95, 0.01


def lanes_of_networks(channels: int):
    """Networks of several lanes, [L, M, ...], with biases that are not 0."""

    def make(key):
        return eqx.filter(ConvNet(key, (10, 10, channels), (128,), ACTIONS), eqx.is_array)

    rng = np.random.default_rng(0)

    def weights(x: jax.ShapeDtypeStruct) -> jax.Array:
        size = (LANES, NETWORKS, *x.shape)
        return jnp.asarray(rng.normal(0, 0.1 if len(x.shape) == 1 else (2 / x.shape[0]) ** 0.5, size), jnp.float32)

    return jax.tree.map(weights, jax.eval_shape(make, jax.random.key(0)))


def images(count: int, channels: int) -> jax.Array:
    return jax.random.bernoulli(jax.random.key(2), 0.3, (LANES, count, 10, 10, channels))


def shape_of(channels: int) -> ConvShape:
    shape = ConvShape.of((10, 10, channels), (128,), ACTIONS)
    assert shape is not None
    return shape


@pytest.mark.parametrize(("count", "channels"), [(1, 4), (5, 4), (32, 10), (70, 4)])
def test_q_is_that_of_the_networks(count, channels):
    networks, seen = lanes_of_networks(channels), images(count, channels)
    q = jax.jit(jax.vmap(lambda net, x: conv_kernels.ensemble_q(net, x, shape_of(channels))))(networks, seen)
    np.testing.assert_allclose(q, jax.vmap(ensemble_q)(networks, seen), atol=1e-5)


@pytest.mark.parametrize("count", [1, 32, 70])
def test_networks_that_are_left_out_are_never_the_minimum(count):
    networks, seen = lanes_of_networks(4), images(count, 4)
    fewer = jax.vmap(leave_out)(networks, jnp.array([1, 2]))
    q = jax.jit(jax.vmap(lambda net, x: conv_kernels.ensemble_q(net, x, shape_of(4))))(fewer, seen)
    expected = jax.vmap(ensemble_q)(networks, seen)
    assert (q[0, 1] == np.float32(ABSENT)).all()
    np.testing.assert_allclose(q[0, 0], expected[0, 0], atol=1e-5)
    np.testing.assert_allclose(q[1], expected[1], atol=1e-5)
    np.testing.assert_allclose(q, jax.vmap(ensemble_q)(fewer, seen), atol=1e-5)


@pytest.mark.parametrize(("channels", "loss"), [(4, optax.huber_loss), (10, optax.squared_error)])
def test_gradient_step_is_that_of_jax_and_changes_one_network(channels, loss):
    networks, seen, count = lanes_of_networks(channels), images(32, channels), 32
    mu = jax.tree.map(lambda x: 0.1 * x, networks)
    nu = jax.tree.map(lambda x: x * x + 0.001, mu)
    action = jax.random.randint(jax.random.key(4), (LANES, count), 0, ACTIONS)
    targets = 2 * jax.random.normal(jax.random.key(5), (LANES, count))
    chosen, rates = jnp.array([1, 0]), jnp.array([1e-3, 1e-2])

    def expected(networks, mu, nu, chosen, seen, action, targets, rate):
        def mean_loss(params):
            taken = batch_q(params, seen)[jnp.arange(count), action]
            return loss(taken, targets).mean(), taken.mean()

        params, m, v = jax.tree.map(lambda x: x[chosen], (networks, mu, nu))
        (value, q), gradient = jax.value_and_grad(mean_loss, has_aux=True)(params)
        state = optax.ScaleByRStdDevState(mu=m, nu=v)
        update, state = scale_by_stddev(DECAY, EPSILON).update(gradient, state)
        new = (jax.tree.map(lambda w, x: w - rate * x, params, update), state.mu, state.nu)
        return *jax.tree.map(lambda x, y: x.at[chosen].set(y), (networks, mu, nu), new), value, q

    step = partial(conv_gradient.gradient_step, shape=shape_of(channels), loss=loss, decay=DECAY, epsilon=EPSILON)
    arguments = (networks, mu, nu, chosen, seen, action, targets, rates)
    got, wanted = jax.jit(jax.vmap(step))(*arguments), jax.jit(jax.vmap(expected))(*arguments)
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), tuple(got), wanted)
    others = jax.tree.map(lambda x: x[0, :1], (got.params, networks))
    jax.tree.map(np.testing.assert_array_equal, *others)


def test_kernels_are_lowered_for_a_gpu(monkeypatch):
    monkeypatch.setattr(conv_kernels, "_is_interpreted", lambda: False)
    networks, shape = lanes_of_networks(4), shape_of(4)
    for count in (1, 32, 70):
        q = jax.jit(jax.vmap(lambda net, x: conv_kernels.ensemble_q(net, x, shape)))
        lowered = q.trace(networks, images(count, 4)).lower(lowering_platforms=("cuda",))
        assert "triton" in lowered.as_text()
    how = {"shape": shape, "loss": optax.huber_loss, "decay": DECAY, "epsilon": EPSILON}
    step = jax.jit(jax.vmap(partial(conv_gradient.gradient_step, **how)))
    action, targets = jnp.zeros((LANES, 32), jnp.int32), jnp.zeros((LANES, 32))
    arguments = (jnp.zeros(LANES, jnp.int32), images(32, 4), action, targets, jnp.ones(LANES))
    lowered = step.trace(networks, networks, networks, *arguments).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("triton") >= 6


@pytest.mark.parametrize(("returns", "ensemble"), [("one-step", 1), ("greedy-step-twin", 2)])
def test_a_learner_makes_the_same_updates_with_kernels(monkeypatch, returns, ensemble):
    def after_updates(with_kernels: bool):
        monkeypatch.setattr(conv_kernels, "is_available", lambda: with_kernels)
        env = envs.make("minatar/breakout")
        config = make_config("minatar/breakout", "paper", returns=returns, ensemble=ensemble, learning_rate=1e-3)
        learner = Learner(config, env.observation, env.num_actions)
        assert (learner.kernel_shape is not None) == with_kernels
        state, infos = jax.jit(learner.init)(jax.random.key(0)), []
        update, act = jax.jit(learner.update), jax.jit(learner.acting_q)
        for i in range(2):  # later, rounding may decide whether a unit of the hidden layer is above 0
            key = jax.random.key(i)
            seen = jax.random.bernoulli(key, 0.3, (32, *env.observation.shape))
            targets = jax.random.normal(key, (config.groups, 32))
            action = jax.random.randint(key, (32,), 0, env.num_actions)
            batch = Batch(seen, action, targets, jnp.ones(32, jnp.int32))
            state, info = update(state, batch, jnp.int32(i % ensemble), jnp.float32(1e-3))
            infos.append((info, act(state.params, seen[:1])))
        return state, infos

    ours, theirs = after_updates(True), after_updates(False)
    jax.tree.map(partial(np.testing.assert_allclose, atol=2e-5), ours, theirs)


@pytest.mark.parametrize(
    "settings",
    [
        {"preset_name": "fast"},
        {"returns": "auto"},
        {"hidden": (100,)},
        {"hidden": (64, 64)},
        {"max_gradient_norm": 1.0},
        {"ensemble": 2, "ensemble_update": "all"},
        {"conservatism": "bcq"},
        {"batch_size": 24},
    ],
)
def test_other_settings_train_without_kernels(monkeypatch, settings):
    monkeypatch.setattr(conv_kernels, "is_available", lambda: True)
    env = envs.make("minatar/breakout")
    config = make_config("minatar/breakout", **{"returns": "one-step"} | settings)
    assert Learner(config, env.observation, env.num_actions).kernel_shape is None


def test_a_network_of_the_users_own_is_trained_without_kernels_whatever_its_type(monkeypatch):
    monkeypatch.setattr(conv_kernels, "is_available", lambda: True)
    env = envs.make("minatar/breakout")
    config = make_config("minatar/breakout", returns="one-step")

    def narrow(key, observation, num_actions):
        return ConvNet(key, observation.shape, (64,), num_actions)

    assert Learner(config, env.observation, env.num_actions).kernel_shape is not None
    assert Learner(config, env.observation, env.num_actions, narrow).kernel_shape is None

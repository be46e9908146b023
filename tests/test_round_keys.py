"""Random numbers that are drawn ahead: the keys of many rounds, and integers whose bound is not known yet."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from greedystep import envs
from greedystep.deep import conv_kernels
from greedystep.deep.device_loop import DeviceLoop
from greedystep.deep.lane_hyperparams import make_hyperparams
from greedystep.deep.learner import Learner
from greedystep.deep.presets import make_config
from greedystep.deep.round_keys import round_keys
from greedystep.replay import integers_below, random_bits


def words(keys):
    return np.asarray(jax.random.key_data(keys))


@pytest.mark.parametrize("with_kernel", [False, True])
@pytest.mark.parametrize("rounds", [1, 7])
@pytest.mark.parametrize("partitionable", [False, True])
def test_the_keys_of_rounds_are_those_of_splitting_again_and_again(monkeypatch, with_kernel, rounds, partitionable):
    monkeypatch.setattr(conv_kernels, "is_available", lambda: with_kernel)
    lanes = jax.random.split(jax.random.key(3), 2)
    with jax.threefry_partitionable(partitionable):
        last, keys = jax.vmap(lambda key: round_keys(key, rounds))(lanes)
        for lane, key in enumerate(lanes):
            for i in range(rounds):
                key, *expected = jax.random.split(key, 3)
                assert (words(keys[lane, i]) == words(jnp.stack(expected))).all()
            assert (words(last[lane]) == words(key)).all()


def test_the_choice_of_heads_has_a_key_of_its_own():
    env = envs.make("classic/cartpole")
    config = make_config("classic/cartpole", num_envs=4)
    loop = DeviceLoop(Learner(config, env.observation, env.num_actions), env)
    act_key, update_key = keys = jax.random.split(jax.random.key(5))
    hyperparams = make_hyperparams(loop.learner, {}, 1)
    heads = words(loop.draw(keys, jax.tree.map(lambda x: x[0], hyperparams)).heads)
    used = [*jax.random.split(act_key, 2), update_key]
    used += [child for key in used for child in jax.random.split(key, 4)]
    assert not any((heads == words(key)).all() for key in used)


@pytest.mark.parametrize("bound", [1, 2, 6, 1000, 99_999, 100_000, 2**31 - 1])
def test_integers_below_a_bound_are_those_of_randint(bound):
    key = jax.random.key(bound % 97)
    expected = jax.random.randint(key, (64,), 0, bound)
    assert (integers_below(jnp.int32(bound), random_bits(key, 64)) == expected).all()

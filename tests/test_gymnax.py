"""Environments of gymnax as ours: a stand-in with gymnax's words in every test run, the real ones where they are."""

from importlib.util import find_spec
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled_walks import terminations

from greedystep import envs
from greedystep.envs.gymnasium import GymnasiumEnv


class Params(NamedTuple):
    max_steps_in_episode: int = 5
    end: int = 3


class Place(NamedTuple):
    x: jax.Array
    time: jax.Array


class Space(NamedTuple):
    low: float
    high: float
    shape: tuple
    dtype: type


class Choices(NamedTuple):
    n: int
    dtype: type = jnp.int32


class Walk:
    """Action 1 goes right; ends at `end`; gives its observation as whole numbers, against its own space."""

    name = "Walk-v0"
    default_params = Params()

    def reset_env(self, key, params):
        state = Place(jax.random.randint(key, (), 0, 2), jnp.int32(0))
        return jnp.array([state.x, 0]), state

    def step_env(self, key, state, action, params):
        state = Place(state.x + action, state.time + 1)
        return jnp.array([state.x, state.time]), state, state.x, state.x >= params.end, {}

    def is_truncated(self, state, params):
        return state.time >= params.max_steps_in_episode

    def observation_space(self, params):
        return Space(0, 9, (2,), jnp.float32)

    def action_space(self, params):
        return Choices(2)


def test_steps_rewards_and_both_kinds_of_end():
    env = envs.from_gymnax(Walk())
    assert env.name == "gymnax/Walk-v0"
    assert env.num_actions == 2
    assert env.observation.dtype == np.float32
    state = env.reset(jax.random.key(0))
    for number in range(1, 6):
        state, step = env.step(jax.random.key(number), state, 0)
        assert step.truncated == (number == 5)
        assert not step.terminated
    assert env.observe(state).dtype == jnp.float32
    state = env.reset(jax.random.key(0))
    while not step.terminated:
        state, step = env.step(jax.random.key(1), state, 1)
    assert env.observe(state)[0] == 3 == step.reward


def test_an_end_in_the_last_step_is_an_end():
    env = envs.from_gymnax(Walk(), Params(max_steps_in_episode=1, end=1))
    state = env.reset(jax.random.key(0))
    _, step = env.step(jax.random.key(0), state, 1)
    assert step.terminated
    assert not step.truncated


def test_it_goes_on_by_itself_under_vmap_and_scan():
    assert (terminations(envs.from_gymnax(Walk()), steps=30) >= 10).all()


def test_gymnax_inside_gymnasium():
    env = GymnasiumEnv(envs.from_gymnax(Walk()), render_mode="rgb_array")
    assert env.observation_space.contains(env.reset(seed=0)[0])
    assert env.render().dtype == np.uint8


def test_what_cannot_be_taken_in_is_named(monkeypatch):
    class Wrapped:
        def __init__(self, env):
            self.env = env

        def __getattr__(self, name):
            return getattr(self.env, name)

    with pytest.raises(ValueError, match="without wrappers, got a Wrapped without reset_env"):
        envs.from_gymnax(Wrapped(Walk()))
    monkeypatch.setattr(Walk, "action_space", lambda self, params: Space(-1, 1, (), jnp.float32))
    with pytest.raises(ValueError, match="expected discrete actions, Walk-v0 has Space"):
        envs.from_gymnax(Walk())
    monkeypatch.setattr("greedystep.envs.gymnax.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"'CartPole-v1' needs gymnax, which is not installed: pip install"):
        envs.from_gymnax("CartPole-v1")


@pytest.mark.skipif(find_spec("gymnax") is None, reason="gymnax is not installed")
@pytest.mark.parametrize("name", ["CartPole-v1", "Catch-bsuite", "FourRooms-misc", "DeepSea-bsuite"])
@pytest.mark.filterwarnings("ignore")
def test_gymnaxs_own(name):
    """The same as gymnax's own step, up to the end of the episode, where gymnax begins anew in the same call."""
    import gymnax  # pyright: ignore[reportMissingImports]

    env = envs.from_gymnax(name)
    step_once = jax.jit(env.step)
    theirs, params = gymnax.make(name)
    seen, their_state = theirs.reset(jax.random.key(0), params)
    state = env.reset(jax.random.key(0))
    assert np.array_equal(env.observe(state), seen)
    for number in range(200):
        key = jax.random.key(number)
        action = jnp.int32(number % env.num_actions)
        _, their_state, reward, terminated, truncated, info = theirs.step(key, their_state, action, params)
        state, step = step_once(jax.random.split(key)[0], state, action)
        assert np.asarray(env.observe(state)) == pytest.approx(np.asarray(info["final_observation"]), abs=1e-5)
        assert (step.reward, step.terminated, step.truncated) == (reward, terminated, truncated & ~terminated)
        if terminated | truncated:
            break
    assert number > 3

"""Environments with Jumanji's protocol as ours: a stand-in in every test run, the real ones where they are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled_walks import terminations

import greedystep as gs
from greedystep import envs


class TimeStep(NamedTuple):
    step_type: jax.Array
    reward: jax.Array
    discount: jax.Array
    observation: object


class Discrete(NamedTuple):
    num_values: object


class Bounded(NamedTuple):
    minimum: float
    maximum: float


class Board(NamedTuple):
    cells: jax.Array
    mask: jax.Array


class Walk:
    """Action 1 goes right by a random 1 or 2; terminates at 3 or beyond, is cut off after 5 steps."""

    observation_spec = Bounded(0, 9)
    action_spec = Discrete(2)
    discount_spec = None

    def see(self, x, t):
        return jnp.stack([x, t]).astype(jnp.float32)

    def reset(self, key):
        state = {"x": jnp.int32(0), "t": jnp.int32(0), "key": key}
        return state, TimeStep(jnp.int8(0), jnp.float32(0), jnp.float32(1), self.see(state["x"], state["t"]))

    def step(self, state, action):
        key, draw = jax.random.split(state["key"])
        x = state["x"] + action * jax.random.randint(draw, (), 1, 3)
        t = state["t"] + 1
        ends, late = x >= 3, t >= 5
        step_type = jnp.where(ends | late, 2, 1).astype(jnp.int8)
        state = {"x": x, "t": t.astype(jnp.int16), "key": key}
        return state, TimeStep(step_type, x * 1.0, jnp.where(ends, 0.0, 1.0), self.see(x, t))


class BoardWalk(Walk):
    """The same, seen as a board and a mask of legal actions; its specs are methods."""

    def observation_spec(self):
        return None

    def action_spec(self):
        return Discrete(jnp.int32(2))

    def see(self, x, t):
        return Board(jax.nn.one_hot(jnp.clip(x, 0, 5), 6).reshape(2, 3), jnp.array([True, False]))


def test_steps_rewards_and_both_kinds_of_end():
    env = envs.from_jumanji(Walk())
    assert (env.name, env.num_actions) == ("jumanji/Walk", 2)
    assert (env.observation.shape, env.observation.dtype) == ((2,), np.float32)
    assert (env.observation.low, env.observation.high) == (0, 9)
    state = env.reset(jax.random.key(0))
    for number in range(1, 6):
        state, step = env.step(jax.random.key(number), state, 0)
        assert (bool(step.truncated), bool(step.terminated)) == (number == 5, False)
        assert env.observe(state).tolist() == [0, number]
    state = env.reset(jax.random.key(1))
    while not step.terminated:
        state, step = env.step(jax.random.key(1), state, 1)
    assert env.observe(state)[0] == step.reward >= 3
    assert not step.truncated


def test_parts_of_an_observation_become_one_vector():
    env = envs.from_jumanji(BoardWalk())
    assert env.observation.shape == (8,)
    assert env.observe(env.reset(jax.random.key(0))).tolist() == [1, 0, 0, 0, 0, 0, 1, 0]


def test_it_goes_on_by_itself_under_vmap_and_scan():
    assert (terminations(envs.from_jumanji(Walk()), steps=30) >= 10).all()


def test_an_agent_takes_it_and_the_checker_finds_nothing():
    gs.check_env(BoardWalk(), 40)
    agent = gs.DQN(BoardWalk(), hidden=(4,))
    assert agent.predict(np.zeros((3, 8))).shape == (3,)


def test_what_cannot_be_taken_in_is_named(monkeypatch):
    with pytest.raises(ValueError, match="expected one of Jumanji, got a int without reset"):
        envs.from_jumanji(3)
    for spec in (Bounded(-1, 1), Discrete(np.array([2, 3]))):
        monkeypatch.setattr(Walk, "action_spec", spec)
        with pytest.raises(ValueError, match="expected one discrete action, Walk has"):
            gs.DQN(Walk())


@pytest.mark.parametrize("name", ["Snake-v1", "Game2048-v1", "Maze-v0"])
@pytest.mark.filterwarnings("ignore")
def test_jumanjis_own(name):
    """The same as Jumanji's own steps."""
    jumanji = pytest.importorskip("jumanji")
    theirs = jumanji.make(name)
    env = envs.from_jumanji(theirs)
    key = jax.random.key(0)
    state, (their_state, timestep) = env.reset(key), theirs.reset(jax.random.key_data(key))
    step_once, their_step = jax.jit(env.step), jax.jit(theirs.step)
    for number in range(30):
        action = jnp.int32(number % env.num_actions)
        their_state, timestep = their_step(their_state, action)
        state, step = step_once(key, state, action)
        parts = [np.ravel(part) for part in jax.tree.leaves(timestep.observation)]
        assert np.array_equal(np.ravel(env.observe(state)), np.concatenate(parts).astype(env.observation.dtype))
        assert step.reward == timestep.reward
        assert (step.terminated | step.truncated) == timestep.last()
        if timestep.last():
            break
    gs.check_env(env, 100)

"""The protocol and its wrappers, on the smallest environment there is."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from greedystep import envs
from greedystep.envs.core import AutoReset, Environment, ObservationSpec, Step, TimeLimit


class Count(NamedTuple):
    steps: jax.Array
    mark: jax.Array  # drawn at the start
    episodes: jax.Array  # carried over


@dataclass(frozen=True)
class Counter(Environment):
    """Ends in step `end`; pays the action; sees its own step."""

    end: int = 3
    action_names = ("none", "one")
    name = "counter"  # pyright: ignore[reportAssignmentType]
    observation = ObservationSpec((), np.dtype(np.int32), 0, np.inf)  # pyright: ignore[reportAssignmentType]

    def draw_start(self, key):
        return jax.random.bits(key)

    def start(self, draws):
        return Count(jnp.int32(0), draws, jnp.int32(0))

    def start_after(self, draws, state):
        return self.start(draws)._replace(episodes=state.episodes + 1)

    def draw(self, key):
        return ()

    def advance(self, draws, state, action):
        state = state._replace(steps=state.steps + 1)
        return state, Step(action.astype(jnp.float32), state.steps >= self.end, jnp.bool_(False))

    def observe(self, state):
        return state.steps


def roll(env, steps, key=0):
    """States after each step, and the steps, of always doing 1."""

    def one(state, key):
        state, step = env.step(key, state, jnp.int32(1))
        return state, (env.observe(state), step)

    start, walk = jax.random.split(jax.random.key(key))
    return jax.lax.scan(one, env.reset(start), jax.random.split(walk, steps))


def test_a_time_limit_cuts_but_an_end_in_the_same_step_is_an_end():
    _, (_, step) = roll(TimeLimit(Counter(end=5), 3), 3)
    assert step.truncated.tolist() == [False, False, True]
    assert not step.terminated.any()
    _, (_, step) = roll(TimeLimit(Counter(end=3), 3), 3)
    assert step.terminated.tolist() == [False, False, True]
    assert not step.truncated.any()


def test_auto_reset_keeps_the_final_state_and_what_a_game_carries_over():
    env = AutoReset(Counter())
    state, (seen, step) = roll(env, 7)
    assert seen.tolist() == [1, 2, 0, 1, 2, 0, 1]
    assert jax.vmap(env.observe)(step.last).tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert step.terminated.tolist() == [False, False, True] * 2 + [False]
    assert state.episodes == 2


def test_restart_is_start_after_with_draws_and_cannot_be_overridden():
    env = Counter()
    ended = env.reset(jax.random.key(0))._replace(episodes=jnp.int32(4))
    again = env.restart(jax.random.key(1), ended)
    assert again.episodes == 5
    assert again.mark == env.draw_start(jax.random.key(1))
    with pytest.raises(TypeError, match=r"^Own.restart: training does not call it; define start_after"):
        type("Own", (Counter,), {"restart": lambda self, key, state: state})


def test_every_episode_begins_with_new_draws():
    _, (_, step) = roll(AutoReset(TimeLimit(Counter(), 2)), 8)
    marks = np.asarray(step.last.state.mark)[::2]
    assert len(set(marks.tolist())) == 4
    assert step.truncated.sum() == 4
    assert not step.terminated.any()
    _, (_, again) = roll(AutoReset(TimeLimit(Counter(), 2)), 8)
    assert (again.last.state.mark == step.last.state.mark).all()


def test_many_environments_are_one_vmap():
    env = AutoReset(TimeLimit(Counter(), 2))
    states = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 4))
    keys = jax.random.split(jax.random.key(1), 4)
    states, step = jax.jit(jax.vmap(env.step))(keys, states, jnp.array([0, 1, 0, 1]))
    assert step.reward.tolist() == [0, 1, 0, 1]
    assert step.reward.dtype == jnp.float32


def test_an_environment_may_be_a_static_argument():
    first = jax.jit(lambda env, key: env.reset(key), static_argnums=0)
    assert first(TimeLimit(Counter(), 2), jax.random.key(0)).steps == 0
    assert TimeLimit(Counter(), 2) == TimeLimit(Counter(), 2)
    assert hash(TimeLimit(Counter(), 2))


@pytest.mark.parametrize("action", [2, -1, 0.5, np.array([0, 7])])
def test_actions_that_do_not_exist_are_named(action):
    env = TimeLimit(Counter(), 2)
    with pytest.raises(ValueError, match=r"action: .*0\.\.1"):
        env.step(jax.random.key(0), env.reset(jax.random.key(0)), action)


@pytest.mark.parametrize("limit", [0, -1, 2.5, True])
def test_limits_are_whole_numbers(limit):
    with pytest.raises(ValueError, match="limit: expected an integer"):
        TimeLimit(Counter(), limit)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ValueError, match=r"did you mean 'toy/trace-back'\?"):
        envs.make("toy/traceback")

"""Classic control against Gymnasium: each step from the same state, whole episodes, starts, limits and spaces."""

from functools import cache
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from greedystep import envs
from greedystep.envs.classic import Links
from greedystep.envs.core import AutoReset

ORIGINALS = {
    "classic/acrobot": "Acrobot-v1",
    "classic/cartpole": "CartPole-v1",
    "classic/mountaincar": "MountainCar-v0",
}
every_task = pytest.mark.parametrize("name", ORIGINALS)


# -- walks, with good actions among the random ones so that deep states are reached ------------------------------------


def swing(state):
    """Push the car the way it goes."""
    return jnp.where(state.velocity < 0, 0, 2)


def balance(state):
    return (state.angle + 0.3 * state.turning + 0.02 * state.x + 0.05 * state.velocity > 0).astype(jnp.int32)


def pump(state):
    """Torque the way the second joint should swing to feed the first one."""
    return jnp.where(state.first_turning > 0, 0, 2)


GOOD = {"classic/acrobot": pump, "classic/cartpole": balance, "classic/mountaincar": swing}


@cache
def _walk(name, share, steps, limit):
    env = AutoReset(envs.make(name, limit=limit))

    def one(state, key):
        which, act, key = jax.random.split(key, 3)
        inner = state if limit is None else state.state
        at_random = jax.random.randint(act, (), 0, env.num_actions)
        action = jnp.where(jax.random.uniform(which) < share, at_random, GOOD[name](inner))
        next_state, step = env.step(key, state, action)
        last = step.last if limit is None else step.last.state
        return next_state, (inner, action, step._replace(last=()), last, env.observe(step.last))

    return jax.jit(lambda key: jax.lax.scan(one, env.reset(key), jax.random.split(key, steps))[1])


def walk(name, share, steps, limit=None, seed=0):
    """States before, actions, steps, states after, observations after of `steps` steps, a share of them random."""
    return jax.tree.map(np.asarray, _walk(name, share, steps, limit)(jax.random.key(seed)))


def original(name):
    return gymnasium.make(ORIGINALS[name]).unwrapped


def put(task, name, state):
    """Gymnasium's task in that state."""
    task.state = np.array(state, np.float64)
    if name == "classic/cartpole":
        task.steps_beyond_terminated = None


def distance_to_the_end(name, state):
    """How far from where the episode ends; where it is closer than float32 can tell, either answer is right."""
    if name == "classic/acrobot":
        return abs(-np.cos(state[0]) - np.cos(state[0] + state[1]) - 1)
    if name == "classic/cartpole":
        return min(abs(abs(state[0]) - 2.4), abs(abs(state[2]) - np.radians(12)))
    return abs(state[0] - 0.5)


def compare_steps(name, share, steps, seed=0):
    """Every step from our state: the same reward and end, and the same observation to 1e-5."""
    before, actions, step, _, seen = walk(name, share, steps, seed=seed)
    task, decided, expected = original(name), [], []
    for t, (state, action) in enumerate(zip(np.stack(before, axis=1), actions.tolist(), strict=True)):
        put(task, name, state)
        observation, reward, terminated, _, _ = task.step(action)
        expected.append(observation)
        if distance_to_the_end(name, task.state) > 1e-5:  # pyright: ignore[reportAttributeAccessIssue]
            decided.append(t)
            assert (reward, terminated) == (step.reward[t], step.terminated[t]), f"step {t}"
    assert len(decided) > 0.99 * steps
    np.testing.assert_allclose(seen, np.array(expected), rtol=1e-5, atol=1e-5)
    return step


@pytest.mark.parametrize(("share", "angles", "speeds"), [(0.5, 1e-5, 1e-5), (1.0, 1e-4, 5e-3)])
def test_acrobot_at_any_speed(share, angles, speeds):
    """Up to half of the highest speeds a step agrees to 1e-5; at full speed it magnifies the rounding of float32."""
    env, task, random = envs.make("classic/acrobot", limit=None), original("classic/acrobot"), np.random.default_rng(0)
    high = np.pi * np.array([1, 1, 4 * share, 9 * share])
    states = random.uniform(-high, high, (2000, 4)).astype(np.float32)
    states[:20, 2:] = np.sign(states[:20, 2:]) * high[2:]
    actions, expected = random.integers(0, 3, len(states)), []
    for state, action in zip(states, actions.tolist(), strict=True):
        put(task, "classic/acrobot", state)
        expected.append(task.step(action)[0])
    after, _ = jax.vmap(lambda state, action: env.advance((), state, action))(Links(*states.T), jnp.asarray(actions))
    differs = np.abs(np.asarray(jax.vmap(env.observe)(after)) - np.array(expected))
    assert differs[:, :4].max() < angles
    assert differs[:, 4:].max() < speeds
    assert (differs.max(axis=1) < 1e-5).mean() > 0.95


@every_task
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_every_step_is_gymnasiums(name, share):
    compare_steps(name, share, 4000)


@every_task
def test_good_play_reaches_the_ends(name):
    _, _, step, last, _ = walk(name, 1.0 if name == "classic/cartpole" else 0.2, 4000)
    assert step.terminated.sum() >= 3
    if name == "classic/cartpole":
        assert not walk(name, 0.2, 4000)[2].terminated[:1000].any()
    if name == "classic/mountaincar":
        # ... and the wall on the left, where the car stops
        swung = walk(name, 0.5, 4000, seed=1)[3]
        wall = swung.position == np.float32(-1.2)
        assert wall.any()
        assert (swung.velocity[wall] == 0).all()
    if name == "classic/acrobot":
        assert (np.abs(np.diff(last.first)) > 3).any()  # an angle was wrapped


@pytest.mark.parametrize("x", [-2.4, -2.39, -2.37, 2.37, 2.39, 2.4])
@pytest.mark.parametrize("velocity", [-1.0, 1.0])
def test_the_cart_must_not_leave(x, velocity):
    env, task = envs.make("classic/cartpole", limit=None), original("classic/cartpole")
    put(task, "classic/cartpole", [x, velocity, 0.0, 0.0])
    state = env.reset(jax.random.key(0))._replace(x=jnp.float32(x), velocity=jnp.float32(velocity))
    state = state._replace(angle=jnp.float32(0), turning=jnp.float32(0))
    assert env.step(jax.random.key(0), state, 0)[1].terminated == task.step(0)[2]


@pytest.mark.long
@every_task
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_every_step_is_gymnasiums_for_long(name, share):
    compare_steps(name, share, 100_000, seed=10)


@pytest.mark.parametrize(
    ("name", "steps", "tolerance"),
    # The stable one for an episode; the unstable ones as far as 1e-7 can grow.
    [("classic/mountaincar", 200, 1e-4), ("classic/cartpole", 60, 1e-4), ("classic/acrobot", 60, 1e-3)],
)
def test_whole_episodes_stay_together(name, steps, tolerance):
    for seed in range(5):
        before, actions, step, _, seen = walk(name, 0.3, 200, seed=seed)
        end = min(steps, int(np.argmax(step.terminated)) if step.terminated.any() else steps)
        task = original(name)
        put(task, name, np.stack(before, axis=1)[0])
        expected = [task.step(action)[0] for action in actions[:end].tolist()]
        np.testing.assert_allclose(seen[:end], np.array(expected), rtol=0, atol=tolerance)


@every_task
def test_starts_are_uniform_in_gymnasiums_box(name):
    env, task = envs.make(name, limit=None), original(name)
    states = np.stack(jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 20_000)), axis=1)
    theirs = []
    for seed in range(300):
        task.reset(seed=seed)
        theirs.append(np.array(task.state))  # pyright: ignore[reportAttributeAccessIssue]
    theirs = np.array(theirs)
    low, high = {"classic/acrobot": (-0.1, 0.1), "classic/cartpole": (-0.05, 0.05)}.get(name, (-0.6, -0.4))
    for ours, original_values in zip(states.T, theirs.T, strict=True):
        if original_values.std() == 0:
            assert (ours == original_values[0]).all()
            continue
        assert stats.kstest((ours - low) / (high - low), "uniform").pvalue > 1e-5
        assert stats.ks_2samp(ours, original_values).pvalue > 1e-5  # pyright: ignore[reportAttributeAccessIssue]


@every_task
def test_spaces_and_limits_are_gymnasiums(name):
    env, task = envs.make(name), gymnasium.make(ORIGINALS[name])
    assert env.limit == task.spec.max_episode_steps
    assert envs.make(name, limit=77).limit == 77
    assert env.num_actions == task.action_space.n  # pyright: ignore[reportAttributeAccessIssue]
    assert env.name == name
    assert not env.stochastic
    space: Any = task.observation_space
    assert env.observation.shape == space.shape
    assert env.observation.dtype == space.dtype
    np.testing.assert_allclose(env.observation.low, space.low, rtol=1e-6)
    np.testing.assert_allclose(env.observation.high, space.high, rtol=1e-6)


@every_task
def test_limits_cut(name):
    _, _, step, _, _ = walk(name, 1.0, 500, limit=8)
    assert step.truncated[7]
    assert not step.truncated[:7].any()
    assert not (step.truncated & step.terminated).any()


@every_task
def test_there_are_no_options(name):
    with pytest.raises(ValueError, match=f"gravity: {name} has no such option, only limit"):
        envs.make(name, gravity=1.0)

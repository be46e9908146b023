"""The JAX face of the toy tasks: the same tables, the same ends and cuts."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep import envs
from greedystep.envs import toy
from greedystep.envs.core import AutoReset
from greedystep.envs.toy_env import ToyDraws, ToyState

SMALL = {
    "toy/bomb": {"delay": 2, "side": 5},
    "toy/choice": {"delay": 4, "noise": 0.5},
    "toy/grid-world": {"size": 3, "horizon": 5},
    "toy/n-horizon": {"length": 3},
    "toy/trace-back": {"delay": 6},
    "toy/watch-repair": {"length": 3},
}
every_task = pytest.mark.parametrize("name", SMALL)


def at(state, steps=0):
    return ToyState(jnp.int32(state), jnp.int32(steps))


@every_task
def test_a_draw_picks_the_outcome_of_the_table(name):
    task = envs.make_task(name, **SMALL[name])
    env, random = task.as_env(), np.random.default_rng(0)
    first, cumulative, successor, reward, noise = task.outcomes
    advance = jax.jit(jax.vmap(env.advance))
    s, a = random.integers(0, task.num_states, 500), random.integers(0, task.num_actions, 500)
    u, z = random.random(500).astype(np.float32), random.normal(size=500).astype(np.float32)
    states, step = advance(ToyDraws(u, z), ToyState(jnp.asarray(s, jnp.int32), jnp.zeros(500, jnp.int32)), a)
    for i in range(500):
        row = s[i] * task.num_actions + a[i]
        if first[row] == first[row + 1]:  # no such action: what the first one does
            row = s[i] * task.num_actions + int(task.mdp.available[s[i]].argmax())
        k = first[row] + np.searchsorted(cumulative[first[row] : first[row + 1]], u[i], side="right")
        assert step.terminated[i] == (successor[k] == toy.END)
        assert states.number[i] == (s[i] if step.terminated[i] else successor[k])
        assert step.reward[i] == pytest.approx(reward[k] + noise[k] * z[i], rel=1e-5, abs=1e-5)
        assert states.steps[i] == 1


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=8, deadline=None)
def test_the_distribution_of_what_happens_is_that_of_the_model(seed):
    random = np.random.default_rng(seed)
    mdp = oracles.random_mdp(random)
    task = toy.from_mdp("random", mdp, np.full(mdp.num_states, 1 / mdp.num_states), 9)
    env, keys = task.as_env(), jax.random.split(jax.random.key(seed), 20_000)
    s = int(random.integers(mdp.num_states))
    a = int(random.choice(np.flatnonzero(mdp.available[s])))
    states, step = jax.vmap(env.step, (0, None, None))(keys, at(s), a)
    row = oracles.dense(mdp)[s, a]
    wanted = np.where(mdp.terminal, 0.0, row)
    ended = np.asarray(step.terminated)
    share = np.bincount(np.asarray(states.number)[~ended], minlength=mdp.num_states) / 20_000
    np.testing.assert_allclose(share, wanted, atol=0.02)
    assert ended.mean() == pytest.approx(1 - wanted.sum(), abs=0.02)
    assert step.reward.mean() == pytest.approx(mdp.rewards[s, a], rel=1e-5, abs=1e-5)
    begun = jax.vmap(env.reset)(keys)
    np.testing.assert_allclose(np.bincount(begun.number, minlength=mdp.num_states) / 20_000, task.start, atol=0.02)


def test_noise_has_the_deviation_of_the_table():
    env = envs.make("toy/choice", delay=4, noise=0.5)
    _, step = jax.vmap(env.step, (0, None, None))(jax.random.split(jax.random.key(0), 20_000), at(1), 0)
    assert step.reward.mean() == pytest.approx(0, abs=0.02)
    assert step.reward.std() == pytest.approx(0.5, abs=0.02)


def test_an_episode_is_cut_off_at_the_horizon():
    env = envs.make("toy/grid-world", size=3, horizon=5)
    state = env.reset(jax.random.key(0))
    cuts = []
    for _ in range(5):
        state, step = env.step(jax.random.key(1), state, 0)  # up, against the wall
        assert not step.terminated
        cuts.append(bool(step.truncated))
    assert cuts == [False] * 4 + [True]
    # An end in the last step is an end and no cut.
    _, step = env.step(jax.random.key(1), at(7, 4), 1)
    assert (bool(step.terminated), bool(step.truncated)) == (True, False)


@every_task
def test_it_keeps_the_protocol_and_goes_on_for_ever(name):
    env = envs.make(name, **SMALL[name])
    assert env.name == name
    assert env.stochastic == (name not in ("toy/grid-world", "toy/n-horizon"))
    spec, lasting = env.observation, AutoReset(env)

    @jax.jit
    def run(key):
        def one(carry, key):
            state, (draw, act) = carry, jax.random.split(key)
            action = jax.random.randint(act, (), 0, env.num_actions)
            state, step = lasting.step(draw, state, action)
            return state, (env.observe(state), step.reward, step.terminated | step.truncated)

        return jax.lax.scan(one, env.reset(key), jax.random.split(key, 200))[1]

    seen, rewards, over = jax.vmap(run)(jax.random.split(jax.random.key(3), 4))
    assert (seen.shape[2:], seen.dtype, rewards.dtype) == (spec.shape, spec.dtype, np.float32)
    assert ((seen >= spec.low) & (seen <= spec.high)).all()
    assert over.any(axis=1).all()
    with pytest.raises(ValueError, match="has the actions 0"):
        env.step(jax.random.key(0), env.reset(jax.random.key(0)), env.num_actions)


def test_the_return_of_a_policy_is_the_exact_one():
    task = envs.make_task("toy/trace-back", delay=6)
    env, random = task.as_env(), np.random.default_rng(1)
    policy = random.integers(0, 4, task.num_states)

    def episode(key):
        def one(carry, key):
            state, alive = carry
            state, step = env.step(key, state, jnp.asarray(policy)[state.number])
            return (state, alive & ~step.terminated & ~step.truncated), step.reward * alive

        return jax.lax.scan(one, (env.reset(key), jnp.bool_(True)), jax.random.split(key, task.horizon))[1].sum()

    returns = jax.vmap(episode)(jax.random.split(jax.random.key(0), 2000))
    assert returns.mean() == pytest.approx(task.expected_return(policy), abs=1.0)


def test_neither_planning_nor_tabular_learning_imports_jax():
    code = "import sys, greedystep as gs; gs.TabularAgent('toy/choice').learn(2); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

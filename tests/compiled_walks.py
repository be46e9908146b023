"""Walks in compiled environments: what the adapters' tests have in common."""

import jax
import jax.numpy as jnp

from greedystep.envs.core import AutoReset


def terminations(env, *, steps):
    """How often each of 8 copies terminates within so many steps of action 1, under vmap and scan; [8]."""
    env = AutoReset(env)
    start = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 8))

    def one(states, key):
        states, step = jax.vmap(env.step)(jax.random.split(key, 8), states, jnp.ones(8, jnp.int32))
        return states, step.terminated

    _, ends = jax.lax.scan(one, start, jax.random.split(jax.random.key(1), steps))
    return ends.sum(axis=0)

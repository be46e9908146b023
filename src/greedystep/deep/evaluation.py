"""How good what was learned is: whole episodes of every lane, all of them side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep.deep.dqn import Learner
from greedystep.deep.loop import epsilon_greedy
from greedystep.envs.core import Environment

MAX_STEPS = 10_000
"""A greedy policy can go round in circles for ever."""


class Played(NamedTuple):
    """Episodes of all lanes, [L, E]."""

    returns: np.ndarray
    """float32: sums of rewards."""
    lengths: np.ndarray
    """int32."""
    cut: np.ndarray
    """bool: stopped after `max_steps`, and counted as it was then."""


class _Table(NamedTuple):
    """E episodes that are being played."""

    states: Any
    returns: jax.Array
    lengths: jax.Array
    over: jax.Array
    """bool."""


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Plays with an agent's networks; compiled once for each number of episodes."""

    learner: Learner
    env: Environment

    def __call__(
        self, networks: Any, seed: int = 0, *, episodes: int = 100, epsilon: float = 0.0, max_steps: int = MAX_STEPS
    ) -> Played:
        """Play so many whole episodes in each lane, greedily but for a share `epsilon` at random.

        Every episode counts once, however long: an average over a number of steps would favour short ones.

        Args:
            networks: the online networks of all lanes; every array [L, M, ...].
            seed: of the episodes, which begin alike in all lanes.
        """
        for name, value in (("episodes", episodes), ("max_steps", max_steps)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: expected a whole number of at least 1, got {value!r}")
        if not (math.isfinite(epsilon) and 0 <= epsilon <= 1):
            raise ValueError(f"epsilon: expected a number in [0, 1], got {epsilon!r}")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
            raise ValueError(f"seed: expected a whole number from 0 to 2^32 - 1, got {seed!r}")
        keys = jax.random.split(jax.random.key(seed), episodes)
        table = jax.device_get(self._play_lanes(networks, keys, jnp.float32(epsilon), jnp.int32(max_steps)))
        return Played(table.returns, table.lengths, ~table.over)

    @cached_property
    def _play_lanes(self) -> Any:
        return jax.jit(jax.vmap(self._play, in_axes=(0, None, None, None)))

    def _play(self, networks: Any, keys: jax.Array, epsilon: jax.Array, max_steps: jax.Array) -> _Table:
        def go_on(carry: tuple[jax.Array, _Table]) -> jax.Array:
            return (carry[0] < max_steps) & ~carry[1].over.all()

        def step(carry: tuple[jax.Array, _Table]) -> tuple[jax.Array, _Table]:
            t, table = carry
            now = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, t + 1)
            of_choice, of_envs = jnp.moveaxis(jax.vmap(jax.random.split)(now), 1, 0)
            q = self.learner.values(networks, jax.vmap(self.env.observe)(table.states))
            action, _ = epsilon_greedy(of_choice[0], q, epsilon)
            states, told = jax.vmap(self.env.step)(of_envs, table.states, action)
            playing = ~table.over  # what happens after an end is not looked at
            after = _Table(
                states=states,
                returns=table.returns + jnp.where(playing, told.reward, 0),
                lengths=table.lengths + playing,
                over=table.over | told.terminated | told.truncated,
            )
            return t + 1, after

        zeros = jnp.zeros(len(keys))
        states = jax.vmap(self.env.reset)(jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 0))
        table = _Table(states, zeros, zeros.astype(jnp.int32), zeros > 0)
        return lax.while_loop(go_on, step, (jnp.int32(0), table))[1]

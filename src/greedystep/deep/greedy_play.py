"""Play whole episodes with the networks of a training, all episodes side by side on the device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.checks import INT32_MAX, check_float, check_int, check_seed
from greedystep.deep.device_loop import epsilon_greedy
from greedystep.deep.device_memory import check_device_memory, largest_intermediate
from greedystep.deep.learner import Learner
from greedystep.envs.core import Environment
from greedystep.evaluation import Evaluation
from greedystep.replay import bytes_of

MAX_STEPS = 10_000
"""Steps after which an evaluation stops an episode: a greedy policy can go round in circles for ever."""


def play(
    learner: Learner, env: Environment, networks: Any, key: jax.Array, epsilon: jax.Array, episodes: int, limit: int
) -> Evaluation:
    """Play so many episodes from their beginning to their end, or for `limit` steps; under jit and vmap.

    Args:
        networks: the arrays of the online networks, [M, ...].
        epsilon: share of random actions; all others are greedy.
    """
    of_starts, of_steps = jax.random.split(key)
    observe, advance = jax.vmap(env.observe), jax.vmap(env.step)

    def step(carry: tuple) -> tuple:
        t, states, so_far = carry
        of_choice, of_envs = jax.random.split(jax.random.fold_in(of_steps, t))
        action, _ = epsilon_greedy(of_choice, learner.values(networks, observe(states)), epsilon)
        states, told = advance(jax.random.split(of_envs, episodes), states, action)
        playing = so_far.unfinished  # what happens after an end is not looked at
        after = Evaluation(
            returns=so_far.returns + jnp.where(playing, told.reward, 0),
            lengths=so_far.lengths + playing,
            unfinished=playing & ~(told.terminated | told.truncated),
        )
        return t + 1, states, after

    states = jax.vmap(env.reset)(jax.random.split(of_starts, episodes))
    begin = Evaluation(jnp.zeros(episodes), jnp.zeros(episodes, jnp.int32), jnp.ones(episodes, bool))
    return lax.while_loop(lambda carry: (carry[0] < limit) & carry[2].unfinished.any(), step, (0, states, begin))[2]


def check_arguments(*, seed: int, episodes: int, epsilon: float, limit: int) -> None:
    """ValueError unless an `Evaluator` can be called with these."""
    check_seed(seed)
    check_int("episodes", episodes, 1, INT32_MAX)
    check_float("epsilon", epsilon, 0, 1)
    check_int("limit", limit, 1, INT32_MAX)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Plays with the networks of all lanes; compiled once for each number of episodes and limit."""

    learner: Learner
    env: Environment

    def __call__(
        self, networks: Any, seed: int = 0, *, episodes: int = 100, epsilon: float = 0.0, limit: int = MAX_STEPS
    ) -> Evaluation:
        """So many episodes in each lane, [L, E], greedily but for a share `epsilon` at random.

        Args:
            networks: the online networks of all lanes; every array [L, M, ...].
            seed: of the episodes, which begin alike in all lanes.
        """
        check_arguments(seed=seed, episodes=episodes, epsilon=epsilon, limit=limit)
        how = (networks, jax.random.key(int(seed)), jnp.float32(epsilon), int(episodes), int(limit))
        traced = self._lanes.trace(*how)
        check_device_memory(f"episodes={episodes}", bytes_of(traced.out_info) + largest_intermediate(traced))
        return jax.device_get(self._lanes(*how))

    @cached_property
    def _lanes(self) -> Any:
        one = partial(play, self.learner, self.env)
        return jax.jit(jax.vmap(one, in_axes=(0, None, None, None, None)), static_argnums=(3, 4))

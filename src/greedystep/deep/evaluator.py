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
from greedystep.deep.device_memory import check_device_memory, largest_intermediate, tree_bytes
from greedystep.deep.learner import Learner
from greedystep.envs.core import Environment
from greedystep.evaluation import Evaluation

MAX_STEPS = 10_000
"""Steps after which an evaluation stops an episode: a greedy policy can go round in circles for ever."""


def play(
    learner: Learner, env: Environment, params: Any, key: jax.Array, epsilon: jax.Array, episodes: int, limit: int
) -> Evaluation:
    """Play episodes side by side to their ends, or for `limit` steps; works under jit and vmap.

    Args:
        params: arrays of the online networks, [M, ...].
        epsilon: fraction of random actions; all others are greedy.
    """
    start_key, step_key = jax.random.split(key)
    observe, advance = jax.vmap(env.observe), jax.vmap(env.step)

    def play_step(carry: tuple) -> tuple:
        t, states, so_far = carry
        action_key, env_key = jax.random.split(jax.random.fold_in(step_key, t))
        action, _ = epsilon_greedy(action_key, learner.min_q(params, observe(states)), epsilon)
        states, step = advance(jax.random.split(env_key, episodes), states, action)
        playing = so_far.unfinished  # steps after the end of an episode do not count
        after = Evaluation(
            returns=so_far.returns + jnp.where(playing, step.reward, 0),
            lengths=so_far.lengths + playing,
            unfinished=playing & ~(step.terminated | step.truncated),
        )
        return t + 1, states, after

    states = jax.vmap(env.reset)(jax.random.split(start_key, episodes))
    start = Evaluation(jnp.zeros(episodes), jnp.zeros(episodes, jnp.int32), jnp.ones(episodes, bool))
    return lax.while_loop(lambda carry: (carry[0] < limit) & carry[2].unfinished.any(), play_step, (0, states, start))[
        2
    ]


def check_arguments(*, seed: int, episodes: int, epsilon: float, limit: int) -> None:
    """Raise ValueError unless an `Evaluator` can be called with these arguments."""
    check_seed(seed)
    check_int("episodes", episodes, 1, INT32_MAX)
    check_float("epsilon", epsilon, 0, 1)
    check_int("limit", limit, 1, INT32_MAX)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Evaluates the networks of all lanes; compiled once per number of episodes and limit."""

    learner: Learner
    env: Environment

    def __call__(
        self, params: Any, seed: int = 0, *, episodes: int = 100, epsilon: float = 0.0, limit: int = MAX_STEPS
    ) -> Evaluation:
        """Play episodes in each lane, [L, E]; the policy is ε-greedy.

        Args:
            params: arrays of the online networks of all lanes, [L, M, ...] (`Trainer.params`).
            seed: seed of the episodes, which start alike in all lanes.
        """
        check_arguments(seed=seed, episodes=episodes, epsilon=epsilon, limit=limit)
        arguments = (params, jax.random.key(int(seed)), jnp.float32(epsilon), int(episodes), int(limit))
        traced = self._lanes.trace(*arguments)
        check_device_memory(f"episodes={episodes}", tree_bytes(traced.out_info) + largest_intermediate(traced))
        return jax.device_get(self._lanes(*arguments))

    @cached_property
    def _lanes(self) -> Any:
        one = partial(play, self.learner, self.env)
        return jax.jit(jax.vmap(one, in_axes=(0, None, None, None, None)), static_argnums=(3, 4))

"""Play whole episodes with the networks of a training: side by side on the device, or in environments on the host."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep.deep.device_memory import check_device_memory, largest_intermediate, tree_bytes
from greedystep.deep.env_spec import AnyEnvironment
from greedystep.deep.learner import Learner
from greedystep.deep.train_loop import epsilon_greedy
from greedystep.envs.core import Environment
from greedystep.envs.host import HostEnvironment, HostEnvs
from greedystep.evaluation import MAX_STEPS, Evaluation, check_arguments

SIDE_BY_SIDE = 16
"""Largest number of host environments that play side by side."""


def play(
    learner: Learner, env: Environment, params: Any, key: jax.Array, epsilon: jax.Array, episodes: int, limit: int
) -> Evaluation:
    """Play episodes side by side to their ends, or for `limit` steps each; works under jit and vmap.

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


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Plays episodes with the networks of all lanes; compiled once per number of episodes and limit."""

    learner: Learner
    env: AnyEnvironment

    def __call__(
        self, params: Any, seed: int = 0, *, episodes: int = 100, epsilon: float = 0.0, limit: int = MAX_STEPS
    ) -> Evaluation:
        """Play `episodes` episodes with the ε-greedy policy of each lane; the results are [L, E].

        Args:
            params: arrays of the online networks of all lanes, [L, M, ...] (`Trainer.params`).
            seed: seed of the episodes, which start alike in all lanes.
        """
        check_arguments(seed=seed, episodes=episodes, epsilon=epsilon, limit=limit)
        if isinstance(self.env, HostEnvironment):
            return self._play_on_host(self.env, params, seed, episodes, epsilon, limit)
        arguments = (params, jax.random.key(int(seed)), jnp.float32(epsilon), int(episodes), int(limit))
        traced = self._lanes.trace(*arguments)
        check_device_memory(f"episodes={episodes}", tree_bytes(traced.out_info) + largest_intermediate(traced))
        return jax.device_get(self._lanes(*arguments))

    @cached_property
    def _lanes(self) -> Any:
        assert isinstance(self.env, Environment)
        one = partial(play, self.learner, self.env)
        return jax.jit(jax.vmap(one, in_axes=(0, None, None, None, None)), static_argnums=(3, 4))

    # -- on the host ---------------------------------------------------------------------------------------------------

    @cached_property
    def _actions(self) -> Any:
        """Compiled ε-greedy choice: (params of one lane, key, time step, observations [N, ...], ε) -> actions [N]."""

        def actions(params: Any, key: jax.Array, t: Any, observations: jax.Array, epsilon: Any) -> jax.Array:
            return epsilon_greedy(jax.random.fold_in(key, t), self.learner.min_q(params, observations), epsilon)[0]

        return jax.jit(actions)

    def _play_on_host(
        self, env: HostEnvironment, params: Any, seed: int, episodes: int, epsilon: float, limit: int
    ) -> Evaluation:
        """Play one lane after another, in new environments if they can be made, otherwise in the one that was given."""
        lanes = jax.tree.leaves(params)[0].shape[0]
        count = env.fixed_num_envs or min(episodes, SIDE_BY_SIDE)
        envs = env.open(count)
        if not envs.can_restore:
            raise ValueError(f"env: {env.name} resets itself, so that its episodes cannot be counted; give another one")
        try:
            played = [
                self._play_lane(envs, jax.tree.map(lambda x, i=i: x[i], params), seed, episodes, epsilon, limit)
                for i in range(lanes)
            ]
        finally:
            if env.fixed_num_envs is None:
                envs.close()
        return jax.tree.map(lambda *x: np.stack(x), *played)

    def _play_lane(
        self, envs: HostEnvs, params: Any, seed: int, episodes: int, epsilon: float, limit: int
    ) -> Evaluation:
        """Play one lane's episodes; all environments play equally many, so that short episodes do not count more."""
        n, key = envs.num_envs, jax.random.key(int(seed))
        left = np.array([episodes // n + (i < episodes % n) for i in range(n)])
        seen, done = envs.reset([(int(seed), i) for i in range(n)]), []
        total, length, t = np.zeros(n), np.zeros(n, int), 0
        while left.any():
            actions = np.asarray(self._actions(params, key, np.int32(t), seen, np.float32(epsilon)))
            step = envs.step(actions)
            seen, total, length, t = step.observation, total + step.reward, length + 1, t + 1
            over = step.terminated | step.truncated
            stopped = ~over & (length >= limit)
            if stopped.any():
                seen = np.where(stopped.reshape(-1, *[1] * (seen.ndim - 1)), envs.begin_episodes(stopped), seen)
            for i in np.flatnonzero((over | stopped) & (left > 0)):
                done.append((total[i], length[i], stopped[i]))
                left[i] -= 1
            total[over | stopped], length[over | stopped] = 0, 0
        returns, lengths, unfinished = zip(*done, strict=True)
        return Evaluation(np.array(returns, np.float32), np.array(lengths, np.int32), np.array(unfinished))

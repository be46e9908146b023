"""The compiled training loop: act, store and learn, all on the device.

A lane is one training with its own seed and hyperparameters. Lanes share the step counter, which alone decides when
targets are refreshed; so that stays a real branch when many lanes run side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep import target_pool
from greedystep.deep.config import DQNConfig
from greedystep.deep.learner import Learner, LearnerState
from greedystep.deep.target_pool import TargetPool
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_metrics import ChunkMetrics, EpisodeStats
from greedystep.envs.core import AutoReset, Environment
from greedystep.replay import ReplayBuffer, ReplayState


class LaneState(NamedTuple):
    """Everything that changes in one training. Its random numbers come from its seed and nothing else."""

    key: jax.Array
    learner: LearnerState
    replay: ReplayState
    pool: TargetPool | None
    """None for returns that need no pool."""
    envs: Any
    """States of the environments, [N, ...]."""
    episode: EpisodeStats


@dataclass(frozen=True, eq=False)
class TrainLoop:
    """A learner that acts and learns in N copies of an environment."""

    learner: Learner
    env: Environment

    @cached_property
    def _auto_reset(self) -> AutoReset:
        return AutoReset(self.env)

    @cached_property
    def buffer(self) -> ReplayBuffer:
        """The replay buffer's sizes and functions."""
        config, observation = self.learner.config, self.learner.observation
        return ReplayBuffer(config.replay_size, config.num_envs, observation.shape, observation.dtype)

    def init(self, seed: jax.Array) -> LaneState:
        """Return the state of a lane before its first step."""
        config = self.learner.config
        key, network_key, env_key = jax.random.split(jax.random.key(seed), 3)
        return LaneState(
            key=key,
            learner=self.learner.init(network_key),
            replay=self.buffer.init(),
            pool=target_pool.init(config, self.buffer) if config.is_pooled else None,
            envs=jax.vmap(self.env.reset)(jax.random.split(env_key, config.num_envs)),
            episode=EpisodeStats.init(config.num_envs),
        )

    def run(
        self, done: jax.Array, lane: LaneState, hyperparams: LaneHyperparams, rounds: jax.Array
    ) -> tuple[LaneState, ChunkMetrics]:
        """Train one lane for `rounds` more rounds, each a step of all its environments.

        Rounds are counted instead of steps, so that int32 holds `num_envs` times as many steps.

        Args:
            done: rounds so far.
            rounds: not static; any number runs without compiling again.
        """
        config = self.learner.config
        period, warmup = config.target_period // config.num_envs, config.warmup // config.num_envs

        warm = jnp.clip(warmup - done, 0, rounds)
        first = lane, ChunkMetrics.init()
        first = lax.fori_loop(done, done + warm, lambda i, carry: self._random_step(*carry), first)

        def one_period(carry: tuple) -> tuple:
            at, lane, metrics = carry
            since = (at - warmup) % period
            lane = self._refresh_targets(since == 0, lane, hyperparams)
            until = at + jnp.minimum(period - since, done + rounds - at)  # in this order nothing can overflow
            lane, metrics = lax.fori_loop(
                at, until, lambda i, carry: self._train_step(i, carry[0], carry[1], hyperparams), (lane, metrics)
            )
            return until, lane, metrics

        _, lane, metrics = lax.while_loop(lambda carry: carry[0] < done + rounds, one_period, (done + warm, *first))
        return lane, metrics

    # -- one round: a step of all environments -------------------------------------------------------------------------

    def _random_step(self, lane: LaneState, metrics: ChunkMetrics) -> tuple[LaneState, ChunkMetrics]:
        """Take a uniformly random action in every environment (warm-up)."""
        key, action_key, env_key = jax.random.split(lane.key, 3)
        num_actions, envs = self.env.num_actions, self.learner.config.num_envs
        action = jax.random.randint(action_key, (envs,), 0, num_actions)
        lane, metrics = self._env_step(lane, metrics, env_key, action, jnp.full(envs, 1 / num_actions), None)
        return lane._replace(key=key), metrics

    def _train_step(
        self, round_: jax.Array, lane: LaneState, metrics: ChunkMetrics, hyperparams: LaneHyperparams
    ) -> tuple[LaneState, ChunkMetrics]:
        """Take an ε-greedy step in every environment, and make the updates of this round.

        Their order lets XLA see that an old array is not needed any more once it is overwritten, so that it copies
        nothing: the replay buffer is written before samples are read from it; where samples come from a pool, the
        networks are updated before they act.
        """
        key, act_key, update_key = jax.random.split(lane.key, 3)
        lane = lane._replace(key=key)
        if self.learner.config.is_pooled:
            lane, metrics = self._update(round_, lane, metrics, hyperparams, update_key)
            return self._act(round_, lane, metrics, hyperparams, act_key)
        lane, metrics = self._act(round_, lane, metrics, hyperparams, act_key)
        return self._update(round_, lane, metrics, hyperparams, update_key)

    def _act(
        self,
        round_: jax.Array,
        lane: LaneState,
        metrics: ChunkMetrics,
        hyperparams: LaneHyperparams,
        key: jax.Array,
    ) -> tuple[LaneState, ChunkMetrics]:
        """Take an ε-greedy action in every environment."""
        config = self.learner.config
        # The step is clipped where ε has reached its end, so that it stays within int32.
        step = jnp.minimum(round_, -(-config.epsilon_steps // config.num_envs)) * config.num_envs
        action_key, env_key = jax.random.split(key)
        q = self.learner.min_q(lane.learner.params, self._observe(lane.envs))
        epsilon = epsilon_at(config, hyperparams.epsilon_end, step)
        action, probability = epsilon_greedy(action_key, q, epsilon)
        taken = jnp.take_along_axis(q, action[:, None], axis=1)[:, 0]
        return self._env_step(lane, metrics, env_key, action, probability, taken)

    def _update(
        self,
        round_: jax.Array,
        lane: LaneState,
        metrics: ChunkMetrics,
        hyperparams: LaneHyperparams,
        key: jax.Array,
    ) -> tuple[LaneState, ChunkMetrics]:
        """Make the updates of one round."""
        learner, count = self.learner, self.learner.config.updates

        def update(i: jax.Array, carry: tuple) -> tuple:
            state, metrics = carry
            sample_key, network_key = jax.random.split(jax.random.fold_in(key, i))
            batch = learner.sample_batch(self.buffer, sample_key, lane.replay, lane.pool, state)
            state, info = learner.update(state, batch, network_key, hyperparams.learning_rate)
            return state, metrics.after_update(round_, info, batch.steps)

        first = lane.learner, metrics
        state, metrics = update(jnp.int32(0), first) if count == 1 else lax.fori_loop(0, count, update, first)
        return lane._replace(learner=state), metrics

    def _env_step(
        self,
        lane: LaneState,
        metrics: ChunkMetrics,
        key: jax.Array,
        action: jax.Array,
        probability: jax.Array,
        q: jax.Array | None,
    ) -> tuple[LaneState, ChunkMetrics]:
        """Step every environment and store the steps; q is Q(s, a) of the actions, None within the warm-up."""
        config = self.learner.config
        keys = jax.random.split(key, config.num_envs)
        observation = self._observe(lane.envs)
        envs, step = jax.vmap(self._auto_reset.step)(keys, lane.envs, action)
        next_observation = self._observe(step.last)
        ends = (step.terminated, step.truncated)
        replay = self.buffer.add(lane.replay, observation, action, step.reward, *ends, probability, next_observation)
        cut = step.truncated if config.time_limits == "bootstrap" else jnp.zeros_like(step.truncated)
        metrics, episode = metrics.after_step(
            lane.episode, step.reward, cut, step.terminated | step.truncated, q, config.discount
        )
        return lane._replace(replay=replay, envs=envs, episode=episode), metrics

    def _observe(self, envs: Any) -> jax.Array:
        return jax.vmap(self.env.observe)(envs)

    # -- once per period -----------------------------------------------------------------------------------------------

    def _refresh_targets(self, due: jax.Array, lane: LaneState, hyperparams: LaneHyperparams) -> LaneState:
        """Update the target networks and the pool if it is time. The replay is only read, so no branch copies it."""
        key, pool_key = jax.random.split(lane.key)

        def refresh(state: LearnerState, pool: TargetPool | None, replay: ReplayState) -> tuple:
            return self.learner.refresh_targets(self.buffer, hyperparams, pool_key, replay, state)

        def keep(state: LearnerState, pool: TargetPool | None, replay: ReplayState) -> tuple:
            return state.target_params, pool

        target_params, pool = lax.cond(due, refresh, keep, lane.learner, lane.pool, lane.replay)
        return lane._replace(
            key=jnp.where(due, key, lane.key), learner=lane.learner._replace(target_params=target_params), pool=pool
        )


def epsilon_at(config: DQNConfig, end: jax.Array, step: jax.Array) -> jax.Array:
    """Return ε at a step: linear from epsilon_start at step 0 to `end` at epsilon_steps, then constant."""
    share = jnp.clip(step / max(config.epsilon_steps, 1), 0, 1)
    return jnp.where(step >= config.epsilon_steps, end, config.epsilon_start + share * (end - config.epsilon_start))


def epsilon_greedy(key: jax.Array, q: jax.Array, epsilon: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sample ε-greedy actions [N] for Q-values [N, A], and return them with their probabilities [N]."""
    envs, actions = q.shape
    explore_key, action_key = jax.random.split(key)
    greedy = q.argmax(axis=-1)
    explores = jax.random.uniform(explore_key, (envs,)) < epsilon
    action = jnp.where(explores, jax.random.randint(action_key, (envs,), 0, actions), greedy).astype(jnp.int32)
    return action, epsilon / actions + (1 - epsilon) * (action == greedy)

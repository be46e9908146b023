"""One round of training as pure functions: choose actions, store steps, make updates, refresh targets.

A lane is one training with its own seed and hyperparameters. `device_loop` compiles whole chunks of rounds where the
environment is compiled too; `host_loop` compiles one round at a time where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep import target_pool
from greedystep.deep.config import DQNConfig
from greedystep.deep.heads import HeadPolicy, HeadScores
from greedystep.deep.learner import Learner, LearnerState, UpdateDraws
from greedystep.deep.target_pool import TargetPool
from greedystep.deep.targets import LaneHyperparams, within
from greedystep.deep.train_metrics import ChunkMetrics, EpisodeStats
from greedystep.replay import ReplayBuffer, ReplayState

T = TypeVar("T")


class LaneState(NamedTuple):
    """Everything that changes in one training (lane). Its random numbers depend on its seed alone."""

    key: jax.Array
    learner: LearnerState
    replay: ReplayState
    pool: TargetPool | None
    """The target pool; None for returns that need none."""
    envs: Any
    """States of N compiled environments, [N, ...]; for host environments a `host_loop.HostState`."""
    episode: EpisodeStats
    heads: HeadScores | None = None
    """None for returns other than "auto"."""


class Transition(NamedTuple):
    """One step of N environments; each array is [N, ...]."""

    observation: jax.Array
    action: jax.Array
    behaviour_prob: jax.Array
    """Probability with which the action was chosen."""
    q: jax.Array | None
    """Q(s, a); None during the warm-up."""
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    next_observation: jax.Array
    """The observation that the step led to, before any reset."""
    is_step: jax.Array | None = None
    """bool: where False, the environment was only reset and nothing is stored; None: all are steps."""


@dataclass(frozen=True, eq=False)
class TrainLoop:
    """Base class of `DeviceLoop` and `HostLoop`: acting, storing, updating and refreshing targets, for one lane."""

    learner: Learner

    @cached_property
    def buffer(self) -> ReplayBuffer:
        """The replay buffer: its sizes and functions, not its content."""
        config, observation = self.learner.config, self.learner.observation
        return ReplayBuffer(config.replay_size, config.num_envs, observation.shape, observation.dtype)

    def _init_lane(self, key: jax.Array, network_key: jax.Array, heads_key: jax.Array, envs: Any) -> LaneState:
        config = self.learner.config
        return LaneState(
            key=key,
            learner=self.learner.init(network_key),
            replay=self.buffer.init(),
            pool=target_pool.init(config, self.buffer) if config.is_pooled else None,
            envs=envs,
            episode=EpisodeStats.init(config.num_envs),
            heads=HeadScores.init(heads_key, config.num_envs) if config.returns == "auto" else None,
        )

    # -- acting --------------------------------------------------------------------------------------------------------

    def random_action(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Sample uniformly random actions for the warm-up; return actions [N] and their probabilities [N]."""
        envs, actions = self.learner.config.num_envs, self.learner.num_actions
        return jax.random.randint(key, (envs,), 0, actions), jnp.full(envs, 1 / actions)

    @staticmethod
    def policy(lane: LaneState) -> Any:
        """Return what acts in training: the online networks, with "auto" also the head of each environment."""
        params = lane.learner.params
        return params if lane.heads is None else HeadPolicy(params, lane.heads.playing)

    def draw_actions(self, key: jax.Array) -> ActionDraws:
        """Draw the random numbers with which the actions of one round are chosen."""
        return draw_actions(key, self.learner.config.num_envs, self.learner.num_actions)

    def action(
        self, round_: jax.Array, policy: Any, hyperparams: LaneHyperparams, draws: ActionDraws, observation: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Sample ε-greedy actions; return the actions, their probabilities and Q(s, a), each [N]."""
        q, support = self.learner.acting_q_and_support(policy, observation)
        action, probability = draws.choose(within(support, q), self.epsilon(round_, hyperparams))
        return action, probability, jnp.take_along_axis(q, action[:, None], axis=1)[:, 0]

    def epsilon(self, round_: jax.Array, hyperparams: LaneHyperparams) -> jax.Array:
        """Return the ε of exploration in a round."""
        config = self.learner.config
        # The step is clipped where ε has reached its end, so that it stays within int32.
        step = jnp.minimum(round_, -(-config.epsilon_steps // config.num_envs)) * config.num_envs
        return epsilon_at(config, hyperparams.epsilon_end, step)

    def store(
        self, lane: LaneState, metrics: ChunkMetrics, step: Transition, key: jax.Array
    ) -> tuple[LaneState, ChunkMetrics]:
        """Write one step of all environments to the replay buffer, and add it to the metrics.

        Args:
            key: for the choice of the heads that play next, where there are several.
        """
        config, is_step, heads = self.learner.config, step.is_step, lane.heads
        over = step.terminated | step.truncated
        if is_step is not None:
            over &= is_step
        replay = self.add_to_replay(lane.replay, step)
        cut = step.truncated if config.time_limits == "bootstrap" else jnp.zeros_like(step.truncated)
        metrics, episode = metrics.after_step(lane.episode, step.reward, cut, over, step.q, config.discount)
        if heads is not None and step.q is not None:
            heads = heads.after_round(key, lane.episode.total_reward + step.reward, over)
        if is_step is not None:
            episode = jax.tree.map(lambda new, old: jnp.where(is_step, new, old), episode, lane.episode)
        return lane._replace(replay=replay, episode=episode, heads=heads), metrics

    def add_to_replay(self, replay: ReplayState, step: Transition) -> ReplayState:
        """Return the replay buffer with one more step of all environments."""
        return self.buffer.add(
            replay,
            step.observation,
            step.action,
            step.reward,
            step.terminated,
            step.truncated,
            step.behaviour_prob,
            step.next_observation,
            step.is_step,
        )

    # -- learning ------------------------------------------------------------------------------------------------------

    def update(
        self,
        round_: jax.Array,
        lane: LaneState,
        metrics: ChunkMetrics,
        hyperparams: LaneHyperparams,
        draws: UpdateDraws,
    ) -> tuple[LaneState, ChunkMetrics]:
        """Make the gradient steps of one round (a round is one step of all environments).

        Args:
            draws: those of `draw_updates`.
        """
        learner, count = self.learner, self.learner.config.updates

        def update(i: Any, carry: tuple) -> tuple:
            state, metrics = carry
            own = jax.tree.map(lambda x: x[i], draws)
            batch = learner.sample_batch(self.buffer, hyperparams, own.bits, lane.replay, lane.pool, state)
            state, info = learner.update(state, batch, own.network, hyperparams.learning_rate)
            return state, metrics.after_update(round_, info, batch.steps)

        first = lane.learner, metrics
        state, metrics = update(0, first) if count == 1 else lax.fori_loop(0, count, update, first)
        return lane._replace(learner=state), metrics

    def draw_updates(self, key: jax.Array, hyperparams: LaneHyperparams) -> UpdateDraws:
        """Draw all random numbers that the updates of one round need; arrays [updates, ...]."""
        numbers = jnp.arange(self.learner.config.updates)
        return jax.vmap(lambda i: self.learner.draw_update(jax.random.fold_in(key, i), hyperparams))(numbers)

    def refresh_targets(
        self, key: jax.Array, state: LearnerState, replay: ReplayState, hyperparams: LaneHyperparams
    ) -> tuple[Any, TargetPool | None]:
        """Return the new target networks and the new target pool; called once per `target_period`."""
        return self.learner.refresh_targets(self.buffer, hyperparams, key, replay, state)


def map_lanes(function: Callable[..., T], *arrays: Any) -> T:
    """Apply a function of one lane to all of them, [L, ...]: at once on a GPU; one by one on a CPU, which is faster."""
    if jax.tree.leaves(arrays)[0].shape[0] == 1:
        return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], arrays)))
    if jax.default_backend() == "cpu":
        return lax.map(lambda one: function(*one), arrays)
    return jax.vmap(function)(*arrays)


def epsilon_at(config: DQNConfig, end: jax.Array, step: jax.Array) -> jax.Array:
    """Return ε at a step: linear from epsilon_start at step 0 to `end` at epsilon_steps, then constant."""
    share = jnp.clip(step / max(config.epsilon_steps, 1), 0, 1)
    return jnp.where(step >= config.epsilon_steps, end, config.epsilon_start + share * (end - config.epsilon_start))


class ActionDraws(NamedTuple):
    """Random numbers of ε-greedy actions in N environments."""

    uniform: jax.Array
    """[N]: an environment explores where this is below ε."""
    action: jax.Array
    """int32 [N]: the actions of those that explore."""

    def choose(self, q: jax.Array, epsilon: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the actions [N] for Q-values [N, A], and their probabilities [N]."""
        greedy, actions = q.argmax(axis=-1), q.shape[-1]
        action = jnp.where(self.uniform < epsilon, self.action, greedy).astype(jnp.int32)
        return action, epsilon / actions + (1 - epsilon) * (action == greedy)


def draw_actions(key: jax.Array, envs: int, actions: int) -> ActionDraws:
    """Draw the random numbers of ε-greedy actions."""
    explore_key, action_key = jax.random.split(key)
    return ActionDraws(jax.random.uniform(explore_key, (envs,)), jax.random.randint(action_key, (envs,), 0, actions))


def epsilon_greedy(key: jax.Array, q: jax.Array, epsilon: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sample ε-greedy actions [N] for Q-values [N, A], and return them with their probabilities [N]."""
    return draw_actions(key, *q.shape).choose(q, epsilon)

"""The compiled loop of training: act, store, learn, all on the device.

A lane is one training with its own seed and numbers. Lanes share the counter of steps, which alone decides when
targets are copied and pools are made; so these stay real branches when many lanes run side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep import target_pool
from greedystep.deep.learner import Knowledge, Learner
from greedystep.deep.target_pool import Pool
from greedystep.deep.targets import Numbers
from greedystep.deep.train_metrics import Episode, Tally
from greedystep.envs.core import AutoReset, Environment
from greedystep.replay import Replay, Store


class Lane(NamedTuple):
    """Everything that changes in one training. Its random numbers come from its seed and nothing else."""

    key: jax.Array
    knowledge: Knowledge
    replay: Replay
    pool: Pool | None
    """Where the returns need one."""
    envs: Any
    """States of the environments, [N, ...]."""
    episode: Episode


@dataclass(frozen=True, eq=False)
class Loop:
    """A learner in its environment."""

    learner: Learner
    env: Environment

    @cached_property
    def _going_on(self) -> AutoReset:
        return AutoReset(self.env)

    @cached_property
    def store(self) -> Store:
        config, observation = self.learner.config, self.learner.observation
        return Store(config.replay_size, config.num_envs, observation.shape, observation.dtype)

    def begin(self, seed: jax.Array) -> Lane:
        """The state before the first step."""
        config = self.learner.config
        key, of_networks, of_envs = jax.random.split(jax.random.key(seed), 3)
        return Lane(
            key=key,
            knowledge=self.learner.begin(of_networks),
            replay=self.store.init(),
            pool=target_pool.empty(config, self.store) if config.is_pooled else None,
            envs=jax.vmap(self.env.reset)(jax.random.split(of_envs, config.num_envs)),
            episode=Episode.begin(config.num_envs),
        )

    def run(self, done: jax.Array, lane: Lane, numbers: Numbers, rounds: jax.Array) -> tuple[Lane, Tally]:
        """`rounds` more steps of all environments of one lane.

        Rounds are counted here rather than steps: int32 then holds `num_envs` times as many steps.

        Args:
            done: rounds so far.
            rounds: not static; any number runs without compiling again.
        """
        config = self.learner.config
        period, warmup = config.target_period // config.num_envs, config.warmup // config.num_envs

        warm = jnp.clip(warmup - done, 0, rounds)
        state = lax.fori_loop(done, done + warm, lambda i, s: self._explore(s[0], s[1]), (lane, Tally.begin()))

        def a_period(carry: tuple) -> tuple:
            at, lane, tally = carry
            since = (at - warmup) % period
            lane = self._renew(since == 0, lane, numbers)
            until = at + jnp.minimum(period - since, done + rounds - at)  # in this order nothing can overflow
            lane, tally = lax.fori_loop(at, until, lambda i, s: self._learn(i, s[0], s[1], numbers), (lane, tally))
            return until, lane, tally

        _, lane, tally = lax.while_loop(lambda carry: carry[0] < done + rounds, a_period, (done + warm, *state))
        return lane, tally

    # -- one step of all environments ----------------------------------------------------------------------------------

    def _explore(self, lane: Lane, tally: Tally) -> tuple[Lane, Tally]:
        """A step at random."""
        key, of_action, of_envs = jax.random.split(lane.key, 3)
        count, envs = self.env.num_actions, self.learner.config.num_envs
        action = jax.random.randint(of_action, (envs,), 0, count)
        lane, tally = self._act(lane, tally, of_envs, action, jnp.full(envs, 1 / count), None)
        return lane._replace(key=key), tally

    def _learn(self, number: jax.Array, lane: Lane, tally: Tally, numbers: Numbers) -> tuple[Lane, Tally]:
        """An ε-greedy step and the updates, round `number` of the training.

        They come in the order in which XLA can see that nothing old is needed any more once it is overwritten, and so
        copies nothing: the replay is written before samples are read from it; where samples come from a pool, the
        networks are updated before they act.
        """
        key, of_step, of_updates = jax.random.split(lane.key, 3)
        lane = lane._replace(key=key)
        if self.learner.config.is_pooled:
            lane, tally = self._update(number, lane, tally, numbers, of_updates)
            return self._step(number, lane, tally, numbers, of_step)
        lane, tally = self._step(number, lane, tally, numbers, of_step)
        return self._update(number, lane, tally, numbers, of_updates)

    def _step(
        self, number: jax.Array, lane: Lane, tally: Tally, numbers: Numbers, key: jax.Array
    ) -> tuple[Lane, Tally]:
        config = self.learner.config
        step = jnp.minimum(number, -(-config.epsilon_steps // config.num_envs)) * config.num_envs  # ε falls until then
        of_action, of_envs = jax.random.split(key)
        q = self.learner.values(lane.knowledge.networks, self._observe(lane.envs))
        epsilon = epsilon_at(config, numbers.epsilon_end, step)
        action, probability = epsilon_greedy(of_action, q, epsilon)
        judged = jnp.take_along_axis(q, action[:, None], axis=1)[:, 0]
        return self._act(lane, tally, of_envs, action, probability, judged)

    def _update(
        self, number: jax.Array, lane: Lane, tally: Tally, numbers: Numbers, key: jax.Array
    ) -> tuple[Lane, Tally]:
        learner, count = self.learner, self.learner.config.updates

        def update(i: jax.Array, carry: tuple) -> tuple:
            knowledge, tally = carry
            of_samples, of_network = jax.random.split(jax.random.fold_in(key, i))
            batch = learner.samples(self.store, of_samples, lane.replay, lane.pool, knowledge)
            knowledge, learned = learner.update(knowledge, batch, of_network, numbers.learning_rate)
            return knowledge, tally.after_update(number, learned, batch.steps)

        first = lane.knowledge, tally
        knowledge, tally = update(jnp.int32(0), first) if count == 1 else lax.fori_loop(0, count, update, first)
        return lane._replace(knowledge=knowledge), tally

    def _act(
        self,
        lane: Lane,
        tally: Tally,
        key: jax.Array,
        action: jax.Array,
        probability: jax.Array,
        q: jax.Array | None,
    ) -> tuple[Lane, Tally]:
        config = self.learner.config
        keys = jax.random.split(key, config.num_envs)
        seen = self._observe(lane.envs)
        envs, step = jax.vmap(self._going_on.step)(keys, lane.envs, action)
        after = self._observe(step.last)
        ends = (step.terminated, step.truncated)
        replay = self.store.add(lane.replay, seen, action, step.reward, *ends, probability, after)
        cut = step.truncated if config.time_limits == "bootstrap" else jnp.zeros_like(step.truncated)
        tally, episode = tally.after_step(
            lane.episode, step.reward, cut, step.terminated | step.truncated, q, config.discount
        )
        return lane._replace(replay=replay, envs=envs, episode=episode), tally

    def _observe(self, envs: Any) -> jax.Array:
        return jax.vmap(self.env.observe)(envs)

    # -- once a period -------------------------------------------------------------------------------------------------

    def _renew(self, due: jax.Array, lane: Lane, numbers: Numbers) -> Lane:
        """New targets and a new pool, if it is time. The replay is only read, and so is not copied by the branch."""
        key, of_pool = jax.random.split(lane.key)

        def renew(knowledge: Knowledge, old: Pool | None, replay: Replay) -> tuple:
            return self.learner.renew(self.store, numbers, of_pool, replay, knowledge)

        def keep(knowledge: Knowledge, old: Pool | None, replay: Replay) -> tuple:
            return knowledge.targets, old

        targets, made = lax.cond(due, renew, keep, lane.knowledge, lane.pool, lane.replay)
        return lane._replace(
            key=jnp.where(due, key, lane.key), knowledge=lane.knowledge._replace(targets=targets), pool=made
        )


def epsilon_at(config: Any, end: jax.Array, step: jax.Array) -> jax.Array:
    """A straight line from epsilon_start at step 0 to `end` at epsilon_steps; then `end`."""
    share = jnp.clip(step / max(config.epsilon_steps, 1), 0, 1)
    return jnp.where(step >= config.epsilon_steps, end, config.epsilon_start + share * (end - config.epsilon_start))


def epsilon_greedy(key: jax.Array, q: jax.Array, epsilon: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions [N] for values [N, A], and the probabilities with which they were chosen."""
    envs, actions = q.shape
    of_whether, of_which = jax.random.split(key)
    greedy = q.argmax(axis=-1)
    explores = jax.random.uniform(of_whether, (envs,)) < epsilon
    action = jnp.where(explores, jax.random.randint(of_which, (envs,), 0, actions), greedy).astype(jnp.int32)
    return action, epsilon / actions + (1 - epsilon) * (action == greedy)

"""The compiled training loop: act, store and learn, all on the device.

All lanes (trainings side by side) share one step counter, which alone decides when targets are refreshed. So under
`vmap` over lanes the refresh stays a real branch, instead of being computed in every round and thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep.learner import LearnerState
from greedystep.deep.target_pool import TargetPool
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import LaneState, TrainLoop, Transition
from greedystep.deep.train_metrics import ChunkMetrics
from greedystep.envs.core import AutoReset, Environment
from greedystep.replay import ReplayState

T = TypeVar("T")

GPU_OPTIONS = {
    # With small batches a round is some eighty kernels of a few microseconds. Within a CUDA graph those that do not
    # depend on each other then run side by side, which makes a round with 48 lanes 12 % faster on an H200.
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
}
"""XLA options for the program of a chunk on a GPU."""
GPU_BLOCK = 50
"""Rounds that are one loop of static length on a GPU, if the lengths of all parts of a training are multiples of it.
Where XLA does not know the length of a loop, the host waits for the device after each round to learn whether there is
another one; where it does, the host runs ahead."""


def compiler_options() -> dict[str, str]:
    """Return the XLA options for the program of a chunk on this backend."""
    return GPU_OPTIONS if jax.default_backend() == "gpu" else {}


@dataclass(frozen=True, eq=False)
class DeviceLoop(TrainLoop):
    """Training loop in N copies of a compiled environment; environment steps and updates are one XLA program."""

    env: Environment

    @cached_property
    def _auto_reset(self) -> AutoReset:
        return AutoReset(self.env)

    def init(self, seed: jax.Array) -> LaneState:
        """Return the state of a lane (one training with this seed) before its first step."""
        key, network_key, env_key = jax.random.split(jax.random.key(seed), 3)
        envs = jax.vmap(self.env.reset)(jax.random.split(env_key, self.learner.config.num_envs))
        return self._init_lane(key, network_key, envs)

    def block(self, *steps: int) -> int:
        """Return the argument `block` of `run` for chunks that begin and end at multiples of these numbers of steps."""
        config = self.learner.config
        parts = [step // config.num_envs for step in (*steps, config.target_period, config.warmup)]
        return GPU_BLOCK if jax.default_backend() != "cpu" and not any(part % GPU_BLOCK for part in parts) else 1

    def run(
        self, done: jax.Array, lane: LaneState, hyperparams: LaneHyperparams, rounds: jax.Array, block: int = 1
    ) -> tuple[LaneState, ChunkMetrics]:
        """Train one lane for `rounds` more rounds, each a step of all its environments.

        Rounds are counted instead of steps, so that int32 holds `num_envs` times as many steps.

        Args:
            done: rounds so far.
            rounds: not static; any number runs without compiling again.
            block: rounds in a loop of static length. `done`, `rounds`, the warm-up and the target period must be
                multiples of it.
        """
        config = self.learner.config
        period, warmup = config.target_period // config.num_envs, config.warmup // config.num_envs

        warm = jnp.clip(warmup - done, 0, rounds)
        first = lane, ChunkMetrics.init()
        first = _loop(done, done + warm, block, lambda i, carry: self._random_step(*carry), first)

        def one_period(carry: tuple) -> tuple:
            at, lane, metrics = carry
            since = (at - warmup) % period
            lane = self._refresh_if(since == 0, lane, hyperparams)
            until = at + jnp.minimum(period - since, done + rounds - at)  # in this order nothing can overflow
            lane, metrics = _loop(
                at, until, block, lambda i, carry: self._train_step(i, *carry, hyperparams), (lane, metrics)
            )
            return until, lane, metrics

        _, lane, metrics = lax.while_loop(lambda carry: carry[0] < done + rounds, one_period, (done + warm, *first))
        return lane, metrics

    # -- one round: a step of all environments -------------------------------------------------------------------------

    def _random_step(self, lane: LaneState, metrics: ChunkMetrics) -> tuple[LaneState, ChunkMetrics]:
        key, action_key, env_key = jax.random.split(lane.key, 3)
        action, probability = self.random_action(action_key)
        lane, metrics = self._env_step(lane, metrics, env_key, self._observe(lane.envs), action, probability, None)
        return lane._replace(key=key), metrics

    def _train_step(
        self, round_: jax.Array, lane: LaneState, metrics: ChunkMetrics, hyperparams: LaneHyperparams
    ) -> tuple[LaneState, ChunkMetrics]:
        """Take an ε-greedy step in every environment, and make the updates of this round.

        Their order spares copies, because XLA sees that an array is not read after it is overwritten: the replay buffer
        is written before samples are read from it; where samples come from a pool, updates come before acting.
        """
        key, act_key, update_key = jax.random.split(lane.key, 3)
        lane = lane._replace(key=key)
        action_key, env_key = jax.random.split(act_key)

        def act(lane: LaneState, metrics: ChunkMetrics) -> tuple[LaneState, ChunkMetrics]:
            observation = self._observe(lane.envs)
            chosen = self.action(round_, self.policy(lane), hyperparams, action_key, observation)
            return self._env_step(lane, metrics, env_key, observation, *chosen)

        def update(lane: LaneState, metrics: ChunkMetrics) -> tuple[LaneState, ChunkMetrics]:
            return self.update(round_, lane, metrics, hyperparams, update_key)

        first, second = (update, act) if self.learner.config.is_pooled else (act, update)
        return second(*first(lane, metrics))

    def _env_step(
        self,
        lane: LaneState,
        metrics: ChunkMetrics,
        key: jax.Array,
        observation: jax.Array,
        action: jax.Array,
        probability: jax.Array,
        q: jax.Array | None,
    ) -> tuple[LaneState, ChunkMetrics]:
        """Step every environment and store the steps; q [N] is Q(s, a) of the actions, None during the warm-up."""
        keys = jax.random.split(key, self.learner.config.num_envs)
        envs, step = jax.vmap(self._auto_reset.step)(keys, lane.envs, action)
        if jax.default_backend() != "cpu":
            # Whatever needs the new states reads them. Otherwise XLA computes them again in every kernel that does, and
            # for that copies each array of the old ones.
            envs, step = lax.optimization_barrier((envs, step))
        ends = (step.reward, step.terminated, step.truncated)
        taken = Transition(observation, action, probability, q, *ends, self._observe(step.last))
        return self.store(lane._replace(envs=envs), metrics, taken, jax.random.fold_in(key, 0))

    def _observe(self, envs: Any) -> jax.Array:
        return jax.vmap(self.env.observe)(envs)

    def _refresh_if(self, due: jax.Array, lane: LaneState, hyperparams: LaneHyperparams) -> LaneState:
        """Update the target networks and the target pool if `due`. The replay is only read, so no branch copies it."""
        key, pool_key = jax.random.split(lane.key)

        def refresh(state: LearnerState, pool: TargetPool | None, replay: ReplayState) -> tuple:
            return self.refresh_targets(pool_key, state, replay, hyperparams)

        def keep(state: LearnerState, pool: TargetPool | None, replay: ReplayState) -> tuple:
            return state.target_params, pool

        target_params, pool = lax.cond(due, refresh, keep, lane.learner, lane.pool, lane.replay)
        return lane._replace(
            key=jnp.where(due, key, lane.key), learner=lane.learner._replace(target_params=target_params), pool=pool
        )


def _loop(begin: jax.Array, end: jax.Array, block: int, body: Callable[[jax.Array, T], T], first: T) -> T:
    """Do what `lax.fori_loop` does, in blocks of static length."""
    if block == 1:
        return lax.fori_loop(begin, end, body, first)

    def one_block(number: jax.Array, carry: T) -> T:
        return lax.fori_loop(0, block, lambda i, carry: body(begin + number * block + i, carry), carry)

    return lax.fori_loop(0, (end - begin) // block, one_block, first)

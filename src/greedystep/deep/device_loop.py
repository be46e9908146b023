"""The compiled training loop: act, store and learn, all on the device.

All lanes (trainings side by side) share one step counter, which alone decides when targets are refreshed. So under
`vmap` over lanes the refresh stays a real branch, instead of being computed in every round and thrown away.

Random numbers and rules are separate, as in the environments: `draw` turns the key of a round into all random numbers
of that round, and `_train_step` uses them. So those of many rounds can be drawn at once (`GPU_BLOCK`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep.learner import LearnerState, UpdateDraws
from greedystep.deep.packing import Packing
from greedystep.deep.round_keys import round_keys
from greedystep.deep.target_pool import TargetPool
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import ActionDraws, LaneState, TrainLoop, Transition
from greedystep.deep.train_metrics import ChunkMetrics
from greedystep.envs.core import AutoReset, AutoResetDraws, Environment
from greedystep.replay import ReplayState

GPU_OPTIONS = {
    # With small batches a round is some thirty kernels of a few microseconds. Within a CUDA graph those that do not
    # depend on each other then run side by side, which makes a round with 48 lanes 12 % faster on an H200.
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
}
"""XLA options for the program of a chunk on a GPU."""
GPU_BLOCK = 50
"""Rounds that are one loop of static length on a GPU, if the lengths of all parts of a training are multiples of it.
Where XLA does not know the length of a loop, the host waits for the device after each round to learn whether there is
another one; where it does, the host runs ahead. And the random numbers of a block are drawn at once: a dozen kernels
per block instead of per round."""


def compiler_options() -> dict[str, str]:
    """Return the XLA options for the program of a chunk on this backend."""
    return GPU_OPTIONS if jax.default_backend() == "gpu" else {}


class RoundDraws(NamedTuple):
    """Random numbers of one round: of its actions, of a step of N environments, and of its updates."""

    action: ActionDraws
    env: AutoResetDraws
    heads: jax.Array
    """Key of the choice of the heads that play next."""
    update: UpdateDraws


class RoundState(NamedTuple):
    """What a round changes: the state of a lane, the metrics of its chunk, and what its environments show."""

    lane: LaneState
    metrics: ChunkMetrics
    observation: jax.Array
    """[N, ...]: of `lane.envs`."""


@dataclass(frozen=True, eq=False)
class DeviceLoop(TrainLoop):
    """Training loop in N copies of a compiled environment; environment steps and updates are one XLA program."""

    env: Environment

    @cached_property
    def _auto_reset(self) -> AutoReset:
        return AutoReset(self.env)

    def init(self, seed: jax.Array) -> LaneState:
        """Return the state of a lane (one training with this seed) before its first step."""
        key, network_key, env_key, heads_key = jax.random.split(jax.random.key(seed), 4)
        envs = jax.vmap(self.env.reset)(jax.random.split(env_key, self.learner.config.num_envs))
        return self._init_lane(key, network_key, heads_key, envs)

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
        first = RoundState(lane, ChunkMetrics.init(), self._observe(lane.envs))
        first = lax.fori_loop(done, done + warm, lambda i, now: self._random_step(now), first)

        def train_rounds(number: jax.Array, now: RoundState, begin: jax.Array) -> RoundState:
            """Train for the rounds of one block."""
            key, keys = round_keys(now.lane.key, block)
            draws = jax.vmap(self.draw, (0, None))(keys, hyperparams)
            now = now._replace(lane=now.lane._replace(key=key))

            def one(i: Any, now: RoundState) -> RoundState:
                own = jax.tree.map(lambda x: x[i], draws)
                return self._train_step(begin + number * block + i, now, own, hyperparams)

            return one(0, now) if block == 1 else _loop_packed(block, one, now)

        def one_period(carry: tuple[jax.Array, RoundState]) -> tuple[jax.Array, RoundState]:
            at, now = carry
            since = (at - warmup) % period
            now = now._replace(lane=self._refresh_if(since == 0, now.lane, hyperparams))
            until = at + jnp.minimum(period - since, done + rounds - at)  # in this order nothing can overflow
            return until, lax.fori_loop(0, (until - at) // block, lambda i, now: train_rounds(i, now, at), now)

        _, now = lax.while_loop(lambda carry: carry[0] < done + rounds, one_period, (done + warm, first))
        return now.lane, now.metrics

    # -- one round: a step of all environments -------------------------------------------------------------------------

    def draw(self, keys: jax.Array, hyperparams: LaneHyperparams) -> RoundDraws:
        """Draw all random numbers of one round from its two keys."""
        act_key, update_key = keys
        action_key, env_key, heads_key = jax.random.split(act_key, 3)
        return RoundDraws(
            action=self.draw_actions(action_key),
            env=self._draw_step(env_key),
            heads=heads_key,
            update=self.draw_updates(update_key, hyperparams),
        )

    def _draw_step(self, key: jax.Array) -> AutoResetDraws:
        return jax.vmap(self._auto_reset.draw)(jax.random.split(key, self.learner.config.num_envs))

    def _random_step(self, now: RoundState) -> RoundState:
        key, action_key, env_key, heads_key = jax.random.split(now.lane.key, 4)
        action, probability = self.random_action(action_key)
        now = now._replace(lane=now.lane._replace(key=key))
        return self._env_step(now, self._draw_step(env_key), heads_key, action, probability, None)

    def _train_step(
        self, round_: jax.Array, now: RoundState, draws: RoundDraws, hyperparams: LaneHyperparams
    ) -> RoundState:
        """Take an ε-greedy step in every environment, and make the updates of this round.

        Their order spares copies, because XLA sees that an array is not read after it is overwritten: the replay buffer
        is written before samples are read from it; where samples come from a pool, updates come before acting.
        """

        def act(now: RoundState) -> RoundState:
            chosen = self.action(round_, self.policy(now.lane), hyperparams, draws.action, now.observation)
            return self._env_step(now, draws.env, draws.heads, *chosen)

        def update(now: RoundState) -> RoundState:
            lane, metrics = self.update(round_, now.lane, now.metrics, hyperparams, draws.update)
            return now._replace(lane=lane, metrics=metrics)

        first, second = (update, act) if self.learner.config.is_pooled else (act, update)
        return second(first(now))

    def _env_step(
        self,
        now: RoundState,
        draws: AutoResetDraws,
        heads_key: jax.Array,
        action: jax.Array,
        probability: jax.Array,
        q: jax.Array | None,
    ) -> RoundState:
        """Step every environment and store the steps; q [N] is Q(s, a) of the actions, None during the warm-up."""
        envs, step = jax.vmap(self._auto_reset.advance)(draws, now.lane.envs, action)
        if jax.default_backend() != "cpu":
            # Whatever needs the new states reads them. Otherwise XLA computes them again in every kernel that does, and
            # for that copies each array of the old ones.
            envs, step = lax.optimization_barrier((envs, step))
        ends = (step.reward, step.terminated, step.truncated)
        taken = Transition(now.observation, action, probability, q, *ends, self._observe(step.last))
        lane, metrics = self.store(now.lane._replace(envs=envs), now.metrics, taken, heads_key)
        return RoundState(lane, metrics, self._observe(envs))

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


def _loop_packed(count: int, body: Callable[[jax.Array, RoundState], RoundState], first: RoundState) -> RoundState:
    """Do what `lax.fori_loop(0, count, body, first)` does, with all small arrays but those of the networks packed.

    Where XLA makes a step of the environments from several kernels, one of them reads the old state after another has
    written a part of the new one. So each of a game's arrays would be copied in each round, one kernel per array.
    """

    def parts(now: RoundState) -> tuple[Any, LaneState]:
        lane = now.lane
        apart = LaneState(lane.key, lane.learner, None, lane.pool, None, None)  # type: ignore[arg-type]
        return (lane.replay, lane.envs, lane.episode, lane.heads, now.metrics, now.observation), apart

    packing = Packing(parts(first)[0])

    def pack(now: RoundState) -> tuple:
        small, apart = parts(now)
        return packing.pack(small), apart

    def unpack(packed: tuple) -> RoundState:
        arrays, apart = packed
        replay, envs, episode, heads, metrics, observation = packing.unpack(arrays)
        lane = apart._replace(replay=replay, envs=envs, episode=episode, heads=heads)
        return RoundState(lane, metrics, observation)

    return unpack(lax.fori_loop(0, count, lambda i, packed: pack(body(i, unpack(packed))), pack(first)))

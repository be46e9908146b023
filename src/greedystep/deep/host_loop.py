"""The training loop where environments step on the host: only acting, storing and learning are compiled.

    round t:   learn from step t - 1 (device)  |  act on s[t], step the environments (host)

Learning from the step before runs on the device while the host goes on, so the actions of round t come from networks
that have learned from steps up to t - 2. Where they are computed on the device too, it acts before it learns. This
order is fixed: results do not depend on timing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep.deep.heads import split_policy
from greedystep.deep.packing import Packing
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import LaneState, TrainLoop, Transition, map_lanes
from greedystep.deep.train_metrics import ChunkMetrics
from greedystep.envs.host import HostEnvironment
from greedystep.envs.host_envs import HostEnvs
from greedystep.numpy_policy import apply_layers
from greedystep.replay import ReplayState

ACT, UPDATE, REFRESH, HEADS = 0, 1, 2, 3
"""Uses of random numbers within a round; each has a key of its own (see `_key`)."""
REPORT_EVERY = 1.0
"""Seconds between two reports of how far a chunk is."""
DRAWS = 256
"""Rounds for which random numbers are drawn at once where actions are chosen on the host."""


class PendingStep(NamedTuple):
    """The newest step of all environments, which the next round learns from.

    There is none before the first step, nor after a failure, where the round that failed has learned from it. Then all
    is 0: no action is ever taken with probability 0.
    """

    chosen: tuple[jax.Array, jax.Array, jax.Array, jax.Array]
    """Observation, action, its probability and Q(s, a)."""
    ends: jax.Array
    """float32 [L, N, 4]: reward, terminated, truncated, and 1 for a real step, not a reset (`HostStep.is_step`)."""
    last: jax.Array
    """Observations that the step led to, before any reset."""


class HostState(NamedTuple):
    """The latest output of the environments of L lanes with N environments each; arrays are [L, N, ...]."""

    pending: PendingStep
    observation: jax.Array
    """The observations to act on."""


class BrokenOffError(Exception):
    """Training was broken off within a chunk by its `__cause__`, say an environment that failed.

    Args:
        lanes: the lanes after the last complete round, whose running episodes count as truncated.
        rounds: how many rounds of the chunk are complete.
    """

    def __init__(self, lanes: LaneState, metrics: ChunkMetrics, rounds: int):
        super().__init__(rounds)
        self.lanes, self.metrics, self.rounds = lanes, metrics, rounds


@dataclass(frozen=True, eq=False)
class HostLoop(TrainLoop):
    """Training loop in N host environments per lane; all L·N of them step together."""

    env: HostEnvironment
    seeds: tuple[int, ...]

    @cached_property
    def envs(self) -> HostEnvs:
        """The running environments of all lanes, made on first use."""
        return self.env.open(len(self.seeds) * self.learner.config.num_envs)

    @property
    def _env_seeds(self) -> list[tuple[int, int]]:
        return [(seed, i) for seed in self.seeds for i in range(self.learner.config.num_envs)]

    def init(self, seed: jax.Array) -> LaneState:
        """Return the state of a lane before its first step; `begin` adds the first observations."""
        config, spec = self.learner.config, self.learner.observation
        key, network_key, heads_key = jax.random.split(jax.random.key(seed), 3)
        seen = jnp.zeros((config.num_envs, *spec.shape), spec.dtype)
        return self._init_lane(key, network_key, heads_key, _without_pending(seen))

    def begin_at(self, round_: int, lanes: LaneState, hyperparams: LaneHyperparams) -> None:
        """Prepare for `begin` or `restore` before that round; here there is nothing to prepare."""

    def begin(self, lanes: LaneState) -> LaneState:
        """Reset all environments and return the lanes with the first observations."""
        return self._observed(lanes, self.envs.reset(self._env_seeds))

    def restore(self, lanes: LaneState, state: dict[str, Any]) -> tuple[LaneState, bool]:
        """Bring the environments to where a checkpoint left them; return the lanes, and whether that was exact.

        Episodes are replayed from their seeds and actions. Where that does not give the same observations, new episodes
        begin, and the interrupted ones count as truncated. Where none was running, new ones begin in any case.
        """
        if not state["actions"]:
            return self._observed(lanes, self.envs.begin_after(state["episodes"], self._env_seeds)), True
        seen = self.envs.restore(state, self._env_seeds)
        if seen is not None and np.array_equal(self._split(seen), np.asarray(lanes.envs.observation)):
            return lanes, True
        lanes = self.cut_episodes(lanes)
        return self._observed(lanes, self.envs.begin_after(state["episodes"], self._env_seeds)), False

    def cut_episodes(self, lanes: LaneState) -> LaneState:
        """Return the lanes with their running episodes marked as truncated."""
        pending = lanes.envs.pending
        ends = pending.ends.at[..., 2].set(1 - pending.ends[..., 1])
        return lanes._replace(envs=lanes.envs._replace(pending=pending._replace(ends=ends)))

    @property
    def episodes_so_far(self) -> dict[str, Any]:
        """A state for `restore` in which no episode is running."""
        return self.envs.state | {"actions": []}

    def abandon(self) -> None:
        """Close environments that have failed, if new ones can be made instead."""
        if self._has_made_envs:
            self.__dict__.pop("envs").abandon()

    def close(self) -> None:
        """Close the environments that were made here; new ones are made on the next use."""
        if self._has_made_envs:
            self.__dict__.pop("envs").close()

    @property
    def _has_made_envs(self) -> bool:
        return self.env.fixed_num_envs is None and "envs" in self.__dict__

    def _observed(self, lanes: LaneState, seen: np.ndarray) -> LaneState:
        return lanes._replace(envs=lanes.envs._replace(observation=jnp.asarray(self._split(seen))))

    def _split(self, x: np.ndarray) -> np.ndarray:
        """Reshape an array of all environments, [L N, ...], to [L, N, ...]."""
        return x.reshape(len(self.seeds), -1, *x.shape[1:])

    def add_to_replay(self, replay: ReplayState, step: Transition) -> ReplayState:
        """Return the replay buffer with one more step, written in place.

        On a CPU it stands in a branch that is always taken. Otherwise XLA fuses the write with every read that follows,
        and for that copies the whole buffer, a dozen times per round.
        """
        add = super().add_to_replay
        if jax.default_backend() != "cpu":
            return add(replay, step)
        return lax.cond(step.action[0] >= 0, lambda old: add(old, step), lambda old: old, replay)

    # -- compiled programs of all lanes --------------------------------------------------------------------------------
    # A round is called thousands of times per second, so its calls are kept cheap: the state of the lanes is passed as
    # few arrays (`Packing`), and what a program has on the device already is not passed again. Random keys are passed
    # as their data: JAX calls programs that return a typed key by a much slower path.

    @cached_property
    def _packings(self) -> tuple[Packing, Packing, Packing]:
        """How the three parts of a lane are passed (see `_split_lane`)."""
        lane = jax.eval_shape(lambda: self.init(jnp.uint32(0)))
        policy, changing, slow = self._split_lane(lane, jax.eval_shape(ChunkMetrics.init))
        return Packing(policy), Packing(changing), Packing(slow)

    def _split_lane(self, lane: LaneState, metrics: ChunkMetrics) -> tuple[Any, Any, Any]:
        """Return what acts, what else changes in every round, (lane, metrics), and what only `_refresh` changes.

        That is (target networks, pool).
        """
        learner, targets = lane.learner._replace(params=None), None
        if self.learner.config.target_rate == 1:
            learner, targets = learner._replace(target_params=None), learner.target_params
        heads = None if lane.heads is None else lane.heads._replace(playing=None)
        rest = lane._replace(key=None, envs=None, pool=None, learner=learner, heads=heads)
        return self.policy(lane), (rest, metrics), (targets, lane.pool)

    def _join_lane(self, key_data: Any, policy: Any, changing: Any, slow: Any) -> tuple[LaneState, ChunkMetrics]:
        """Return a lane without its `envs`, and its metrics, from the data of its key and `_split_lane`."""
        params, head = split_policy(policy)
        (lane, metrics), (targets, pool) = changing, slow
        learner = lane.learner._replace(params=params)
        if targets is not None:
            learner = learner._replace(target_params=targets)
        heads = None if lane.heads is None else lane.heads._replace(playing=head)
        return lane._replace(key=jax.random.wrap_key_data(key_data), learner=learner, pool=pool, heads=heads), metrics

    def _pack(self, lane: LaneState, metrics: ChunkMetrics) -> list[list[jax.Array]]:
        """Return the parts of lanes as packed arrays."""
        parts = zip(self._packings, self._split_lane(lane, metrics), strict=True)
        return [packing.pack(part) for packing, part in parts]

    def _unpack(self, key_data: Any, *parts: Sequence[Any]) -> tuple[LaneState, ChunkMetrics]:
        """Return lanes without their `envs`, and their metrics, from the data of their keys and `_pack`."""
        unpacked = (packing.unpack(part) for packing, part in zip(self._packings, parts, strict=True))
        return self._join_lane(key_data, *unpacked)

    @cached_property
    def _random_action(self) -> Callable[..., Any]:
        def one(round_: Any, key_data: jax.Array, seen: jax.Array) -> tuple:
            action, probability = self.random_action(_key(key_data, round_, ACT))
            return seen, jnp.stack([action.astype(jnp.float32), probability, jnp.zeros_like(probability)], axis=-1)

        return self._program(one)

    @cached_property
    def _greedy_action(self) -> Callable[..., Any]:
        def one(
            round_: Any, key_data: jax.Array, packed_hyperparams: jax.Array, policy: list, seen: jax.Array
        ) -> tuple:
            own, hyperparams = self._packings[0].unpack(policy), LaneHyperparams(*packed_hyperparams)
            key = _key(key_data, round_, ACT)
            action, probability, q = self.action(round_, own, hyperparams, self.draw_actions(key), seen)
            return seen, jnp.stack([action.astype(jnp.float32), probability, q], axis=-1)

        return self._program(one)

    @cached_property
    def _learn(self) -> dict[bool, Callable[..., Any]]:
        """Compiled programs that store the pending step and, for the key True, make the updates of its round."""

        def one(
            updates: bool,
            round_: Any,
            policy: list,
            changing: list,
            slow: list,
            key_data: jax.Array,
            packed_hyperparams: jax.Array,
            before: jax.Array,
            step: jax.Array,
            last: jax.Array,
        ) -> list:
            lane, metrics = self._unpack(key_data, policy, changing, slow)
            action, probability, q, reward, *flags = jnp.unstack(step, axis=-1)
            terminated, truncated, is_step = (flag != 0 for flag in flags)
            taken = Transition(
                observation=before,
                action=action.astype(jnp.int32),
                behaviour_prob=probability,
                q=q if updates else None,
                reward=reward,
                terminated=terminated,
                truncated=truncated,
                next_observation=last,
                is_step=None if self.envs.always_steps else is_step,
            )
            lane, metrics = self.store(lane, metrics, taken, _key(key_data, round_, HEADS))
            if updates:
                hyperparams, key = LaneHyperparams(*packed_hyperparams), _key(key_data, round_, UPDATE)
                lane, metrics = self.update(round_, lane, metrics, hyperparams, self.draw_updates(key, hyperparams))
            return self._pack(lane, metrics)[:2]

        # The host acts with the policy while a program computes the next one, which may not be written in its place.
        donated = (2,) if self.acts_on_host else (1, 2)
        return {updates: self._program(partial(one, updates), donate_argnums=donated) for updates in (False, True)}

    @cached_property
    def _refresh(self) -> Callable[..., Any]:
        def one(
            round_: Any, slow: list, policy: list, changing: list, key_data: jax.Array, packed_hyperparams: jax.Array
        ) -> list:
            lane, metrics = self._unpack(key_data, policy, changing, slow)
            key, hyperparams = _key(key_data, round_, REFRESH), LaneHyperparams(*packed_hyperparams)
            target_params, pool = self.refresh_targets(key, lane.learner, lane.replay, hyperparams)
            lane = lane._replace(learner=lane.learner._replace(target_params=target_params), pool=pool)
            return self._pack(lane, metrics)[2]

        return self._program(one, donate_argnums=1)

    def _program(self, one: Callable[..., Any], **how: Any) -> Callable[..., Any]:
        """Compile `one`, a function of the round and of one lane's arrays, for all lanes."""
        return jax.jit(lambda round_, *lanes: map_lanes(partial(one, round_), *lanes), **how)

    # -- acting on the host --------------------------------------------------------------------------------------------

    @property
    def acts_on_host(self) -> bool:
        """Whether actions are chosen with NumPy: for small networks on a CPU that is faster than a compiled call, which
        another thread executes while this one waits. Random numbers are the same.
        """
        return self.learner.is_plain_mlp and jax.default_backend() == "cpu"

    def _draws(self, round_: int, key_data: jax.Array, packed_hyperparams: jax.Array) -> Iterator[Any]:
        """Yield the random numbers that `_host_action` needs in each round from `round_` on; many are drawn at once."""
        while True:
            rounds = np.arange(round_, round_ + DRAWS, dtype=np.int32)
            explores, random, epsilon, first = jax.device_get(self._draw(rounds, key_data, packed_hyperparams))
            other = epsilon / self.learner.num_actions
            yield from zip(explores, random, other + (1 - epsilon), other, first, strict=True)
            round_ += DRAWS

    @cached_property
    def _draw(self) -> Callable[..., Any]:
        """Draw what exploration needs for several rounds at once: arrays [rounds, L, ...]."""

        def one(round_: Any, key_data: jax.Array, packed_hyperparams: jax.Array) -> tuple:
            epsilon, key = self.epsilon(round_, LaneHyperparams(*packed_hyperparams)), _key(key_data, round_, ACT)
            draws = self.draw_actions(key)
            return draws.uniform < epsilon, draws.action, epsilon[None], self.random_action(key)[0]

        return jax.jit(jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None)))

    def _host_action(
        self, round_: int, draws: Any, policy: list, seen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose actions; return them, their probabilities and Q(s, a), each [L, N]."""
        explores, random, greedy_probability, other_probability, first = draws
        config, actions = self.learner.config, self.learner.num_actions
        if round_ < config.warmup // config.num_envs:
            return first, np.full(first.shape, 1 / actions), np.zeros(first.shape)
        x = seen.reshape(len(seen), 1, seen.shape[1], -1)
        x = x / np.float32(255) if x.dtype == np.uint8 else x.astype(np.float32, copy=False)
        leaves = self._packings[0].host_leaves(policy)
        q = apply_layers(x, list(zip(leaves[::2], leaves[1::2], strict=True)))
        q = q.min(axis=1) if q.shape[1] > 1 else q[:, 0]
        greedy = q.argmax(axis=-1)
        action = np.where(explores, random, greedy)
        probability = np.where(action == greedy, greedy_probability, other_probability)
        return action, probability, self._split(q.reshape(-1, actions)[self._every_env, action.reshape(-1)])

    @cached_property
    def _every_env(self) -> np.ndarray:
        return np.arange(self.envs.num_envs)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(
        self,
        done: int,
        lanes: LaneState,
        hyperparams: LaneHyperparams,
        rounds: int,
        stop: Sequence[Any] = (),
        report: Callable[[int], Any] = lambda round_: None,
    ) -> tuple[LaneState, ChunkMetrics, int]:
        """Train all lanes for `rounds` more rounds, or until `stop` is not empty; also return how many were made.

        If an environment raises, so does this: BrokenOffError, with what was trained before.

        Args:
            done: rounds so far.
            report: called with the number of rounds so far every REPORT_EVERY seconds.
        """
        config, count = self.learner.config, len(self.seeds)
        warmup, period = config.warmup // config.num_envs, config.target_period // config.num_envs
        empty = jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], count, axis=0), ChunkMetrics.init())
        key_data, (policy, changing, slow) = jax.random.key_data(lanes.key), self._pack(lanes, empty)
        packed_hyperparams = jnp.stack(hyperparams, axis=1)
        (before, *chosen), ends, last = jax.tree.map(np.asarray, lanes.envs.pending)
        # The pending step in one array, float32 [L, N, 7]: action, its probability, Q(s, a), and `PendingStep.ends`.
        step = np.concatenate([np.stack(chosen, axis=-1), ends], axis=-1, dtype=np.float32)
        seen = np.asarray(lanes.envs.observation)
        on_host, draws = self.acts_on_host, self._draws(done, key_data, packed_hyperparams)
        round_, failure, is_pending = done, None, bool(step[..., 1].any())
        next_report = time.monotonic() + REPORT_EVERY
        while round_ < done + rounds and not stop:
            acting, now, choice = policy, seen, None
            if not on_host:  # first, so that the device answers before it learns
                if round_ < warmup:
                    now, choice = self._random_action(np.int32(round_), key_data, seen)
                else:
                    now, choice = self._greedy_action(np.int32(round_), key_data, packed_hyperparams, acting, seen)
            if is_pending:
                newest = np.int32(round_ - 1)
                if newest >= warmup and (newest - warmup) % period == 0:
                    slow = self._refresh(newest, slow, policy, changing, key_data, packed_hyperparams)
                after = now if last is seen else last  # the same observations: then they are on the device already
                learn = self._learn[bool(newest >= warmup)]
                policy, changing = learn(
                    newest, policy, changing, slow, key_data, packed_hyperparams, before, step, after
                )
            try:
                if time.monotonic() >= next_report:
                    report(round_)
                    next_report = time.monotonic() + REPORT_EVERY
                if on_host:  # while the device learns
                    action, probability, q = self._host_action(round_, next(draws), acting, seen)
                else:
                    action, probability, q = np.moveaxis(np.asarray(choice), -1, 0)
                result = self.envs.step(action.astype(np.int64, copy=False).reshape(-1))
            except BaseException as problem:  # even an exit: what the lanes were before is gone
                failure = problem
                break
            before, step = now, np.empty((*seen.shape[:2], 7), np.float32)
            step[..., 0], step[..., 1], step[..., 2] = action, probability, q
            ends = step.reshape(-1, 7)[:, 3:]
            ends[:, 0], ends[:, 1], ends[:, 2], ends[:, 3] = *result[:3], result.is_step
            seen = self._split(result.observation)
            last = seen if result.last is result.observation else self._split(result.last)
            round_, is_pending = round_ + 1, True
        lanes, metrics = self._unpack(key_data, policy, changing, slow)
        if failure is not None:
            cut = lanes._replace(
                envs=jax.vmap(_without_pending)(jnp.asarray(seen)),
                replay=jax.vmap(self.buffer.cut)(lanes.replay),
                episode=jax.tree.map(jnp.zeros_like, lanes.episode),
            )
            raise BrokenOffError(cut, metrics, round_ - done) from failure
        chosen = before, step[..., 0].astype(np.int32), step[..., 1], step[..., 2]
        chosen, ends, last, seen = jax.tree.map(jnp.asarray, (chosen, step[..., 3:], last, seen))
        return lanes._replace(envs=HostState(PendingStep(chosen, ends, last), seen)), metrics, round_ - done


def _without_pending(seen: jax.Array) -> HostState:
    """Return the state of N environments that have no pending step, for the observations to act on."""
    n = len(seen)
    chosen = jnp.zeros_like(seen), jnp.zeros(n, jnp.int32), jnp.zeros(n), jnp.zeros(n)
    return HostState(PendingStep(chosen, jnp.zeros((n, 4)), jnp.zeros_like(seen)), seen)


def _key(key_data: jax.Array, round_: Any, use: int) -> jax.Array:
    """Return the random key for one use (ACT, UPDATE, REFRESH or HEADS) in one round, from the data of a lane's key."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.wrap_key_data(key_data), round_), use)

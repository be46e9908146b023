"""The compiled programs of training in environments on the host: act, store and learn, refresh the targets.

A round is called thousands of times per second, so its calls are kept cheap: the state of the lanes is passed as few
arrays (`Packing`), and what a program has on the device already is not passed again. Random keys are passed as their
data: JAX calls programs that return a typed key by a much slower path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

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
from greedystep.replay import ReplayState

ACT, UPDATE, REFRESH, HEADS = 0, 1, 2, 3
"""Uses of random numbers within a round; each has a key of its own (see `random_key`)."""


@dataclass
class LaneGroup:
    """Lanes that a compiled program takes together, as the arrays that are passed to it (see `HostPrograms._pack`)."""

    at: slice
    """Which of the L lanes."""
    key_data: jax.Array
    packed_hyperparams: jax.Array
    policy: list[jax.Array]
    changing: list[jax.Array]
    slow: list[jax.Array]


@dataclass(frozen=True, eq=False)
class HostPrograms(TrainLoop):
    """What is compiled of training in N host environments per lane, for L lanes."""

    env: HostEnvironment
    seeds: tuple[int, ...]

    @cached_property
    def envs(self) -> HostEnvs:
        """The running environments of all lanes, made on first use."""
        return self.env.open(len(self.seeds) * self.learner.config.num_envs)

    @property
    def acts_on_host(self) -> bool:
        """Whether actions are chosen with NumPy: for small networks on a CPU that is faster than a compiled call, which
        another thread executes while this one waits. Random numbers are the same.
        """
        return self.learner.is_plain_mlp and jax.default_backend() == "cpu"

    def add_to_replay(self, replay: ReplayState, step: Transition) -> ReplayState:
        """Return the replay buffer with one more step, written in place.

        On a CPU it stands in a branch that is always taken. Otherwise XLA fuses the write with every read that follows,
        and for that copies the whole buffer, a dozen times per round.
        """
        add = super().add_to_replay
        if jax.default_backend() != "cpu":
            return add(replay, step)
        return lax.cond(step.action[0] >= 0, lambda old: add(old, step), lambda old: old, replay)

    # -- the state of lanes as arrays ----------------------------------------------------------------------------------

    @cached_property
    def packings(self) -> tuple[Packing, Packing, Packing]:
        """How the three parts of a lane are passed (see `_split_lane`)."""
        key = jax.random.key(0)
        lane = jax.eval_shape(lambda: self._init_lane(key, key, key, None))
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
        parts = zip(self.packings, self._split_lane(lane, metrics), strict=True)
        return [packing.pack(part) for packing, part in parts]

    def _unpack(self, key_data: Any, *parts: Sequence[Any]) -> tuple[LaneState, ChunkMetrics]:
        """Return lanes without their `envs`, and their metrics, from the data of their keys and `_pack`."""
        unpacked = (packing.unpack(part) for packing, part in zip(self.packings, parts, strict=True))
        return self._join_lane(key_data, *unpacked)

    # -- programs of a group of lanes ----------------------------------------------------------------------------------

    @cached_property
    def _random_action(self) -> Callable[..., Any]:
        def one(round_: Any, key_data: jax.Array, seen: jax.Array) -> tuple:
            action, probability = self.random_action(random_key(key_data, round_, ACT))
            return seen, jnp.stack([action.astype(jnp.float32), probability, jnp.zeros_like(probability)], axis=-1)

        return self._program(one)

    @cached_property
    def _greedy_action(self) -> Callable[..., Any]:
        def one(
            round_: Any, key_data: jax.Array, packed_hyperparams: jax.Array, policy: list, seen: jax.Array
        ) -> tuple:
            own, hyperparams = self.packings[0].unpack(policy), LaneHyperparams(*packed_hyperparams)
            key = random_key(key_data, round_, ACT)
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
            lane, metrics = self.store(lane, metrics, taken, random_key(key_data, round_, HEADS))
            if updates:
                hyperparams, key = LaneHyperparams(*packed_hyperparams), random_key(key_data, round_, UPDATE)
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
            key, hyperparams = random_key(key_data, round_, REFRESH), LaneHyperparams(*packed_hyperparams)
            target_params, pool = self.refresh_targets(key, lane.learner, lane.replay, hyperparams)
            lane = lane._replace(learner=lane.learner._replace(target_params=target_params), pool=pool)
            return self._pack(lane, metrics)[2]

        return self._program(one, donate_argnums=1)

    def _program(self, one: Callable[..., Any], **how: Any) -> Callable[..., Any]:
        """Compile `one`, a function of the round and of one lane's arrays, for all lanes."""
        return jax.jit(lambda round_, *lanes: map_lanes(partial(one, round_), *lanes), **how)

    # -- all lanes, in groups ------------------------------------------------------------------------------------------

    @cached_property
    def lanes_together(self) -> list[slice]:
        """The lanes of each group: all in one on a GPU, one each on a CPU.

        A program of several lanes, one after the other, would copy the replay buffer of each lane in every round.
        """
        count = len(self.seeds)
        return [slice(i, i + 1) for i in range(count)] if jax.default_backend() == "cpu" else [slice(0, count)]

    def groups(self, lanes: LaneState, hyperparams: LaneHyperparams) -> list[LaneGroup]:
        """Return the groups of all lanes, with empty metrics; the lanes' replay buffers may not be used any more."""
        empty = jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], len(self.seeds), axis=0), ChunkMetrics.init())
        everything = jax.random.key_data(lanes.key), jnp.stack(hyperparams, axis=1), *self._pack(lanes, empty)
        places = self.lanes_together
        if len(places) == 1:  # without a copy
            return [LaneGroup(places[0], *everything)]
        groups = [LaneGroup(at, *jax.tree.map(lambda x, at=at: x[at], everything)) for at in places]
        for content in lanes.replay:  # in a single group programs take it over; here it would stay beside its copy
            content.delete()
        return groups

    def lanes_of(self, groups: Sequence[LaneGroup]) -> tuple[LaneState, ChunkMetrics]:
        """Return all lanes without their `envs`, and their metrics; the inverse of `groups`."""
        parts = [(group.key_data, group.policy, group.changing, group.slow) for group in groups]
        key_data, *packed = parts[0] if len(parts) == 1 else jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
        return self._unpack(key_data, *packed)

    def act(self, round_: int, group: LaneGroup, seen: np.ndarray) -> tuple[jax.Array, jax.Array]:
        """Begin to choose actions on the device; return the observations there, and action, probability, Q(s, a)."""
        if round_ < self.learner.config.warmup // self.learner.config.num_envs:
            return self._random_action(np.int32(round_), group.key_data, seen)
        return self._greedy_action(np.int32(round_), group.key_data, group.packed_hyperparams, group.policy, seen)

    def learn_from(self, round_: int, group: LaneGroup, before: Any, step: Any, last: Any) -> None:
        """Begin to store the step of a round, and to make the updates of the round if it has any.

        Args:
            before, last: the observations before and after the step, [L, N, ...].
            step: float32 [L, N, 7]: action, its probability, Q(s, a), reward, terminated, truncated, and whether it is
                a step.
        """
        config, how = self.learner.config, (group.key_data, group.packed_hyperparams)
        now, since = np.int32(round_), round_ - config.warmup // config.num_envs
        if since >= 0 and since % (config.target_period // config.num_envs) == 0:
            group.slow = self._refresh(now, group.slow, group.policy, group.changing, *how)
        learn = self._learn[since >= 0]
        group.policy, group.changing = learn(now, group.policy, group.changing, group.slow, *how, before, step, last)


def random_key(key_data: jax.Array, round_: Any, use: int) -> jax.Array:
    """Return the key of one use (ACT, UPDATE, REFRESH or HEADS) of random numbers in a round, from a lane's key."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.wrap_key_data(key_data), round_), use)

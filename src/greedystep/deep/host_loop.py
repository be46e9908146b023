"""The training loop where environments step on the host: only acting, storing and learning are compiled.

    round t:   act on s[t]  ->  learn from step t - 1 (device)  |  step the environments (host)

Learning from the step before runs on the device while the environments step, so the actions of round t come from
networks that have learned from steps up to t - 2. This order is fixed: results do not depend on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import LaneState, TrainLoop, Transition, map_lanes
from greedystep.deep.train_metrics import ChunkMetrics
from greedystep.envs.host import HostEnvironment, HostEnvs

ACT, UPDATE, REFRESH, HEADS = 0, 1, 2, 3
"""Uses of random numbers within a round; each has a key of its own (see `_key`)."""


class PendingStep(NamedTuple):
    """The newest step of all environments, which the next round learns from; unused before the first step."""

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
        key, network_key = jax.random.split(jax.random.key(seed))
        n, floats = config.num_envs, jnp.zeros(config.num_envs)
        seen = jnp.zeros((n, *spec.shape), spec.dtype)
        pending = PendingStep((seen, jnp.zeros(n, jnp.int32), floats, floats), jnp.zeros((n, 4)), seen)
        return self._init_lane(key, network_key, HostState(pending, seen))

    def begin(self, lanes: LaneState) -> LaneState:
        """Reset all environments and return the lanes with the first observations."""
        return self._observed(lanes, self.envs.reset(self._env_seeds))

    def restore(self, lanes: LaneState, state: dict[str, Any]) -> tuple[LaneState, bool]:
        """Bring the environments to where a checkpoint left them; return the lanes, and whether that was exact.

        Episodes are replayed from their seeds and actions. Where that does not give the same observations, new episodes
        begin, and the interrupted ones count as truncated.
        """
        seen = self.envs.restore(state, self._env_seeds)
        if seen is not None and np.array_equal(self._split(seen), np.asarray(lanes.envs.observation)):
            return lanes, True
        return self.cut_episodes(lanes), False

    def cut_episodes(self, lanes: LaneState) -> LaneState:
        """Mark the running episodes as truncated and reset all environments."""
        pending = lanes.envs.pending
        ends = pending.ends.at[..., 2].set(1 - pending.ends[..., 1])
        lanes = lanes._replace(envs=lanes.envs._replace(pending=pending._replace(ends=ends)))
        return self._observed(lanes, self.envs.begin_episodes(np.ones(self.envs.num_envs, bool)))

    def _observed(self, lanes: LaneState, seen: np.ndarray) -> LaneState:
        return lanes._replace(envs=lanes.envs._replace(observation=jnp.asarray(self._split(seen))))

    def _split(self, x: np.ndarray) -> np.ndarray:
        """Reshape an array of all environments, [L N, ...], to [L, N, ...]."""
        return x.reshape(len(self.seeds), -1, *x.shape[1:])

    # -- compiled programs of all lanes --------------------------------------------------------------------------------
    # A round is called thousands of times per second, so its calls are kept cheap: the state of the lanes is passed as
    # a list of arrays, which JAX flattens much faster than Equinox modules; arrays of the host are passed once; and
    # what a program has on the device already is not passed again.

    @cached_property
    def _structure(self) -> Any:
        """Tree structure of (lanes without their `envs`, metrics), to rebuild them from a flat list of arrays."""
        lane = jax.eval_shape(lambda: self.init(jnp.uint32(0)))._replace(envs=None)
        return jax.tree.structure((lane, jax.eval_shape(ChunkMetrics.init)))

    @cached_property
    def _random_action(self) -> Callable[..., Any]:
        def one(round_: Any, key: jax.Array, seen: jax.Array) -> tuple:
            action, probability = self.random_action(_key(key, round_, ACT))
            return seen, action, probability, jnp.zeros_like(probability)

        return self._program(one)

    @cached_property
    def _greedy_action(self) -> Callable[..., Any]:
        structure = jax.tree.structure(self.policy(jax.eval_shape(lambda: self.init(jnp.uint32(0)))))

        def one(round_: Any, key: jax.Array, hyperparams: LaneHyperparams, seen: jax.Array, leaves: list) -> tuple:
            own = jax.tree.unflatten(structure, leaves)
            return seen, *self.action(round_, own, hyperparams, _key(key, round_, ACT), seen)

        return self._program(one)

    @cached_property
    def _learn(self) -> dict[bool, Callable[..., Any]]:
        """Compiled programs that store the pending step and, for the key True, make the updates of its round."""

        def one(
            updates: bool, round_: Any, leaves: list, hyperparams: LaneHyperparams, chosen: tuple, ends: Any, last: Any
        ) -> list:
            lane, metrics = jax.tree.unflatten(self._structure, leaves)
            seen, action, probability, q = chosen
            is_step = None if self.envs.always_steps else ends[:, 3] != 0
            reward, terminated, truncated = ends[:, 0], ends[:, 1] != 0, ends[:, 2] != 0
            step = Transition(
                seen, action, probability, q if updates else None, reward, terminated, truncated, last, is_step
            )
            lane, metrics = self.store(lane, metrics, step, _key(lane.key, round_, HEADS))
            if updates:
                lane, metrics = self.update(round_, lane, metrics, hyperparams, _key(lane.key, round_, UPDATE))
            return jax.tree.leaves((lane, metrics))

        return {updates: self._program(partial(one, updates), donate_argnums=1) for updates in (False, True)}

    @cached_property
    def _refresh(self) -> Callable[..., Any]:
        def one(round_: Any, leaves: list, hyperparams: LaneHyperparams) -> list:
            lane, metrics = jax.tree.unflatten(self._structure, leaves)
            key = _key(lane.key, round_, REFRESH)
            target_params, pool = self.refresh_targets(key, lane.learner, lane.replay, hyperparams)
            lane = lane._replace(learner=lane.learner._replace(target_params=target_params), pool=pool)
            return jax.tree.leaves((lane, metrics))

        return self._program(one, donate_argnums=1)

    def _program(self, one: Callable[..., Any], **how: Any) -> Callable[..., Any]:
        """Compile `one`, a function of the round and of one lane's arrays, for all lanes."""
        return jax.jit(lambda round_, *lanes: map_lanes(partial(one, round_), len(self.seeds), *lanes), **how)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(
        self, done: int, lanes: LaneState, hyperparams: LaneHyperparams, rounds: int, stop: Sequence[Any] = ()
    ) -> tuple[LaneState, ChunkMetrics, int]:
        """Train all lanes for `rounds` more rounds, or until `stop` is not empty; also return how many were made.

        Args:
            done: rounds so far.
        """
        config, count = self.learner.config, len(self.seeds)
        warmup, period = config.warmup // config.num_envs, config.target_period // config.num_envs
        pending, seen = lanes.envs
        chosen, ends, last = pending.chosen, pending.ends, pending.last
        metrics = jax.tree.map(lambda x: jnp.repeat(x[None], count, axis=0), ChunkMetrics.init())
        leaves = jax.tree.leaves((lanes._replace(envs=None), metrics))
        numbered, _ = jax.tree.unflatten(self._structure, range(len(leaves)))
        policy = jax.tree.leaves(self.policy(numbered))
        """Where the arrays that act are in the list of a lane's arrays, whose first entry is the random key."""
        round_ = done
        while round_ < done + rounds and not stop:
            if round_ < warmup:
                following = self._random_action(np.int32(round_), leaves[0], seen)
            else:
                following = self._greedy_action(
                    np.int32(round_), leaves[0], hyperparams, seen, [leaves[i] for i in policy]
                )
            if round_ > 0:
                before = np.int32(round_ - 1)
                if before >= warmup and (before - warmup) % period == 0:
                    leaves = self._refresh(before, leaves, hyperparams)
                after = following[0] if last is seen else last  # the same observations: then they are there already
                leaves = self._learn[bool(before >= warmup)](before, leaves, hyperparams, chosen, ends, after)
            chosen = following
            result = self.envs.step(np.asarray(chosen[1]).reshape(-1))
            ends = self._split(np.stack(result[:3] + result[5:], axis=1, dtype=np.float32, casting="unsafe"))
            seen = self._split(result.observation)
            last = seen if result.last is result.observation else self._split(result.last)
            round_ += 1
        lanes, metrics = jax.tree.unflatten(self._structure, leaves)
        ends, last, seen = map(jnp.asarray, (ends, last, seen))
        return lanes._replace(envs=HostState(PendingStep(chosen, ends, last), seen)), metrics, round_ - done


def _key(key: jax.Array, round_: Any, use: int) -> jax.Array:
    """Return the random key for one use (ACT, UPDATE or REFRESH) in one round."""
    return jax.random.fold_in(jax.random.fold_in(key, round_), use)

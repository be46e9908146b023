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
from jax import lax

from greedystep.deep.packing import Packing
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import LaneState, TrainLoop, Transition, exploration, map_lanes
from greedystep.deep.train_metrics import ChunkMetrics
from greedystep.envs.host import HostEnvironment, HostEnvs
from greedystep.numpy_policy import apply_layers
from greedystep.replay import ReplayState

ACT, UPDATE, REFRESH, HEADS = 0, 1, 2, 3
"""Uses of random numbers within a round; each has a key of its own (see `_key`)."""
DRAWS = 256
"""Rounds for which random numbers are drawn at once where actions are chosen on the host."""


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

    def begin_at(self, round_: int, lanes: LaneState, hyperparams: LaneHyperparams) -> None:
        """Prepare for `begin`, `restore` or `cut_episodes` before that round; here there is nothing to prepare."""

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
    # as their bits: JAX calls programs that return a typed key by a much slower path.

    @cached_property
    def _packings(self) -> tuple[Packing, Packing]:
        """How the two parts of a lane are passed (see `_split_lane`)."""
        lane = jax.eval_shape(lambda: self.init(jnp.uint32(0)))
        changing, slow = self._split_lane(lane, jax.eval_shape(ChunkMetrics.init))
        return Packing(changing, apart=lambda part: self.policy(part[0])), Packing(slow)

    def _split_lane(self, lane: LaneState, metrics: ChunkMetrics) -> tuple[Any, Any]:
        """Return what changes in every round, (lane, metrics), and what `_refresh` alone changes, (targets, pool)."""
        targets = lane.learner.target_params if self.learner.config.target_rate == 1 else None
        learner = lane.learner if targets is None else lane.learner._replace(target_params=None)
        changing = lane._replace(key=None, envs=None, pool=None, learner=learner), metrics
        return changing, (targets, lane.pool)

    def _unpack(self, bits: Any, changing: Sequence[Any], slow: Sequence[Any]) -> tuple[LaneState, ChunkMetrics]:
        """Return lanes without their `envs`, and their metrics, from the bits of their keys and packed arrays."""
        lane, metrics = self._packings[0].unpack(changing)
        targets, pool = self._packings[1].unpack(slow)
        learner = lane.learner if targets is None else lane.learner._replace(target_params=targets)
        return lane._replace(key=jax.random.wrap_key_data(bits), learner=learner, pool=pool), metrics

    def _pack(self, lane: LaneState, metrics: ChunkMetrics) -> tuple[list, list]:
        """Return both parts of lanes as packed arrays."""
        changing, slow = self._split_lane(lane, metrics)
        return self._packings[0].pack(changing), self._packings[1].pack(slow)

    @cached_property
    def _random_action(self) -> Callable[..., Any]:
        def one(round_: Any, bits: jax.Array, seen: jax.Array) -> tuple:
            action, probability = self.random_action(_key(bits, round_, ACT))
            return seen, _as_choice(action, probability, jnp.zeros_like(probability))

        return self._program(one)

    @cached_property
    def _greedy_action(self) -> Callable[..., Any]:
        nothing = [None] * self._packings[1].num_arrays

        def one(round_: Any, bits: jax.Array, numbers: jax.Array, seen: jax.Array, changing: list) -> tuple:
            own = self.policy(self._unpack(bits, changing, nothing)[0])
            hyperparams = LaneHyperparams(*numbers)
            return seen, _as_choice(*self.action(round_, own, hyperparams, _key(bits, round_, ACT), seen))

        return self._program(one)

    @property
    def acts_on_host(self) -> bool:
        """Whether actions are chosen with NumPy: for small networks on a CPU that is faster than a compiled call, which
        another thread executes while this one waits. Random numbers are the same.
        """
        return self.learner.is_plain_mlp and jax.default_backend() == "cpu"

    def _host_action(
        self, round_: int, bits: jax.Array, numbers: jax.Array, seen: np.ndarray, changing: list
    ) -> tuple[np.ndarray, np.ndarray]:
        """Choose actions, int [L, N]; also return float32 [L, N, 7] with their probabilities, Q(s, a) and `ends` to be.

        The bits of its first column are those of the int32 actions.
        """
        at = round_ % DRAWS
        if self._drawn.get("from") != round_ - at:
            rounds = np.arange(round_ - at, round_ - at + DRAWS, dtype=np.int32)
            self._drawn.update({"from": round_ - at, "draws": jax.device_get(self._draw(rounds, bits, numbers))})
        explores, random, epsilon, first = (draws[at] for draws in self._drawn["draws"])
        config, actions = self.learner.config, self.learner.num_actions
        step = np.zeros((*seen.shape[:2], 7), np.float32)
        if round_ < config.warmup // config.num_envs:
            action, step[..., 1] = first, 1 / actions
        else:
            x = seen.reshape(len(seen), 1, seen.shape[1], -1)
            x = x / np.float32(255) if x.dtype == np.uint8 else x.astype(np.float32, copy=False)
            leaves = self._packings[0].host_leaves(changing)
            q = apply_layers(x, list(zip(leaves[::2], leaves[1::2], strict=True)))
            q = q.min(axis=1) if q.shape[1] > 1 else q[:, 0]
            greedy = q.argmax(axis=-1)
            action = np.where(explores, random, greedy)
            step[..., 1] = epsilon / actions + (1 - epsilon) * (action == greedy)
            step[..., 2] = self._split(q.reshape(-1, actions)[self._every_env, action.reshape(-1)])
        step.view(np.int32)[..., 0] = action
        return action, step

    @cached_property
    def _every_env(self) -> np.ndarray:
        return np.arange(self.envs.num_envs)

    @cached_property
    def _drawn(self) -> dict[str, Any]:
        """The random numbers that have been drawn, and the first round that they are for."""
        return {}

    @cached_property
    def _draw(self) -> Callable[..., Any]:
        """Draw what exploration needs for several rounds at once: arrays [rounds, L, ...]."""

        def one(round_: Any, bits: jax.Array, numbers: jax.Array) -> tuple:
            epsilon, key = self.epsilon(round_, LaneHyperparams(*numbers)), _key(bits, round_, ACT)
            explores, random = exploration(key, self.learner.config.num_envs, self.learner.num_actions, epsilon)
            return explores, random, epsilon[None], self.random_action(key)[0]

        return jax.jit(jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None)))

    @cached_property
    def _learn(self) -> dict[bool, Callable[..., Any]]:
        """Compiled programs that store the pending step and, for the key True, make the updates of its round."""

        def one(
            updates: bool,
            round_: Any,
            changing: list,
            bits: jax.Array,
            numbers: jax.Array,
            slow: list,
            seen: jax.Array,
            choice: jax.Array,
            ends: jax.Array | None,
            last: jax.Array,
        ) -> list:
            lane, metrics = self._unpack(bits, changing, slow)
            action, probability, q = _from_choice(choice[:, :3])
            if ends is None:
                ends = lax.bitcast_convert_type(choice[:, 3:], jnp.float32)
            is_step = None if self.envs.always_steps else ends[:, 3] != 0
            reward, terminated, truncated = ends[:, 0], ends[:, 1] != 0, ends[:, 2] != 0
            step = Transition(
                seen, action, probability, q if updates else None, reward, terminated, truncated, last, is_step
            )
            lane, metrics = self.store(lane, metrics, step, _key(bits, round_, HEADS))
            if updates:
                hyperparams, key = LaneHyperparams(*numbers), _key(bits, round_, UPDATE)
                lane, metrics = self.update(round_, lane, metrics, hyperparams, key)
            return self._pack(lane, metrics)[0]

        return {updates: self._program(partial(one, updates), donate_argnums=1) for updates in (False, True)}

    @cached_property
    def _refresh(self) -> Callable[..., Any]:
        def one(round_: Any, slow: list, bits: jax.Array, numbers: jax.Array, changing: list) -> list:
            lane, metrics = self._unpack(bits, changing, slow)
            key, hyperparams = _key(bits, round_, REFRESH), LaneHyperparams(*numbers)
            target_params, pool = self.refresh_targets(key, lane.learner, lane.replay, hyperparams)
            lane = lane._replace(learner=lane.learner._replace(target_params=target_params), pool=pool)
            return self._pack(lane, metrics)[1]

        return self._program(one, donate_argnums=1)

    def _program(self, one: Callable[..., Any], **how: Any) -> Callable[..., Any]:
        """Compile `one`, a function of the round and of one lane's arrays, for all lanes."""
        return jax.jit(lambda round_, *lanes: map_lanes(partial(one, round_), *lanes), **how)

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
        before, choice, ends, last = pending.chosen[0], _as_choice(*pending.chosen[1:]), pending.ends, pending.last
        empty = jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], count, axis=0), ChunkMetrics.init())
        bits, (changing, slow) = jax.random.key_data(lanes.key), self._pack(lanes, empty)
        numbers = jnp.stack(hyperparams, axis=1)
        acting = self._packings[0].apart
        on_host, actions = self.acts_on_host, np.empty(0)
        self._drawn.clear()
        if on_host:
            before, last, seen, choice, ends = (np.asarray(x) for x in (before, last, seen, choice, ends))
            choice, ends = np.concatenate([choice, ends.view(np.int32)], axis=-1), None
        round_ = done
        while round_ < done + rounds and not stop:
            if on_host:
                actions, following = self._host_action(round_, bits, numbers, seen, changing)
                now = seen
            elif round_ < warmup:
                now, following = self._random_action(np.int32(round_), bits, seen)
            else:
                policy = [array if i in acting else None for i, array in enumerate(changing)]
                now, following = self._greedy_action(np.int32(round_), bits, numbers, seen, policy)
            if round_ > 0:
                newest = np.int32(round_ - 1)
                if newest >= warmup and (newest - warmup) % period == 0:
                    slow = self._refresh(newest, slow, bits, numbers, changing)
                after = now if last is seen else last  # the same observations: then they are there already
                learn = self._learn[bool(newest >= warmup)]
                changing = learn(newest, changing, bits, numbers, slow, before, choice, ends, after)
            before, choice = now, following
            result = self.envs.step((actions if on_host else np.asarray(choice)[..., 0]).reshape(-1))
            found = choice[..., 3:] if on_host else np.empty((*choice.shape[:-1], 4), np.float32)
            for column, values in enumerate((*result[:3], result.is_step)):
                found[..., column] = self._split(values)
            choice, ends = (choice.view(np.int32), None) if on_host else (choice, found)
            seen = self._split(result.observation)
            last = seen if result.last is result.observation else self._split(result.last)
            round_ += 1
        if ends is None:
            ends = choice.view(np.float32)[..., 3:]
        lanes, metrics = self._unpack(bits, changing, slow)
        ends, last, seen = map(jnp.asarray, (ends, last, seen))
        chosen = (jnp.asarray(before), *_from_choice(jnp.asarray(choice)[..., :3]))
        return lanes._replace(envs=HostState(PendingStep(chosen, ends, last), seen)), metrics, round_ - done


def _as_choice(action: jax.Array, probability: jax.Array, q: jax.Array) -> jax.Array:
    """Return actions, their probabilities and Q(s, a), each [...], as the bits of one array: int32 [..., 3]."""
    return jnp.stack([action, *(lax.bitcast_convert_type(x, jnp.int32) for x in (probability, q))], axis=-1)


def _from_choice(choice: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return actions, their probabilities and Q(s, a) from `_as_choice`."""
    action, *floats = jnp.unstack(choice, axis=-1)
    probability, q = (lax.bitcast_convert_type(x, jnp.float32) for x in floats)
    return action, probability, q


def _key(bits: jax.Array, round_: Any, use: int) -> jax.Array:
    """Return the random key for one use (ACT, UPDATE, REFRESH or HEADS) in one round, from the bits of a lane's key."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.wrap_key_data(bits), round_), use)

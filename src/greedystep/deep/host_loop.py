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

from greedystep.deep.host_programs import ACT, HostPrograms, random_key
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import LaneState
from greedystep.deep.train_metrics import ChunkMetrics
from greedystep.numpy_policy import apply_layers

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
class HostLoop(HostPrograms):
    """Training loop in N host environments per lane; all L·N of them step together."""

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

    # -- acting on the host --------------------------------------------------------------------------------------------

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
            epsilon, key = self.epsilon(round_, LaneHyperparams(*packed_hyperparams)), random_key(key_data, round_, ACT)
            draws = self.draw_actions(key)
            return draws.uniform < epsilon, draws.action, epsilon[None], self.random_action(key)[0]

        return jax.jit(jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None)))

    def _host_action(
        self, round_: int, draws: Any, policies: Sequence[list], seen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose actions; return them, their probabilities and Q(s, a), each [L, N].

        Args:
            policies: of each group of lanes.
        """
        explores, random, greedy_probability, other_probability, first = draws
        config, actions = self.learner.config, self.learner.num_actions
        if round_ < config.warmup // config.num_envs:
            return first, np.full(first.shape, 1 / actions), np.zeros(first.shape)
        x = seen.reshape(len(seen), 1, seen.shape[1], -1)
        x = x / np.float32(255) if x.dtype == np.uint8 else x.astype(np.float32, copy=False)
        groups = zip(self.lanes_together, policies, strict=True)
        q = np.concatenate([self._host_q(policy, x[at]) for at, policy in groups])
        greedy = q.argmax(axis=-1)
        action = np.where(explores, random, greedy)
        probability = np.where(action == greedy, greedy_probability, other_probability)
        return action, probability, self._split(q.reshape(-1, actions)[self._every_env, action.reshape(-1)])

    def _host_q(self, policy: list, x: np.ndarray) -> np.ndarray:
        """Return the Q-values [L, N, A] of a group of lanes: the minimum over the networks of each."""
        leaves = self.packings[0].host_leaves(policy)
        q = apply_layers(x, list(zip(leaves[::2], leaves[1::2], strict=True)))
        return q.min(axis=1) if q.shape[1] > 1 else q[:, 0]

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
        groups = self.groups(lanes, hyperparams)
        (observation, *chosen), ends, last = jax.tree.map(np.asarray, lanes.envs.pending)
        # The pending step in one array, float32 [L, N, 7]: action, its probability, Q(s, a), and `PendingStep.ends`.
        step = np.concatenate([np.stack(chosen, axis=-1), ends], axis=-1, dtype=np.float32)
        seen = np.asarray(lanes.envs.observation)
        before: Sequence[Any] = [observation[group.at] for group in groups]
        on_host = self.acts_on_host
        draws = self._draws(done, jax.random.key_data(lanes.key), jnp.stack(hyperparams, axis=1))
        round_, failure, is_pending = done, None, bool(step[..., 1].any())
        next_report = time.monotonic() + REPORT_EVERY
        while round_ < done + rounds and not stop:
            acting, choices = [group.policy for group in groups], []
            now: Sequence[Any] = [seen[group.at] for group in groups]
            if not on_host:  # first, so that the device answers before it learns
                now, choices = zip(*map(partial(self.act, round_), groups, now), strict=True)
            if is_pending:
                # Where the same is seen after the step and before the next, it is on the device already.
                after = now if last is seen else [last[group.at] for group in groups]
                for group, was, will_be in zip(groups, before, after, strict=True):
                    self.learn_from(round_ - 1, group, was, step[group.at], will_be)
            try:
                if time.monotonic() >= next_report:
                    report(round_)
                    next_report = time.monotonic() + REPORT_EVERY
                if on_host:  # while the device learns
                    action, probability, q = self._host_action(round_, next(draws), acting, seen)
                else:
                    action, probability, q = np.moveaxis(np.concatenate(choices), -1, 0)
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
        lanes, metrics = self.lanes_of(groups)
        if failure is not None:
            cut = lanes._replace(
                envs=jax.vmap(_without_pending)(jnp.asarray(seen)),
                replay=jax.vmap(self.buffer.cut)(lanes.replay),
                episode=jax.tree.map(jnp.zeros_like, lanes.episode),
            )
            raise BrokenOffError(cut, metrics, round_ - done) from failure
        chosen = np.concatenate(before), step[..., 0].astype(np.int32), step[..., 1], step[..., 2]
        chosen, ends, last, seen = jax.tree.map(jnp.asarray, (chosen, step[..., 3:], last, seen))
        return lanes._replace(envs=HostState(PendingStep(chosen, ends, last), seen)), metrics, round_ - done


def _without_pending(seen: jax.Array) -> HostState:
    """Return the state of N environments that have no pending step, for the observations to act on."""
    n = len(seen)
    chosen = jnp.zeros_like(seen), jnp.zeros(n, jnp.int32), jnp.zeros(n), jnp.zeros(n)
    return HostState(PendingStep(chosen, jnp.zeros((n, 4)), jnp.zeros_like(seen)), seen)

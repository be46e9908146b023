"""Variants of returns="auto": other rules by which the data choose the return, pessimism and learning rate.

Each variant has up to HEADS heads with PAIR networks each and learns from one replay buffer. A head bootstraps from

    Q_h(s, a) = mean of its networks - c_h · half of their distance        (c_h = 1: the minimum of the two)

with λ-returns. The variants differ in what is chosen, and by what:

- fixed: one head, λ = 0.5, the minimum of two networks, a middle learning rate. Nothing is chosen.
- bandit: four heads. Thompson sampling from the returns of recent episodes chooses who plays an episode, and gets half
  of the updates; the other half goes to heads at random.
- copies: as bandit, and a head that is clearly behind the best gets a copy of its networks, as in population-based
  training (Jaderberg et al. 2017).
- uncertainty: λ is chosen for each step of each return: λ_t = v_t / (v_t + g_t), where v_t is the variance of the
  bootstrap value among the networks and g_t that of the return that follows; the weights of the estimate with the
  smallest variance if both were unbiased and independent.
- calibration: one head, whose pessimism c rises while Q is above the returns of greedy play, and falls while it is
  below. Every eighth environment plays greedily for it.
- decay: one head, whose learning rate begins high and falls with the square root of time.

`auto_alternatives` trains all of them beside the rule of the library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep import returns
from greedystep.deep import target_pool
from greedystep.deep.device_loop import DeviceLoop
from greedystep.deep.heads import HeadScores
from greedystep.deep.learner import LearnerState, UpdateInfo
from greedystep.deep.target_pool import TargetPool
from greedystep.deep.targets import LaneHyperparams, discounts_and_cuts
from greedystep.deep.train_loop import ActionDraws, LaneState, Transition
from greedystep.deep.train_metrics import ChunkMetrics, compare_with_return
from greedystep.replay import ReplayState, random_bits

HEADS, PAIR = 4, 2
"""Heads of a variant, at most, and networks of each head."""
REPLACE_MARGIN = 3.0
"""Standard errors by which a head that is replaced by a copy is behind the best one."""
GREEDY_EVERY = 8
"""With `calibration`, one of so many environments plays greedily."""


class AutoVariant(NamedTuple):
    """What one variant does; arrays, so that all variants are lanes of one program."""

    lambda_: Any
    """[H]."""
    pessimism: Any
    """[H]."""
    learning_rate: Any
    """[H], as multiples of the task's own."""
    is_used: Any
    """bool [H]: whether there is such a head."""
    copies: Any = False
    uncertainty: Any = False
    calibration: Any = False
    decay: Any = np.inf
    """Steps after which the learning rate is 1/√2 of the first one."""


def make_variant(
    lambda_: Sequence[float], pessimism: Sequence[float], rate: Sequence[float], **more: Any
) -> AutoVariant:
    """Return the variant whose heads have these numbers, with heads that are not used behind them."""

    def padded(x: Sequence[float]) -> np.ndarray:
        return np.array([*x, *[x[-1]] * (HEADS - len(x))], np.float32)

    return AutoVariant(padded(lambda_), padded(pessimism), padded(rate), np.arange(HEADS) < len(rate), **more)


_BANDIT = ([0.3, 0.5, 0.7, 0.3], [0.5, 0.5, 2.0, 1.0], [1 / 3, 10 / 3, 1.0, 1.0])
_ONE = ([0.5], [1.0], [1.0])
VARIANTS = {
    "fixed": make_variant(*_ONE),
    "bandit": make_variant(*_BANDIT),
    "copies": make_variant(*_BANDIT, copies=True),
    "uncertainty": make_variant(*_ONE, uncertainty=True),
    "calibration": make_variant([0.5], [0.0], [1.0], calibration=True),
    "decay": make_variant([0.5], [1.0], [10 / 3], decay=3e5),
}


class VariantHeads(NamedTuple):
    """Which head plays in each of N environments, and what is known of the heads in one training."""

    variant: AutoVariant
    scores: HeadScores
    extra_pessimism: jax.Array
    """What calibration has added to the pessimism."""
    error: jax.Array
    """Sum of Q(s, a) minus the return that followed, since targets were made."""
    size: jax.Array
    """Sum of |Q(s, a)| over the same steps, about."""

    def sample(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Draw heads by Thompson sampling."""
        return self.scores.sample(key, shape, self.variant.is_used)

    def after_round(self, key: jax.Array, episode_return: jax.Array, over: jax.Array) -> VariantHeads:
        """Do what `HeadScores.after_round` does."""
        return self._replace(scores=self.scores.after_round(key, episode_return, over, self.variant.is_used))

    def sources(self) -> jax.Array:
        """Return whose networks each head goes on with, int [H]: its own, or the best head's where it is far behind."""
        count, total, is_used = self.scores.count, self.scores.total, self.variant.is_used
        expected, (_, variance) = self.scores.posterior()[0], self.scores.overall()
        best, own = jnp.where(is_used, expected, -jnp.inf).argmax(), total / jnp.maximum(count, 1e-6)
        deviation = jnp.sqrt(variance / jnp.maximum(count, 1e-3) + variance / jnp.maximum(count[best], 1e-3))
        is_behind = (own[best] - own > REPLACE_MARGIN * deviation) & (count > 5) & is_used & self.variant.copies
        return jnp.where(is_behind, best, jnp.arange(HEADS))

    def after_copies(self, source: jax.Array) -> VariantHeads:
        """Let copies begin with the returns of the best head, as if from ten episodes."""
        scores = self.scores
        share = jnp.where(source == jnp.arange(HEADS), 1, jnp.minimum(1, 10 / jnp.maximum(scores.count[source], 1e-6)))
        sums = {name: getattr(scores, name)[source] * share for name in ("count", "total", "squares")}
        return self._replace(scores=scores._replace(**sums))

    def calibrated(self) -> VariantHeads:
        """Move the pessimism towards where Q meets the returns, and begin to compare anew."""
        moved = self.extra_pessimism + 0.05 * jnp.tanh(2 * self.error / jnp.maximum(self.size, 1e-6))
        moved = jnp.where(self.variant.calibration & (self.size > 0), jnp.clip(moved, -1, 4), self.extra_pessimism)
        return self._replace(extra_pessimism=moved, error=jnp.float32(0), size=jnp.float32(0))


@dataclasses.dataclass(frozen=True, eq=False)
class VariantLoop(DeviceLoop):
    """The training loop of the library with other heads, targets and updates."""

    def init_variant(self, seed: jax.Array, variant: AutoVariant) -> LaneState:
        """Return the state of a training before its first step."""
        lane, count = self.init(seed), self.learner.config.num_envs
        playing = jnp.where(variant.is_used[jnp.arange(count) % HEADS], jnp.arange(count, dtype=jnp.int32) % HEADS, 0)
        heads = VariantHeads(
            variant=variant,
            scores=HeadScores(playing, jnp.int32(0), *[jnp.zeros(HEADS) for _ in range(4)]),
            extra_pessimism=jnp.float32(0),
            error=jnp.float32(0),
            size=jnp.float32(0),
        )
        assert lane.pool is not None
        pool = lane.pool._replace(targets=jnp.zeros((HEADS, lane.pool.action.shape[0])))
        return lane._replace(heads=heads, pool=pool)  # type: ignore[arg-type]

    def head_q(self, params: Any, heads: VariantHeads, observations: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return Q_h(s, a), and half of the distance of the head's networks, both [H, B, A]."""
        q, _ = self.learner.q_and_support(params, observations)
        q = q.reshape(HEADS, PAIR, *q.shape[1:])
        half = jnp.abs(q[:, 0] - q[:, 1]) / 2
        pessimism = heads.variant.pessimism + heads.extra_pessimism
        return q.mean(axis=1) - pessimism[:, None, None] * half, half

    # -- acting --------------------------------------------------------------------------------------------------------

    @staticmethod
    def policy(lane: LaneState) -> Any:
        return lane.learner.params, lane.heads

    def action(
        self, round_: jax.Array, policy: Any, hyperparams: LaneHyperparams, draws: ActionDraws, observation: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        params, heads = policy
        q, _ = self.head_q(params, heads, observation)
        q = jnp.take_along_axis(q, heads.scores.playing[None, :, None], axis=0)[0]
        epsilon = jnp.where(self._plays_greedily(heads), 0, self.epsilon(round_, hyperparams))
        action, probability = draws.choose(q, epsilon)
        return action, probability, jnp.take_along_axis(q, action[:, None], axis=1)[:, 0]

    def _plays_greedily(self, heads: VariantHeads) -> jax.Array:
        """Return which environments play without exploration, bool [N]; one that is alone explores."""
        count = self.learner.config.num_envs
        return heads.variant.calibration & (jnp.arange(count) % GREEDY_EVERY == 0) & (count > 1)

    def store(
        self, lane: LaneState, metrics: ChunkMetrics, step: Transition, key: jax.Array
    ) -> tuple[LaneState, ChunkMetrics]:
        before, heads = lane.episode, lane.heads
        lane, metrics = super().store(lane, metrics, step, key)
        if step.q is None or heads is None:
            return lane, metrics
        watched = self._plays_greedily(heads) if self.learner.config.num_envs > 1 else True  # type: ignore[arg-type]
        watched &= step.terminated | step.truncated
        sums, discount = (before.weight, before.q_minus_return), self.learner.config.discount
        _, error = compare_with_return(*sums, step.q, step.reward, step.truncated, discount)
        size = jnp.abs(step.q) * (before.num_valued + 1) + 1e-3
        new: Any = lane.heads
        new = new._replace(
            error=new.error + jnp.where(watched, error, 0).sum(), size=new.size + jnp.where(watched, size, 0).sum()
        )
        return lane._replace(heads=new), metrics

    # -- learning ------------------------------------------------------------------------------------------------------

    def _refresh_if(self, due: jax.Array, lane: LaneState, hyperparams: LaneHyperparams) -> LaneState:
        key, pool_key = jax.random.split(lane.key)

        def refresh(state: LearnerState, heads: VariantHeads, pool: TargetPool, replay: ReplayState) -> tuple:
            source = heads.sources()
            networks = (PAIR * source[:, None] + jnp.arange(PAIR)).reshape(-1)
            state = jax.tree.map(lambda x: x[networks], state)
            heads = heads.after_copies(source).calibrated()
            return state, heads, self._make_pool(pool_key, state.params, heads, replay)

        def keep(state: LearnerState, heads: VariantHeads, pool: TargetPool, replay: ReplayState) -> tuple:
            return state, heads, pool

        state, heads, pool = lax.cond(due, refresh, keep, lane.learner, lane.heads, lane.pool, lane.replay)
        return lane._replace(key=jnp.where(due, key, lane.key), learner=state, heads=heads, pool=pool)

    def _make_pool(self, key: jax.Array, params: Any, heads: VariantHeads, replay: ReplayState) -> TargetPool:
        """Sample whole episodes, and compute the targets of every head [H, P] for all their steps."""
        config, buffer, variant = self.learner.config, self.buffer, heads.variant
        size = target_pool.pool_size(config, buffer)
        index, rows, columns = target_pool.sample_rows(buffer, key, replay, size)
        packed = buffer.packed_observations(replay, index)

        def value(block: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
            q, half = self.head_q(params, heads, buffer.unpack(block[0]))
            best = q.argmax(axis=-1)
            taken = jnp.broadcast_to(block[1], best.shape)
            pick = [(q, best), (half, best), (q, taken)]
            return tuple(jnp.take_along_axis(x, a[..., None], axis=-1)[..., 0] for x, a in pick)  # type: ignore

        values = target_pool.in_blocks(value, (packed, rows.action), size)
        v, half, q = (x.reshape(HEADS, columns, -1).swapaxes(1, 2) for x in values)  # [H, T, columns]
        steps = jax.tree.map(lambda x: x.reshape(columns, -1).T, rows)
        discounts, cuts = discounts_and_cuts(config, steps, jnp.roll(steps.is_step, -1, axis=0))
        rewards = jnp.where(steps.is_step, steps.reward, 0)

        def targets(v: jax.Array, half: jax.Array, q: jax.Array, lambda_: jax.Array) -> jax.Array:
            v, variance = jnp.roll(v, -1, axis=0), 2 * jnp.roll(half, -1, axis=0) ** 2  # of two networks: (x - y)² / 2
            error = jnp.where(steps.is_step, rewards + discounts * v - q, 0)
            noise = 0.5 * (error**2).sum() / jnp.maximum(steps.is_step.sum(), 1)  # of a reward and its next state
            chosen = lambda_from_variance(variance, noise, discounts, cuts)
            lambdas = jnp.where(variant.uncertainty, chosen, lambda_)
            return returns.lambda_return(rewards, discounts, v, lambdas, cuts=cuts)

        found = jax.vmap(targets)(v, half, q, variant.lambda_)
        return TargetPool(
            observations=packed,
            action=rows.action,
            targets=found.swapaxes(1, 2).reshape(HEADS, -1),
            steps=jnp.zeros(size, jnp.int32),
            step_rows=jnp.flatnonzero(rows.is_step, size=size, fill_value=0).astype(jnp.int32),
            count=rows.is_step.sum(dtype=jnp.int32),
        )

    def draw_updates(self, key: jax.Array, hyperparams: LaneHyperparams) -> jax.Array:  # type: ignore[override]
        """Return the key itself: what an update needs depends on the heads."""
        return key

    def update(  # type: ignore[override]
        self,
        round_: jax.Array,
        lane: LaneState,
        metrics: ChunkMetrics,
        hyperparams: LaneHyperparams,
        draws: jax.Array,
    ) -> tuple[LaneState, ChunkMetrics]:
        """Let the networks of one head learn, each from half of a batch."""
        config, heads, pool = self.learner.config, lane.heads, lane.pool
        assert isinstance(heads, VariantHeads)
        assert pool is not None
        variant, done = heads.variant, round_ * config.num_envs
        decay = (1 + done / variant.decay) ** -0.5

        def update(i: jax.Array, carry: tuple) -> tuple:
            state, metrics = carry
            batch_key, coin, random, thompson = jax.random.split(jax.random.fold_in(draws, i), 4)
            any_head = (jax.random.uniform(random, (HEADS,)) + variant.is_used).argmax()
            head = jnp.where(jax.random.uniform(coin) < 0.5, any_head, heads.sample(thompson, ()))
            batch = target_pool.batch_at(self.buffer, pool, random_bits(batch_key, config.batch_size))
            batch = batch._replace(targets=batch.targets[head])
            own = jax.tree.map(lambda x: x.reshape(PAIR, -1, *x.shape[1:]), batch)
            networks = PAIR * head + jnp.arange(PAIR)
            params, opt_state = jax.tree.map(lambda x: x[networks], (state.params, state.opt_state))
            rate = hyperparams.learning_rate * variant.learning_rate[head] * decay

            def step(params: Any, opt_state: Any, part: target_pool.Batch) -> tuple[Any, Any, UpdateInfo]:
                return self.learner.network_step(params, opt_state, part, part.targets, rate)

            *new, infos = jax.vmap(step)(params, opt_state, own)
            params, opt_state = jax.tree.map(
                lambda x, changed: x.at[networks].set(changed), (state.params, state.opt_state), tuple(new)
            )
            info = UpdateInfo(loss=infos.loss.mean(), mean_q=jnp.float32(0))
            return LearnerState(params, params, opt_state), metrics.after_update(round_, info, batch.steps)

        state, metrics = lax.fori_loop(0, config.updates, update, (lane.learner, metrics))
        return lane._replace(learner=state), metrics


def lambda_from_variance(variance: jax.Array, noise: jax.Array, discounts: jax.Array, cuts: jax.Array) -> jax.Array:
    """Return λ_t = v_t / (v_t + g_t) for each step, [T, ...], from the end: g_t = noise + γ² ((1-λ)² v + λ² g)_{t+1}.

    Args:
        variance: v_t, that of the bootstrap value of step t.
        noise: the variance of one reward with its next state.
    """

    def back(g: jax.Array, step: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        v, discount, cut = step
        lambda_ = jnp.where(cut, 0, v / (v + g + 1e-12))
        return noise + discount**2 * ((1 - lambda_) ** 2 * v + lambda_**2 * g), lambda_

    return lax.scan(back, jnp.full(variance.shape[1:], 1e9), (variance, discounts, cuts), reverse=True)[1]

"""Metrics of a chunk of training, summed on the device while it runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.deep.config import DQNConfig
from greedystep.deep.learner import UpdateInfo

BINS = 16
"""Number of bins of the histogram of bootstrapping steps n: 1, 2, 3-4, 5-8, ..., 8193-16384, more."""
LOWEST = np.append(1, 2 ** np.arange(BINS - 1) + 1)
"""The smallest n of each bin."""
NEVER = np.int32(2**31 - 1)
"""Value of `ChunkMetrics.diverged` if every loss was finite."""


class EpisodeStats(NamedTuple):
    """Running statistics of the episode in progress in each of N environments, [N]."""

    total_reward: jax.Array
    length: jax.Array
    """int32: steps so far."""
    weight: jax.Array
    """w = Σᵢ γⁱ over the episode's valued steps so far: the weight of the next reward in the sum of their returns."""
    q_minus_return: jax.Array
    """Sum over the episode's valued steps of Q(s, a), minus the sum of their discounted returns up to now."""
    num_valued: jax.Array
    """int32: number of steps whose Q(s, a) is known; those of the warm-up are not valued."""

    @classmethod
    def init(cls, envs: int) -> EpisodeStats:
        """Return the statistics at the start of an episode in every environment."""
        floats, counts = jnp.zeros(envs), jnp.zeros(envs, jnp.int32)
        return cls(floats, counts, jnp.copy(floats), jnp.copy(floats), jnp.copy(counts))


def compare_with_return(
    weight: jax.Array,
    q_minus_return: jax.Array,
    q: jax.Array,
    reward: jax.Array,
    truncated: jax.Array,
    discount: float,
) -> tuple[jax.Array, jax.Array]:
    """Add a step of the episodes in progress to `EpisodeStats.weight` and `q_minus_return`; return both.

    The discounted returns of all steps of an episode sum to Σₖ rₖ wₖ with wₖ = 1 + γ wₖ₋₁, so that its steps need not
    be remembered. A truncated episode counts its last Q(s, a) as the return from there.
    """
    weight = 1 + discount * weight
    return weight, q_minus_return + q - weight * jnp.where(truncated, q, reward)


class ChunkMetrics(NamedTuple):
    """Sums over one chunk of training (the steps between two metrics rows); scalars except for the histogram."""

    episodes: jax.Array
    episode_return: jax.Array
    episode_length: jax.Array
    q_minus_return: jax.Array
    """Over all valued steps of the ended episodes: Q(s, a) minus the discounted return that followed."""
    num_valued: jax.Array
    updates: jax.Array
    loss: jax.Array
    q: jax.Array
    n_sums: jax.Array
    """[BINS + 1]: number of samples whose bootstrapping step n is at least `LOWEST`, then the sum of n."""
    diverged: jax.Array
    """int32: the round (one step of all environments) in which a loss was first not finite; NEVER if none was."""

    @classmethod
    def init(cls) -> ChunkMetrics:
        """Return the metrics of an empty chunk: all sums are 0."""
        zeros = {name: jnp.float32(0) for name in cls._fields}
        return cls(**zeros | {"n_sums": jnp.zeros(BINS + 1), "diverged": jnp.int32(NEVER)})

    def after_step(
        self,
        episode: EpisodeStats,
        reward: jax.Array,
        truncated: jax.Array,
        over: jax.Array,
        q: jax.Array | None,
        discount: float,
    ) -> tuple[ChunkMetrics, EpisodeStats]:
        """Add one step of all environments; q is Q(s, a) of the actions taken, None within the warm-up."""
        weight, q_minus_return, num_valued = episode.weight, episode.q_minus_return, episode.num_valued
        if q is not None:
            weight, q_minus_return = compare_with_return(weight, q_minus_return, q, reward, truncated, discount)
            num_valued = num_valued + 1
        total, length = episode.total_reward + reward, episode.length + 1

        def ended(x: jax.Array) -> jax.Array:
            return jnp.where(over, x, 0).sum().astype(jnp.float32)

        metrics = self._replace(
            episodes=self.episodes + ended(jnp.ones_like(reward)),
            episode_return=self.episode_return + ended(total),
            episode_length=self.episode_length + ended(length),
            q_minus_return=self.q_minus_return + ended(q_minus_return),
            num_valued=self.num_valued + ended(num_valued),
        )
        going_on = EpisodeStats(total, length, weight, q_minus_return, num_valued)
        return metrics, jax.tree.map(lambda x: jnp.where(over, jnp.zeros_like(x), x), going_on)

    def after_update(self, round_: jax.Array, info: UpdateInfo, n: jax.Array) -> ChunkMetrics:
        """Add one update of round `round_`; its samples look n [B] steps ahead (0: the return mixes all lengths)."""
        # One sum for all columns, since each would be a kernel of its own on a GPU.
        columns = jnp.where(np.arange(BINS + 1) < BINS, n[:, None] >= np.append(LOWEST, 0), n[:, None])
        return self._replace(
            updates=self.updates + 1,
            loss=self.loss + info.loss,
            q=self.q + info.mean_q,
            n_sums=self.n_sums + columns.sum(axis=0, dtype=jnp.float32),
            diverged=jnp.where(jnp.isfinite(info.loss), self.diverged, jnp.minimum(self.diverged, round_)),
        )


def metrics_row(metrics: ChunkMetrics) -> dict[str, Any]:
    """Return one lane's sums and means as the columns of its metrics row; None for the mean of nothing.

    "overestimation" is Q(s, a) minus the discounted return of the behaviour policy that followed.
    """
    sums: Any = jax.tree.map(np.asarray, metrics)

    def mean(total: Any, count: Any) -> float | None:
        return float(total) / float(count) if count else None

    at_least, total_n = sums.n_sums[:BINS], sums.n_sums[BINS]
    return {
        "episode_return": mean(sums.episode_return, sums.episodes),
        "episode_length": mean(sums.episode_length, sums.episodes),
        "episodes": int(sums.episodes),
        "loss": mean(sums.loss, sums.updates),
        "mean_q": mean(sums.q, sums.updates),
        "mean_n": mean(total_n, at_least[0]),
        "share_n_above_1": mean(at_least[1], at_least[0]),
        "n_histogram": [int(x) for x in at_least - np.append(at_least[1:], 0)],
        "overestimation": mean(sums.q_minus_return, sums.num_valued),
    }


def bin_names() -> list[str]:
    """Return the labels of the histogram's bins: "1", "2", "3-4", ..."""
    lowest = LOWEST.tolist()
    highest = [low - 1 for low in lowest[1:]]
    names = [str(a) if a == b else f"{a}-{b}" for a, b in zip(lowest, highest, strict=False)]
    return [*names, f"{lowest[-1]}+"]


def target_age(config: DQNConfig, step: int) -> float | None:
    """Return the mean age, in steps, of the target networks' parameters over the updates until `step`."""
    if step <= config.warmup:
        return None
    age = (config.target_period - config.num_envs) / 2
    if config.target_rate < 1:  # the mean age of a moving average, in updates, times steps per update
        moving = (1 - config.target_rate) / config.target_rate * config.num_envs / config.updates
        return moving + age if config.is_pooled else moving
    return age

"""What a chunk of training has to tell, summed up on the device while it runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.deep.learner import Learned

BINS = 16
"""Bins of the histogram of n: 1, 2, 3-4, 5-8, ..., 8193-16384, more."""
NEVER = np.int32(2**31 - 1)


class Episode(NamedTuple):
    """The open episode of each environment, [N]."""

    reward: jax.Array
    """Sum of its rewards."""
    length: jax.Array
    """int32."""
    weight: jax.Array
    """w = Σᵢ γⁱ over its judged steps so far: the weight of the next reward in the sum of all their returns."""
    surplus: jax.Array
    """Sum of Q(s, a) over its judged steps, minus what has come of the sum of their discounted returns."""
    judged: jax.Array
    """int32: the steps whose Q(s, a) was looked at; those of the warm-up are not."""

    @classmethod
    def begin(cls, envs: int) -> Episode:
        numbers, counts = jnp.zeros(envs), jnp.zeros(envs, jnp.int32)
        return cls(numbers, counts, jnp.copy(numbers), jnp.copy(numbers), jnp.copy(counts))


class Tally(NamedTuple):
    """Sums over a chunk; scalars but for the histogram."""

    episodes: jax.Array
    episode_return: jax.Array
    episode_length: jax.Array
    surplus: jax.Array
    """Of all judged steps of the ended episodes: Q(s, a) minus the discounted return that followed."""
    judged: jax.Array
    updates: jax.Array
    loss: jax.Array
    q: jax.Array
    steps: jax.Array
    """Sum of the mean n of a batch."""
    above_one: jax.Array
    histogram: jax.Array
    """[BINS]: samples by n."""
    diverged: jax.Array
    """int32: the round, a step of all environments, in which a loss was first not finite; NEVER if none was."""

    @classmethod
    def begin(cls) -> Tally:
        zeros = {name: jnp.float32(0) for name in cls._fields}
        return cls(**zeros | {"histogram": jnp.zeros(BINS), "diverged": jnp.int32(NEVER)})

    def after_step(
        self,
        episode: Episode,
        reward: jax.Array,
        truncated: jax.Array,
        over: jax.Array,
        q: jax.Array | None,
        discount: float,
    ) -> tuple[Tally, Episode]:
        """One step of all environments; q is Q(s, a) of what was done, None within the warm-up.

        The discounted returns of all steps of an episode sum to Σₖ rₖ wₖ with wₖ = 1 + γ wₖ₋₁, so that nothing has to
        be remembered of its steps. An episode that was cut off counts its last Q(s, a) for the return from there.
        """
        weight, surplus, judged = episode.weight, episode.surplus, episode.judged
        if q is not None:
            weight, judged = 1 + discount * weight, judged + 1
            surplus = surplus + q - weight * jnp.where(truncated, q, reward)
        total, length = episode.reward + reward, episode.length + 1

        def ended(x: jax.Array) -> jax.Array:
            return jnp.where(over, x, 0).sum().astype(jnp.float32)

        tally = self._replace(
            episodes=self.episodes + ended(jnp.ones_like(reward)),
            episode_return=self.episode_return + ended(total),
            episode_length=self.episode_length + ended(length),
            surplus=self.surplus + ended(surplus),
            judged=self.judged + ended(judged),
        )
        following = Episode(total, length, weight, surplus, judged)
        return tally, jax.tree.map(lambda x: jnp.where(over, jnp.zeros_like(x), x), following)

    def after_update(self, number: jax.Array, learned: Learned, n: jax.Array) -> Tally:
        """One update in round `number`; n is [B], 0 where the return mixes all lengths."""
        bins = jnp.arange(BINS)
        lowest = jnp.where(bins == 0, 1, (1 << jnp.maximum(bins - 1, 0)) + 1)  # 1, 2, 3, 5, 9, ...
        at_least = (n[:, None] >= lowest).sum(axis=0)
        return self._replace(
            updates=self.updates + 1,
            loss=self.loss + learned.loss,
            q=self.q + learned.q,
            steps=self.steps + n.mean(dtype=jnp.float32),
            above_one=self.above_one + (n > 1).mean(dtype=jnp.float32),
            histogram=self.histogram + at_least - jnp.append(at_least[1:], 0),
            diverged=jnp.where(jnp.isfinite(learned.loss), self.diverged, jnp.minimum(self.diverged, number)),
        )


def columns(tally: Tally) -> dict[str, Any]:
    """The sums of one lane as columns of a row of metrics; None where there is nothing to tell."""
    t: Any = jax.tree.map(np.asarray, tally)

    def mean(total: Any, count: Any) -> float | None:
        return float(total) / float(count) if count else None

    chosen = t.histogram.sum() > 0
    return {
        "episode_return": mean(t.episode_return, t.episodes),
        "episode_length": mean(t.episode_length, t.episodes),
        "episodes": int(t.episodes),
        "loss": mean(t.loss, t.updates),
        "mean_q": mean(t.q, t.updates),
        "mean_n": mean(t.steps, t.updates) if chosen else None,
        "share_n_above_1": mean(t.above_one, t.updates) if chosen else None,
        "n_histogram": [int(x) for x in t.histogram],
        "overestimation": mean(t.surplus, t.judged),
    }


def bin_names() -> list[str]:
    """What the bins of the histogram hold."""
    lowest = [1] + [2 ** (i - 1) + 1 for i in range(1, BINS)]
    highest = [low - 1 for low in lowest[1:]]
    names = [str(a) if a == b else f"{a}-{b}" for a, b in zip(lowest, highest, strict=False)]
    return [*names, f"{lowest[-1]}+"]

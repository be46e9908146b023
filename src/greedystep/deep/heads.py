"""Several policies that learn from one replay buffer, and the choice of the one that acts: the rule returns="auto".

No learning rate, no λ and no degree of pessimism is the best one on every task. So `ensemble` networks learn at each of
the rates AUTO_RATES, and every network has one output per pair (λ, c) of AUTO_OUTPUTS. A head is one rate with one
output, number `rate * outputs + output`:

    Q_h(s, a) = (1 - c) mean_m Q_m(s, a) + c min_m Q_m(s, a)     over the networks m of its rate
    targets of head h: the λ-return with the values max_a Q_h(s, a)

Which head plays an episode is chosen by Thompson sampling (Thompson 1933) from the returns of recent episodes. A head
with n episodes of mean return x gets a draw from Normal((n x + x̄) / (n + 1), σ² / (n + 1)), x̄ the mean over all heads
and σ² the variance within them; the head with the largest draw plays.

An episode that ended after t steps counts (t / T)^FORGETTING at step T. So the last fifth of the training counts most,
whether it is short or long, and a head that has not played for long is tried again. That holds for 2^24 rounds (steps
of all environments): the weights are float32, in which (1 - 1 / rounds)^FORGETTING is rounded to 1 soon after. From
there on little or nothing is forgotten.

Where no head has played, because everything was learned from a log, the best head is the one with the largest R² of its
own one-step targets on episodes held out of training (`offline.r_squared`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from greedystep.deep.config import AUTO_OUTPUTS, AUTO_RATES

HEADS = len(AUTO_RATES) * len(AUTO_OUTPUTS)
FORGETTING = 4.0
LEAST_DEVIATION = 0.01
"""Smallest standard deviation of episode returns, as a share of their mean: returns that never differ prove little."""


class HeadPolicy(NamedTuple):
    """The arrays of all networks, and the head that acts."""

    params: Any
    head: jax.Array
    """int32: one head, or one per observation [B]."""


class HeadSummary(NamedTuple):
    """What the metrics say of the heads."""

    head: jax.Array
    """int32: the best head."""
    expected_return: jax.Array
    """[H]."""
    episodes: jax.Array
    """[H]: number of recent episodes, each with its weight."""

    def columns(self) -> dict[str, Any]:
        """Return the columns of a metrics row."""
        return {
            "head": int(self.head),
            "head_return": [round(float(x), 6) for x in self.expected_return],
            "head_episodes": [round(float(x), 3) for x in self.episodes],
        }


class HeadScores(NamedTuple):
    """Which head plays in each of N environments, and the returns of recent episodes by head."""

    playing: jax.Array
    """int32 [N]."""
    rounds: jax.Array
    """int32: rounds of training so far."""
    count: jax.Array
    """[H]: number of episodes, each with its weight."""
    total: jax.Array
    """[H]: sum of their returns."""
    squares: jax.Array
    """[H]: sum of their squared returns."""
    r_squared: jax.Array
    """[H]: `offline.r_squared` on held-out episodes of a log; 0 before the first log."""

    @classmethod
    def init(cls, key: jax.Array, envs: int) -> HeadScores:
        """Return the state before the first episode: random heads play."""
        sums = [jnp.zeros(HEADS) for _ in range(4)]
        return cls(jax.random.randint(key, (envs,), 0, HEADS), jnp.int32(0), *sums)

    def after_round(
        self, key: jax.Array, episode_return: jax.Array, over: jax.Array, is_allowed: jax.Array | None = None
    ) -> HeadScores:
        """Forget a little, count the episodes that are over, and choose a head for each environment that begins anew.

        Args:
            episode_return: [N], the sum of rewards of each environment's episode so far.
            over: bool [N], whether the episode has ended in this round.
            is_allowed: bool [H], the heads that may play; None: all.
        """
        weight = (self.rounds / (self.rounds + 1)) ** FORGETTING
        ended = (jax.nn.one_hot(self.playing, len(self.count)) * over[:, None]).T
        sums = [self.count, self.total, self.squares]
        powers = [jnp.ones_like(episode_return), episode_return, episode_return**2]
        count, total, squares = (weight * x + ended @ y for x, y in zip(sums, powers, strict=True))
        scores = self._replace(rounds=self.rounds + 1, count=count, total=total, squares=squares)
        return scores._replace(playing=jnp.where(over, scores.sample(key, over.shape, is_allowed), self.playing))

    def posterior(self) -> tuple[jax.Array, jax.Array]:
        """Return mean and standard deviation of the normal distribution of each head's expected return, [H]."""
        mean, variance = self.overall()
        return (self.total + mean) / (self.count + 1), jnp.sqrt(variance / (self.count + 1))

    def overall(self) -> tuple[jax.Array, jax.Array]:
        """Return the mean return over all heads, and the variance of returns within the heads."""
        everything = jnp.maximum(self.count.sum(), 1e-6)
        mean = self.total.sum() / everything
        own = self.total / jnp.maximum(self.count, 1e-6)
        variance = (self.squares.sum() - (self.count * own**2).sum()) / everything
        return mean, jnp.maximum(variance, (LEAST_DEVIATION * mean) ** 2 + 1e-8)

    def sample(self, key: jax.Array, shape: tuple[int, ...], is_allowed: jax.Array | None = None) -> jax.Array:
        """Draw heads by Thompson sampling among those that are allowed: int32 of this shape."""
        mean, deviation = self.posterior()
        if is_allowed is not None:
            mean = jnp.where(is_allowed, mean, -jnp.inf)
        draws = mean + deviation * jax.random.normal(key, (*shape, len(self.count)))
        return draws.argmax(axis=-1).astype(jnp.int32)

    def best(self) -> jax.Array:
        """Return the head that acts outside of training, int32.

        It has the largest expected return less one deviation, or where none has played the largest R².
        """
        mean, deviation = self.posterior()
        score = jnp.where(self.count.sum() > 0, mean - deviation, self.r_squared)
        return score.argmax().astype(jnp.int32)

    def summary(self) -> HeadSummary:
        """Return what the metrics say of the heads."""
        return HeadSummary(self.best(), self.posterior()[0], self.count)

    def explain(self) -> str:
        """Say which head acts outside of training, and why."""
        head, expected, played = self.summary().columns().values()
        beginning = f"head {head} plays ({describe(head)}); "
        if not any(played):
            return f"{beginning}R² of the heads on held-out episodes: {_listed(self.r_squared)}"
        return f"{beginning}expected returns of the heads: {_listed(expected)}, from {_listed(played)} recent episodes"


def _listed(numbers: Any) -> str:
    return ", ".join(f"{x:.3g}" for x in numbers)


def head_q(q: jax.Array) -> jax.Array:
    """Return the Q-values of each head from those of each network, [K, B, O A] -> [H, B, A]."""
    rates, outputs = len(AUTO_RATES), len(AUTO_OUTPUTS)
    networks, states, width = q.shape
    q = q.reshape(rates, networks // rates, states, outputs, width // outputs)
    least, mean = q.min(axis=1), q.mean(axis=1)
    pessimism = jnp.array([output.pessimism for output in AUTO_OUTPUTS])[:, None]
    mixed = mean + pessimism * (least - mean)  # [R, B, O, A]
    return mixed.swapaxes(1, 2).reshape(HEADS, states, width // outputs)


def split_policy(policy: Any) -> tuple[Any, Any]:
    """Return the arrays of the networks and the head that acts; head 0 where there are no others."""
    return policy if isinstance(policy, HeadPolicy) else (policy, 0)


def describe(head: int) -> str:
    """Return the settings of a head in words."""
    rate, output = divmod(int(head), len(AUTO_OUTPUTS))
    settings, factor = AUTO_OUTPUTS[output], AUTO_RATES[rate]
    value = {0.0: "mean", 1.0: "minimum"}.get(settings.pessimism, f"pessimism {settings.pessimism:g}")
    return f"learning rate x {factor:.3g}, λ = {settings.lambda_:g}, {value} of the networks"


HEAD_SETTINGS = [describe(head) for head in range(HEADS)]
"""The settings of all heads in words."""

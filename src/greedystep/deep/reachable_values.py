"""Warn of Q-values that no return can have, given the rewards seen: a sign that learning has diverged."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.deep.config import DQNConfig
from greedystep.replay import ReplayState, stored_rewards


class UnreachableValueWarning(RuntimeWarning):
    """The mean Q-value is larger or smaller than any return of the rewards seen."""


def unreachable_value(config: DQNConfig, mean_q: float, rewards: tuple[float, float]) -> str | None:
    """Return a warning if no sum of discounted rewards in the range `rewards` can be `mean_q`; otherwise None.

    With rewards in [low, high] and discount γ, returns lie in [min(low, low / (1 - γ)), max(high, high / (1 - γ))]. A
    network errs a little, so that 20 % of the range are tolerated. As long as all rewards are 0, nothing is known about
    their size.
    """
    if config.discount == 1 or not np.isfinite(mean_q) or rewards == (0, 0):
        return None
    longest = 1 / (1 - config.discount)
    low, high = min(rewards[0], rewards[0] * longest), max(rewards[1], rewards[1] * longest)
    tolerance = 0.2 * max(high - low, abs(high), abs(low))
    if low - tolerance <= mean_q <= high + tolerance:
        return None
    bound, which = (high, "largest") if mean_q > high else (low, "smallest")
    return (
        f"the mean Q-value is {mean_q:.3g}, but the {which} return possible is {bound:.3g} (rewards from "
        f"{rewards[0]:g} to {rewards[1]:g}, discount {config.discount:g}): the values diverge, and nothing useful is "
        'learned from them; try returns="lambda", a larger ensemble or a smaller learning_rate'
    )


def reward_range(replay: ReplayState) -> tuple[float, float]:
    """Return the smallest and the largest reward in the replay buffer."""
    low, high = jax.device_get(_reward_range(replay))
    return float(low), float(high)


@jax.jit
def _reward_range(replay: ReplayState) -> tuple[jax.Array, jax.Array]:
    is_step, reward = stored_rewards(replay)
    return jnp.where(is_step, reward, jnp.inf).min(), jnp.where(is_step, reward, -jnp.inf).max()

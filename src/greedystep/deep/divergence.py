"""Signs that learning has diverged: losses that are not finite, and Q-values that no return of the rewards can have."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.deep.config import DQNConfig
from greedystep.deep.lane_devices import shares
from greedystep.deep.train_metrics import NEVER, ChunkMetrics
from greedystep.replay import ReplayState, stored_rewards


class DivergedError(ValueError):
    """Training has diverged: a loss was not finite."""


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


class DivergenceCheck:
    """Looks for signs of divergence in the metrics of each chunk of a training.

    Args:
        env_name: what the environment is called in messages.
        on_diverged: see `Trainer`.
    """

    def __init__(
        self, config: DQNConfig, env_name: str, seeds: Sequence[int], on_diverged: Callable[[int, int], None] | None
    ):
        self._config, self._env_name, self._seeds, self._on_diverged = config, env_name, seeds, on_diverged
        self._diverged_lanes: set[int] = set()
        self._rewards = (np.inf, -np.inf)
        """Smallest and largest reward seen in the replay buffers after any chunk."""
        self._has_warned = False

    def check_losses(self, metrics: ChunkMetrics, replay: ReplayState) -> None:
        """Call `on_diverged` for each lane whose loss is not finite for the first time, or raise DivergedError."""
        for lane, round_ in enumerate(metrics.diverged):
            if round_ == NEVER or lane in self._diverged_lanes:
                continue
            step = int(round_) * self._config.num_envs
            if self._on_diverged is None:
                raise DivergedError(
                    f"the loss of lane {lane} (seed {self._seeds[lane]}) was not finite at step {step}: "
                    f"{self._reason(replay)}; the last checkpoint is from before"
                )
            self._diverged_lanes.add(lane)
            self._on_diverged(lane, step)

    def _reason(self, replay: ReplayState) -> str:
        """Return what made a loss not finite: numbers of the environment, or else a large learning rate."""
        for share in shares(replay):
            seen_is_finite = bool(jnp.isfinite(share.observations).all())
            if not (seen_is_finite and np.isfinite(reward_range(share)).all()):
                what = "a reward" if seen_is_finite else "an observation"
                return f"{self._env_name} gave {what} that is not finite; gs.check_env looks for faults of environments"
        return "try a smaller learning_rate"

    def check_values(self, metrics: ChunkMetrics, replay: ReplayState, step: int) -> None:
        """Warn, once, if the mean Q-value of a lane cannot be a return of the rewards seen."""
        if self._has_warned or self._on_diverged is not None or not metrics.updates.any():
            return
        for share in shares(replay):
            low, high = reward_range(share)
            self._rewards = (min(self._rewards[0], low), max(self._rewards[1], high))
        for lane, mean_q in enumerate(metrics.q / np.maximum(metrics.updates, 1)):
            problem = unreachable_value(self._config, float(mean_q), self._rewards)
            if problem is not None:
                self._has_warned = True
                who = f" (seed {self._seeds[lane]})" if len(self._seeds) > 1 else ""
                warnings.warn(f"step {step}{who}: {problem}", UnreachableValueWarning, stacklevel=5)
                return


def reward_range(replay: ReplayState) -> tuple[float, float]:
    """Return the smallest and the largest reward in the replay buffer."""
    low, high = jax.device_get(_reward_range(replay))
    return float(low), float(high)


@jax.jit
def _reward_range(replay: ReplayState) -> tuple[jax.Array, jax.Array]:
    is_step, reward = stored_rewards(replay)
    return jnp.where(is_step, reward, jnp.inf).min(), jnp.where(is_step, reward, -jnp.inf).max()

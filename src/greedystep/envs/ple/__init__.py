"""Three games of the PyGame Learning Environment (Tasfi, 2016), written from their rules; here their base class.

They run as gym-games runs them: 30 frames per second, one action per frame, and the numbers of the game's state as the
observation.

The originals compute in float64, which a device does not have. Where a game compares numbers that are equal again and
again (a block that scrolls 0.64 pixels per step and is due at pixel 16 after exactly 50 of them), it is played here in
integer fractions of a pixel, which are exact. Other numbers are float32: there a game differs from the original only
if two numbers happen to lie closer together than float32 can tell.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.core import Draws, Environment, ObservationSpec, State, Step

ROUNDINGS = ("round", "truncate")
"""How pygame makes coordinates whole pixels: "round" to the nearest since 2.3.0, "truncate" up to 2.2.0."""
POSITIVE, NEGATIVE, LOSS, WIN = 1, -1, -5, 5  # PLE's rewards


class PLEGame(Environment):
    """Base class of the PLE games: once a state's field `over` is true, nothing moves and every reward is 0."""

    title: ClassVar[str]  # the part of the name after the slash
    bounds: ClassVar[tuple[tuple[float, float], ...]]  # smallest and largest value of each number of the observation

    @abstractmethod
    def play(self, draws: Draws, state: State, action: jax.Array) -> tuple[State, jax.Array]:
        """Apply the rules for one step in a game that is not over; return (state, integer reward)."""

    @property
    def name(self) -> str:
        return f"ple/{self.title}"

    @property
    def observation(self) -> ObservationSpec:
        low, high = np.array(self.bounds, np.float32).T
        slack = np.float32(1e-6) * np.maximum(np.abs(low), np.abs(high))  # what the rounding of float32 may add
        low, high = low - slack, high + slack
        return ObservationSpec(low.shape, np.dtype(np.float32), low, high)

    def advance(self, draws: Draws, state: State, action: jax.Array) -> tuple[State, Step]:
        played, reward = self.play(draws, state, action)
        played = jax.tree.map(lambda old, new: jnp.where(state.over, old, new), state, played)
        reward = jnp.where(state.over, 0, reward).astype(jnp.float32)
        return played, Step(reward, played.over, jnp.bool_(False))


def check_rounding(rounding: Any) -> None:
    """Raise ValueError unless `rounding` is one of ROUNDINGS."""
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding: expected {' or '.join(map(repr, ROUNDINGS))}, got {rounding!r}")


def unit(words: jax.Array) -> jax.Array:
    """Turn random 32-bit words into float32, uniform over the multiples of 2^-24 in [0, 1)."""
    return (words >> 8).astype(jnp.float32) * np.float32(2**-24)


def one_of(word: jax.Array, count: int) -> jax.Array:
    """Turn a random 32-bit word into int32, uniform over 0 .. count - 1 to within count / 2^32."""
    return (word % np.uint32(count)).astype(jnp.int32)

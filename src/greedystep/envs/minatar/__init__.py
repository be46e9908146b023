"""The five MinAtar games (Young and Tian, 2019), written from their rules; equal to version 1.0.15 step for step.

Here is their base class: board, actions, sticky actions, options and observation. A game is a subclass of `MinAtar` in
a file of its own. It is made of a NamedTuple of small arrays (its position) and

- the class variables `title`, `channels`, `minimal` and, where chance plays a part, `start_words` and `step_words`;
- `chance_of_start(words)` and `chance(words)`: random 32-bit words -> the random numbers that the rules need;
- `first(chance)` -> position; `play(chance, position, action)` -> position, reward, terminated; `rows(position)`.

Everything here runs for thousands of games at once and a hundred million times, so the games keep to one shape: scalars
and bit masks, no branches, no gathers or scatters, and one call of the random generator per step.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.checks import check_float
from greedystep.envs.core import Environment, ObservationSpec, Step

SIZE = 10  # the board has 10 rows and 10 columns; row 0 is the top one, column 0 the left one
ACTIONS = ("none", "left", "up", "right", "down", "fire")
NONE, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
ROW = np.arange(SIZE, dtype=np.int32)
VERSIONS = ("1.0.15", "1.0.10")


class Draws(NamedTuple):
    """Random numbers of one step of a MinAtar game."""

    repeat: jax.Array  # bool: the action executed last replaces the one given
    chance: Any  # the output of the game's `chance`


class State(NamedTuple):
    """State of a MinAtar game: its position and the last action, which may be repeated (sticky actions)."""

    position: Any  # state of the particular game
    executed: jax.Array  # int32: the action executed last, one of all six; outlives the episode (`start_after`)
    over: jax.Array  # bool: the episode has ended, and further steps change nothing


@dataclass(frozen=True)
class MinAtar(Environment):
    """Base class of the MinAtar games; a game on a board of 10 x 10 cells.

    Args:
        sticky: the probability with which a step executes the action of the step before instead of the one given. The
            last action of an episode may be repeated in the first step of the next; a bare `reset` remembers none.
        ramping: whether the game becomes harder with time. (Breakout and Freeway never do.)
        actions: "full", the six actions that all games share, or "minimal", those that have an effect in the game.
        version: of the original, "1.0.15" or "1.0.10"; they differ in Seaquest's oxygen alone.
    """

    sticky: float = 0.1
    ramping: bool = True
    actions: str = "full"
    version: str = VERSIONS[0]

    title: ClassVar[str]  # the part of the name after the slash
    channels: ClassVar[tuple[str, ...]]  # what the channels of the observation show
    minimal: ClassVar[tuple[int, ...]]  # the actions that have an effect in the game
    start_words: ClassVar[int] = 0  # random 32-bit words that `chance_of_start` needs
    step_words: ClassVar[int] = 0  # random 32-bit words that `chance` needs

    def __post_init__(self) -> None:
        check_float("sticky", self.sticky, 0, 1)
        if not isinstance(self.ramping, (bool, np.bool_)):
            raise ValueError(f"ramping: expected True or False, got {self.ramping!r}")
        if self.actions not in ("full", "minimal"):
            raise ValueError(f"actions: expected 'full' or 'minimal', got {self.actions!r}")
        if self.version not in VERSIONS:
            raise ValueError(f"version: expected {' or '.join(map(repr, VERSIONS))}, got {self.version!r}")

    # -- what a game defines ------------------------------------------------------------------------------------------

    def chance_of_start(self, words: jax.Array) -> Any:
        """Turn uint32 [start_words] into the random numbers that `first` needs."""
        return ()

    def chance(self, words: jax.Array) -> Any:
        """Turn uint32 [step_words] into the random numbers that `play` needs."""
        return ()

    @abstractmethod
    def first(self, chance: Any) -> Any:
        """Return the first position of an episode, given the random numbers of `chance_of_start`."""

    @abstractmethod
    def play(self, chance: Any, position: Any, action: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        """Apply the rules for one step; return (position, integer reward, terminated). `action` is a code, 0..5."""

    @abstractmethod
    def rows(self, position: Any) -> list[jax.Array]:
        """Return for each channel the lit cells of the board's rows as bit masks, uint32 [10]: bit x is column x."""

    # -- the protocol -------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return f"minatar/{self.title}"

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.sticky > 0 or self.step_words > 0

    @property
    def action_codes(self) -> tuple[int, ...]:
        """The code among all six actions, 0..5, of each action of this environment."""
        return self.minimal if self.actions == "minimal" else tuple(range(len(ACTIONS)))

    @property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(ACTIONS[code] for code in self.action_codes)

    @property
    def observation(self) -> ObservationSpec:
        return ObservationSpec((SIZE, SIZE, len(self.channels)), np.dtype(bool), False, True)

    def draw_start(self, key: jax.Array) -> Any:
        return self.chance_of_start(jax.random.bits(key, (self.start_words,))) if self.start_words else ()

    def start(self, draws: Any) -> State:
        return State(self.first(draws), jnp.int32(NONE), jnp.bool_(False))

    def start_after(self, draws: Any, state: State) -> State:
        return self.start(draws)._replace(executed=state.executed)

    def draw(self, key: jax.Array) -> Draws:
        words = jax.random.bits(key, (1 + self.step_words,))
        return Draws(below(words[0], self.sticky), self.chance(words[1:]))

    def advance(self, draws: Draws, state: State, action: jax.Array) -> tuple[State, Step]:
        executed = jnp.where(draws.repeat, state.executed, self._code(action))
        position, reward, terminated = self.play(draws.chance, state.position, executed)
        position = jax.tree.map(lambda old, new: jnp.where(state.over, old, new), state.position, position)
        reward = jnp.where(state.over, 0, reward).astype(jnp.float32)
        over = state.over | terminated
        return State(position, executed, over), Step(reward, over, jnp.bool_(False))

    def observe(self, state: State) -> jax.Array:
        masks = jnp.stack(self.rows(state.position), axis=-1)
        return (masks[:, None, :] >> ROW[None, :, None].astype(np.uint32)) & 1 != 0

    def _code(self, action: jax.Array) -> jax.Array:
        """Return the code among all six actions, 0..5, of an action; the lookup table is one word, 3 bits per entry."""
        action = action.astype(jnp.int32)
        if self.actions == "full":
            return action
        table = sum(code << 3 * index for index, code in enumerate(self.minimal))
        return (jnp.int32(table) >> 3 * action) & 7


# -- chance and bits ---------------------------------------------------------------------------------------------------


def below(word: jax.Array, probability: float) -> jax.Array:
    """Return True with this probability, to within 2^-25, from the upper 24 bits of a random word."""
    return (word >> 8) < np.uint32(round(probability * 2**24))


def fraction(word: jax.Array) -> jax.Array:
    """Return a uniform number in [0, 1) as multiples of 2^-28, for `part`: the upper 28 bits of a random word."""
    return word >> 4


def part(fraction: jax.Array, count: jax.Array) -> jax.Array:
    """Divide [0, 1) into `count` <= 16 equal parts and return the index of the one that holds `fraction`."""
    return (fraction * count) >> 28


def cell(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return a board with one lit cell (x, y) as bit masks of its rows, uint32 [10]; all dark if y is off the board."""
    return jnp.where(y == ROW, jnp.uint32(1) << x.astype(jnp.uint32), jnp.uint32(0))

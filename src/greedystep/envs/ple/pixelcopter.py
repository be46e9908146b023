"""PLE's Pixelcopter: keep a helicopter inside a winding cave and off the blocks in it; it climbs faster than it falls.

The original makes the cave in batches of 48 pieces, the next one when 13 pieces are left. Nothing looks at a piece
before it is near the screen, and where pieces stand is not random. So here the height of a piece is drawn when it
becomes one of the 14 leftmost ones, which is the same game: by then the original has drawn it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.ple import LOSS, POSITIVE, PLEGame, check_rounding, one_of, unit

X = 16  # column of the player, who is 2 pixels wide and high
TOP, BOTTOM = 6, 42  # the player dies beyond these rows
CLIMB, FALL, FRICTION = -0.56, 0.0576, 0.99
BLOCK_HEIGHT = 9
PLACES = 24  # A block begins in one of as many columns from 48, and of as many rows from 12
HALF_GAP = 12
PIECES, BATCH = 14, 48  # pieces in the state; pieces that the original makes at once
FREQUENCY = 0.09375
PIXEL, SCROLL, WIDTH = 25, 16, 4 * 25
"""Units of the grid that the cave stands on, 25ths of a pixel: of a pixel, of a step's scroll, of a piece's width."""
SEAM = 52  # the first piece of a batch stands 2.08 pixels after the last one before it (and 4 pixels the others)
UNDER = slice(3, 7)  # no other pieces can be above or below the player


class Block(NamedTuple):
    """Place of a block, which is 4 pixels wide."""

    x: jax.Array  # int32: column of its centre in 25ths of a pixel
    y: jax.Array  # int32: row of its centre; it covers rows y - 4 .. y + 4.


class Draws(NamedTuple):
    """Random numbers of a step or of a first state."""

    block: Block  # the next block, used if one is due
    frequency: jax.Array  # float32, radians per pixel: of the next batch of the cave, used if one is due
    phases: jax.Array  # float32, radians: [14] for a start; scalar for a step, that of the next piece, if one is due


class State(NamedTuple):
    """State of Pixelcopter."""

    y: jax.Array  # float32: row of the player
    momentum: jax.Array  # float32: rows per step
    block: Block  # the next block
    passed: Block  # the block before it
    cave_x: jax.Array  # int32: column of the leftmost piece, in 25ths of a pixel
    number: jax.Array  # int32: number of that piece in its batch, 0 .. 47.
    first_batch: jax.Array  # bool: whether its batch is the first one
    frequency: jax.Array  # float32: of the batch of the rightmost piece
    cave: jax.Array  # int32 [14]: rows of the middle of the gap, from left to right
    over: jax.Array  # bool


@dataclass(frozen=True)
class Pixelcopter(PLEGame):
    """Pixelcopter: fly through a cave; +1 for every piece of it and every block passed, -5 for a crash, the end.

    Observation: [y, momentum, y - upper wall, lower wall - y, distance to the next block, its y, its y + 9], in pixels
    and pixels per step; the walls are those of the leftmost piece that touches the player.

    Args:
        rounding: "round" (pygame since 2.3.0) or "truncate" (older ones): how coordinates become whole pixels. It
            decides which things touch, and nothing else.
    """

    rounding: str = "round"

    title = "pixelcopter"
    action_names = ("up", "none")
    default_limit: ClassVar[int | None] = 500
    # In one step nobody leaves rows 6..42 by more than the speed reached on the way through, below 7 pixels per step.
    bounds = ((-1, 49), (-7, 7), (-19, 43), (-19, 43), (0, 56), (12, 35), (21, 44))

    def __post_init__(self) -> None:
        check_rounding(self.rounding)

    def draw(self, key: jax.Array) -> Draws:
        return self._draws(jax.random.bits(key, (3,)))

    def draw_start(self, key: jax.Array) -> Draws:
        return self._draws(jax.random.bits(key, (2 + PIECES,)))

    def _draws(self, words: jax.Array) -> Draws:
        place = one_of(words[0], PLACES * PLACES)
        block = Block(PIXEL * (48 + place % PLACES), 12 + place // PLACES)
        phases = np.float32(0.5) * unit(words[2:] if words.shape[0] > 3 else words[2])
        return Draws(block, np.float32(FREQUENCY - 0.01) + np.float32(0.02) * unit(words[1]), phases)

    def start(self, draws: Draws) -> State:
        return State(
            y=jnp.float32(24),
            momentum=jnp.float32(0),
            block=draws.block,
            passed=Block(jnp.int32(-4 * PIXEL), jnp.int32(24)),
            cave_x=jnp.int32(2 * PIXEL),
            number=jnp.int32(0),
            first_batch=jnp.bool_(True),
            frequency=draws.frequency,
            cave=_gap(draws.frequency, 2 + 4 * np.arange(PIECES, dtype=np.int32), draws.phases),
            over=jnp.bool_(False),
        )

    def play(self, draws: Draws, state: State, action: jax.Array) -> tuple[State, jax.Array]:
        thrust = jnp.where(action == 0, np.float32(CLIMB), np.float32(FALL))
        momentum = (state.momentum + thrust) * np.float32(FRICTION)
        y = state.y + momentum
        block, passed = (old._replace(x=old.x - SCROLL) for old in (state.block, state.passed))
        state = state._replace(y=y, momentum=momentum, cave_x=state.cave_x - SCROLL)

        row = jnp.floor(y + np.float32(0.5) if self.rounding == "round" else y)
        hit = self._strikes(block, row) | self._strikes(passed, row)
        middle = state.cave[UNDER]
        walls = (y - np.float32(2.4) <= middle - HALF_GAP) | (y >= middle + HALF_GAP)
        over = hit | jnp.any(self._touching(state) & walls) | (y < TOP) | (y > BOTTOM)

        # The block before has long gone when the next one is passed: there are never more than two.
        behind = block.x <= X * PIXEL
        passed = jax.tree.map(lambda new, old: jnp.where(behind, new, old), block, passed)
        block = jax.tree.map(lambda new, old: jnp.where(behind, new, old), draws.block, block)
        gone = state.cave_x <= -WIDTH
        state = self._scrolled(draws, state, gone)._replace(block=block, passed=passed, over=over)
        return state, POSITIVE * behind + POSITIVE * gone + LOSS * over

    def observe(self, state: State) -> jax.Array:
        touching = self._touching(state)
        first = touching & ~jnp.pad(touching[:-1], (1, 0))
        middle = jnp.sum(jnp.where(first, state.cave[UNDER], 0)).astype(jnp.float32)
        above, below = state.y - (middle - HALF_GAP), (middle + HALF_GAP) - state.y
        ahead = (state.block.x - X * PIXEL).astype(jnp.float32) / PIXEL
        block = (state.block.y.astype(jnp.float32), (state.block.y + BLOCK_HEIGHT).astype(jnp.float32))
        return jnp.stack([state.y, state.momentum, above, below, ahead, *block])

    def cave_columns(self, state: State) -> jax.Array:
        """Return int32 [14]: columns of the centres of the cave's pieces, in 25ths of a pixel."""
        index = np.arange(PIECES, dtype=np.int32)
        return state.cave_x + WIDTH * index - jnp.where(state.number + index >= BATCH, WIDTH - SEAM, 0)

    # -- the rules in parts -------------------------------------------------------------------------------------------

    def _strikes(self, block: Block, row: jax.Array) -> jax.Array:
        # The original's float64 lies a little below the exact column of a block from its first step on.
        return self._in_reach(block.x, below=True) & (block.y - 5 < row) & (row < block.y + 6)

    def _touching(self, state: State) -> jax.Array:
        """Return bool [4]: which of the cave's pieces `UNDER` the player touches; one of them, or two neighbours."""
        number = state.number + np.arange(PIECES, dtype=np.int32)[UNDER]
        start = jnp.where(number >= BATCH, 50 - 4 * BATCH, jnp.where(state.first_batch, 2, 50)) + 4 * number
        # The original's float64 lies a little below the exact column, except for pieces that begin far to the right
        # and for the one that begins where it matters.
        return self._in_reach(self.cave_columns(state)[UNDER], below=(start < 142) & (start != 14))

    def _in_reach(self, x: jax.Array, below: jax.Array | bool) -> jax.Array:
        """Whether something 4 pixels wide with its centre at x shares a column with the player (columns 14 .. 18).

        Rounding meets no ties (halves of a pixel are not on the grid), truncation does: `below` says which side of x
        the original's sum of many float64 steps lies on.
        """
        if self.rounding == "round":
            return (x >= 14 * PIXEL - PIXEL // 2) & (x <= 18 * PIXEL + PIXEL // 2)
        return (14 * PIXEL + below <= x) & (x < 19 * PIXEL + below)

    def _scrolled(self, draws: Draws, state: State, gone: jax.Array) -> State:
        """Return the state with a new rightmost piece of the cave, if the leftmost one has left the screen."""
        number, new = state.number, state.number + PIECES
        frequency = jnp.where(gone & (new == BATCH), draws.frequency, state.frequency)
        start = jnp.where(new >= BATCH, 50 - 4 * BATCH, jnp.where(state.first_batch, 2, 50)) + 4 * new
        longer = jnp.append(state.cave, _gap(frequency, start, draws.phases))
        last = number == BATCH - 1
        return state._replace(
            cave_x=state.cave_x + jnp.where(gone, jnp.where(last, SEAM, WIDTH), 0),
            number=jnp.where(gone, jnp.where(last, 0, number + 1), number),
            first_batch=state.first_batch & ~(gone & last),
            frequency=frequency,
            cave=jnp.where(gone, longer[1:], longer[:-1]),
        )


def _gap(frequency: jax.Array, start: jax.Array | np.ndarray, phase: jax.Array) -> jax.Array:
    """Return int32: the row of the middle of the gap in cave pieces that begin in column `start`."""
    height = 24 + 6 * jnp.sin(frequency * start + phase)
    return jnp.minimum(height.astype(jnp.int32), 29)  # near the crest float32 would say 30

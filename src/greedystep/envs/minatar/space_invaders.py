"""MinAtar Space Invaders: waves of 24 aliens come down and shoot back; +1 per alien. Nothing in it is random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from greedystep.envs.core import int32s
from greedystep.envs.minatar import FIRE, LEFT, NONE, RIGHT, ROW, SIZE, MinAtar, cell

HEIGHT, WIDTH = 4, 6  # size of a wave of aliens
WAVE = (1 << HEIGHT * WIDTH) - 1
COLUMN, TOP = 2, 0  # where a new wave appears
SHOT_COOL_DOWN, ALIEN_SHOT_PERIOD = 5, 10
MOVE_PERIOD, MOVE_PERIOD_MIN = 12, 6


class Position(NamedTuple):
    """State of the game; numbers are int32.

    The aliens of a wave move as one, so they are a mask and the place of the wave's corner. There are never more than
    two own bullets (nine steps of life, five between shots), and one of the aliens.
    """

    aliens: jax.Array  # uint32: bit 6 i + j is the alien in row i and column j of the wave
    column: jax.Array  # of the wave's left border; it is off the board when that border is dead
    top: jax.Array  # the row of the wave's upper border
    to_left: jax.Array  # bool: the aliens go left
    move_period: jax.Array
    move_timer: jax.Array
    alien_shot_timer: jax.Array
    bomb_x: jax.Array  # the aliens' bullet; row 10 for none
    bomb_y: jax.Array
    x: jax.Array  # the cannon's column; its row is 9
    shot_timer: jax.Array
    new_x: jax.Array  # the latest own bullet; row -1 for none
    new_y: jax.Array
    old_x: jax.Array  # the one before
    old_y: jax.Array


@dataclass(frozen=True)
class SpaceInvaders(MinAtar):
    """Space Invaders: shoot waves of aliens, which move the faster the fewer they are.

    They shoot every tenth step from the column nearest to the cannon. A bullet, an alien on the cannon's cell, or
    aliens in the last row that turn at the border end the game. With `ramping`, every cleared wave makes the next one
    faster, until the seventh.
    """

    title = "space_invaders"
    channels = ("cannon", "alien", "alien going left", "alien going right", "own bullet", "alien bullet")
    minimal = (NONE, LEFT, RIGHT, FIRE)

    def first(self, chance: tuple[()]) -> Position:
        timers = int32s(move_timer=MOVE_PERIOD, alien_shot_timer=ALIEN_SHOT_PERIOD, shot_timer=0)
        bullets = int32s(bomb_x=0, bomb_y=SIZE, new_x=0, new_y=-1, old_x=0, old_y=-1)
        others = int32s(column=COLUMN, top=TOP, move_period=MOVE_PERIOD, x=5)
        return Position(aliens=jnp.uint32(WAVE), to_left=jnp.bool_(True), **others, **timers, **bullets)

    def play(self, chance: tuple[()], position: Position, action: jax.Array) -> tuple[Position, jax.Array, jax.Array]:
        aliens, column, top, to_left = position[:4]

        fires = (action == FIRE) & (position.shot_timer == 0)
        old_x = jnp.where(fires, position.new_x, position.old_x)
        old_y = jnp.where(fires, position.new_y, position.old_y)
        new_x = jnp.where(fires, position.x, position.new_x)
        new_y = jnp.where(fires, SIZE - 1, position.new_y)
        shot_timer = jnp.where(fires, SHOT_COOL_DOWN, position.shot_timer)
        x = jnp.clip(position.x + (action == RIGHT) - (action == LEFT), 0, SIZE - 1)

        new_y, old_y = jnp.maximum(new_y - 1, -1), jnp.maximum(old_y - 1, -1)
        bomb_x, bomb_y = position.bomb_x, jnp.minimum(position.bomb_y + 1, SIZE)
        over = (bomb_x == x) & (bomb_y == SIZE - 1)
        over |= at(aliens, column, top, x, SIZE - 1) != 0

        moves = position.move_timer == 0
        count = jax.lax.population_count(aliens).astype(jnp.int32)
        move_timer = jnp.where(moves, jnp.minimum(count, position.move_period), position.move_timer)
        lit = columns(aliens, column)
        turns = moves & (jnp.where(to_left, lit, lit >> (SIZE - 1)) & 1 != 0)
        over |= turns & (in_row(aliens, top, SIZE - 1) != 0)
        column = column + jnp.where(moves & ~turns, jnp.where(to_left, -1, 1), 0)
        top = top + turns
        to_left = to_left ^ turns
        over |= at(aliens, column, top, x, SIZE - 1) != 0

        shoots = position.alien_shot_timer == 0
        alien_shot_timer = jnp.where(shoots, ALIEN_SHOT_PERIOD, position.alien_shot_timer)
        shooter = nearest(columns(aliens, column), x)
        bomb_x = jnp.where(shoots, shooter, bomb_x)
        bomb_y = jnp.where(shoots, lowest(aliens, top, shooter - column), bomb_y)

        hit_new, hit_old = at(aliens, column, top, new_x, new_y), at(aliens, column, top, old_x, old_y)
        aliens = aliens & ~hit_new & ~hit_old
        reward = (hit_new != 0).astype(jnp.int32) + (hit_old != 0)

        cleared = aliens == 0
        faster = cleared & (position.move_period > MOVE_PERIOD_MIN) & self.ramping
        position = Position(
            aliens=jnp.where(cleared, jnp.uint32(WAVE), aliens),
            column=jnp.where(cleared, COLUMN, column),
            top=jnp.where(cleared, TOP, top),
            to_left=to_left,
            move_period=position.move_period - faster,
            move_timer=move_timer - 1,
            alien_shot_timer=alien_shot_timer - 1,
            bomb_x=bomb_x,
            bomb_y=bomb_y,
            x=x,
            shot_timer=jnp.maximum(shot_timer - 1, 0),
            new_x=new_x,
            new_y=jnp.where(hit_new != 0, -1, new_y),
            old_x=old_x,
            old_y=jnp.where(hit_old != 0, -1, old_y),
        )
        return position, reward, over

    def rows(self, position: Position) -> list[jax.Array]:
        aliens = shifted(in_row(position.aliens, position.top, ROW), position.column)
        return [
            cell(position.x, jnp.int32(SIZE - 1)),
            aliens,
            jnp.where(position.to_left, aliens, 0),
            jnp.where(position.to_left, 0, aliens),
            cell(position.new_x, position.new_y) | cell(position.old_x, position.old_y),
            cell(position.bomb_x, position.bomb_y),
        ]


# -- a wave and the board ----------------------------------------------------------------------------------------------


def wave_row(top: jax.Array, y: ArrayLike) -> jax.Array:
    """Return the row of the wave that lies in row y of the board; rows below the board come in at the top."""
    row = y - top
    return jnp.where(row < 0, row + SIZE, row)


def in_row(aliens: jax.Array, top: jax.Array, y: ArrayLike) -> jax.Array:
    """Return the aliens in row y of the board as a mask: bit j is column j of the wave."""
    row = wave_row(top, y)
    shift = WIDTH * jnp.minimum(row, HEIGHT)  # beyond the wave, where all bits are 0
    return (aliens >> shift.astype(jnp.uint32)) & ((1 << WIDTH) - 1)


def shifted(mask: jax.Array, column: jax.Array) -> jax.Array:
    """Return a mask of the wave's columns as a mask of the board's; aliens left of the board are dropped."""
    return (mask << (column + WIDTH).astype(jnp.uint32)) >> WIDTH


def columns(aliens: jax.Array, column: jax.Array) -> jax.Array:
    """Return the mask of the board's columns that hold an alien."""
    both = aliens | (aliens >> 2 * WIDTH)
    return shifted((both | (both >> WIDTH)) & ((1 << WIDTH) - 1), column)


def at(aliens: jax.Array, column: jax.Array, top: jax.Array, x: jax.Array, y: ArrayLike) -> jax.Array:
    """Return the alien in cell (x, y) as a mask of the wave; 0 if there is none, or y is -1."""
    i, j = wave_row(top, y), x - column
    inside = (i < HEIGHT) & (j >= 0) & (j < WIDTH) & (jnp.asarray(y) >= 0)
    place = jnp.uint32(1) << (jnp.clip(WIDTH * i + j, 0, 31)).astype(jnp.uint32)
    return jnp.where(inside, aliens & place, 0)


def nearest(lit: jax.Array, x: jax.Array) -> jax.Array:
    """Return the index of the set bit of `lit` nearest to x, the left one of two; at least one must be set."""
    shift = x.astype(jnp.uint32)
    left, right = lit & ((jnp.uint32(2) << shift) - 1), lit >> shift
    to_left = x - (31 - jax.lax.clz(left).astype(jnp.int32))
    to_right = 31 - jax.lax.clz(right & -right).astype(jnp.int32)
    return jnp.where((left != 0) & ((right == 0) | (to_left <= to_right)), x - to_left, x + to_right)


def lowest(aliens: jax.Array, top: jax.Array, j: jax.Array) -> jax.Array:
    """Return the lowest row of the board with an alien in column j of the wave."""
    y = jnp.int32(0)
    for i in range(HEIGHT):
        alive = (aliens >> (WIDTH * i + j).astype(jnp.uint32)) & 1 != 0
        row = top + i
        y = jnp.where(alive, jnp.maximum(y, jnp.where(row >= SIZE, row - SIZE, row)), y)
    return y

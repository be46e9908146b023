"""MinAtar Freeway: a chicken crosses eight lanes of traffic; +1 per crossing, 2501 steps per episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from greedystep.envs.minatar import DOWN, NONE, ROW, SIZE, UP, MinAtar, cell, packed_rows

COLUMN, COOL_DOWN = 4, 3  # of the chicken
CLOCK, CLASSES = 2500, 5


class Chance(NamedTuple):
    """Random numbers of a step: speeds of the new cars after a crossing, a number per row (`packed_rows`)."""

    slowness: jax.Array  # 1..5, evenly
    right: jax.Array  # flags: they drive to the right


class Position(NamedTuple):
    """State of the game; the first four fields are `packed_rows` (a number per row in one word), others are int32."""

    place: jax.Array  # the columns of the cars
    slowness: jax.Array  # a car moves every slowness + 1 steps
    timer: jax.Array
    right: jax.Array
    y: jax.Array  # the chicken's row
    cool_down: jax.Array
    clock: jax.Array


@dataclass(frozen=True)
class Freeway(MinAtar):
    """Freeway: cross eight lanes of traffic. The chicken may move every third step; a car sends it back to the bottom.

    Every crossing brings new cars.
    """

    title = "freeway"
    channels = ("chicken", "car", *(f"speed {level}" for level in range(1, CLASSES + 1)))
    minimal = (NONE, UP, DOWN)
    start_words = 3
    step_words = 3

    def chance(self, words: jax.Array) -> Chance:
        """Return eight random digits to the base 5, four from each of two words, uniform to within 5^4 / 2^32."""
        slowness = jnp.uint32(0)
        for half in range(2):
            rest = words[half]
            for lane in range(4 * half, 4 * half + 4):
                slowness |= (1 + rest % CLASSES) << 4 * lane
                rest = rest // CLASSES
        return Chance(slowness, words[2] & packed_rows.ONES)

    chance_of_start = chance

    def first(self, chance: Chance) -> Position:
        cars = jnp.uint32(0), chance.slowness, chance.slowness, chance.right
        return Position(*cars, jnp.int32(SIZE - 1), jnp.int32(COOL_DOWN), jnp.int32(CLOCK))

    def play(self, chance: Chance, position: Position, action: jax.Array) -> tuple[Position, jax.Array, jax.Array]:
        place, slowness, timer, right, y, cool_down, clock = position

        up, down = ((cool_down == 0) & (action == way) for way in (UP, DOWN))
        y = jnp.minimum(y - up + down, SIZE - 1)
        cool_down = jnp.where(up | down, COOL_DOWN, cool_down)

        across = y == 0
        slowness = jnp.where(across, chance.slowness, slowness)
        timer = jnp.where(across, chance.slowness, timer)
        right = jnp.where(across, chance.right, right)
        y = jnp.where(across, SIZE - 1, y)

        moves = packed_rows.equal(timer, 0)
        to_left = moves & ~right
        moved = place + (moves & right) + 10 * (to_left & packed_rows.equal(place, 0)) - to_left
        moved = moved & ~(packed_rows.equal(moved, SIZE) * 15)
        timer = packed_rows.keep(slowness, moves) + timer - (packed_rows.ONES & ~moves)

        lane = jnp.minimum(y, 8)
        hit = (y < 9) & ((packed_rows.of_row(place, lane) == COLUMN) | (packed_rows.of_row(moved, lane) == COLUMN))
        y = jnp.where(hit, SIZE - 1, y)
        clock = clock - 1
        position = Position(moved, slowness, timer, right, y, jnp.maximum(cool_down - 1, 0), clock)
        return position, across, clock < 0

    def rows(self, position: Position) -> list[jax.Array]:
        place, slowness, _, right = map(packed_rows.by_row, position[:4])
        car = jnp.where((ROW >= 1) & (ROW <= 8), jnp.uint32(1) << place, 0)
        behind = jnp.where(right != 0, (car >> 1) | (car << 9), (car << 1) | (car >> 9))
        trails = [jnp.where(slowness == level, behind, 0) for level in range(1, CLASSES + 1)]
        return [cell(jnp.int32(COLUMN), position.y), car, *trails]

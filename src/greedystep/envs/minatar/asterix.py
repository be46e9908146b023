"""MinAtar Asterix: gold and enemies cross the board in eight rows; +1 per piece of gold, an enemy ends the game."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from greedystep.envs.core import int32s
from greedystep.envs.minatar import DOWN, LEFT, NONE, RIGHT, SIZE, UP, MinAtar, below, cell, fraction, packed_rows, part

SPAWN_PERIOD, MOVE_PERIOD, RAMP_WAIT = 10, 5, 100


class Chance(NamedTuple):
    """Random numbers of a step: row, direction and kind of the next object, used if one is due."""

    right: jax.Array  # bool: it comes from the left and goes right
    gold: jax.Array  # bool, probability 1/3
    where: jax.Array  # which of the empty rows: uint32, a `fraction`


class Position(NamedTuple):
    """State of the game; the first three fields are `packed_rows` (a number per row in one word), others are int32."""

    place: jax.Array  # 1 + the column of the object in a row, 0 for none: one that leaves on the left becomes none
    gold: jax.Array  # flags: it is gold and no enemy
    right: jax.Array  # flags: it goes right
    x: jax.Array  # the player's column
    y: jax.Array  # the player's row, 1..8
    spawn_period: jax.Array
    spawn_timer: jax.Array
    move_period: jax.Array
    move_timer: jax.Array
    ramp_timer: jax.Array
    ramps: jax.Array


@dataclass(frozen=True)
class Asterix(MinAtar):
    """Asterix: collect gold and avoid enemies, which cross the board in eight rows, at most one object per row.

    Every `spawn_period` steps a new object comes, every `move_period` steps all objects move. With `ramping`, every 102
    steps the spawn period falls by one, down to 1, and every other time the move period too.
    """

    title = "asterix"
    channels = ("player", "enemy", "trail", "gold")
    minimal = (NONE, LEFT, UP, RIGHT, DOWN)
    step_words = 2

    def chance(self, words: jax.Array) -> Chance:
        return Chance(words[0] & 1 != 0, below(words[0], 1 / 3), fraction(words[1]))

    def first(self, chance: tuple[()]) -> Position:
        spawn, move = jnp.int32(SPAWN_PERIOD), jnp.int32(MOVE_PERIOD)
        nothing, numbers = jnp.uint32(0), int32s(x=5, y=5, ramp_timer=RAMP_WAIT, ramps=0)
        periods = {"spawn_period": spawn, "spawn_timer": spawn, "move_period": move, "move_timer": move}
        return Position(nothing, nothing, nothing, **numbers, **periods)

    def play(self, chance: Chance, position: Position, action: jax.Array) -> tuple[Position, jax.Array, jax.Array]:
        place, gold, right, x, y, spawn_period, spawn_timer, move_period, move_timer, ramp_timer, ramps = position

        spawns = spawn_timer == 0
        empty = packed_rows.equal(place, 0)
        rank = part(chance.where, jax.lax.population_count(empty))
        newcomer = jnp.where(spawns, empty & packed_rows.equal(packed_rows.prefix_sums(empty), rank + 1), 0)
        place = place + newcomer * jnp.where(chance.right, jnp.uint32(1), jnp.uint32(SIZE))
        gold = jnp.where(chance.gold, gold | newcomer, gold & ~newcomer)
        right = jnp.where(chance.right, right | newcomer, right & ~newcomer)
        spawn_timer = jnp.where(spawns, spawn_period, spawn_timer)

        x = jnp.clip(x + (action == RIGHT) - (action == LEFT), 0, SIZE - 1)
        y = jnp.clip(y + (action == DOWN) - (action == UP), 1, 8)

        def meet(place: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            """Take the gold in the player's cell; return (objects left, whether there was gold, whether an enemy)."""
            met = packed_rows.of_row(place, y) == (x + 1).astype(jnp.uint32)
            golden = packed_rows.of_row(gold, y) != 0
            taken = met & golden
            return jnp.where(taken, place & ~(packed_rows.flag_of(y) * 15), place), taken, met & ~golden

        place, taken, caught = meet(place)
        moves = move_timer == 0
        there = ~packed_rows.equal(place, 0) & packed_rows.ONES
        moved = place + (there & right) - (there & ~right)
        moved = moved & ~(packed_rows.equal(moved, SIZE + 1) * 15)
        place, taken_too, caught_too = meet(jnp.where(moves, moved, place))  # meets nobody new where nothing moved
        move_timer = jnp.where(moves, move_period, move_timer)

        if self.ramping:
            ramping = (spawn_period > 1) | (move_period > 1)
            due = ramping & (ramp_timer < 0)
            ramp_timer = jnp.where(due, RAMP_WAIT, ramp_timer - ramping)
            move_period = move_period - (due & (move_period > 1) & (ramps & 1 != 0))
            spawn_period = spawn_period - (due & (spawn_period > 1))
            ramps = ramps + due

        timers = (spawn_period, spawn_timer - 1, move_period, move_timer - 1, ramp_timer, ramps)
        return Position(place, gold, right, x, y, *timers), taken | taken_too, caught | caught_too

    def rows(self, position: Position) -> list[jax.Array]:
        place, gold, right = map(packed_rows.by_row, position[:3])
        ahead = jnp.uint32(1) << place  # one column to the right of the object
        objects = ahead >> 1
        trail = jnp.where(right != 0, ahead >> 2, jnp.where(place != 0, ahead, 0))
        return [cell(position.x, position.y), jnp.where(gold != 0, 0, objects), trail, jnp.where(gold != 0, objects, 0)]

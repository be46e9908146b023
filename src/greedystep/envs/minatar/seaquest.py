"""MinAtar Seaquest: shoot what swims, collect divers, and come up for air in time.

The original keeps lists of objects and loops over them. Here nothing is listed: a row of the board is a mask of ten
bits, all objects of a kind are the ten masks of the board's rows, moving is shifting, and meeting is a bitwise "and".
This is exact because the order of the loops shows in three places only, and these need no list:

- Enemies of a row all go one way, for a newcomer that would go against them is turned away. So none overtakes another,
  and those that share a cell (at most three, once they move every third step) wait there for different times, the
  oldest one for the shortest. A shot hits the oldest fish of its cell, or else the oldest submarine.
- There are never more than two shots, in different cells. None competes with another for a target.
- A diver comes every 30 steps and is gone after 60, so there are at most two, an older and a newer one, and all divers
  move in the same steps, every sixth. With one place left on board and two divers at hand, the newer one is taken.

There are three kinds of masks of a row: plain ones, where bit x is column x; flights, where bits 0..9 are what goes
right and bits 16..25 what goes left; and schedules, where bits 0..9, 10..19 and 20..29 are what moves in this step, the
next and the one after that (or, for the far schedule, three steps later each).

A diver is a number: 0 for none, or its row (1..8), plus 16 if it goes right; where it is follows from the clock. The
newer of the two has swum floor((30 - t) / 6) cells when t steps are left until the next one comes, and the older one 5
cells more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.core import int32s
from greedystep.envs.minatar import ACTIONS, DOWN, FIRE, LEFT, RIGHT, ROW, SIZE, UP, MinAtar, below, cell

LINE = np.uint32((1 << SIZE) - 1)  # all cells of a row
AIR = 200
MAX_ABOARD = 6  # divers
DIVER_PERIOD = 30  # steps from one diver to the next
SHOT_PERIOD = 5
CLOCK = 11  # steps between two torpedoes of a submarine
RAMPS = 19  # surfacings after which enemies come no faster: then one in each step
FISH = 15

CODE_BITS = np.arange(4, dtype=np.uint32)[:, None]


class Chance(NamedTuple):
    """Random numbers of a step: the next enemy and the next diver, used if they are due."""

    enemy_right: jax.Array  # bool: it enters in column 0 and goes right
    enemy_sub: jax.Array  # bool: a submarine, not a fish
    enemy_row: jax.Array  # int32, 1..8
    diver_right: jax.Array
    diver_row: jax.Array


class Position(NamedTuple):
    """State of the game; numbers are int32, masks of rows uint32 [10] (row 0 is the top, row 9 is always empty)."""

    x: jax.Array
    y: jax.Array
    right: jax.Array  # bool: which way the player looks
    at_surface: jax.Array  # bool: the air has been refilled and the player has not been under water since
    air: jax.Array
    aboard: jax.Array  # divers on board; negative after a rescue, for a surfacing costs one, and only 0 is deadly
    # Schedules of the enemies, whose four masks together give the code of who is there: 0 is nobody, 15 a fish, and
    # 1..11 a submarine that fires whenever the clock shows it.
    near: jax.Array  # [4, 10]: of those that move in this step, the next or the one after
    far: jax.Array  # [4, 10]: the same of those that move three steps later each
    rightward: jax.Array  # bool [10]: which way the enemies of a row go
    shots: jax.Array  # [10]: the player's; bits 0..9 go right, bits 16..25 left
    torpedoes: jax.Array  # [10]: the same for the enemies'
    newer: jax.Array  # the diver that came last, and the one before; numbered as above
    older: jax.Array
    enemy_timer: jax.Array
    diver_timer: jax.Array
    shot_timer: jax.Array
    clock: jax.Array  # 1..11, one further every step
    ramp: jax.Array  # surfacings, as far as they made the game harder


@dataclass(frozen=True)
class Seaquest(MinAtar):
    """Seaquest: +1 per fish or submarine shot; bringing up six divers pays the tenths of air that are left.

    Surfacing refills the air and costs a diver; without divers, without air and at any touch of an enemy the game ends.
    With every surfacing enemies come more often, with some they swim faster.

    In version 1.0.10 the game goes on for one step more when the air is used up, and a bar that should be empty shows
    nine tenths. (Six divers brought up in the very last step then pay -1, the floor of the tenths left.)
    """

    title = "seaquest"
    channels = ("player", "back", "shot", "trail", "torpedo", "fish", "submarine", "air", "divers aboard", "diver")
    minimal = tuple(range(len(ACTIONS)))
    step_words = 1

    def chance(self, words: jax.Array) -> Chance:
        word = words[0]
        right, row = (lambda bit: word >> bit & 1 != 0), (lambda bit: (word >> bit & 7).astype(jnp.int32) + 1)
        return Chance(right(0), below(word, 1 / 3), row(1), right(4), row(5))

    def first(self, chance: tuple[()]) -> Position:
        nothing, nobody = jnp.zeros(SIZE, jnp.uint32), jnp.zeros((4, SIZE), jnp.uint32)
        return Position(
            **int32s(x=5, y=0, air=AIR, aboard=0, newer=0, older=0, clock=1, ramp=0),
            **int32s(enemy_timer=20, diver_timer=DIVER_PERIOD, shot_timer=0),
            right=jnp.bool_(False),
            at_surface=jnp.bool_(True),
            rightward=jnp.zeros(SIZE, bool),
            near=nobody,
            far=nobody,
            shots=nothing,
            torpedoes=nothing,
        )

    def play(self, chance: Chance, position: Position, action: jax.Array) -> tuple[Position, jax.Array, jax.Array]:
        p = position
        wait = jnp.maximum(2, 5 - (p.ramp >> 1))  # the move timer of an enemy that has just come or moved

        # Enemies and divers come.
        some_near, some_far = once(union(p.near)), once(union(p.far))
        fish_near = once(intersection(p.near))
        firing_near, firing_far = once(coded(p.near, p.clock)), once(coded(p.far, p.clock))
        enemy_due, diver_due = p.enemy_timer == 0, p.diver_timer == 0
        welcome = (some_near | some_far == 0) | (p.rightward == chance.enemy_right)
        entered = enemy_due & (chance.enemy_row == ROW) & welcome
        rightward = jnp.where(entered, chance.enemy_right, p.rightward)
        fresh = jnp.where(entered, jnp.where(chance.enemy_right, jnp.uint32(1), jnp.uint32(1 << SIZE - 1)), 0)
        fresh_near, fresh_far = waiting(fresh, wait)
        some_near, some_far = some_near | fresh_near, some_far | fresh_far
        fish_near |= jnp.where(chance.enemy_sub, 0, fresh_near)
        older = jnp.where(diver_due, p.newer, p.older)
        newer = jnp.where(diver_due, newcomer(chance.diver_row, chance.diver_right), p.newer)
        diver_timer = jnp.where(diver_due, DIVER_PERIOD, p.diver_timer)

        # The player acts, and its shots fly.
        fires = (action == FIRE) & (p.shot_timer == 0)
        shots = fly(p.shots | jnp.where(fires, heading(cell(p.x, p.y), p.right), 0))
        x = jnp.clip(p.x + (action == RIGHT) - (action == LEFT), 0, SIZE - 1)
        y = jnp.clip(p.y + (action == DOWN) - (action == UP), 0, SIZE - 2)
        right = (p.right | (action == RIGHT)) & (action != LEFT)

        # They hit what they meet. Only enemies with timers 0, 1 and 2 share cells.
        aim = lines(shots)
        fish_met = fish_near & thrice(aim)
        subs_met = some_near & ~fish_near & thrice(aim & ~fold(fish_met))
        hit_near = once(oldest(fish_met) | oldest(subs_met))
        hit_far = once(some_far & thrice(aim))
        hit = fold(hit_near | hit_far)
        some_near, some_far = some_near & ~hit_near, some_far & ~hit_far

        # Divers swim; the newer one is taken first.
        aboard, progress, to = p.aboard, swum(diver_timer), swum(diver_timer - 1)
        newer, aboard = swim(newer, aboard, x, y, progress, to)
        older, aboard = swim(older, aboard, x, y, progress + 5, to + 5)

        # Enemies move and fire (also one that is being shot), torpedoes fly. Who moves into a shot is hit.
        moved = ahead(some_near & LINE, rightward)
        hit_moving = once(moved & lines(shots) & ~hit)
        firing_near &= ~hit_near
        firing = ahead(firing_near & LINE, rightward) | fold((firing_near & ~LINE) | (firing_far & ~hit_far))
        fired = p.torpedoes | heading(firing, rightward)
        torpedoes = fly(fired)
        shots &= ~both(hit | hit_moving)

        met = fold(some_near | some_far) | moved | lines(fired | torpedoes)
        touched = met & cell(x, y) != 0
        kills = jax.lax.population_count(hit) + jax.lax.population_count(hit_moving)
        tally = jnp.sum(kills + jnp.where(touched, jnp.uint32(16), 0), dtype=jnp.uint32)

        code = jnp.where(chance.enemy_sub, jnp.where(p.clock == 1, CLOCK, p.clock - 1), FISH)
        bits = code.astype(jnp.uint32) >> CODE_BITS & 1
        near = (p.near | fresh_near * bits) & ~hit_near
        far = (p.far | fresh_far * bits) & ~hit_far
        moved_near, moved_far = waiting(ahead(near & LINE, rightward) & ~hit_moving, wait)

        # Air and divers.
        no_air = p.air <= 0 if self.version == "1.0.15" else p.air < 0
        under = y > 0
        up = ~under & ~p.at_surface
        lost = up & (aboard == 0)
        surfacing = up & (aboard != 0)
        rescue = surfacing & (aboard == MAX_ABOARD)

        left = lambda timer: jnp.maximum(timer - 1, 0)  # noqa: E731
        after = Position(
            x=x,
            y=y,
            right=right,
            at_surface=~under & (p.at_surface | surfacing),
            air=jnp.where(surfacing, AIR, p.air - under),
            aboard=once(jnp.where(rescue, 0, aboard) - surfacing),
            near=once(near >> SIZE | (far & LINE) << 2 * SIZE | moved_near),
            far=once(far >> SIZE | moved_far),
            rightward=rightward,
            shots=once(shots),
            torpedoes=once(torpedoes),
            newer=once(newer),
            older=once(older),
            enemy_timer=left(jnp.where(enemy_due, 20 - p.ramp, p.enemy_timer)),
            diver_timer=left(diver_timer),
            shot_timer=left(jnp.where(fires, SHOT_PERIOD, p.shot_timer)),
            clock=jnp.where(p.clock == CLOCK, 1, p.clock + 1),
            ramp=jnp.minimum(p.ramp + surfacing, RAMPS) if self.ramping else p.ramp,
        )
        reward = (tally & 15).astype(jnp.int32) + jnp.where(rescue, tenths(p.air), 0)
        terminated = (tally >= 16) | no_air | lost
        return after, reward, once(terminated.astype(jnp.uint32)) != 0

    def rows(self, position: Position) -> list[jax.Array]:
        p = position
        some = fold(union(p.near) | union(p.far))
        fish = fold(intersection(p.near) | intersection(p.far))
        subs = fold((union(p.near) & ~intersection(p.near)) | (union(p.far) & ~intersection(p.far)))
        player = cell(p.x, p.y)
        progress = swum(p.diver_timer)
        newer, older = diver_cell(p.newer, progress), diver_cell(p.older, progress + 5)
        trails = [(some, p.rightward), (newer, goes_right(p.newer)), (older, goes_right(p.older))]
        bar = tenths(p.air)
        bar = jnp.maximum(bar, 0) if self.version == "1.0.15" else jnp.where(bar < 0, SIZE - 1, bar)
        aboard = jnp.maximum(p.aboard, 0)
        return [
            player,
            ahead(player, ~p.right),
            lines(p.shots),
            union([ahead(cells, ~right) for cells, right in trails]),
            lines(p.torpedoes),
            fish,
            subs,
            jnp.where(ROW == SIZE - 1, (jnp.uint32(1) << bar.astype(jnp.uint32)) - 1, 0),
            jnp.where(ROW == SIZE - 1, (LINE >> 1) & ~(LINE >> 1 + aboard.astype(jnp.uint32)), 0),
            newer | older,
        ]


def tenths(air: jax.Array) -> jax.Array:
    """Return floor(air / 20) for air in -19..200, without a division."""
    return air * 205 >> 12


# -- masks -------------------------------------------------------------------------------------------------------------


def once(mask: jax.Array) -> jax.Array:
    """Return the same mask (unless it is all ones) as a value that XLA computes once, however often it is used.

    XLA recomputes cheap operations in every kernel that uses them, which is slow for ten kernels. It never recomputes a
    division, and modulo 2^32 - 1 changes nothing.
    """
    return jax.lax.rem(mask, jnp.full_like(mask, jnp.iinfo(mask.dtype).max))


def union(masks: jax.Array | Sequence[jax.Array]) -> jax.Array:
    """Return the bitwise "or" of a few masks."""
    return reduce(or_, [masks[i] for i in range(len(masks))])


def intersection(masks: jax.Array | Sequence[jax.Array]) -> jax.Array:
    """Return the bitwise "and" of a few masks."""
    return reduce(and_, [masks[i] for i in range(len(masks))])


def coded(masks: jax.Array, code: jax.Array) -> jax.Array:
    """Return the cells whose number, written in binary across these masks (lowest bit first), is `code`."""
    return intersection([jnp.where(code >> bit & 1 != 0, mask, ~mask) for bit, mask in enumerate(masks)])


# -- plain masks -------------------------------------------------------------------------------------------------------


def ahead(mask: jax.Array, rightward: jax.Array) -> jax.Array:
    """Move a plain mask's cells by one column, right or left; what leaves the board is gone."""
    return jnp.where(rightward, mask << 1, mask >> 1) & LINE


# -- flights -----------------------------------------------------------------------------------------------------------


def heading(mask: jax.Array, rightward: jax.Array) -> jax.Array:
    """Return a plain mask (bit x is column x) as a flight mask, all cells going the same way."""
    return jnp.where(rightward, mask, mask << 16)


def lines(flight: jax.Array) -> jax.Array:
    """Return the plain mask (bit x is column x) of a flight mask: its cells without their directions."""
    return (flight | flight >> 16) & LINE


def both(mask: jax.Array) -> jax.Array:
    """Return the flight mask with the cells of a plain mask going in both directions."""
    return mask | mask << 16


def fly(flight: jax.Array) -> jax.Array:
    """Move a flight mask by one step, each cell in its direction; what leaves the board is gone."""
    return flight << 1 & LINE | flight >> 1 & LINE >> 1 << 16


# -- schedules ---------------------------------------------------------------------------------------------------------


def waiting(mask: jax.Array, timer: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the near and the far schedule mask of cells that move in `timer` steps, 2..5."""
    far = timer > 2
    shift = (SIZE * jnp.where(far, timer - 3, 2)).astype(jnp.uint32)
    return jnp.where(far, 0, mask << shift), jnp.where(far, mask << shift, 0)


def fold(schedule: jax.Array) -> jax.Array:
    """Return the plain mask of a schedule mask: its cells without their times."""
    return (schedule | schedule >> SIZE | schedule >> 2 * SIZE) & LINE


def thrice(mask: jax.Array) -> jax.Array:
    """Return the schedule mask with the cells of a plain mask at all three times."""
    return mask * np.uint32(1 | 1 << SIZE | 1 << 2 * SIZE)


def oldest(schedule: jax.Array) -> jax.Array:
    """Return the schedule mask with each cell kept only at its earliest time."""
    return schedule & ~(schedule << SIZE | schedule << 2 * SIZE)


# -- divers ----------------------------------------------------------------------------------------------------------


def newcomer(row: jax.Array, right: jax.Array) -> jax.Array:
    """Return a diver in this row as a number: the row, plus 16 if it goes right."""
    return row + 16 * right


def goes_right(diver: jax.Array) -> jax.Array:
    """Whether the diver, given as a number, goes right."""
    return diver >= 16


def swum(diver_timer: jax.Array) -> jax.Array:
    """Return how many cells the newer diver has swum, given the steps until the next one comes, without a division."""
    return (DIVER_PERIOD - diver_timer) * 43 >> 8


def column(diver: jax.Array, progress: jax.Array) -> jax.Array:
    """Return the column of a diver, given as a number (`newcomer`), that has swum `progress` cells."""
    return jnp.where(goes_right(diver), progress, SIZE - 1 - progress)


def diver_cell(diver: jax.Array, progress: jax.Array) -> jax.Array:
    """Return the board with one lit cell, where a diver is that has swum `progress` cells, as row masks uint32 [10]."""
    return jnp.where(diver > 0, cell(column(diver, progress), diver & 15), 0)


def swim(
    diver: jax.Array, aboard: jax.Array, x: jax.Array, y: jax.Array, progress: jax.Array, to: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Move a diver, which the player at (x, y) may pick up before or after the move; return (diver, number aboard)."""
    met = (column(diver, progress) == x) | (column(diver, to) == x)
    taken = (diver > 0) & (diver & 15 == y) & met & (aboard < MAX_ABOARD)
    return jnp.where(taken | (to == SIZE), 0, diver), aboard + taken

"""Seaquest's objects as bit masks of rows, uint32 [10], one bit per column: how they move and meet.

Three kinds of masks: plain ones, where bit x is column x; flights, where bits 0..9 are what goes right and bits 16..25
what goes left; and schedules, where bits 0..9, 10..19 and 20..29 are what moves in this step, the next and the one
after that (or, for the far schedule, three steps later each).

A diver is a number: 0 for none, or its row (1..8), plus 16 if it goes right; where it is follows from the clock. The
newer of the two has swum floor((30 - t) / 6) cells when t steps are left until the next one comes, and the older one 5
cells more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.minatar.game import SIZE, cell

LINE = np.uint32((1 << SIZE) - 1)
"""All cells of a row."""


def once(mask: jax.Array) -> jax.Array:
    """Return the same mask (unless it is all ones), computed once however often it is used.

    XLA recomputes cheap operations in every kernel that uses them, which is slow for ten kernels. It never recomputes a
    division, and modulo 2^32 - 1 changes nothing.
    """
    return jax.lax.rem(mask, jnp.full_like(mask, jnp.iinfo(mask.dtype).max))


def union(masks: jax.Array | Sequence[jax.Array]) -> jax.Array:
    """Return the bits that are set in any of a few masks."""
    return reduce(or_, [masks[i] for i in range(len(masks))])


def intersection(masks: jax.Array | Sequence[jax.Array]) -> jax.Array:
    """Return the bits that are set in all of a few masks."""
    return reduce(and_, [masks[i] for i in range(len(masks))])


def coded(masks: jax.Array, code: jax.Array) -> jax.Array:
    """Return the cells whose code, written in binary across these masks (lowest bit first), is this number."""
    return intersection([jnp.where(code >> bit & 1 != 0, mask, ~mask) for bit, mask in enumerate(masks)])


# -- plain masks -------------------------------------------------------------------------------------------------------


def ahead(mask: jax.Array, rightward: jax.Array) -> jax.Array:
    """Move by one cell; what leaves the board is gone."""
    return jnp.where(rightward, mask << 1, mask >> 1) & LINE


# -- flights -----------------------------------------------------------------------------------------------------------


def heading(mask: jax.Array, rightward: jax.Array) -> jax.Array:
    """Return the flight of a plain mask in this direction."""
    return jnp.where(rightward, mask, mask << 16)


def lines(flight: jax.Array) -> jax.Array:
    """Return the plain mask of a flight."""
    return (flight | flight >> 16) & LINE


def both(mask: jax.Array) -> jax.Array:
    """Return the flight with these cells in both directions."""
    return mask | mask << 16


def fly(flight: jax.Array) -> jax.Array:
    """Move by one cell; what leaves the board is gone."""
    return flight << 1 & LINE | flight >> 1 & LINE >> 1 << 16


# -- schedules ---------------------------------------------------------------------------------------------------------


def waiting(mask: jax.Array, timer: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the near and far schedule of what moves in `timer` steps, 2..5."""
    far = timer > 2
    shift = (SIZE * jnp.where(far, timer - 3, 2)).astype(jnp.uint32)
    return jnp.where(far, 0, mask << shift), jnp.where(far, mask << shift, 0)


def fold(schedule: jax.Array) -> jax.Array:
    """Return the plain mask of a schedule."""
    return (schedule | schedule >> SIZE | schedule >> 2 * SIZE) & LINE


def thrice(mask: jax.Array) -> jax.Array:
    """Return the schedule with these cells at all three times."""
    return mask * np.uint32(1 | 1 << SIZE | 1 << 2 * SIZE)


def oldest(schedule: jax.Array) -> jax.Array:
    """Keep in each cell only the bit of the earliest time."""
    return schedule & ~(schedule << SIZE | schedule << 2 * SIZE)


# -- divers ----------------------------------------------------------------------------------------------------------

DIVER_PERIOD = 30
"""Steps from one diver to the next."""
MAX_ABOARD = 6
"""The most divers on board."""


def newcomer(row: jax.Array, right: jax.Array) -> jax.Array:
    """Return the number of a diver in this row that goes this way."""
    return row + 16 * right


def goes_right(diver: jax.Array) -> jax.Array:
    """Whether the diver goes right."""
    return diver >= 16


def swum(diver_timer: jax.Array) -> jax.Array:
    """Return the cells that the newer diver has swum when the timer shows this, without a division."""
    return (DIVER_PERIOD - diver_timer) * 43 >> 8


def column(diver: jax.Array, progress: jax.Array) -> jax.Array:
    """Return the column of a diver that has swum so many cells."""
    return jnp.where(goes_right(diver), progress, SIZE - 1 - progress)


def diver_cell(diver: jax.Array, progress: jax.Array) -> jax.Array:
    """Return the masks of rows, uint32 [10], of a diver that has swum so many cells."""
    return jnp.where(diver > 0, cell(column(diver, progress), diver & 15), 0)


def swim(
    diver: jax.Array, aboard: jax.Array, x: jax.Array, y: jax.Array, progress: jax.Array, to: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Move a diver, which the player may pick up before or after the move; return (diver, number aboard)."""
    met = (column(diver, progress) == x) | (column(diver, to) == x)
    taken = (diver > 0) & (diver & 15 == y) & met & (aboard < MAX_ABOARD)
    return jnp.where(taken | (to == SIZE), 0, diver), aboard + taken

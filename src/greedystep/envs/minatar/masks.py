"""Objects as bit masks of rows, uint32 [10], one bit a column: how Seaquest's objects move and meet.

Three kinds of masks: plain ones, where bit x is column x; flights, where bits 0..9 are what goes right and bits 16..25
what goes left; and schedules, where bits 0..9, 10..19 and 20..29 are what moves in this step, the next and the one
after that (or, for the far schedule, three steps later each).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.minatar.game import SIZE

LINE = np.uint32((1 << SIZE) - 1)
"""All cells of a row."""


def once(mask: jax.Array) -> jax.Array:
    """The same mask (unless it is all ones), computed once however often it is used.

    XLA likes to compute cheap things again in every kernel that wants them, and what is cheap for each of ten kernels
    is not for all. It does so with no division, and modulo 2^32 - 1 is one that changes nothing.
    """
    return jax.lax.rem(mask, jnp.full_like(mask, jnp.iinfo(mask.dtype).max))


def union(masks: jax.Array | Sequence[jax.Array]) -> jax.Array:
    """Bits that are in any of the masks, which are few."""
    return reduce(or_, [masks[i] for i in range(len(masks))])


def intersection(masks: jax.Array | Sequence[jax.Array]) -> jax.Array:
    """Bits that are in all of the masks, which are few."""
    return reduce(and_, [masks[i] for i in range(len(masks))])


def coded(masks: jax.Array, code: jax.Array) -> jax.Array:
    """Places whose code, the number written in binary in these masks (the first is the lowest bit), is this one."""
    return intersection([jnp.where(code >> bit & 1 != 0, mask, ~mask) for bit, mask in enumerate(masks)])


# -- plain masks -------------------------------------------------------------------------------------------------------


def ahead(mask: jax.Array, rightward: jax.Array) -> jax.Array:
    """One cell further; what leaves the board is gone."""
    return jnp.where(rightward, mask << 1, mask >> 1) & LINE


# -- flights -----------------------------------------------------------------------------------------------------------


def heading(mask: jax.Array, rightward: jax.Array) -> jax.Array:
    """Plain mask -> flight."""
    return jnp.where(rightward, mask, mask << 16)


def lines(flight: jax.Array) -> jax.Array:
    """Flight -> plain mask."""
    return (flight | flight >> 16) & LINE


def both(mask: jax.Array) -> jax.Array:
    """Plain mask -> the flight that has these cells both ways."""
    return mask | mask << 16


def fly(flight: jax.Array) -> jax.Array:
    """One cell further; what leaves the board is gone."""
    return flight << 1 & LINE | flight >> 1 & LINE >> 1 << 16


# -- schedules ---------------------------------------------------------------------------------------------------------


def waiting(mask: jax.Array, timer: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Plain mask -> near and far schedule of what waits so long, 2..5 steps."""
    far = timer > 2
    shift = (SIZE * jnp.where(far, timer - 3, 2)).astype(jnp.uint32)
    return jnp.where(far, 0, mask << shift), jnp.where(far, mask << shift, 0)


def fold(schedule: jax.Array) -> jax.Array:
    """Schedule -> plain mask."""
    return (schedule | schedule >> SIZE | schedule >> 2 * SIZE) & LINE


def thrice(mask: jax.Array) -> jax.Array:
    """Plain mask -> the schedule that has these cells at all three times."""
    return mask * np.uint32(1 | 1 << SIZE | 1 << 2 * SIZE)


def oldest(schedule: jax.Array) -> jax.Array:
    """In each cell the bit of the earliest time."""
    return schedule & ~(schedule << SIZE | schedule << 2 * SIZE)

"""Seaquest's divers. Where they are is a matter of the clock, so that all there is to remember is their rows and ways.

A diver is a number: 0 for none, or its row (1..8), and 16 more if it goes right. The newer of the two has swum
floor((30 - t) / 6) cells when t steps are left until the next one comes, and the older one 5 cells more.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from greedystep.envs.minatar.game import SIZE, cell

DIVER_PERIOD = 30
PLACES = 6
"""Divers that can be on board."""


def newcomer(row: jax.Array, right: jax.Array) -> jax.Array:
    return row + 16 * right


def goes_right(diver: jax.Array) -> jax.Array:
    return diver >= 16


def swum(diver_timer: jax.Array) -> jax.Array:
    """How many cells the newer diver has swum by then; without a division."""
    return (DIVER_PERIOD - diver_timer) * 43 >> 8


def column(diver: jax.Array, progress: jax.Array) -> jax.Array:
    return jnp.where(goes_right(diver), progress, SIZE - 1 - progress)


def diver_cell(diver: jax.Array, progress: jax.Array) -> jax.Array:
    """The masks of rows, uint32 [10], of a diver that has swum so far."""
    return jnp.where(diver > 0, cell(column(diver, progress), diver & 15), 0)


def swim(
    diver: jax.Array, aboard: jax.Array, x: jax.Array, y: jax.Array, progress: jax.Array, to: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Taken by the player before or after the move, or gone at the end of the row, or swimming on -> diver, aboard."""
    met = (column(diver, progress) == x) | (column(diver, to) == x)
    taken = (diver > 0) & (diver & 15 == y) & met & (aboard < PLACES)
    return jnp.where(taken | (to == SIZE), 0, diver), aboard + taken

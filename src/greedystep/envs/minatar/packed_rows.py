"""Packed rows: eight small numbers, one per row 1 to 8, in one 32-bit word, so that one operation serves all rows.

The number of row r, 0..15, is in bits 4 (r - 1) .. 4 (r - 1) + 3. Words add and subtract as if each row were alone, as
long as no row leaves 0..15. Flags are words of zeros and ones: `flags * 3` has 3 in the rows flagged.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.minatar import ROW

ONES = np.uint32(0x11111111)  # 1 in every row
_SHIFTS = (4 * np.clip(ROW - 1, 0, 7)).astype(np.uint32)
_HAS_FIELD = (ROW >= 1) & (ROW <= 8)


def equal(word: jax.Array, number: jax.Array | int) -> jax.Array:
    """Return flags (a word with 1 in the rows) of the rows whose number is `number`."""
    differ = word ^ (ONES * jnp.uint32(number))
    differ = differ | (differ >> 2)
    return ~(differ | (differ >> 1)) & ONES


def prefix_sums(flags: jax.Array) -> jax.Array:
    """Return in each row the number of flags in it and in the rows above (one product adds all shifted copies)."""
    return flags * ONES


def of_row(word: jax.Array, row: jax.Array) -> jax.Array:
    """Return the number in one row, uint32; the row must be in 1..8."""
    return (word >> (4 * (row - 1)).astype(jnp.uint32)) & 15


def flag_of(row: jax.Array) -> jax.Array:
    """Return the word with 1 in this row, 1..8, and 0 in all others."""
    return jnp.uint32(1) << (4 * (row - 1)).astype(jnp.uint32)


def keep(word: jax.Array, flags: jax.Array) -> jax.Array:
    """Return the word with 0 in all rows but those flagged."""
    return word & (flags * 15)


def by_row(word: jax.Array) -> jax.Array:
    """Unpack the word: uint32 [10], the number of each row of the board; 0 in rows 0 and 9."""
    return jnp.where(_HAS_FIELD, (word >> _SHIFTS) & 15, 0)

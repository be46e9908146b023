"""The keys of the random numbers of many rounds, which form a chain: each round's keys follow from those before.

    key, act_key, update_key = jax.random.split(key, 3)

On a GPU a chain of small arrays would be one kernel after the other, so a Pallas kernel walks along it alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep import conv_kernels

KEYS = 2
"""Keys of a round: that of acting and that of the updates."""
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Bits by which Threefry rotates words in four rounds, and in the next four (Salmon et al. 2011)."""
PARITY = 0x1BD11BDA


def round_keys(key: jax.Array, rounds: int) -> tuple[jax.Array, jax.Array]:
    """Return the key after all rounds, and the keys of each round, [rounds, KEYS]."""
    if rounds > 1 and conv_kernels.is_available() and _splits_by_counting(key):
        last, keys = _chain(jax.random.key_data(key), rounds)
        return jax.random.wrap_key_data(last), jax.random.wrap_key_data(keys)

    def one(key: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        split = jax.random.split(key, 1 + KEYS)
        return split[0], split[1:]

    if rounds == 1:
        key, keys = one(key, None)
        return key, keys[None]
    return lax.scan(one, key, length=rounds)


def _splits_by_counting(key: jax.Array) -> bool:
    """Return whether child i of a key is Threefry of the number i, as the kernel has it."""
    return jax.random.key_impl(key) == "threefry2x32" and jax.config.values["jax_threefry_partitionable"]


def _chain(key: jax.Array, rounds: int) -> tuple[jax.Array, jax.Array]:
    """Do what `round_keys` does with the two words of a key, uint32 [2]."""
    shapes = [jax.ShapeDtypeStruct(shape, jnp.uint32) for shape in ((2,), (rounds, KEYS, 2))]
    return conv_kernels.call(partial(_chain_kernel, rounds=rounds), (1,), shapes)(key)


def _chain_kernel(key: Any, last: Any, keys: Any, *, rounds: int) -> None:
    def one(i: jax.Array, words: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        for child in range(KEYS):
            keys[i, child, 0], keys[i, child, 1] = threefry(*words, jnp.uint32(0), jnp.uint32(1 + child))
        return threefry(*words, jnp.uint32(0), jnp.uint32(0))

    last[0], last[1] = lax.fori_loop(0, rounds, one, (key[0], key[1]))


def threefry(k0: jax.Array, k1: jax.Array, x0: jax.Array, x1: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Encrypt two words by the cipher Threefry-2x32 with 20 rounds; x = (0, i) gives child i of a key that is split."""
    schedule = (k0, k1, k0 ^ k1 ^ jnp.uint32(PARITY))
    x0, x1 = x0 + k0, x1 + k1
    for i in range(5):
        for bits in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = (x1 << jnp.uint32(bits)) | (x1 >> jnp.uint32(32 - bits))
            x1 = x1 ^ x0
        x0, x1 = x0 + schedule[(i + 1) % 3], x1 + schedule[(i + 2) % 3] + jnp.uint32(i + 1)
    return x0, x1

"""Packs the small arrays of a pytree into one array per dtype, since a compiled call costs time per array.

Passing an array through a compiled call takes JAX two to four microseconds on a CPU, and a training has some fifty
arrays, most of them tiny: packed, they are about five.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

MOST_ELEMENTS = 8_192
"""Arrays with more elements than this are not packed: to copy them would take longer than to pass them."""


class Packing:
    """Converts between a pytree of arrays and a short list of arrays: the large ones, then one per dtype.

    Args:
        example: a pytree of the same structure, shapes and dtypes; leaves may be `jax.ShapeDtypeStruct`. What is packed
            may have more leading axes.
    """

    def __init__(self, example: Any):
        leaves, self._structure = jax.tree.flatten(example)
        self._shapes = [tuple(leaf.shape) for leaf in leaves]
        self._large = [i for i, shape in enumerate(self._shapes) if math.prod(shape) > MOST_ELEMENTS]
        by_dtype: dict[Any, list[int]] = {}
        for i, leaf in enumerate(leaves):
            if i not in self._large:
                by_dtype.setdefault(leaf.dtype, []).append(i)
        self._groups = list(by_dtype.values())
        """Which leaves each of the arrays after the large ones is made of."""
        self.num_arrays = len(self._large) + len(self._groups)

    def pack(self, tree: Any) -> list[jax.Array]:
        """Return the leaves of the pytree as `num_arrays` arrays; large ones are returned as they are, not copied."""
        leaves = self._structure.flatten_up_to(tree)
        small = [[leaves[i] for i in group] for group in self._groups]
        return [leaves[i] for i in self._large] + self._concatenate(small)

    def unpack(self, arrays: Sequence[jax.Array | None]) -> Any:
        """Return the pytree of packed arrays; where one of them is None, so are its leaves."""
        leaves: list[Any] = [None] * len(self._shapes)
        for i, array in zip(self._large, arrays, strict=False):
            leaves[i] = array
        small = self._cut(list(arrays[len(self._large) :]))
        for group, found in zip(self._groups, small, strict=True):
            for i, leaf in zip(group, found, strict=True):
                leaves[i] = leaf
        return jax.tree.unflatten(self._structure, leaves)

    def needed(self, select: Callable[[Any], Any]) -> set[int]:
        """Return which of the arrays hold the leaves that `select` takes from the pytree."""
        holders = [[i] for i in self._large] + self._groups
        array_of = {i: array for array, group in enumerate(holders) for i in group}
        numbered = jax.tree.unflatten(self._structure, [array_of[i] for i in range(len(self._shapes))])
        return set(jax.tree.leaves(select(numbered)))

    # Both are compiled, so that outside of other compiled code they take one call each.

    @cached_property
    def _concatenate(self) -> Callable[[list[list[Any]]], list[jax.Array]]:
        def concatenate(groups: list[list[Any]]) -> list[jax.Array]:
            return [
                jnp.concatenate(
                    [self._flat(leaf, self._shapes[i]) for i, leaf in zip(group, leaves, strict=True)], axis=-1
                )
                for group, leaves in zip(self._groups, groups, strict=True)
            ]

        return jax.jit(concatenate)

    @staticmethod
    def _flat(leaf: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return leaf.reshape(*leaf.shape[: leaf.ndim - len(shape)], math.prod(shape))

    @cached_property
    def _cut(self) -> Callable[[list[Any]], list[list[Any]]]:
        def cut(arrays: list[Any]) -> list[list[Any]]:
            found = []
            for group, array in zip(self._groups, arrays, strict=True):
                at, leaves = 0, []
                for shape in (self._shapes[i] for i in group):
                    end = at + math.prod(shape)
                    leaves.append(None if array is None else array[..., at:end].reshape(*array.shape[:-1], *shape))
                    at = end
                found.append(leaves)
            return found

        return jax.jit(cut)

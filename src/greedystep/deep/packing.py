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
import numpy as np

MOST_ELEMENTS = 8_192
"""Arrays with more elements than this are not packed: to copy them would take longer than to pass them."""


class Packing:
    """Converts between a pytree of arrays and a short list of arrays: the large ones, then one per dtype.

    Args:
        example: a pytree of the same structure, shapes and dtypes; leaves may be `jax.ShapeDtypeStruct`. What is packed
            may have more leading axes.
        apart: takes some leaves from the pytree, which are packed among themselves.
    """

    def __init__(self, example: Any, apart: Callable[[Any], Any] = lambda tree: ()):
        leaves, self._structure = jax.tree.flatten(example)
        self._apart = jax.tree.leaves(apart(jax.tree.unflatten(self._structure, range(len(leaves)))))
        self._shapes = [tuple(leaf.shape) for leaf in leaves]
        self._large = [i for i, shape in enumerate(self._shapes) if math.prod(shape) > MOST_ELEMENTS]
        groups: dict[Any, list[int]] = {}
        for i, leaf in enumerate(leaves):
            if i not in self._large:
                groups.setdefault((leaf.dtype, i in self._apart), []).append(i)
        self._groups = list(groups.values())
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

    @cached_property
    def apart(self) -> list[int]:
        """Which of the arrays hold the leaves that are packed apart."""
        holders = [[i] for i in self._large] + self._groups
        return [array for array, group in enumerate(holders) if group[0] in self._apart]

    def host_leaves(self, arrays: Sequence[jax.Array]) -> list[np.ndarray]:
        """Return the leaves that are packed apart as NumPy arrays, in their order, once they are computed."""
        return [
            host if ends is None else host[..., slice(*ends)].reshape(*host.shape[:-1], *shape)
            for array, ends, shape in self._apart_places
            for host in (np.asarray(arrays[array]),)
        ]

    @cached_property
    def _apart_places(self) -> list[tuple[int, tuple[int, int] | None, tuple[int, ...]]]:
        """Array, place therein (None: all of it) and shape of each leaf that is packed apart."""
        places = {}
        for array, i in enumerate(self._large):
            places[i] = (array, None, self._shapes[i])
        for array, group in enumerate(self._groups, len(self._large)):
            end = 0
            for i in group:
                start, end = end, end + math.prod(self._shapes[i])
                places[i] = (array, (start, end), self._shapes[i])
        return [places[i] for i in self._apart]

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

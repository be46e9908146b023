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
    """

    def __init__(self, example: Any):
        leaves, self._structure = jax.tree.flatten(example)
        shapes = [tuple(leaf.shape) for leaf in leaves]
        self._large = [i for i, shape in enumerate(shapes) if math.prod(shape) > MOST_ELEMENTS]
        groups: dict[Any, list[int]] = {}
        for i, leaf in enumerate(leaves):
            if i not in self._large:
                groups.setdefault(leaf.dtype, []).append(i)
        self._groups = list(groups.values())
        """Which leaves each of the arrays after the large ones is made of."""
        self.num_arrays = len(self._large) + len(self._groups)
        self._places: list[tuple[int, slice | None, tuple[int, ...]]] = [(0, None, ())] * len(leaves)
        """Array, place in its last axis (None: all of it) and shape of each leaf."""
        for array, i in enumerate(self._large):
            self._places[i] = array, None, shapes[i]
        for array, group in enumerate(self._groups, len(self._large)):
            end = 0
            for i in group:
                start, end = end, end + math.prod(shapes[i])
                self._places[i] = array, slice(start, end), shapes[i]

    def pack(self, tree: Any) -> list[jax.Array]:
        """Return the leaves of the pytree as `num_arrays` arrays; large ones are returned as they are, not copied."""
        leaves = self._structure.flatten_up_to(tree)
        small = [[leaves[i] for i in group] for group in self._groups]
        return [leaves[i] for i in self._large] + self._concatenate(small)

    def unpack(self, arrays: Sequence[jax.Array]) -> Any:
        """Return the pytree of packed arrays."""
        return jax.tree.unflatten(self._structure, self._compiled_leaves(arrays))

    def host_leaves(self, arrays: Sequence[jax.Array]) -> list[np.ndarray]:
        """Return the leaves of packed arrays as NumPy arrays, in their order, once they are computed."""
        return self._leaves([np.asarray(array) for array in arrays])

    def _leaves(self, arrays: Sequence[Any]) -> list[Any]:
        return [
            arrays[at] if place is None else arrays[at][..., place].reshape(arrays[at].shape[:-1] + shape)
            for at, place, shape in self._places
        ]

    # Compiled, so that outside of other compiled code they take one call each.

    @cached_property
    def _compiled_leaves(self) -> Callable[[Sequence[Any]], list[Any]]:
        return jax.jit(self._leaves)

    @cached_property
    def _concatenate(self) -> Callable[[list[list[Any]]], list[jax.Array]]:
        def flat(i: int, leaf: jax.Array) -> jax.Array:
            shape = self._places[i][2]
            return leaf.reshape(*leaf.shape[: leaf.ndim - len(shape)], math.prod(shape))

        def concatenate(groups: list[list[Any]]) -> list[jax.Array]:
            return [
                jnp.concatenate([flat(i, leaf) for i, leaf in zip(group, leaves, strict=True)], axis=-1)
                for group, leaves in zip(self._groups, groups, strict=True)
            ]

        return jax.jit(concatenate)

"""Packs the small arrays of a pytree into one array per dtype, since a compiled call costs time per array.

Passing an array through a compiled call takes JAX two to four microseconds on a CPU, and a training has some fifty
arrays, most of them tiny: packed, they are about five.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
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
        self._shapes = [tuple(leaf.shape) for leaf in leaves]
        self._large = [i for i, shape in enumerate(self._shapes) if math.prod(shape) > MOST_ELEMENTS]
        groups: dict[Any, list[int]] = {}
        for i, leaf in enumerate(leaves):
            if i not in self._large:
                groups.setdefault(leaf.dtype, []).append(i)
        self._groups = list(groups.values())
        """Which leaves each of the arrays after the large ones is made of."""
        self.num_arrays = len(self._large) + len(self._groups)

    def pack(self, tree: Any) -> list[jax.Array]:
        """Return the leaves of the pytree as `num_arrays` arrays; large ones are returned as they are, not copied."""
        leaves = self._structure.flatten_up_to(tree)
        small = [[leaves[i] for i in group] for group in self._groups]
        return [leaves[i] for i in self._large] + self._concatenate(small)

    def unpack(self, arrays: Sequence[jax.Array]) -> Any:
        """Return the pytree of packed arrays."""
        return jax.tree.unflatten(self._structure, self._in_order(arrays, self._compiled_cut))

    def host_leaves(self, arrays: Sequence[jax.Array]) -> list[np.ndarray]:
        """Return the leaves of packed arrays as NumPy arrays, in their order, once they are computed."""
        return self._in_order([np.asarray(array) for array in arrays], self._cut)

    def _in_order(self, arrays: Sequence[Any], cut: Callable[[Sequence[Any]], list[list[Any]]]) -> list[Any]:
        """Return the leaves of packed arrays; `cut` cuts the small ones apart."""
        leaves = dict(zip(self._large, arrays, strict=False))
        for group, found in zip(self._groups, cut(arrays[len(self._large) :]), strict=True):
            leaves.update(zip(group, found, strict=True))
        return [leaves[i] for i in range(len(leaves))]

    @cached_property
    def _places(self) -> list[list[tuple[slice, tuple[int, ...]]]]:
        """Place in the array of its group, and shape, of each small leaf."""
        places = []
        for group in self._groups:
            ends = list(accumulate(math.prod(self._shapes[i]) for i in group))
            places.append([(slice(a, b), self._shapes[i]) for a, b, i in zip([0, *ends], ends, group, strict=False)])
        return places

    def _cut(self, arrays: Sequence[Any]) -> list[list[Any]]:
        return [
            [array[..., place].reshape(*array.shape[:-1], *shape) for place, shape in places]
            for array, places in zip(arrays, self._places, strict=True)
        ]

    # Compiled, so that outside of other compiled code they take one call each.

    @cached_property
    def _compiled_cut(self) -> Callable[[Sequence[Any]], list[list[Any]]]:
        return jax.jit(self._cut)

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

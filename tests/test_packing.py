"""Packing: a pytree comes back as it was, from few arrays; large arrays are not copied."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from greedystep.deep.packing import MOST_ELEMENTS, Packing

LARGE = (2, MOST_ELEMENTS)


@pytest.fixture(scope="module")
def tree():
    """Eight arrays of three lanes: seven small ones of two dtypes, and a large one."""
    shapes = {"w": (2, 4), "b": (4,), "count": (), "empty": (0, 3), "large": LARGE}
    floats = {name: np.random.default_rng(0).normal(size=(3, *shape)) for name, shape in shapes.items()}
    found = {name: jnp.asarray(x, jnp.float32) for name, x in floats.items()}
    return found | {"rows": jnp.arange(6).reshape(3, 2), "flags": jnp.ones((3, 2, 2), bool), "at": jnp.arange(3)}


@pytest.fixture(scope="module")
def packing(tree):
    one_lane = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), tree)
    return Packing(one_lane)


def test_a_tree_comes_back_as_it_was(tree, packing):
    arrays = packing.pack(tree)
    # The large one, then floats, integers and flags.
    assert len(arrays) == packing.num_arrays == 4
    assert arrays[0] is tree["large"]
    assert all(len(array) == 3 and array.ndim == 2 for array in arrays[1:])
    back = packing.unpack(arrays)
    jax.tree.map(np.testing.assert_array_equal, back, tree)
    assert jax.tree.map(lambda x: x.dtype, back) == jax.tree.map(lambda x: x.dtype, tree)


def test_one_lane_within_compiled_code(tree, packing):
    one = jax.tree.map(lambda x: x[1], tree)
    back = jax.jit(lambda tree: packing.unpack(packing.pack(tree)))(one)
    jax.tree.map(np.testing.assert_array_equal, back, one)


def test_leaves_on_the_host(tree, packing):
    leaves = packing.host_leaves(packing.pack(tree))
    assert all(isinstance(leaf, np.ndarray) for leaf in leaves)
    jax.tree.map(np.testing.assert_array_equal, leaves, jax.tree.leaves(tree))

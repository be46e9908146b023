"""Lanes on several devices: each device has an equal share of them and computes it alone.

Lanes are independent, so nothing is ever sent from one device to another. Arrays of lanes are [L, ...], and device d
of D holds the lanes d L/D to (d + 1) L/D - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

Device = Any
"""A `jax.Device`, which type checkers take for a variable."""


def lane_devices(lanes: int) -> list[Device]:
    """Return the devices for so many lanes: as many of this process's as divide their number.

    Where JAX was told to use one device (`jax_default_device`), it is that one.
    """
    chosen = jax.config.values["jax_default_device"]
    if chosen is not None:
        return [jax.local_devices(backend=chosen)[0] if isinstance(chosen, str) else chosen]
    devices = jax.local_devices()
    return devices[: max(n for n in range(1, len(devices) + 1) if lanes % n == 0)]


def spread(function: Callable[..., Any], devices: Sequence[Device], *lanes: Any) -> Any:
    """Apply `function` to arrays of lanes, [L, ...] each, on each device to its own share; for use under jit.

    Args:
        function: takes arrays of any number of lanes, and returns such arrays; it must treat lanes separately.
    """
    if len(devices) == 1:
        return function(*lanes)
    axis = PartitionSpec("lanes")
    mesh = Mesh(np.array(devices), ("lanes",))
    return jax.shard_map(function, mesh=mesh, in_specs=axis, out_specs=axis, check_vma=False)(*lanes)


def shares(lanes: Any) -> list[Any]:
    """Return the arrays [L/D, ...] of each device, without moving them; `[lanes]` where there is one device."""
    leaves, structure = jax.tree.flatten(lanes)
    if not isinstance(leaves[0], jax.Array) or len(leaves[0].sharding.device_set) == 1:
        return [lanes]
    columns = zip(*([shard.data for shard in leaf.addressable_shards] for leaf in leaves), strict=True)
    return [jax.tree.unflatten(structure, column) for column in columns]


def one_lane(lanes: Any, lane: int) -> Any:
    """Return the arrays of one lane, [...], on the device that holds it."""
    parts = shares(lanes)
    each = jax.tree.leaves(parts[0])[0].shape[0]
    return jax.tree.map(lambda x: x[lane % each], parts[lane // each])

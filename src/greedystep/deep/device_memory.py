"""Estimate the memory of compiled programs from the shapes that JAX traces, before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from greedystep.checks import check_memory

MATERIALISED = {"dot_general", "conv_general_dilated", "gather", "sort", "cumsum", "random_bits", "while", "scan"}
"""Operations whose results XLA writes to memory; most others are fused into the operations that use them."""


def tree_bytes(tree: Any) -> int:
    """Return the total bytes of the arrays (or ShapeDtypeStructs) of a pytree."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def check_device_memory(what: str, needed: int, devices: Sequence[Any] | None = None) -> None:
    """Raise MemoryError if `what` needs more bytes than a device has free.

    Args:
        needed: bytes on each device.
        devices: by default the first one. Those of a CPU share the memory of the machine.
    """
    used = devices or jax.local_devices()[:1]
    stats = [device.memory_stats() or {} for device in used]
    free = [one["bytes_limit"] - one["bytes_in_use"] for one in stats if "bytes_limit" in one]
    check_memory(what, needed if free else needed * len(used), min(free, default=None))


def largest_intermediate(traced: jax.stages.Traced) -> int:
    """Return the bytes of a traced program's largest intermediate array: memory it needs besides inputs and outputs.

    Of a program of several devices, the bytes on each.
    """
    return _largest(traced.jaxpr.jaxpr, tree_bytes(traced.out_info))


def _largest(jaxpr: Any, outputs: int) -> int:
    found = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name in MATERIALISED:
            written = tree_bytes([variable.aval for variable in equation.outvars])
            # A loop carries the outputs themselves, which are updated in place.
            found = max(found, written - outputs if equation.primitive.name in ("while", "scan") else written)
        for inner in _inner_programs(equation.params):
            # Within a shard_map all shapes, so also those of its outputs, are the shares of one device.
            is_share = equation.primitive.name == "shard_map"
            own = tree_bytes([variable.aval for variable in inner.outvars]) if is_share else outputs
            found = max(found, _largest(inner, own))
    return found


def _inner_programs(params: dict[str, Any]) -> Iterator[Any]:
    """Yield the jaxprs of loop bodies, branches and compiled functions among an operation's parameters."""
    for value in params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            program = getattr(one, "jaxpr", one)
            if hasattr(program, "eqns"):
                yield program

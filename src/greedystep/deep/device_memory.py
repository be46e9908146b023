"""How much memory compiled programs will need, told from the shapes that JAX traces before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from greedystep.memory import check_memory
from greedystep.replay import bytes_of

MATERIALISED = {"dot_general", "conv_general_dilated", "gather", "sort", "cumsum", "random_bits", "while", "scan"}
"""Operations whose results XLA writes to memory; those of most others are computed where they are used."""


def check_device_memory(what: str, needed: int) -> None:
    """`check_memory` of the device that computes; on a CPU that is the machine's memory."""
    stats = jax.local_devices()[0].memory_stats() or {}
    limit = stats.get("bytes_limit")
    check_memory(what, needed, None if limit is None else limit - stats["bytes_in_use"])


def largest_intermediate(traced: jax.stages.Traced) -> int:
    """Bytes of the most that one operation of the program writes besides its results: it needs at least this much."""
    return _largest(traced.jaxpr.jaxpr, bytes_of(traced.out_info))


def _largest(jaxpr: Any, results: int) -> int:
    found = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name in MATERIALISED:
            written = bytes_of([variable.aval for variable in equation.outvars])
            # A loop carries the results themselves, which are changed in their place.
            found = max(found, written - results if equation.primitive.name in ("while", "scan") else written)
        for inner in _programs_in(equation.params):
            found = max(found, _largest(inner, results))
    return found


def _programs_in(params: dict[str, Any]) -> Iterator[Any]:
    """The bodies of loops, branches and compiled functions."""
    for value in params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            program = getattr(one, "jaxpr", one)
            if hasattr(program, "eqns"):
                yield program

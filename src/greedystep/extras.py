"""Optional dependencies: what is missing, and the command that installs it.

The extra `deep` (JAX, Equinox, optax) is what networks and games need; planning, tables and returns on NumPy arrays
work without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

DEEP = ("jax", "jaxlib", "equinox", "optax")
"""Top-level modules of the extra `deep`."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says how to install it."""


@contextmanager
def deep_extra(needs: str = "this needs") -> Iterator[None]:
    """Within the block, turn a missing module of the extra `deep` into a MissingExtraError that names the extra.

    Args:
        needs: subject and verb of the sentence that says so.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        name = (problem.name or "").partition(".")[0]
        if name not in DEEP:
            raise
        sentence = f'{needs} {name}, which is not installed: pip install "greedystep[deep]"'
        raise MissingExtraError(sentence, name=name) from None

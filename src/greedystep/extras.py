"""Optional dependencies: what is missing, and the command that installs it.

The extra `deep` (JAX, Equinox, optax) is what networks and games need; planning, tables and returns on NumPy arrays
work without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

DEEP = ("jax", "jaxlib", "equinox", "optax")
"""Top-level modules of the extra `deep`."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says how to install it."""


@contextmanager
def importing_extra(extra: str, modules: Sequence[str], needs: str = "this needs") -> Iterator[None]:
    """Within the block, turn a missing module of an extra into a MissingExtraError that names the extra.

    Args:
        modules: its top-level modules.
        needs: subject and verb of the sentence that says so.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        name = (problem.name or "").partition(".")[0]
        if name not in modules:
            raise
        sentence = f'{needs} {name}, which is not installed: pip install "greedystep[{extra}]"'
        raise MissingExtraError(sentence, name=name) from None


def deep_extra(needs: str = "this needs") -> AbstractContextManager[None]:
    """Do so for the modules of the extra `deep`."""
    return importing_extra("deep", DEEP, needs)

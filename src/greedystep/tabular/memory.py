"""What a method keeps besides its table."""

from __future__ import annotations

from typing import Any

from greedystep.tabular.empirical import EmpiricalModel
from greedystep.tabular.stored import StoredEpisodes
from greedystep.tabular.updates import GREEDY_STEP_EXPECTED, GREEDY_STEP_STORED, MODEL

Memory = EmpiricalModel | StoredEpisodes | None

KINDS = {MODEL: EmpiricalModel, GREEDY_STEP_EXPECTED: EmpiricalModel, GREEDY_STEP_STORED: StoredEpisodes}
"""Code of the method -> the class of its memory; all others have none."""


def checked_memory(code: int, shape: tuple[int, ...], memory: Any = None) -> Any:
    """The memory to go on with, a new one if there is none yet; None for methods that keep nothing but their table."""
    kind = KINDS.get(code)
    if kind is None:
        if memory is not None:
            raise ValueError("memory: this method keeps nothing but its table")
        return None
    if memory is None:
        return kind(*shape)
    if not isinstance(memory, kind) or memory.shape != shape:
        raise ValueError(f"memory: expected {kind.__name__} of {shape[0]} states and {shape[1]} actions")
    return memory

"""What an observation looks like, compiled or of Gymnasium."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np


class ObservationSpec(NamedTuple):
    """Shape, dtype and range of an observation."""

    shape: tuple[int, ...]
    dtype: np.dtype
    low: Any  # smallest value, a number or an array of that shape; -inf where there is none
    high: Any
    is_quantity: bool = False
    """Whether a single integer measures something, such as a temperature, and is not the number of a state."""

    @property
    def num_states(self) -> int | None:
        """The number of states if an observation is the number of one, counted from 0; None if it is none."""
        if self.shape or self.dtype.kind not in "iu" or self.is_quantity:
            return None
        return int(self.high) + 1 if self.low >= 0 and np.isfinite(self.high) else None

    @property
    def expected(self) -> str:
        """What numbers an observation consists of, in words for messages."""
        if self.num_states is not None:
            return f"states 0 to {self.num_states - 1}"
        if self.dtype.kind == "b":
            return "true or false (1 or 0)"
        if self.dtype.kind in "iu":
            info = np.iinfo(self.dtype)
            return f"whole numbers from {info.min} to {info.max} ({self.dtype})"
        return f"finite numbers of {self.dtype}"


ENTRIES_AT_ONCE = 2**18
"""Entries of observations that are compared with what is stored at a time, so that only these are copied."""


def first_unfit(spec: ObservationSpec, observations: np.ndarray) -> tuple[int, Any] | None:
    """Return index and value of the first of many observations [T, *shape] that would be stored as something else.

    None if all are stored as they are, or rounded where the dtype is a float.
    """
    is_kept = np.can_cast(observations.dtype, spec.dtype, "safe")
    if is_kept and spec.num_states is None:
        return None
    rows = max(1, ENTRIES_AT_ONCE // max(1, math.prod(spec.shape)))
    for start in range(0, len(observations), rows):
        block = observations[start : start + rows]
        with np.errstate(invalid="ignore", over="ignore"):
            stored = block.astype(spec.dtype)
        wrong = ~np.isfinite(stored) if spec.dtype.kind == "f" else stored != block
        if spec.num_states is not None:
            wrong |= (block < 0) | (block >= spec.num_states)
        if wrong.any():
            at = np.unravel_index(int(wrong.argmax()), wrong.shape)
            return start + int(at[0]), block[at]
    return None


def check_spaces(env: Any, shape: tuple[int, ...], num_actions: int, argument: str = "env") -> None:
    """Raise ValueError, naming the argument, unless `env` has observations of that shape and as many actions."""
    for what, expected, got in (
        ("observations of shape", shape, env.observation.shape),
        ("a number of actions of", num_actions, env.num_actions),
    ):
        if expected != got:
            raise ValueError(f"{argument}: expected {what} {expected}, got {got} in {env.name}")

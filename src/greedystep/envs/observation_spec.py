"""What an observation looks like, compiled or of Gymnasium."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class ObservationSpec(NamedTuple):
    """Shape, dtype and range of an observation."""

    shape: tuple[int, ...]
    dtype: np.dtype
    low: Any  # smallest value, a number or an array of that shape; -inf where there is none
    high: Any


def check_spaces(env: Any, shape: tuple[int, ...], num_actions: int, argument: str = "env") -> None:
    """Raise ValueError, naming the argument, unless `env` has observations of that shape and as many actions."""
    for what, expected, got in (
        ("observations of shape", shape, env.observation.shape),
        ("a number of actions of", num_actions, env.num_actions),
    ):
        if expected != got:
            raise ValueError(f"{argument}: expected {what} {expected}, got {got} in {env.name}")

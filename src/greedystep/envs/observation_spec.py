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

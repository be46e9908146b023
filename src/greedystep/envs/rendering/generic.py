"""Images of any observation: bars for vectors, coloured cells for arrays of two or more dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.envs.core import Environment, ObservationSpec
from greedystep.envs.rendering.canvas import GREEN, ORANGE, PANEL, PINK, SKY, VERMILION, WHITE, YELLOW, Canvas, blend

COLOURS = (SKY, VERMILION, YELLOW, GREEN, ORANGE, PINK, WHITE)
"""One colour per channel, repeating."""


def size(env: Environment) -> tuple[float, float]:
    rows, columns, _ = _as_planes(env.observation.shape)
    return max(columns, 3), max(rows, 3)


def draw(canvas: Canvas, env: Environment, state: Any) -> None:
    spec = env.observation
    rows, columns, channels = _as_planes(spec.shape)
    values = shares(np.asarray(env.observe(state)), spec)
    left, top = (canvas.width - columns) / 2, (canvas.height - rows) / 2
    if len(spec.shape) < 2:  # bars from the bottom up
        for i, share in enumerate(values.ravel()):
            canvas.box(left + i + 0.1, 0.1, left + i + 0.9, canvas.height - 0.1, PANEL, round=0.1)
            bottom = canvas.height - 0.1
            canvas.box(left + i + 0.1, bottom - share * (canvas.height - 0.2), left + i + 0.9, bottom, SKY)
        return
    for (row, column, channel), share in np.ndenumerate(values.reshape(rows, columns, channels)):
        if channel == 0 or share > 0:
            colour = blend(PANEL, COLOURS[channel % len(COLOURS)], share)
            canvas.box(left + column + 0.04, top + row + 0.04, left + column + 0.96, top + row + 0.96, colour)


def shares(values: np.ndarray, spec: ObservationSpec) -> np.ndarray:
    """Return where each value lies in its range, 0 to 1; an arctangent maps unbounded ranges."""
    values = values.astype(np.float64)
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), values.shape) for bound in (spec.low, spec.high))
    finite = np.isfinite(low) & np.isfinite(high) & (high - low < 1e30)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        placed = (values - low) / (high - low)
    return np.clip(np.where(finite & (high > low), placed, 0.5 + np.arctan(values) / np.pi), 0, 1)


def _as_planes(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the rows, columns and channels of an image of that observation."""
    if len(shape) < 2:
        count = int(np.prod(shape, dtype=int))
        return max(2, round(count * 0.6)), count, 1
    return shape[0], shape[1], int(np.prod(shape[2:], dtype=int))

"""What the player thinks, drawn beside the game: a bar for each action, and how far its return looks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from greedystep.envs.rendering.canvas import GROUND, PANEL, QUIET, SKY, TEXT, YELLOW, Canvas
from greedystep.envs.rollout import Thought

WIDTH, HEIGHT = 100.0, 120.0
"""Units of the drawing; it is as high as the game's picture."""
ROOM = 78.0
"""For the bars."""


def beside(picture: np.ndarray, names: Sequence[str], thought: Thought | None) -> np.ndarray:
    """The picture, uint8 [H, W, 3], with the thought to its right; an empty panel where there is none."""
    height = len(picture)
    canvas = Canvas(WIDTH, HEIGHT, height / HEIGHT, PANEL)
    if thought is not None:
        _draw(canvas, names, thought)
    panel = canvas.array()
    gap = np.full((height, max(1, height // 60), 3), [int(GROUND[i : i + 2], 16) for i in (1, 3, 5)], np.uint8)
    return np.concatenate([picture, gap, panel], axis=1)


def _draw(canvas: Canvas, names: Sequence[str], thought: Thought) -> None:
    lowest, highest = min(thought.values), max(thought.values)
    each = min(14.0, ROOM / len(names))
    for row, (name, value) in enumerate(zip(names, thought.values, strict=True)):
        middle, chosen = 6 + each * (row + 0.5), row == thought.action
        share = (value - lowest) / (highest - lowest) if highest > lowest else 1.0
        canvas.text(28, middle, name[:10], 0.55 * each, YELLOW if chosen else TEXT, "rm")
        canvas.box(32, middle - 0.3 * each, 33 + 36 * share, middle + 0.3 * each, YELLOW if chosen else QUIET)
        canvas.text(98, middle, f"{value:.3g}", 0.55 * each, YELLOW if chosen else TEXT, "rm")
    if thought.target is not None:
        canvas.text(5, 96, "target", 8, TEXT, "lm")
        canvas.text(98, 96, f"{thought.target:.3g}", 8, SKY, "rm")
    if thought.lookahead is not None:
        canvas.text(5, 110, "looks ahead", 8, TEXT, "lm")
        canvas.text(98, 110, str(thought.lookahead), 12, SKY, "rm")

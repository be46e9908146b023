"""Images of the MinAtar games: the 10 x 10 cells that the agent sees, with a colour and a shape per channel."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from greedystep.envs.core import Environment
from greedystep.envs.rendering.canvas import (
    GREEN,
    ORANGE,
    PANEL,
    PINK,
    QUIET,
    SKY,
    VERMILION,
    WHITE,
    YELLOW,
    Canvas,
    blend,
)

SIZE = 10

Shape = Literal["cell", "player", "disc", "dot", "bar", "left", "right"]


class Look(NamedTuple):
    """Colour and shape of the cells of a channel."""

    colour: str
    shape: Shape = "cell"


TRAIL = Look(QUIET, "dot")
LOOKS: dict[str, tuple[Look, ...]] = {
    "asterix": (Look(SKY, "player"), Look(VERMILION), TRAIL, Look(YELLOW, "disc")),
    "breakout": (Look(SKY, "player"), Look(WHITE, "disc"), TRAIL, Look(ORANGE)),
    "freeway": (
        Look(YELLOW, "disc"),
        Look(VERMILION),
        *(Look(blend(WHITE, PANEL, slowness), "dot") for slowness in (0.0, 0.2, 0.4, 0.6, 0.75)),
    ),
    "seaquest": (
        Look(YELLOW, "player"),
        Look(blend(YELLOW, PANEL, 0.45)),
        Look(WHITE, "dot"),
        TRAIL,
        Look(ORANGE, "dot"),
        Look(PINK, "disc"),
        Look(VERMILION),
        Look(SKY, "bar"),
        Look(GREEN, "bar"),
        Look(GREEN, "disc"),
    ),
    "space_invaders": (
        Look(SKY, "player"),
        Look(GREEN),
        Look(blend(GREEN, WHITE, 0.6), "left"),
        Look(blend(GREEN, WHITE, 0.6), "right"),
        Look(WHITE, "dot"),
        Look(ORANGE, "dot"),
    ),
}
"""Game -> the look of each channel, in the order of the channels."""

LAYERS: dict[Shape, int] = {"bar": 0, "cell": 1, "left": 2, "right": 2, "player": 3, "disc": 4, "dot": 5}
"""Shape -> drawing order: larger shapes first, since several things may be in one cell."""


def size(env: Environment) -> tuple[float, float]:
    return SIZE, SIZE


def draw(canvas: Canvas, env: Environment, state: Any) -> None:
    planes = np.asarray(env.observe(state))
    for row in range(SIZE):
        for column in range(SIZE):
            canvas.box(column + 0.04, row + 0.04, column + 0.96, row + 0.96, PANEL, round=0.12)
    looks = LOOKS[env.name.split("/")[1]]
    for channel in sorted(range(len(looks)), key=lambda channel: LAYERS[looks[channel].shape]):
        for row, column in np.argwhere(planes[:, :, channel]):
            _mark(canvas, int(column), int(row), looks[channel])


def _mark(canvas: Canvas, x: int, y: int, look: Look) -> None:
    match look.shape:
        case "cell":
            canvas.box(x + 0.04, y + 0.04, x + 0.96, y + 0.96, look.colour, round=0.16)
        case "player":
            canvas.box(x + 0.1, y + 0.1, x + 0.9, y + 0.9, look.colour, round=0.16)
        case "disc":
            canvas.disc(x + 0.5, y + 0.5, 0.38, look.colour)
        case "dot":
            canvas.disc(x + 0.5, y + 0.5, 0.2, look.colour)
        case "bar":
            canvas.box(x, y + 0.3, x + 1, y + 0.7, look.colour)
        case "left":
            canvas.polygon([(x + 0.28, y + 0.5), (x + 0.62, y + 0.26), (x + 0.62, y + 0.74)], look.colour)
        case "right":
            canvas.polygon([(x + 0.72, y + 0.5), (x + 0.38, y + 0.26), (x + 0.38, y + 0.74)], look.colour)

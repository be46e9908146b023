"""Images of the classic control tasks, drawn from their observations; a unit is a tenth of the image's height."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.envs.core import Environment
from greedystep.envs.rendering.canvas import (
    GREEN,
    GROUND,
    ORANGE,
    PANEL,
    QUIET,
    SKY,
    VERMILION,
    WHITE,
    YELLOW,
    Canvas,
    blend,
)

SIZES = {"classic/mountaincar": (15, 10), "classic/cartpole": (15, 10), "classic/acrobot": (10, 10)}


def size(env: Environment) -> tuple[float, float]:
    return SIZES[env.name]


def draw(canvas: Canvas, env: Environment, state: Any) -> None:
    seen = np.asarray(env.observe(state), np.float64)
    {"classic/mountaincar": _mountain_car, "classic/cartpole": _cart_pole, "classic/acrobot": _acrobot}[env.name](
        canvas, seen
    )


def _mountain_car(canvas: Canvas, seen: np.ndarray) -> None:
    """[place, speed]; the road is sin 3x from -1.2 to 0.6, the flag at 0.5."""

    def at(place: Any) -> Any:
        """Return the image coordinates of a position on the road."""
        return (place + 1.2) / 1.8 * canvas.width, 5.6 - 3.0 * np.sin(3 * place)

    xs, ys = at(np.linspace(-1.2, 0.6, 121))
    road = list(zip(xs.tolist(), ys.tolist(), strict=True))
    canvas.polygon([*road, (canvas.width, canvas.height), (0, canvas.height)], blend(GREEN, GROUND, 0.6))
    canvas.line(road, 0.12, GREEN)

    x, y = at(0.5)
    canvas.line([(x, y), (x, y - 1.5)], 0.1, WHITE)
    canvas.polygon([(x, y - 1.5), (x + 0.9, y - 1.15), (x, y - 0.8)], YELLOW)

    x, y = at(seen[0])
    slope = np.arctan2(-9.0 * np.cos(3 * seen[0]), canvas.width / 1.8)  # of the road in the picture, y downward
    along, up = np.array([np.cos(slope), np.sin(slope)]), np.array([np.sin(slope), -np.cos(slope)])
    place = np.array([x, y])
    body = [(-0.85, 0.3), (0.85, 0.3), (0.8, 0.75), (0.4, 0.8), (0.2, 1.1), (-0.45, 1.1), (-0.6, 0.8), (-0.85, 0.7)]
    canvas.polygon([tuple(place + a * along + b * up) for a, b in body], SKY)
    for wheel in (-0.5, 0.5):
        x, y = place + wheel * along + 0.3 * up
        canvas.disc(x, y, 0.27, WHITE)
        canvas.disc(x, y, 0.12, GROUND)


def _cart_pole(canvas: Canvas, seen: np.ndarray) -> None:
    """[place, speed, angle, ...]; the track ends at +-2.4. The pole is drawn twice as long as it is."""
    middle, unit, track = canvas.width / 2, canvas.width / 5.6, 8.0
    for place in (-2.4, 2.4):
        x = middle + place * unit
        canvas.line([(x, track + 0.15), (x, track - 0.8)], 0.1, VERMILION)
    canvas.box(0, track + 0.15, canvas.width, canvas.height, PANEL)
    canvas.line([(0, track + 0.15), (canvas.width, track + 0.15)], 0.08, QUIET)
    x = middle + seen[0] * unit
    top = (x + 2 * unit * np.sin(seen[2]), track - 0.7 - 2 * unit * np.cos(seen[2]))
    canvas.box(x - 0.95, track - 0.95, x + 0.95, track - 0.1, SKY, round=0.15)
    for wheel in (-0.55, 0.55):
        canvas.disc(x + wheel, track - 0.1, 0.25, WHITE)
    canvas.line([(x, track - 0.7), top], 0.3, ORANGE)
    canvas.disc(x, track - 0.7, 0.16, WHITE)


def _acrobot(canvas: Canvas, seen: np.ndarray) -> None:
    """[cos, sin of the first angle, cos, sin of the second, ...]; the tip has to rise 1 above the hinge."""
    x, y, length = canvas.width / 2, 5.0, 2.1
    for start in np.arange(0.1, canvas.width, 0.6):
        canvas.line([(start, y - length), (start + 0.25, y - length)], 0.08, YELLOW)
    first = np.arctan2(seen[1], seen[0])
    second = first + np.arctan2(seen[3], seen[2])
    elbow = (x + length * np.sin(first), y + length * np.cos(first))
    tip = (elbow[0] + length * np.sin(second), elbow[1] + length * np.cos(second))
    canvas.line([(x, y), elbow], 0.42, SKY)
    canvas.line([elbow, tip], 0.42, ORANGE)
    for joint in ((x, y), elbow):
        canvas.disc(*joint, 0.26, WHITE)
        canvas.disc(*joint, 0.12, GROUND)

"""Images made of cells: MinAtar boards, toy tasks on a grid, and any observation that has no image of its own."""

from __future__ import annotations

from math import isqrt
from typing import Any, Literal, NamedTuple

import numpy as np

from greedystep.envs.core import Environment, ObservationSpec
from greedystep.envs.rendering import canvas as c
from greedystep.envs.rendering.canvas import Canvas, blend
from greedystep.models import MOVES

Shape = Literal["cell", "player", "disc", "dot", "bar", "left", "right"]
LAYERS: dict[Shape, int] = {"bar": 0, "cell": 1, "left": 2, "right": 2, "player": 3, "disc": 4, "dot": 5}
"""Shape -> drawing order: larger shapes first, since several things may be in one cell."""


class Look(NamedTuple):
    """Colour and shape of the cells of a MinAtar channel."""

    colour: str
    shape: Shape = "cell"


TRAIL = Look(c.QUIET, "dot")
LOOKS: dict[str, tuple[Look, ...]] = {
    "asterix": (Look(c.SKY, "player"), Look(c.VERMILION), TRAIL, Look(c.YELLOW, "disc")),
    "breakout": (Look(c.SKY, "player"), Look(c.WHITE, "disc"), TRAIL, Look(c.ORANGE)),
    "freeway": (
        Look(c.YELLOW, "disc"),
        Look(c.VERMILION),
        *(Look(blend(c.WHITE, c.PANEL, slowness), "dot") for slowness in (0.0, 0.2, 0.4, 0.6, 0.75)),
    ),
    "seaquest": (
        *(Look(c.YELLOW, "player"), Look(blend(c.YELLOW, c.PANEL, 0.45)), Look(c.WHITE, "dot"), TRAIL),
        *(Look(c.ORANGE, "dot"), Look(c.PINK, "disc"), Look(c.VERMILION)),
        *(Look(c.SKY, "bar"), Look(c.GREEN, "bar"), Look(c.GREEN, "disc")),
    ),
    "space_invaders": (
        *(Look(c.SKY, "player"), Look(c.GREEN)),
        *(Look(blend(c.GREEN, c.WHITE, 0.6), "left"), Look(blend(c.GREEN, c.WHITE, 0.6), "right")),
        *(Look(c.WHITE, "dot"), Look(c.ORANGE, "dot")),
    ),
}
"""MinAtar game -> the look of each channel, in the order of the channels."""


def draw_minatar(canvas: Canvas, env: Environment, state: Any) -> None:
    """Draw the 10 x 10 cells that the agent sees, with a colour and a shape per channel."""
    planes = np.asarray(env.observe(state))
    canvas.cells(*planes.shape[:2], round=0.12)
    looks = LOOKS[env.name.split("/")[1]]
    for channel in sorted(range(len(looks)), key=lambda channel: LAYERS[looks[channel].shape]):
        for y, x in np.argwhere(planes[:, :, channel]).tolist():
            _draw_look(canvas, x, y, *looks[channel])


def _draw_look(canvas: Canvas, x: int, y: int, colour: str, shape: Shape) -> None:
    if shape == "cell":
        canvas.cell(x, y, colour, round=0.16)
    elif shape == "player":
        canvas.box(x + 0.1, y + 0.1, x + 0.9, y + 0.9, colour, round=0.16)
    elif shape == "bar":
        canvas.box(x, y + 0.3, x + 1, y + 0.7, colour)
    elif shape in ("disc", "dot"):
        canvas.disc(x + 0.5, y + 0.5, 0.38 if shape == "disc" else 0.2, colour)
    else:
        tip, back = (0.28, 0.62) if shape == "left" else (0.72, 0.38)
        canvas.polygon([(x + tip, y + 0.5), (x + back, y + 0.26), (x + back, y + 0.74)], colour)


# -- toy tasks on a grid ----------------------------------------------------------------------------------------------

SMALL = 48  # the largest side of a grid whose cells are drawn one by one


def toy_side(env: Any) -> int:
    """Return the side of a toy task's grid in cells; 0 for a task without a grid."""
    states, horizon = env.task.num_states, env.task.horizon
    sides = {"grid-world": isqrt(states), "trace-back": 3 * horizon // 4, "bomb": isqrt(states // (2 * horizon))}
    return sides.get(env.name.split("/")[1], 0)


def draw_toy(canvas: Canvas, env: Any, state: Any) -> None:
    """Draw the grid with its marks, and below it a bar: the share of the episode that is over."""
    side = toy_side(env)
    if side <= SMALL:
        canvas.cells(side, side, round=0.1)
    else:
        canvas.box(0, 0, side, side, c.PANEL)
    radius = 0.38 * max(1.0, side / 16)  # visible on a large grid
    for cell, colour in toy_marks(env, int(state.number)):
        canvas.disc(cell % side + 0.5, cell // side + 0.5, radius, colour)
    for share, colour in ((1.0, c.PANEL), (float(state.steps) / env.task.horizon, c.QUIET)):
        canvas.box(0, 1.02 * side, share * side, 1.05 * side, colour)


def toy_marks(env: Any, number: int) -> list[tuple[int, str]]:
    """Return (cell, colour) of the goal or bomb and of the agent, which is yellow if a reward at the end is pending."""
    side, task = toy_side(env), env.name.split("/")[1]
    fixed = {"grid-world": [(side * side - 1, c.GREEN)], "bomb": [((side - 1) * side + side // 2, c.VERMILION)]}
    if task == "trace-back" and number < 5:
        down, aside = (0, 0) if number == 0 else MOVES[number - 1].tolist()
        return [((side // 2 + down) * side + side // 2 + aside, c.SKY)]
    block, cell = divmod(number - 5 if task == "trace-back" else number, side * side)
    return [*fixed.get(task, []), (cell, c.YELLOW if block % 2 else c.SKY)]


# -- any observation --------------------------------------------------------------------------------------------------

CHANNELS = (c.SKY, c.VERMILION, c.YELLOW, c.GREEN, c.ORANGE, c.PINK, c.WHITE)  # one colour per channel, repeating


def planes(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return rows, columns and channels of the image of an observation with this shape."""
    if len(shape) < 2:
        count = int(np.prod(shape, dtype=int))
        return max(2, round(count * 0.6)), count, 1
    return shape[0], shape[1], int(np.prod(shape[2:], dtype=int))


def draw_observation(canvas: Canvas, env: Environment, state: Any) -> None:
    """Draw a vector as bars, and an array of two or more dimensions as coloured cells."""
    spec = env.observation
    rows, columns, channels = planes(spec.shape)
    values = shares(np.asarray(env.observe(state)), spec)
    left, top = (canvas.width - columns) / 2, (canvas.height - rows) / 2
    if len(spec.shape) < 2:
        bottom = canvas.height - 0.1
        for x, share in enumerate(values.ravel(), 1):
            canvas.box(left + x - 0.9, 0.1, left + x - 0.1, bottom, c.PANEL, round=0.1)
            canvas.box(left + x - 0.9, bottom - share * (canvas.height - 0.2), left + x - 0.1, bottom, c.SKY)
        return
    for (row, column, channel), share in np.ndenumerate(values.reshape(rows, columns, channels)):
        if channel == 0 or share > 0:
            canvas.cell(left + column, top + row, blend(c.PANEL, CHANNELS[channel % len(CHANNELS)], share))


def shares(values: np.ndarray, spec: ObservationSpec) -> np.ndarray:
    """Return values scaled to [0, 1] by the bounds of `spec`; an arctangent maps unbounded ranges."""
    values = values.astype(np.float64)
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), values.shape) for bound in (spec.low, spec.high))
    finite = np.isfinite(low) & np.isfinite(high) & (high - low < 1e30)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        placed = (values - low) / (high - low)
    return np.clip(np.where(finite & (high > low), placed, 0.5 + np.arctan(values) / np.pi), 0, 1)

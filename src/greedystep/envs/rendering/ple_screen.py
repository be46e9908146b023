"""Images of the PLE games, as large as the original screens."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.envs.core import Environment
from greedystep.envs.ple import catcher, pixelcopter, pong
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
    number,
)

SIZES = {"ple/catcher": (64, 64), "ple/pixelcopter": (48, 48), "ple/pong": (64, 48)}


def size(env: Environment) -> tuple[float, float]:
    return SIZES[env.name]


def draw(canvas: Canvas, env: Environment, state: Any) -> None:
    drawings = {"ple/catcher": _catcher, "ple/pixelcopter": _pixelcopter, "ple/pong": _pong}
    drawings[env.name](canvas, env, state)


def _catcher(canvas: Canvas, env: Environment, state: catcher.State) -> None:
    canvas.box(0, 60, 64, 64, PANEL)
    for life in range(catcher.LIVES):
        canvas.disc(3.5 + 4 * life, 62, 1, VERMILION if life < number(state.lives) else QUIET)
    x, y = number(state.fruit.x), number(state.fruit.y)
    canvas.disc(x, y, 2, ORANGE)
    canvas.line([(x, y - 1.6), (x + 0.9, y - 3)], 0.5, GREEN)
    left = number(state.x) - 6
    canvas.box(left, 57, left + 13, 60, SKY, round=0.9)


def _pixelcopter(canvas: Canvas, env: pixelcopter.Pixelcopter, state: pixelcopter.State) -> None:
    rock, edge = blend(GREEN, GROUND, 0.55), GREEN
    columns = np.asarray(env.cave_columns(state)) / pixelcopter.PIXEL
    for x, middle in zip(columns.tolist(), np.asarray(state.cave).tolist(), strict=True):
        top, bottom = middle - pixelcopter.HALF_GAP, middle + pixelcopter.HALF_GAP
        canvas.box(x - 2, 0, x + 2, top, rock)
        canvas.box(x - 2, top - 0.7, x + 2, top, edge)
        canvas.box(x - 2, bottom, x + 2, 48, rock)
        canvas.box(x - 2, bottom, x + 2, bottom + 0.7, edge)
    for block in (state.passed, state.block):
        x, y = number(block.x) / pixelcopter.PIXEL, number(block.y)
        canvas.box(x - 2, y - 4, x + 2, y + 5, VERMILION, round=0.5)
    y = number(state.y)
    canvas.box(15, y - 1, 17, y + 1, WHITE, round=0.7)
    canvas.line([(13.6, y), (15.2, y)], 0.5, WHITE)
    canvas.line([(14.6, y - 1.6), (17.4, y - 1.6)], 0.4, SKY)


def _pong(canvas: Canvas, env: Environment, state: pong.State) -> None:
    for row in range(1, 48, 4):
        canvas.box(31.75, row, 32.25, row + 2, QUIET)
    canvas.text(26, 5, f"{number(state.points):g}", 6, SKY)
    canvas.text(38, 5, f"{number(state.opponent_points):g}", 6, VERMILION)
    for x, y, colour in ((4, number(state.y), SKY), (60, number(state.opponent_y) / pong.PIXEL, VERMILION)):
        canvas.box(x - 0.5, y - pong.HALF_PADDLE, x + 0.5, y + pong.HALF_PADDLE, colour, round=0.3)
    canvas.disc(number(state.ball_x) / pong.PIXEL, number(state.ball_y), 1, YELLOW)

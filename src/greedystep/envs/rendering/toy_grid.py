"""Images of the toy tasks: grids and lines with a mark at the agent, and a watch for watch repair."""

from __future__ import annotations

from math import cos, isqrt, pi, sin
from typing import Any

from greedystep.envs.core import Environment
from greedystep.envs.rendering.canvas import (
    GREEN,
    GROUND,
    ORANGE,
    PANEL,
    QUIET,
    SKY,
    TEXT,
    VERMILION,
    WHITE,
    YELLOW,
    Canvas,
    blend,
    number,
)
from greedystep.models import MOVES

SMALL = 48
"""The largest side of a grid whose cells are drawn one by one."""


def size(env: Any) -> tuple[float, float]:
    side = _side(env)
    if side:
        return side, 1.06 * side
    return (10, 10) if env.name == "toy/watch-repair" else (15, 10)


def draw(canvas: Canvas, env: Any, state: Any) -> None:
    at, title = int(number(state.number)), env.name.split("/")[1]
    if title == "watch-repair":
        _watch(canvas, env.task.horizon, *_watch_at(at))
    elif title == "choice":
        _choice(canvas, env.task.horizon, at)
    elif _side(env):
        marks = {"grid-world": _grid_world, "trace-back": _trace_back, "bomb": _bomb}[title](env, at)
        _grid(canvas, _side(env), marks)
        _clock(canvas, _side(env), number(state.steps) / env.task.horizon)
    else:
        _chain(canvas, env.task.num_states, at)


def _side(env: Any) -> int:
    """Return the side of the task's grid in cells; 0 for a task without a grid."""
    states, horizon = env.task.num_states, env.task.horizon
    sides = {"grid-world": isqrt(states), "trace-back": 3 * horizon // 4, "bomb": isqrt(states // (2 * horizon))}
    return sides.get(env.name.split("/")[1], 0)


# -- grids: where the agent is and its colour, and other marks --------------------------------------------------------

Marks = list[tuple[int, str]]
"""Cells and colours; the agent comes last, on top."""


def _grid_world(env: Environment, at: int) -> Marks:
    return [(_side(env) ** 2 - 1, GREEN), (at, SKY)]


def _trace_back(env: Environment, at: int) -> Marks:
    """Mark the agent; yellow while 150 is pending."""
    side = _side(env)
    if at < 5:
        down, aside = (0, 0) if at == 0 else MOVES[at - 1].tolist()
        return [((side // 2 + down) * side + side // 2 + aside, SKY)]
    block, cell = divmod(at - 5, side * side)
    return [(cell, YELLOW if block % 2 else SKY)]


def _bomb(env: Environment, at: int) -> Marks:
    """Mark the bomb and the agent; yellow once it has been at the bomb."""
    side = _side(env)
    block, cell = divmod(at, side * side)
    return [((side - 1) * side + side // 2, VERMILION), (cell, YELLOW if block % 2 else SKY)]


def _grid(canvas: Canvas, side: int, marks: Marks) -> None:
    if side <= SMALL:
        for row in range(side):
            for column in range(side):
                canvas.box(column + 0.04, row + 0.04, column + 0.96, row + 0.96, PANEL, round=0.1)
    else:
        canvas.box(0, 0, side, side, PANEL)
    least = max(1.0, side / 16)  # of a mark, to be visible on a large grid
    for cell, colour in marks:
        row, column = divmod(cell, side)
        canvas.disc(column + 0.5, row + 0.5, 0.38 * least, colour)


def _clock(canvas: Canvas, side: int, share: float) -> None:
    """Draw a bar under the grid: the share of the episode that is over."""
    top, bottom = 1.02 * side, 1.05 * side
    canvas.box(0, top, side, bottom, PANEL)
    canvas.box(0, top, share * side, bottom, QUIET)


# -- lines and a watch ------------------------------------------------------------------------------------------------


def _chain(canvas: Canvas, states: int, at: int) -> None:
    """Draw the chain; forward is to the right, and the last step pays."""
    places = [(1.2 + 12.4 * i / states, 5.0) for i in range(states + 1)]
    canvas.line([places[0], places[-1]], 0.1, QUIET)
    for place in places[:-1]:
        canvas.disc(*place, min(0.4, 5 / states), PANEL)
    canvas.disc(*places[-1], 0.5, GREEN)
    canvas.disc(*places[at], 0.5, SKY)


def _choice(canvas: Canvas, delay: int, at: int) -> None:
    """Draw the decision as a fork, and the steps after it as two lines."""
    step = 12.4 / delay
    start, fork = (1.2, 5.0), (1.2 + step, 5.0)
    for height, colour in ((3.0, GREEN), (7.0, VERMILION)):
        line = [fork, (1.2 + 2 * step, height), (13.6, height)]
        canvas.line([start, *line], 0.1, QUIET)
        canvas.disc(*line[-1], 0.5, blend(colour, GROUND, 0.2))
    time, chosen = (0, 0) if at == 0 else (1 + (at - 1) // 2, (at - 1) % 2)
    canvas.disc(1.2 + step * time, 5 if time == 0 else (3, 7)[chosen], 0.4, SKY)


def _watch_at(at: int) -> tuple[int, bool, int, int, int]:
    """Return time, repaired, brand, jams and flat tyres of a state number of `toy.watch_repair`."""
    if at < 4:
        return 0, False, at, 0, 0
    time, at = 1, at - 4
    while at >= 8 * (time + 1) ** 2:
        at -= 8 * (time + 1) ** 2
        time += 1
    rest, tyres = divmod(at, time + 1)
    rest, jams = divmod(rest, time + 1)
    return time, rest >= 4, rest % 4, jams, tyres


def _watch(canvas: Canvas, length: int, time: int, repaired: bool, brand: int, jams: int, tyres: int) -> None:
    canvas.box(3.7, 0, 6.3, 8.4, blend((SKY, YELLOW, GREEN, ORANGE)[brand], GROUND, 0.5), round=0.6)
    canvas.disc(5, 4.2, 3.2, WHITE if repaired else QUIET)
    canvas.disc(5, 4.2, 2.85, PANEL)
    for hour in range(12):
        x, y = sin(pi * hour / 6), cos(pi * hour / 6)
        canvas.line([(5 + 2.35 * x, 4.2 - 2.35 * y), (5 + 2.6 * x, 4.2 - 2.6 * y)], 0.12, QUIET)
    angle = 2 * pi * time / length
    canvas.line([(5, 4.2), (5 + 2.1 * sin(angle), 4.2 - 2.1 * cos(angle))], 0.2, VERMILION)
    canvas.disc(5, 4.2, 0.25, VERMILION)
    canvas.text(5, 9.3, f"jams {jams}   flat tyres {tyres}", 0.75, TEXT)

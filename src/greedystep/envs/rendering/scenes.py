"""Images of classic control, of the PLE games on their original screens, and of the toy tasks without a grid."""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any

import numpy as np

from greedystep.envs.core import Environment
from greedystep.envs.ple import catcher, pixelcopter, pong
from greedystep.envs.rendering import canvas as c
from greedystep.envs.rendering.canvas import Canvas, blend

# -- classic control: drawn from the observation ----------------------------------------------------------------------


def draw_mountain_car(canvas: Canvas, env: Environment, state: Any) -> None:
    """Draw the road sin 3x from -1.2 to 0.6, the flag at 0.5, and the car."""

    def at(place: Any) -> Any:
        """Return the image coordinates of a position on the road."""
        return (place + 1.2) / 1.8 * canvas.width, 5.6 - 3.0 * np.sin(3 * place)

    xs, ys = at(np.linspace(-1.2, 0.6, 121))
    road = list(zip(xs.tolist(), ys.tolist(), strict=True))
    canvas.polygon([*road, (canvas.width, canvas.height), (0, canvas.height)], blend(c.GREEN, c.GROUND, 0.6))
    canvas.line(road, 0.12, c.GREEN)

    x, y = at(0.5)
    canvas.line([(x, y), (x, y - 1.5)], 0.1, c.WHITE)
    canvas.polygon([(x, y - 1.5), (x + 0.9, y - 1.15), (x, y - 0.8)], c.YELLOW)

    position = np.asarray(env.observe(state), np.float64)[0]
    slope = np.arctan2(-9.0 * np.cos(3 * position), canvas.width / 1.8)  # of the road in the picture, y downward
    along, up = np.array([np.cos(slope), np.sin(slope)]), np.array([np.sin(slope), -np.cos(slope)])
    place = np.array(at(position))
    body = [(-0.85, 0.3), (0.85, 0.3), (0.8, 0.75), (0.4, 0.8), (0.2, 1.1), (-0.45, 1.1), (-0.6, 0.8), (-0.85, 0.7)]
    canvas.polygon([tuple(place + a * along + b * up) for a, b in body], c.SKY)
    for wheel in (-0.5, 0.5):
        x, y = place + wheel * along + 0.3 * up
        canvas.disc(x, y, 0.27, c.WHITE)
        canvas.disc(x, y, 0.12, c.GROUND)


def draw_cart_pole(canvas: Canvas, env: Environment, state: Any) -> None:
    """Draw the track, which ends at +-2.4, the cart, and the pole twice as long as it is."""
    place, _, angle, _ = np.asarray(env.observe(state), np.float64)
    middle, unit, track = canvas.width / 2, canvas.width / 5.6, 8.0
    for end in (-2.4, 2.4):
        x = middle + end * unit
        canvas.line([(x, track + 0.15), (x, track - 0.8)], 0.1, c.VERMILION)
    canvas.box(0, track + 0.15, canvas.width, canvas.height, c.PANEL)
    canvas.line([(0, track + 0.15), (canvas.width, track + 0.15)], 0.08, c.QUIET)
    x = middle + place * unit
    canvas.box(x - 0.95, track - 0.95, x + 0.95, track - 0.1, c.SKY, round=0.15)
    for wheel in (-0.55, 0.55):
        canvas.disc(x + wheel, track - 0.1, 0.25, c.WHITE)
    top = (x + 2 * unit * np.sin(angle), track - 0.7 - 2 * unit * np.cos(angle))
    canvas.line([(x, track - 0.7), top], 0.3, c.ORANGE)
    canvas.disc(x, track - 0.7, 0.16, c.WHITE)


def draw_acrobot(canvas: Canvas, env: Environment, state: Any) -> None:
    """Draw both links, and the line to which the tip has to rise, 1 above the hinge."""
    cos_first, sin_first, cos_second, sin_second, *_ = np.asarray(env.observe(state), np.float64)
    x, y, length = canvas.width / 2, 5.0, 2.1
    for start in np.arange(0.1, canvas.width, 0.6):
        canvas.line([(start, y - length), (start + 0.25, y - length)], 0.08, c.YELLOW)
    first = np.arctan2(sin_first, cos_first)
    second = first + np.arctan2(sin_second, cos_second)
    elbow = (x + length * np.sin(first), y + length * np.cos(first))
    tip = (elbow[0] + length * np.sin(second), elbow[1] + length * np.cos(second))
    canvas.line([(x, y), elbow], 0.42, c.SKY)
    canvas.line([elbow, tip], 0.42, c.ORANGE)
    for joint in ((x, y), elbow):
        canvas.disc(*joint, 0.26, c.WHITE)
        canvas.disc(*joint, 0.12, c.GROUND)


# -- PLE: a unit is a pixel of the original ---------------------------------------------------------------------------


def draw_catcher(canvas: Canvas, env: Environment, state: catcher.State) -> None:
    """Draw the lives, the fruit and the paddle."""
    canvas.box(0, 60, 64, 64, c.PANEL)
    for life in range(catcher.LIVES):
        canvas.disc(3.5 + 4 * life, 62, 1, c.VERMILION if life < int(state.lives) else c.QUIET)
    x, y, left = float(state.fruit.x), float(state.fruit.y), float(state.x) - 6
    canvas.disc(x, y, 2, c.ORANGE)
    canvas.line([(x, y - 1.6), (x + 0.9, y - 3)], 0.5, c.GREEN)
    canvas.box(left, 57, left + 13, 60, c.SKY, round=0.9)


def draw_pixelcopter(canvas: Canvas, env: pixelcopter.Pixelcopter, state: pixelcopter.State) -> None:
    """Draw the cave, two blocks and the helicopter."""
    columns = np.asarray(env.cave_columns(state)) / pixelcopter.PIXEL
    for x, middle in zip(columns.tolist(), np.asarray(state.cave).tolist(), strict=True):
        top, bottom = middle - pixelcopter.HALF_GAP, middle + pixelcopter.HALF_GAP
        for upper, lower, edge in ((0, top, top - 0.7), (bottom, 48, bottom)):
            canvas.box(x - 2, upper, x + 2, lower, blend(c.GREEN, c.GROUND, 0.55))
            canvas.box(x - 2, edge, x + 2, edge + 0.7, c.GREEN)
    for block in (state.passed, state.block):
        x, y = float(block.x) / pixelcopter.PIXEL, float(block.y)
        canvas.box(x - 2, y - 4, x + 2, y + 5, c.VERMILION, round=0.5)
    y = float(state.y)
    canvas.box(15, y - 1, 17, y + 1, c.WHITE, round=0.7)
    canvas.line([(13.6, y), (15.2, y)], 0.5, c.WHITE)
    canvas.line([(14.6, y - 1.6), (17.4, y - 1.6)], 0.4, c.SKY)


def draw_pong(canvas: Canvas, env: Environment, state: pong.State) -> None:
    """Draw the net, the points, both paddles and the ball."""
    for row in range(1, 48, 4):
        canvas.box(31.75, row, 32.25, row + 2, c.QUIET)
    sides = ((26, state.points, 4, float(state.y), c.SKY),)
    sides += ((38, state.opponent_points, 60, float(state.opponent_y) / pong.PIXEL, c.VERMILION),)
    for place, points, x, y, colour in sides:
        canvas.text(place, 5, f"{int(points)}", 6, colour)
        canvas.box(x - 0.5, y - pong.HALF_PADDLE, x + 0.5, y + pong.HALF_PADDLE, colour, round=0.3)
    canvas.disc(float(state.ball_x) / pong.PIXEL, float(state.ball_y), 1, c.YELLOW)


# -- toy tasks without a grid -----------------------------------------------------------------------------------------


def draw_chain(canvas: Canvas, env: Any, state: Any) -> None:
    """Draw toy/n-horizon: a chain whose last step to the right pays."""
    states = env.task.num_states
    places = [(1.2 + 12.4 * i / states, 5.0) for i in range(states + 1)]
    canvas.line([places[0], places[-1]], 0.1, c.QUIET)
    for place in places[:-1]:
        canvas.disc(*place, min(0.4, 5 / states), c.PANEL)
    canvas.disc(*places[-1], 0.5, c.GREEN)
    canvas.disc(*places[int(state.number)], 0.5, c.SKY)


def draw_choice(canvas: Canvas, env: Any, state: Any) -> None:
    """Draw toy/choice: the decision as a fork, and the steps after it as two lines."""
    step = 12.4 / env.task.horizon
    start, fork = (1.2, 5.0), (1.2 + step, 5.0)
    for height, colour in ((3.0, c.GREEN), (7.0, c.VERMILION)):
        canvas.line([start, fork, (1.2 + 2 * step, height), (13.6, height)], 0.1, c.QUIET)
        canvas.disc(13.6, height, 0.5, blend(colour, c.GROUND, 0.2))
    at = int(state.number)
    time, y = (0, 5) if at == 0 else (1 + (at - 1) // 2, (3, 7)[(at - 1) % 2])
    canvas.disc(1.2 + step * time, y, 0.4, c.SKY)


def draw_watch(canvas: Canvas, env: Any, state: Any) -> None:
    """Draw toy/watch-repair: strap in the brand's colour, dial (white once repaired), hand for the time, and events."""
    time, repaired, brand, jams, tyres = watch_state(int(state.number))
    canvas.box(3.7, 0, 6.3, 8.4, blend((c.SKY, c.YELLOW, c.GREEN, c.ORANGE)[brand], c.GROUND, 0.5), round=0.6)
    canvas.disc(5, 4.2, 3.2, c.WHITE if repaired else c.QUIET)
    canvas.disc(5, 4.2, 2.85, c.PANEL)
    for hour in range(12):
        x, y = sin(pi * hour / 6), cos(pi * hour / 6)
        canvas.line([(5 + 2.35 * x, 4.2 - 2.35 * y), (5 + 2.6 * x, 4.2 - 2.6 * y)], 0.12, c.QUIET)
    angle = 2 * pi * time / env.task.horizon
    canvas.line([(5, 4.2), (5 + 2.1 * sin(angle), 4.2 - 2.1 * cos(angle))], 0.2, c.VERMILION)
    canvas.disc(5, 4.2, 0.25, c.VERMILION)
    canvas.text(5, 9.3, f"jams {jams}   flat tyres {tyres}", 0.75)


def watch_state(number: int) -> tuple[int, bool, int, int, int]:
    """Return (time, repaired, brand, jams, flat tyres) of a state number of `toy.watch_repair`."""
    if number < 4:
        return 0, False, number, 0, 0
    time, number = 1, number - 4
    while number >= 8 * (time + 1) ** 2:
        number -= 8 * (time + 1) ** 2
        time += 1
    rest, tyres = divmod(number, time + 1)
    rest, jams = divmod(rest, time + 1)
    return time, rest >= 4, rest % 4, jams, tyres


SCENES: dict[str, tuple[float, float, Any]] = {
    "classic/mountaincar": (15, 10, draw_mountain_car),
    "classic/cartpole": (15, 10, draw_cart_pole),
    "classic/acrobot": (10, 10, draw_acrobot),
    "ple/catcher": (64, 64, draw_catcher),
    "ple/pixelcopter": (48, 48, draw_pixelcopter),
    "ple/pong": (64, 48, draw_pong),
    "toy/choice": (15, 10, draw_choice),
    "toy/watch-repair": (10, 10, draw_watch),
}
"""Environment -> width and height of its image in units, and the function that draws it."""

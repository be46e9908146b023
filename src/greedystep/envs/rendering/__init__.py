"""What a state looks like: `picture(env, state)`.

A family of environments is drawn by a module with `size(env)`, the width and height of the picture in units of the
game, and `draw(canvas, env, state)`. All pictures are equally high, so that they can stand side by side.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from greedystep.envs.core import Environment, State, TimeLimit, Wrapper
from greedystep.envs.rendering.canvas import Canvas

HEIGHT = 240
"""Pixels."""

FRAMES_PER_SECOND = {"minatar": 12, "ple": 30, "classic": 30, "toy": 5}
"""How fast a person wants to see it."""

DRAWN_BY = {"classic": "classic", "minatar": "minatar", "ple": "ple", "toy": "toy"}
"""Family -> module of this package; all others are drawn by what is seen of them."""


def picture(env: Environment, state: State, height: int = HEIGHT) -> np.ndarray:
    """The state as a picture, uint8 [height, W, 3]; the width follows from the game."""
    if height < 1:
        raise ValueError(f"height: expected at least 1 pixel, got {height}")
    env, state = _unwrapped(env, state)
    artist = _artist(env)
    width, rows = artist.size(env)
    canvas = Canvas(width, rows, height / rows)
    artist.draw(canvas, env, state)
    return canvas.array()


def fitting_height(env: Environment, rows: int, columns: int) -> int:
    """The greatest height, even, of a picture within so many pixels; a whole number of pixels a unit where possible."""
    while isinstance(env, Wrapper):
        env = env.env
    width, height = _artist(env).size(env)
    most = min(rows, columns * height / width)
    step = height if height == int(height) and height % 2 == 0 and most >= height else 2
    return max(2, int(most // step * step))


def frames_per_second(env: Environment) -> int:
    """How many steps a second are pleasant to watch."""
    return FRAMES_PER_SECOND.get(_family(env), 15)


def _artist(env: Environment) -> Any:
    return import_module(f"greedystep.envs.rendering.{DRAWN_BY.get(_family(env), 'anything')}")


def _family(env: Environment) -> str:
    return env.name.split("/")[0]


def _unwrapped(env: Environment, state: State) -> tuple[Environment, State]:
    while isinstance(env, Wrapper):
        state = state.state if isinstance(env, TimeLimit) else state
        env = env.env
    return env, state

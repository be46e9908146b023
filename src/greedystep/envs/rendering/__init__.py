"""Images of environment states: `render(env, state)`; all have the same height by default."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.envs.core import Environment, State, TimeLimit, Wrapper
from greedystep.envs.rendering import grids, scenes
from greedystep.envs.rendering.canvas import GROUND, PANEL, QUIET, SKY, TEXT, YELLOW, Canvas, rgb
from greedystep.envs.rollout import QAnnotation

HEIGHT = 240  # default height of an image in pixels
FRAMES_PER_SECOND = {"minatar": 12, "ple": 30, "classic": 30, "toy": 5}
"""Family of environments -> steps per second of videos and live views."""
PANEL_SIZE = (100.0, 120.0)
"""Width and height of the panel of action values, in its own units; it is scaled to the height of the game's image."""
BARS = 78.0  # units of the panel's height for the bars of all actions


def render(env: Environment, state: State, height: int = HEIGHT) -> np.ndarray:
    """Return the state as an image, uint8 [height, W, 3]; the width follows from the game."""
    if height < 1:
        raise ValueError(f"height: expected at least 1 pixel, got {height}")
    while isinstance(env, Wrapper):
        state = state.state if isinstance(env, TimeLimit) else state
        env = env.env
    width, rows, draw = _scene(env)
    canvas = Canvas(width, rows, height / rows)
    draw(canvas, env, state)
    return canvas.array()


def fitting_height(env: Environment, rows: int, columns: int) -> int:
    """Return the largest even image height within rows x columns pixels, preferably with whole pixels per unit."""
    while isinstance(env, Wrapper):
        env = env.env
    width, height, _ = _scene(env)
    most = min(rows, columns * height / width)
    step = height if height == int(height) and height % 2 == 0 and most >= height else 2
    return max(2, int(most // step * step))


def frames_per_second(env: Environment) -> int:
    """Return the steps per second at which videos and live views show this environment."""
    return FRAMES_PER_SECOND.get(_family(env), 15)


def add_q_panel(image: np.ndarray, env: Environment, annotation: QAnnotation | None) -> np.ndarray:
    """Return the image, uint8 [H, W, 3], with a panel of action values to its right; empty without annotation."""
    height = len(image)
    canvas = Canvas(*PANEL_SIZE, height / PANEL_SIZE[1], PANEL)
    if annotation is not None:
        _draw_q_panel(canvas, env.action_names, annotation)
    gap = np.full((height, max(1, height // 60), 3), rgb(GROUND), np.uint8)
    return np.concatenate([image, gap, canvas.array()], axis=1)


def _draw_q_panel(canvas: Canvas, names: tuple[str, ...], annotation: QAnnotation) -> None:
    lowest, highest = min(annotation.values), max(annotation.values)
    each = min(14.0, BARS / len(names))
    for row, (name, value) in enumerate(zip(names, annotation.values, strict=True)):
        middle, chosen = 6 + each * (row + 0.5), row == annotation.action
        share = (value - lowest) / (highest - lowest) if highest > lowest else 1.0
        canvas.text(28, middle, name[:10], 0.55 * each, YELLOW if chosen else TEXT, "rm")
        canvas.box(32, middle - 0.3 * each, 33 + 36 * share, middle + 0.3 * each, YELLOW if chosen else QUIET)
        canvas.text(98, middle, f"{value:.3g}", 0.55 * each, YELLOW if chosen else TEXT, "rm")
    if annotation.target is not None:
        canvas.text(5, 96, "target", 8, TEXT, "lm")
        canvas.text(98, 96, f"{annotation.target:.3g}", 8, SKY, "rm")
    if annotation.lookahead is not None:
        canvas.text(5, 110, "looks ahead", 8, TEXT, "lm")
        canvas.text(98, 110, str(annotation.lookahead), 12, SKY, "rm")


def _scene(env: Environment) -> tuple[float, float, Any]:
    """Return the width and height of the image in units of the game, and the function that draws it."""
    if env.name in scenes.SCENES:
        return scenes.SCENES[env.name]
    family = _family(env)
    if family == "minatar":
        return 10, 10, grids.draw_minatar
    if family == "toy":
        side = grids.toy_side(env)
        return (side, 1.06 * side, grids.draw_toy) if side else (15, 10, scenes.draw_chain)
    rows, columns, _ = grids.planes(env.observation.shape)
    return max(columns, 3), max(rows, 3), grids.draw_observation


def _family(env: Environment) -> str:
    return env.name.split("/")[0]

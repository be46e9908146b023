"""A drawing canvas in units of a game, with anti-aliased shapes at any size.

The colours are those of Okabe and Ito, which can be told apart with every kind of colour vision, on a dark ground.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

GROUND, PANEL, TEXT = "#10141c", "#1a2130", "#cbd5e1"
QUIET = "#4b5568"  # for details: trails, frames, ropes
SKY, YELLOW, VERMILION, GREEN = "#56b4e9", "#f0e442", "#e0601a", "#00b384"
ORANGE, PINK, WHITE = "#e69f00", "#d68bb3", "#f4f6fa"

SUPERSAMPLING = 4  # shapes are drawn this many times larger and then averaged down


class Canvas:
    """A canvas of `width` x `height` units, y downward, with `scale` pixels per unit."""

    def __init__(self, width: float, height: float, scale: float, ground: str = GROUND) -> None:
        self.width, self.height = width, height
        self.pixels = (max(1, round(width * scale)), max(1, round(height * scale)))
        self._x = SUPERSAMPLING * self.pixels[0] / width
        self._y = SUPERSAMPLING * self.pixels[1] / height
        self._image = Image.new("RGB", (SUPERSAMPLING * self.pixels[0], SUPERSAMPLING * self.pixels[1]), ground)
        self._draw = ImageDraw.Draw(self._image)

    def box(self, left: float, top: float, right: float, bottom: float, colour: str, *, round: float = 0.0) -> None:
        """Draw a rectangle with corners rounded by a radius in units."""
        corners = self._points([(left, top), (right, bottom)])
        if corners[0] <= corners[2] - 1 and corners[1] <= corners[3] - 1:
            corners = [corners[0], corners[1], corners[2] - 1, corners[3] - 1]  # Pillow paints the last pixel too
            self._draw.rounded_rectangle(corners, round * self._x, colour)

    def cell(self, x: float, y: float, colour: str, *, round: float = 0.0) -> None:
        """Draw a square of one unit with a narrow margin."""
        self.box(x + 0.04, y + 0.04, x + 0.96, y + 0.96, colour, round=round)

    def cells(self, rows: int, columns: int, *, round: float) -> None:
        """Draw the empty cells of a board."""
        for row in range(rows):
            for column in range(columns):
                self.cell(column, row, PANEL, round=round)

    def disc(self, x: float, y: float, radius: float, colour: str) -> None:
        """Draw a filled circle."""
        self._draw.ellipse(self._points([(x - radius, y - radius), (x + radius, y + radius)]), colour)

    def line(self, points: Sequence[tuple[float, float]], width: float, colour: str) -> None:
        """Draw a line of that width in units, with round ends and corners."""
        self._draw.line(self._points(points), colour, max(1, round(width * self._x)), joint="curve")
        for x, y in (points[0], points[-1]):
            self.disc(x, y, width / 2, colour)

    def polygon(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """Draw a filled polygon."""
        self._draw.polygon(self._points(points), colour)

    def text(self, x: float, y: float, words: str, size: float, colour: str = TEXT, anchor: str = "mm") -> None:
        """Write text of that height in units; `anchor` is Pillow's: mm is the middle, lm the left edge's middle."""
        font = ImageFont.load_default(max(1, size * self._y))
        self._draw.text((x * self._x, y * self._y), words, colour, font, anchor)

    def array(self) -> np.ndarray:
        """Return the image, uint8 [H, W, 3]."""
        return np.asarray(self._image.resize(self.pixels, Image.Resampling.BOX))

    def _points(self, points: Sequence[tuple[float, float]]) -> list[float]:
        return [value for x, y in points for value in (float(x) * self._x, float(y) * self._y)]


def blend(one: str, other: str, share: float) -> str:
    """Return the colour `share` of the way from one to the other."""
    mixed = [round((1 - share) * a + share * b) for a, b in zip(rgb(one), rgb(other), strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def rgb(colour: str) -> list[int]:
    """Return red, green and blue, 0..255, of a colour "#rrggbb"."""
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]

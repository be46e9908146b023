"""Draw all environments into one image: `python -m benchmarks.contact_sheet docs/images/games.png`."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from greedystep import envs
from greedystep.envs.core import Environment, State
from greedystep.envs.rendering import HEIGHT, render
from greedystep.envs.rollout import play, random_policy
from greedystep.io import atomic_write

WIDTH, GAP, LABEL = 1280, 12, 26
"""Pixels: width of the sheet, gap between images, height of the name under an image."""
ROW = 4.3
"""Aspect ratio (width over height) from which a row of images is full."""
FAMILIES = ("minatar", "ple", "classic", "toy")
GREY = "#7d8590"
"""Colour of the names: readable on white and on black, since the sheet is transparent."""


class Tile(NamedTuple):
    """A state of an environment, to be drawn."""

    env: Environment
    state: State
    aspect: float
    """Width over height."""


def typical_state(env: Environment, seed: int = 0, steps: int = 300) -> State:
    """Return a state two thirds into the longest episode of random play."""
    moments = list(play(env, random_policy(env), seed, steps=steps))
    longest = max(moments, key=lambda moment: moment.step)
    return next(
        moment.state for moment in moments if moment.episode == longest.episode and 3 * moment.step >= 2 * longest.step
    )


def make_tile(name: str) -> Tile:
    """Make the tile of an environment."""
    env = envs.make(name)
    state = typical_state(env)
    height, width, _ = render(env, state).shape
    return Tile(env, state, width / height)


def split_into_rows(tiles: Sequence[Tile]) -> Iterator[list[Tile]]:
    """Split the tiles, in order, into rows of about equal width."""
    row: list[Tile] = []
    for one in tiles:
        row.append(one)
        if sum(each.aspect for each in row) >= ROW:
            yield row
            row = []
    if row:
        yield row


def draw_sheet(tiles: Sequence[Tile]) -> Image.Image:
    """Draw rows as wide as the sheet; a last row that is too short keeps the default image height."""
    font = ImageFont.load_default(16)
    placed, top = [], 0
    for row in split_into_rows(tiles):
        aspect = sum(one.aspect for one in row)
        height = round((WIDTH - GAP * (len(row) - 1)) / aspect) if aspect >= ROW else HEIGHT
        left = 0
        for one in row:
            placed.append((left, top, one, height))
            left += round(height * one.aspect) + GAP
        top += height + LABEL + GAP
    image = Image.new("RGBA", (WIDTH, top - GAP))
    pencil = ImageDraw.Draw(image)
    for left, top, one, height in placed:
        frame = Image.fromarray(render(one.env, one.state, height))
        image.paste(frame, (left, top))
        middle = left + frame.width / 2
        pencil.text((middle, top + height + LABEL / 2), one.env.name, GREY, font, "mm")
    return image


def main(words: Sequence[str]) -> int:
    """Write the contact sheet to the given file."""
    if len(words) != 1 or not words[0].endswith(".png"):
        print("contact_sheet: give one file to write, which ends in .png", file=sys.stderr)
        return 2
    names = sorted(envs.names(), key=lambda name: (FAMILIES.index(name.split("/")[0]), name))
    whole = io.BytesIO()
    draw_sheet([make_tile(name) for name in names]).save(whole, "PNG", optimize=True)
    with atomic_write(Path(words[0])) as file:
        file.write(whole.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Draw the environments: all into one image, or each into one of its own in a folder.

python -m benchmarks.contact_sheet docs/images/games.png
python -m benchmarks.contact_sheet docs/images/envs
"""

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
SMALL = 240
"""Height in pixels of an image with one environment."""
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


def write_png(image: Image.Image, path: Path) -> None:
    """Write an image at once: nobody sees half a file."""
    whole = io.BytesIO()
    image.save(whole, "PNG", optimize=True)
    with atomic_write(path) as file:
        file.write(whole.getvalue())


def main(words: Sequence[str]) -> int:
    """Write the contact sheet to the given file, or an image per environment (`minatar-breakout.png`) to the folder."""
    if len(words) != 1 or not (words[0].endswith(".png") or Path(words[0]).is_dir()):
        print("contact_sheet: give one file to write, which ends in .png, or a folder that exists", file=sys.stderr)
        return 2
    names = sorted(envs.names(), key=lambda name: (FAMILIES.index(name.split("/")[0]), name))
    tiles = [make_tile(name) for name in names]
    if words[0].endswith(".png"):
        write_png(draw_sheet(tiles), Path(words[0]))
        return 0
    for name, tile in zip(names, tiles, strict=True):
        image = Image.fromarray(render(tile.env, tile.state, SMALL))
        write_png(image, Path(words[0]) / f"{name.replace('/', '-')}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

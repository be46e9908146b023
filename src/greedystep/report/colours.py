"""Colours of figures, made so that they are seen on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Sequence

WHITE, BLACK = "#ffffff", "#0d1117"
"""The two papers of page.css."""
CONTRAST = 3.0
"""What WCAG 2.1 asks of lines in a chart."""


def pair(colour: str) -> dict[str, str]:
    """For a light and for a dark page."""
    return {"light": readable(colour, WHITE), "dark": readable(colour, BLACK)}


def readable(colour: str, paper: str) -> str:
    """The colour, moved towards black or white as little as it takes to be seen on the paper.

    Black on white is white on black, and so are greys.
    """
    given, is_dark = rgb(colour), _luminance(rgb(paper)) < 0.5
    if is_dark and len(set(given)) == 1:
        given = [255 - part for part in given]
    ink = 255 if is_dark else 0
    for step in range(101):
        mixed = [round(own + (ink - own) * step / 100) for own in given]
        if contrast(mixed, rgb(paper)) >= CONTRAST:
            return "#{:02x}{:02x}{:02x}".format(*mixed)
    raise AssertionError("black and white are always seen")


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """WCAG's ratio of luminances, 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(parts: Sequence[int]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in parts)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def rgb(colour: str) -> list[int]:
    """Of #rrggbb, 0 to 255."""
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]

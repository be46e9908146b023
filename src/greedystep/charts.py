"""Curves of a result that are no trainings, as plain numbers: the page lets a reader point at them and pick some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """Lists of one length; None where there is nothing to tell."""

    label: str
    """Lines with one label are picked together."""
    style: tuple[str, Any]
    """Colour and dashes."""
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    """The band around `y`, if it has one."""


@dataclass(frozen=True)
class Chart:
    """One pair of axes."""

    title: str
    x: str
    y: str
    """What is on the axes. Charts with one `y` stand side by side."""
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False

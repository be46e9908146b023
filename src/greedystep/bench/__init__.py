"""Timings beside other packages, one module a subject, imported when asked for.

A benchmark is a module with `run(out, repeats) -> dict`, which writes out/NAME.json and out/NAME.md; it may have
options of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from greedystep.checks import INT32_MAX, check_int

Name = Literal["envs", "planning", "returns", "train"]


class Benchmark(Protocol):
    """The shape of a benchmark's module."""

    def run(self, out: Path, repeats: int, **options: Any) -> dict[str, Any]: ...


def load(name: Name) -> Benchmark:
    """The benchmark of that name."""
    return cast(Benchmark, import_module(f"greedystep.bench.{name}"))


def chosen(parts: Sequence[str], known: Sequence[str]) -> list[str]:
    """The games whose names contain one of these texts; without any, all that are known."""
    for part in parts:
        if not any(part in name for name in known):
            raise ValueError(f"games: no name contains {part!r}; there are {', '.join(known)}")
    return [name for name in known if not parts or any(part in name for part in parts)]


def counts(numbers: Sequence[int]) -> list[int] | None:
    """How many at once, each at least 1; None, for the usual ones, if there are none."""
    return [check_int("numbers", number, 1, INT32_MAX) for number in numbers] or None

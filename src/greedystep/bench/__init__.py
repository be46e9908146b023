"""Timings beside other packages, one module a subject, imported when asked for.

A benchmark is a module with `run(out, repeats) -> dict`, which writes out/NAME.json and out/NAME.md; it may have
options of its own.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, cast

Name = Literal["envs", "planning", "returns", "train"]


class Benchmark(Protocol):
    """The shape of a benchmark's module."""

    def run(self, out: Path, repeats: int, **options: Any) -> dict[str, Any]: ...


def load(name: Name) -> Benchmark:
    """The benchmark of that name."""
    return cast(Benchmark, import_module(f"greedystep.bench.{name}"))

"""What is run, kept and found again: a batch of trials that differ in their seed alone, cut into pieces.

A piece is one JSON file, written when its trials are done and never again. It is found by everything that decides its
numbers, so that a run with other settings in the same folder neither uses nor overwrites it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from greedystep.io import jsonable, read_json, write_json
from greedystep.provenance import config_hash, provenance

PIECE = 3e8
"""Steps a piece, at most, if a trial has no more: half a minute of one core, which an interruption may cost."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Trials of one method on one task."""

    name: str
    """How its files begin."""
    label: str
    """What is said of it while it runs."""
    settings: dict[str, Any]
    """Everything that decides its numbers but the seed, in JSON's types."""
    trials: int
    """With the seeds 0, 1, 2, ..."""
    cost: float
    """Of a trial in steps of a table, roughly: long ones come first."""
    prepare: Callable[[], Callable[[int], Any]]
    """Makes the task and returns what runs a trial: seed -> what was found, in JSON's types."""
    is_whole: Callable[[Any], bool]
    """Whether this, from a file, can be what a trial found."""

    def pieces(self) -> Iterator[Piece]:
        together = max(1, int(PIECE / self.cost))
        for first in range(0, self.trials, together):
            yield Piece(self, range(first, min(first + together, self.trials)))


@dataclass(frozen=True, eq=False)
class Piece:
    """Some seeds of a batch."""

    batch: Batch
    seeds: range

    @cached_property
    def config(self) -> dict[str, Any]:
        return jsonable({**self.batch.settings, "seeds": [self.seeds.start, self.seeds.stop]})

    @cached_property
    def file(self) -> str:
        return f"{self.batch.name}-{self.seeds.start}-{config_hash(self.config)[:8]}.json"


class Kept:
    """The pieces in a folder; `problems` says in a sentence each what could not be read.

    Args:
        folder: None to keep nothing on the disk.
    """

    def __init__(self, folder: Path | None = None):
        self.folder, self.problems = folder, []
        self._found: dict[str, list[Any] | None] = {}

    def get(self, piece: Piece) -> list[Any] | None:
        """What its trials found, in the order of the seeds, or None; a damaged file counts as missing."""
        if piece.file not in self._found:
            self._found[piece.file] = self._read(piece)
        return self._found[piece.file]

    def keep(self, piece: Piece, found: list[Any]) -> None:
        found = jsonable(found)
        if self.folder is not None:
            content = {"config": piece.config, "trials": found, "provenance": self._provenance}
            write_json(self.folder / piece.file, content)
        self._found[piece.file] = found

    def of(self, batch: Batch) -> list[Any] | None:
        """What all trials of a batch found; None while some are missing."""
        parts = [self.get(piece) for piece in batch.pieces()]
        return None if any(part is None for part in parts) else [trial for part in parts for trial in part or ()]

    @cached_property
    def _provenance(self) -> dict[str, Any]:
        """The same for all pieces of a run: asking takes longer than many a piece."""
        made = provenance({})
        return {name: made[name] for name in ("command", "versions", "python", "platform", "cpu", "commit", "date")}

    def _read(self, piece: Piece) -> list[Any] | None:
        if self.folder is None or not (path := self.folder / piece.file).is_file():
            return None
        try:
            content = read_json(path)
            if not (isinstance(content, dict) and content.get("config") == piece.config):
                raise ValueError(f"{path} does not say that it holds {piece.batch.label}")
            found = content.get("trials")
            if not (
                isinstance(found, list) and len(found) == len(piece.seeds) and all(map(piece.batch.is_whole, found))
            ):
                raise ValueError(f"{path} does not hold {len(piece.seeds)} whole trials")
        except (ValueError, OSError) as problem:
            self.problems.append(f"{problem}; its trials count as missing")
            return None
        return found

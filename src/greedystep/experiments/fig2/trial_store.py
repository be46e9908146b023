"""Batches of trials that differ in their seed alone, divided into pieces that are run and kept.

Trials run in threads, or in the workers of a cluster.

A piece is one part (see `runs.part_store`), written when its trials are done. It is found by everything that decides
its numbers, so that a run with other settings in the same folder neither uses nor overwrites it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Event
from typing import Any, NamedTuple

from greedystep.io import jsonable
from greedystep.provenance import available_cores, config_hash, provenance
from greedystep.runs.job_queue import run_jobs
from greedystep.runs.part_store import Parts, PartStore
from greedystep.runs.progress import ReportProgress, WorkProgress
from greedystep.runs.ray_workers import MOST_WAITING, Report

FOLDER = "fig2"
"""Subfolder of the parts that holds pieces of trials."""
PIECE = 3e8
"""Largest number of steps per piece of several trials: half a minute of one core, which an interruption may cost."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Trials of one method on one task."""

    name: str
    """Prefix of the names of the batch's parts."""
    label: str
    """What the progress line says while the batch runs."""
    settings: dict[str, Any]
    """Settings that decide the batch's numbers, without the seed, in JSON's types."""
    trials: int
    """Number of trials, with the seeds 0, 1, 2, ..."""
    cost: float
    """Rough cost of a trial in steps of a table; expensive batches run first."""
    prepare: Callable[[], Callable[[int], Any]]
    """Makes the task and returns a function that runs a trial: seed -> result in JSON's types."""
    is_whole: Callable[[Any], bool]
    """Whether a value read from a file can be the result of a trial."""

    def pieces(self) -> Iterator[Piece]:
        """Divide the trials into pieces of at most PIECE steps, or of one trial."""
        together = max(1, int(PIECE / self.cost))
        for first in range(0, self.trials, together):
            seeds = range(first, min(first + together, self.trials))
            config = jsonable({**self.settings, "seeds": [seeds.start, seeds.stop]})
            yield Piece(self, seeds, config, f"{FOLDER}/{self.name}-{first}-{config_hash(config)[:8]}.json")


class Piece(NamedTuple):
    """Trials of a batch with consecutive seeds, which are stored together as one part."""

    batch: Batch
    seeds: range
    config: dict[str, Any]
    file: str
    """The name of the piece's part."""


class TrialStore:
    """Finished pieces in a folder of parts; `problems` has a sentence for each that cannot be read."""

    def __init__(self, parts: Parts = None):
        self._parts = PartStore.at(parts)
        self.workers = self._parts.workers
        self.problems = [*self._parts.problems]
        self._found: dict[str, list[Any] | None] = {}

    def get(self, piece: Piece) -> list[Any] | None:
        """Return the results of a piece's trials, in the order of the seeds; None if the part is missing or damaged."""
        if piece.file not in self._found:
            try:
                self._found[piece.file] = self._read(piece)
            except (ValueError, OSError) as problem:
                self.problems.append(f"{problem}; its trials count as missing")
                self._found[piece.file] = None
        if self._found[piece.file] is not None:
            self._parts.use(piece.file)
        return self._found[piece.file]

    def keep(self, piece: Piece, found: list[Any]) -> None:
        found = jsonable(found)
        self._parts.write(piece.file, {"config": piece.config, "trials": found, "provenance": self._provenance})
        self._found[piece.file] = found

    def of(self, batch: Batch) -> list[Any] | None:
        """Return the results of all trials of a batch; None while some are missing."""
        parts = [self.get(piece) for piece in batch.pieces()]
        return None if any(part is None for part in parts) else [trial for part in parts for trial in part or ()]

    @cached_property
    def _provenance(self) -> dict[str, Any]:
        """Provenance of the pieces of this run; computed once, since that takes longer than many a piece."""
        made = provenance({})
        return {name: made[name] for name in ("command", "versions", "python", "platform", "cpu", "commit", "date")}

    def _read(self, piece: Piece) -> list[Any] | None:
        """Return the results in a piece's part, None if there is no part; ValueError says what is wrong with it."""
        content = self._parts.read(piece.file)
        if content is None:
            return None
        where = self._parts.where(piece.file)
        if not (isinstance(content, dict) and content.get("config") == piece.config):
            raise ValueError(f"{where} does not say that it holds {piece.batch.label}")
        found = content.get("trials")
        if not (isinstance(found, list) and [*map(piece.batch.is_whole, found)] == [True] * len(piece.seeds)):
            raise ValueError(f"{where} does not hold {len(piece.seeds)} whole trials")
        return found


def run_trials(batches: Sequence[Batch], kept: TrialStore, progress: ReportProgress) -> None:
    """Run the trials that are not stored yet, the longest ones first, and store every piece as soon as it is complete.

    An exception in a trial, or Ctrl-C, is raised here, and no further piece is begun.
    """
    pieces = sorted((piece for batch in batches for piece in batch.pieces()), key=lambda piece: -piece.batch.cost)
    missing = [piece for piece in pieces if kept.get(piece) is None]
    found: dict[str, dict[int, Any]] = {piece.file: {} for piece in missing}
    total, left = (sum(len(piece.seeds) for piece in some) for some in (pieces, missing))
    share = WorkProgress(progress, sum(piece.batch.cost * len(piece.seeds) for piece in missing))
    share.advance(0, f"{total - left:,} of {total:,} trials are there already")

    def jobs() -> Iterator[Callable[[], tuple[Piece, int, Any]]]:
        for piece in missing:
            trial = piece.batch.prepare()
            for seed in piece.seeds:
                yield lambda piece=piece, trial=trial, seed=seed: (piece, seed, trial(seed))

    def on_done(done: tuple[Piece, int, Any]) -> None:
        nonlocal left
        piece, seed, result = done
        found[piece.file][seed] = result
        if len(found[piece.file]) == len(piece.seeds):
            by_seed = found.pop(piece.file)
            kept.keep(piece, [by_seed[seed] for seed in piece.seeds])
        left -= 1
        share.advance(piece.batch.cost, f"{left:,} of {total:,} trials left; {piece.batch.label}")

    workers = kept.workers
    if workers is None:
        run_jobs(jobs(), available_cores(), on_done)
        return
    stop = Event()

    def run_elsewhere(piece: Piece) -> tuple[Piece, list[Any]]:
        label, prepare = piece.batch.label, piece.batch.prepare
        return piece, workers.call(label, run_piece, prepare, piece.seeds, should_stop=stop.is_set)

    def on_piece(done: tuple[Piece, list[Any]]) -> None:
        for seed, result in zip(done[0].seeds, done[1], strict=True):
            on_done((done[0], seed, result))

    run_jobs((partial(run_elsewhere, piece) for piece in missing), MOST_WAITING, on_piece, stop.set)


def run_piece(
    prepare: Callable[[], Callable[[int], Any]], seeds: Sequence[int], *, folder: None, report: Report
) -> list[Any]:
    """Run the trials of a piece in a worker of a cluster; it keeps no files."""
    trial, found = prepare(), []
    for seed in seeds:
        found.append(trial(seed))
        report(len(found), f"seed {seed}")
    return found

"""One queue of trials for all cores: the compiled loops let go of the interpreter, so threads are enough."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from greedystep.experiments.fig2.pieces import Batch, Kept, Piece
from greedystep.provenance import available_cores as cores
from greedystep.runs.progress import ReportProgress


def carry_out(batches: Sequence[Batch], kept: Kept, progress: ReportProgress) -> None:
    """Run the trials that are not kept yet, the longest ones first, and keep every piece as soon as it is whole.

    What goes wrong in a trial is raised here, and nothing more is begun then; nor after Ctrl-C.
    """
    pieces = sorted((piece for batch in batches for piece in batch.pieces()), key=lambda piece: -piece.batch.cost)
    missing = [piece for piece in pieces if kept.get(piece) is None]
    tell = _Teller(progress, pieces, missing)
    with ThreadPoolExecutor(cores()) as pool:
        try:
            places: dict[Future[Any], tuple[Piece, int]] = {}
            for piece in missing:
                trial = piece.batch.prepare()
                places |= {pool.submit(trial, seed): (piece, seed) for seed in piece.seeds}
            found: dict[Piece, dict[int, Any]] = {piece: {} for piece in missing}
            for done in as_completed(places):
                piece, seed = places[done]
                found[piece][seed] = done.result()
                if len(found[piece]) == len(piece.seeds):
                    by_seed = found.pop(piece)
                    kept.keep(piece, [by_seed[seed] for seed in piece.seeds])
                tell(piece.batch)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # leaving the context waits for the trials under way
            raise


class _Teller:
    """The share done, by what trials are expected to cost, and how many are left."""

    def __init__(self, progress: ReportProgress, pieces: Sequence[Piece], missing: Sequence[Piece]):
        self._progress = progress
        self._total, self._left = _cost(pieces), _cost(missing)
        self._trials, self._trials_left = _trials(pieces), _trials(missing)
        self._say(f"{self._trials - self._trials_left:,} of {self._trials:,} trials are there already")

    def __call__(self, batch: Batch) -> None:
        self._left -= batch.cost
        self._trials_left -= 1
        self._say(f"{self._trials_left:,} of {self._trials:,} trials left; {batch.label}")

    def _say(self, what: str) -> None:
        self._progress(min(max(1 - self._left / self._total, 0.0), 1.0) if self._total else 1.0, what)


def _cost(pieces: Sequence[Piece]) -> float:
    return sum(piece.batch.cost * len(piece.seeds) for piece in pieces)


def _trials(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.seeds) for piece in pieces)

"""Value iteration in blocks: Gauss-Seidel sweeps of those blocks of states that still change.

A block is a range of state numbers, small enough for the cache. It is swept a few times in a row; then the blocks that
read its values may have to change by as much, discounted, and are pending. Blocks are visited in passes up and down the
numbering, first those with large changes pending, then those with smaller ones (prioritized sweeping over blocks:
Wingate and Seppi 2005). Where values flow through a model this visits each part of it only while the flow is there.

No second copy of the model is made, so that this is the method for models that fill the memory and for those that have
no matrix. The values start below v* and rise: v <= Bv.

Each core has a range of blocks per pass. It reads the others' values as they were before the pass, so that the result
does not depend on timing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from greedystep import provenance
from greedystep.planning import kernels
from greedystep.planning.backups import BellmanBackup, Iteration, SparseModel
from greedystep.planning.block_kernels import copy_blocks, list_table_read_blocks, visit_table_blocks
from greedystep.planning.matrix_free import MatrixFreeMDP
from greedystep.planning.row_sources import Place, Visits
from greedystep.signals import CHUNK, Deadline

BLOCK = 2048  # states per block: the rows of four actions with three successors each take 400 kB
INNER_SWEEPS = 8  # most sweeps of a block per visit
MOST_READS = 64  # blocks that a block reads on average; with more of them, all blocks are swept in every pass
REDUCTION = 0.1  # blocks are visited until nothing above this share of the largest pending change is left
BLOCKS_PER_PIECE = 8  # pending blocks from which a core is worth waking
MOST_PASSES = 4  # passes after which values without termination are shifted to a better lower bound
ENDLESS = 1 - 1e-9  # the smallest sum of a row from which a model counts as one without termination
MIXING = 0.8  # a model mixes if each backup reduces the span of Bv - v to this share of it, or less
MIXING_TRIALS = 3  # backups in a row that may do worse


class BlockModel(Protocol):
    """What the iteration needs of a model."""

    discount: float
    row_sums: tuple[float, float]
    entries_per_state: int
    parallel: bool

    def backup(self, v: np.ndarray, deadline: Deadline | None = None) -> BellmanBackup: ...

    def visit(self, v: np.ndarray, w: np.ndarray, task: Visits, place: Place) -> tuple[int, int, float]: ...

    def list_reads(self, begin: int, end: int, seen: np.ndarray, start: np.ndarray, found: np.ndarray) -> bool: ...


class TableBlocks:
    """The blocks of a sparse model with a transition table."""

    parallel = True

    def __init__(self, model: SparseModel, row_sums: tuple[float, float]):
        self._model, self.discount, self.row_sums = model, model.discount, row_sums
        self.entries_per_state = max(1, model.table.probability.size // (model.table.first.size - 1))

    def backup(self, v: np.ndarray, deadline: Deadline | None = None) -> BellmanBackup:
        return self._model.backup(v)

    def visit(self, v: np.ndarray, w: np.ndarray, task: Visits, place: Place) -> tuple[int, int, float]:
        return visit_table_blocks(self._model.table, self.discount, v, w, BLOCK, *task, *place)

    def list_reads(self, begin: int, end: int, seen: np.ndarray, start: np.ndarray, found: np.ndarray) -> bool:
        table = self._model.table
        return list_table_read_blocks(table, BLOCK, begin, end, table.first.size - 1, seen, start, found)


class FunctionBlocks:
    """The blocks of a model without a matrix."""

    def __init__(self, mdp: MatrixFreeMDP):
        self._mdp, self.discount, self.row_sums = mdp, mdp.discount, mdp.row_sums
        self.entries_per_state = mdp.num_actions * mdp.widest_row
        self.parallel = mdp.source.parallel

    def backup(self, v: np.ndarray, deadline: Deadline | None = None) -> BellmanBackup:
        """Return Bv with the greedy actions and the range of Bv - v."""
        out, choice = np.empty_like(v), np.empty(v.size, np.int8 if self._mdp.num_actions <= 127 else np.int16)
        chunks = ((0, v.size),) if deadline is None else deadline.chunks(v.size, v.size * self.entries_per_state)
        ranges = [
            one for begin, end in chunks for one in self._mdp.source.backup(self.discount, v, out, choice, begin, end)
        ]
        return BellmanBackup(v, out, choice, min(low for low, _ in ranges), max(high for _, high in ranges))

    def visit(self, v: np.ndarray, w: np.ndarray, task: Visits, place: Place) -> tuple[int, int, float]:
        return self._mdp.source.visit(self.discount, v, w, BLOCK, task, place)

    def list_reads(self, begin: int, end: int, seen: np.ndarray, start: np.ndarray, found: np.ndarray) -> bool:
        return self._mdp.source.list_reads(BLOCK, begin, end, seen, start, found)


def block_readers(model: BlockModel, states: int, deadline: Deadline) -> tuple[np.ndarray, np.ndarray] | None:
    """Return which blocks read each block, (start int64 [blocks + 1], block int64); None if they are too many to list.

    Then the numbering of the states says nothing about which of them lead to each other.
    """
    blocks = -(-states // BLOCK)
    seen, start, found = np.full(blocks, -1), np.zeros(blocks + 1, np.int64), np.empty(blocks * MOST_READS, np.int64)
    for begin, end in deadline.chunks(blocks, states * model.entries_per_state):
        if not model.list_reads(begin, end, seen, start, found):
            return None
    reads = sp.csr_array((np.ones(start[-1], np.int8), found[: start[-1]], start), shape=(blocks, blocks))
    read_by = sp.csr_array(reads.T)
    return read_by.indptr.astype(np.int64), read_by.indices.astype(np.int64)


def without_matrix(model: FunctionBlocks, v: np.ndarray, tolerance: float, deadline: Deadline) -> Iterator[Iteration]:
    """Solve a model without a matrix from the values v: by backups of all states if it mixes, in blocks if not."""
    sweeps = 0.0
    if model.row_sums[0] >= ENDLESS:
        best, vain = np.inf, 0
        while vain < MIXING_TRIALS:
            backup = model.backup(v, deadline)
            sweeps += 1
            yield Iteration(lambda v=backup.out: v, backup, sweeps)
            span = backup.high - backup.low
            vain = 0 if span <= MIXING * best else vain + 1
            best = min(best, span)
            v = backup.out + lower_shift(model, backup)
            del backup
    readers = block_readers(model, v.size, deadline)
    yield from blocked_value_iteration(model, v, readers, sweeps, tolerance, deadline)


def lower_shift(model: BlockModel, backup: BellmanBackup) -> float:
    """Return c with Bv + c <= v* (MacQueen, see certificate.py), up to rounding; 0 where rows sum to 1 / γ or more."""
    least, most = (model.discount * total for total in model.row_sums)
    beta = most if backup.low < 0 else least
    return beta * backup.low / (1.0 - beta) if most < 1.0 else 0.0


def blocked_value_iteration(
    model: BlockModel,
    v: np.ndarray,
    readers: tuple[np.ndarray, np.ndarray] | None,
    sweeps: float,
    tolerance: float,
    deadline: Deadline,
) -> Iterator[Iteration]:
    """Iterate towards v* from v; `readers` comes from `block_readers`, None sweeps all blocks in every pass."""
    blocks, endless = -(-v.size // BLOCK), model.row_sums[0] >= ENDLESS
    final = 0.5 * tolerance * (1.0 - model.discount)
    backup = model.backup(v, deadline)
    sweeps += 1
    yield Iteration(lambda v=backup.out: v, backup, sweeps)
    scale = max(abs(backup.low), abs(backup.high))
    w = backup.out + lower_shift(model, backup)
    del backup, v
    work = _Passes(model, w, readers or (np.zeros(blocks + 1, np.int64), np.empty(0, np.int64)), deadline)
    threshold, backward = final if readers is None else max(REDUCTION * scale, final), True
    while True:
        passes = 0
        while (work.pending > threshold).any() and not (endless and passes >= MOST_PASSES):
            count, change = work.run(threshold, backward, INNER_SWEEPS if readers else 1)
            if readers is None:
                work.pending[:] = model.discount * change
            sweeps += count / blocks
            backward, passes = not backward, passes + 1
            yield Iteration(w.copy, None, sweeps, change)
        if endless or threshold <= final:
            work.free()
            backup = model.backup(w.copy(), deadline)
            sweeps += 1
            yield Iteration(lambda v=backup.out: v, backup, sweeps)
            if backup.low == backup.high == 0.0:
                return
            shift = lower_shift(model, backup) if endless else 0.0
            endless = shift > final  # not where a state is absorbing, whose values stay as they are
            if endless:
                work.restart(backup.out, shift, model.discount * (backup.high - backup.low))
            del backup  # it may be the size of the model
            final *= 0.2 if threshold <= final else 1.0
        threshold = final if readers is None else max(final, min(threshold, REDUCTION * float(work.pending.max())))


class _Passes:
    """Passes over the blocks of the values w, in place and on all cores."""

    def __init__(self, model: BlockModel, w: np.ndarray, readers: tuple[np.ndarray, np.ndarray], deadline: Deadline):
        self._model, self._w, self._readers, self._deadline = model, w, readers, deadline
        blocks = readers[0].size - 1
        self.pending = np.full(blocks, np.inf)
        """float64 [blocks]: how much the backup of each block may differ from its values, at most."""
        self._pieces = provenance.available_cores() if model.parallel else 1
        self._others = np.zeros((self._pieces, blocks))
        self._visited = np.zeros(blocks, bool)
        self._before: np.ndarray | None = None  # the values before a pass, which other threads read
        self._most = max(1, CHUNK // (BLOCK * model.entries_per_state * INNER_SWEEPS))

    def restart(self, v: np.ndarray, shift: float, pending: float) -> None:
        """Go on from the values v + shift, with the same change pending everywhere."""
        np.add(v, shift, out=self._w)
        self.pending[:] = pending

    def free(self) -> None:
        """Free the copy of the values; the next pass makes another."""
        self._before = None

    def run(self, threshold: float, backward: bool, inner: int) -> tuple[int, float]:
        """Make one pass; returns (sweeps of blocks, largest change of a value)."""
        active = np.flatnonzero(self.pending > threshold)
        pieces = min(self._pieces, max(1, active.size // BLOCKS_PER_PIECE))
        inner_edges = (int(active[active.size * i // pieces]) for i in range(1, pieces))
        ranges = list(pairwise([0, *inner_edges, self.pending.size]))
        if self._before is None and self._pieces > 1:
            self._before = self._w.copy()
        before = self._w if pieces == 1 or self._before is None else self._before
        at = [end - 1 if backward else begin for begin, end in ranges]
        total, largest = 0, 0.0

        def visit(first: int, last: int) -> list[tuple[int, int, float]]:
            found = []
            for i in range(first, last):
                choose = (self._readers, self.pending, self._others[i], self._visited)
                task = Visits(*choose, threshold, backward, inner)
                found.append(self._model.visit(before, self._w, task, Place(*ranges[i], at[i], self._most)))
            return found

        while any(begin <= i < end for i, (begin, end) in zip(at, ranges, strict=True)):
            self._deadline.check()
            entries = kernels.PARALLEL_FROM if pieces > 1 else 0
            done = kernels.run_parallel(visit, end=pieces, entries=entries)
            for i, (place, sweeps, change) in enumerate(one for some in done for one in some):
                at[i], total, largest = place, total + sweeps, max(largest, change)
        if self._before is not None:
            copy_blocks(self._w, self._before, self._visited, BLOCK)
            self.pending += self._others.sum(axis=0)
            self._others[:] = 0.0
        return total, largest

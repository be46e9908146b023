"""Where the rows of a model without a matrix come from: a compiled function, or a function that returns arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core.errors import NumbaError
from numba.extending import is_jitted

from greedystep.mdp_checks import ROW_SUM_TOLERANCE
from greedystep.planning import block_kernels, kernels
from greedystep.planning.block_kernels import specialised

STATES_PER_CALL = 65_536  # states whose rows are asked for at once from a function that returns arrays
SUCCESSORS = 4  # assumed per row, to judge how long a loop takes


class Visits(NamedTuple):
    """What `visit_blocks` needs to know to choose blocks; see there."""

    readers: tuple[np.ndarray, np.ndarray]  # (start int64 [blocks + 1], block int64): who reads each block
    pending: np.ndarray  # float64 [blocks]
    others: np.ndarray  # float64 [blocks], of one thread
    visited: np.ndarray  # bool [blocks]
    threshold: float
    backward: bool
    inner: int


class Place(NamedTuple):
    """Where a thread goes on: at block `at` of its blocks begin .. end - 1, for at most `most` visits."""

    begin: int
    end: int
    at: int
    most: int


class RowLoops:
    """The loops of block_kernels.py for one row function, each compiled when it is first used."""

    def __init__(self, row: Any, actions: int):
        self._row, self._actions = row, actions

    def _compiled(self, loop: Callable[..., Any], **functions: Any) -> Any:
        return specialised(loop, loop.__name__, cache=False, row=self._row, ACTIONS=self._actions, **functions)

    @cached_property
    def check(self) -> Any:
        return self._compiled(block_kernels.check_rows)

    @cached_property
    def backup(self) -> Any:
        return self._compiled(block_kernels.backup_rows)

    @cached_property
    def visit(self) -> Any:
        return self._compiled(block_kernels.visit_blocks, sweep=self._compiled(block_kernels.sweep_rows))

    @cached_property
    def list_reads(self) -> Any:
        reads = self._compiled(block_kernels.list_row_reads)
        return self._compiled(block_kernels.list_read_blocks, list_reads=reads)

    @cached_property
    def action_values(self) -> Any:
        return self._compiled(block_kernels.values_of_rows)


row_loops = lru_cache(16)(RowLoops)
"""`RowLoops`, kept for the next model with the same function."""


class RowSource(ABC):
    """The rows of one model and the loops over them."""

    name: str  # of the argument, for messages
    parallel: bool  # whether the loops may run on several cores

    def __init__(self, row: Any, states: int, actions: int):
        self._loops, self._states, self._actions = row_loops(row, actions), states, actions

    @abstractmethod
    def row(self, s: int, a: int) -> Any:
        """Return (successors, probabilities, reward) of action a in state s."""

    @abstractmethod
    def pieces(self, begin: int, end: int) -> Iterator[tuple[tuple[Any, ...], int, int]]:
        """Split states begin .. end - 1 into ranges; yields (arguments of `row` besides s and a, begin, end)."""

    def _run(self, loop: Any, *arguments: Any, begin: int, end: int) -> list[Any]:
        found = []
        for args, first, last in self.pieces(begin, end):
            entries = SUCCESSORS * (last - first) * self._actions
            found += kernels.run_parallel(loop, args, *arguments, begin=first, end=last, entries=entries)
        return found

    def check(self, begin: int, end: int) -> list[Any]:
        """Check the rows of states begin .. end - 1; returns what `check_rows` does, for each piece."""
        return self._run(self._loops.check, self._states, ROW_SUM_TOLERANCE, begin=begin, end=end)

    def backup(
        self, discount: float, v: np.ndarray, out: np.ndarray, choice: np.ndarray, begin: int, end: int
    ) -> list[tuple[float, float]]:
        """Compute Bv and the greedy actions of states begin .. end - 1; returns (min, max) of Bv - v of each piece."""
        return self._run(self._loops.backup, discount, v, out, choice, begin=begin, end=end)

    def action_values(self, discount: float, v: np.ndarray, q: np.ndarray) -> None:
        """Compute q(s, a) of the values v into q [S, A]."""
        self._run(self._loops.action_values, discount, v, q, begin=0, end=len(q))

    @abstractmethod
    def visit(
        self, discount: float, v: np.ndarray, w: np.ndarray, size: int, task: Visits, place: Place
    ) -> tuple[int, int, float]:
        """Sweep the next blocks, as `visit_blocks` does."""

    def list_reads(
        self, size: int, begin: int, end: int, seen: np.ndarray, start: np.ndarray, found: np.ndarray
    ) -> bool:
        """List the blocks that each of the blocks begin .. end - 1 leads to, as `list_read_blocks` does."""
        for args, first, last in self.pieces(begin * size, min(self._states, end * size)):
            if not self._loops.list_reads(
                args, size, first // size, -(-last // size), self._states, seen, start, found
            ):
                return False
        return True


class RowFunction(RowSource):
    """Rows from a function that numba compiles."""

    name = "row"
    parallel = True

    def __init__(self, row: Callable[..., Any], args: tuple[Any, ...], states: int, actions: int):
        self._row, self._args = row if is_jitted(row) else njit(row), args
        super().__init__(self._row, states, actions)
        try:
            first = self.row(0, 0)
        except NumbaError as problem:
            raise ValueError(f"row: numba cannot compile the function: {_reason(problem)}") from None
        except TypeError as problem:
            raise ValueError(f"row: it cannot be called with a state, an action and `args`: {problem}") from None
        if not (isinstance(first, tuple) and len(first) == 3 and all(hasattr(one, "__len__") for one in first[:2])):
            raise ValueError(f"row: expected (successors, probabilities, reward), got {first!r}")

    def check(self, begin: int, end: int) -> list[Any]:
        try:
            return super().check(begin, end)
        except NumbaError as problem:
            raise ValueError(f"row: numba cannot compile a loop over its rows: {_reason(problem)}") from None

    def row(self, s: int, a: int) -> Any:
        return self._row(s, a, *self._args)

    def pieces(self, begin: int, end: int) -> Iterator[tuple[tuple[Any, ...], int, int]]:
        yield self._args, begin, end

    def visit(
        self, discount: float, v: np.ndarray, w: np.ndarray, size: int, task: Visits, place: Place
    ) -> tuple[int, int, float]:
        return self._loops.visit(self._args, discount, v, w, size, *task, *place)


def _reason(problem: NumbaError) -> str:
    """Return the line of a compiler's message that says what is wrong."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in")), "no reason given")


@njit
def _array_row(s, a, successors, probabilities, rewards, begin):
    return successors[s - begin, a], probabilities[s - begin, a], rewards[s - begin, a]


class RowArrays(RowSource):
    """Rows from a function that returns arrays for a range of states; Python calls it, one range after the other."""

    name = "rows"
    parallel = False

    def __init__(self, rows: Callable[[int, int], Any], states: int, actions: int):
        super().__init__(_array_row, states, actions)
        self._rows = rows

    def row(self, s: int, a: int) -> Any:
        return tuple(one[0, a] for one in self.arrays(s, s + 1))

    def pieces(self, begin: int, end: int) -> Iterator[tuple[tuple[Any, ...], int, int]]:
        for first in range(begin, end, STATES_PER_CALL):
            last = min(end, first + STATES_PER_CALL)
            yield (*self.arrays(first, last), first), first, last

    def arrays(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Call the function; ValueError if what it returns has the wrong shape or dtype."""
        found = self._rows(begin, end)
        if not (isinstance(found, tuple | list) and len(found) == 3):
            raise ValueError(f"rows: expected (successors, probabilities, rewards), got {type(found).__name__}")
        to, p, rewards = (np.asarray(one) for one in found)
        shape = (end - begin, self._actions)
        if (
            p.ndim != 3
            or p.shape[:2] != shape
            or to.shape != p.shape
            or rewards.shape != shape
            or to.dtype.kind not in "iu"
        ):
            n, A = shape
            raise ValueError(
                f"rows: for states {begin} to {end} expected successors int [{n}, {A}, b], probabilities [{n}, {A}, b] "
                f"and rewards [{n}, {A}], got {to.dtype} {list(to.shape)}, {list(p.shape)} and {list(rewards.shape)}"
            )
        return (
            np.ascontiguousarray(to, np.int64),
            np.ascontiguousarray(p, np.float64),
            np.ascontiguousarray(rewards, np.float64),
        )

    def visit(
        self, discount: float, v: np.ndarray, w: np.ndarray, size: int, task: Visits, place: Place
    ) -> tuple[int, int, float]:
        # Rows of one block at a time: sweeps of it follow each other, so that they are asked for once per visit.
        begin, end, at, most = place
        step, sweeps, largest = -1 if task.backward else 1, 0, 0.0
        while begin <= at < end and most > 0:
            if task.pending[at] > task.threshold:
                first, last = at * size, min(v.size, at * size + size)
                rows = (*self.arrays(first, last), first)
                # Of all blocks this thread's are begin .. end - 1, but it looks at this one only.
                _, done, change = self._loops.visit(rows, discount, v, w, size, *task, begin, end, at, 1)
                sweeps, largest, most = sweeps + done, max(largest, change), most - 1
            at += step
        return at, sweeps, largest

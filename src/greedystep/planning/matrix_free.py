"""MDPs without a matrix: a function returns the row of a state and an action whenever the solver needs it.

Nothing is stored per transition, so that a model takes no more memory than a few arrays of values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numba.core.errors import NumbaError
from numba.extending import is_jitted

from greedystep.checks import check_float, check_int, check_memory
from greedystep.mdp import MDP
from greedystep.mdp_checks import ROW_SUM_TOLERANCE
from greedystep.planning import block_kernels, kernels
from greedystep.planning.block_kernels import END, specialised
from greedystep.signals import Deadline

MOST_ACTIONS = 2**15  # actions fit into int16
STATES_PER_CALL = 65_536  # states whose rows are asked for at once from a function that returns arrays
SUCCESSORS = 4  # assumed per row, to judge how long a loop takes


class MatrixFreeMDP:
    """A finite MDP whose rows a function computes, checked when it is made; `gs.solve` takes it.

    Args:
        row: row(s, a) -> (successors, probabilities, reward), compiled with numba: successors and probabilities are
            tuples (or arrays) of one length, the same for all rows; entries of probability 0 fill up shorter ones.
            The successor -1 ends the episode: the value after it is 0. A reward of -inf marks an action that the state
            does not have. The function has to return the same row every time.
        num_states: S; states are 0 .. S - 1.
        num_actions: A.
        discount: γ in (0, 1).
        args: further arguments of `row`, such as arrays that it reads: row(s, a, *args).

    States with neighbouring numbers should lead to each other as far as possible: the solver works on blocks of them.
    """

    row_sums: tuple[float, float]
    """(smallest, largest) sum of the probabilities of successors of an available action, for error bounds."""

    def __init__(
        self, row: Callable[..., Any], num_states: int, num_actions: int, discount: float, *, args: tuple[Any, ...] = ()
    ):
        if not callable(row):
            raise ValueError(f"row: expected a function of a state and an action, got {type(row).__name__}")
        if not isinstance(args, tuple):
            raise ValueError(f"args: expected a tuple of further arguments of the function, got {type(args).__name__}")
        self._make(lambda S, A: RowFunction(row, args, S, A), num_states, num_actions, discount)

    @classmethod
    def from_blocks(
        cls, rows: Callable[[int, int], Any], num_states: int, num_actions: int, discount: float
    ) -> MatrixFreeMDP:
        """Make a model from a function of NumPy arrays, which needs no compiling but is slower.

        Args:
            rows: rows(begin, end) -> (successors int [n, A, b], probabilities float [n, A, b], rewards float [n, A])
                of the n = end - begin states from `begin` on, with the rules of `row`.
            num_states: S.
            num_actions: A.
            discount: γ in (0, 1).
        """
        if not callable(rows):
            raise ValueError(f"rows: expected a function of two state numbers, got {type(rows).__name__}")
        model = cls.__new__(cls)
        model._make(lambda S, A: RowArrays(rows, S, A), num_states, num_actions, discount)
        return model

    def _make(
        self, source: Callable[[int, int], RowSource], num_states: int, num_actions: int, discount: float
    ) -> None:
        self.num_states = check_int("num_states", num_states)
        self.num_actions = check_int("num_actions", num_actions, 1, MOST_ACTIONS)
        self.discount = check_float("discount", discount, 0, 1, above=True)
        if self.discount == 1.0:
            raise ValueError("discount: a matrix-free model needs a discount below 1; make an MDP for discount 1")
        self.source = source(self.num_states, self.num_actions)
        numbers = self._check()
        self.row_sums = numbers.least, numbers.most
        self.largest_reward, self.widest_row = numbers.largest_reward, numbers.longest

    def _check(self) -> RowNumbers:
        """Check every row; return their smallest and largest sum, largest absolute reward and largest length."""
        found = []
        with Deadline() as deadline:
            entries = self.num_states * self.num_actions
            for begin, end in deadline.chunks(self.num_states, SUCCESSORS * entries):
                found += self.source.check(begin, end)
        for problem, s, a, _ in found:
            if problem != block_kernels.FINE:
                raise ValueError(self._problem(problem, int(s), int(a)))
        numbers = [RowNumbers(*row_numbers) for *_, row_numbers in found]
        return RowNumbers(
            min(one.least for one in numbers),
            max(one.most for one in numbers),
            max(one.largest_reward for one in numbers),
            max(one.longest for one in numbers),
        )

    def _problem(self, problem: int, s: int, a: int) -> str:
        """Return in one sentence what is wrong with a row."""
        to, p, reward = self.source.row(s, a)
        to, p = np.asarray(to), np.asarray(p)
        where = f"{self.source.name}: state {s}, action {a}"
        if problem == block_kernels.NO_ACTION:
            return f"{self.source.name}: state {s} has no available action; the successor {END} with reward 0 ends"
        if problem == block_kernels.LENGTHS:
            return f"{where} has {len(to)} successors, but {len(p)} probabilities"
        if problem == block_kernels.SUCCESSOR:
            wrong = to[(to < END) | (to >= self.num_states)][0]
            return f"{where} leads to state {wrong}; expected 0..{self.num_states - 1}, or {END} for the end"
        if problem == block_kernels.PROBABILITY:
            return f"{where} has the probability {p[~(p >= 0)][0]}; probabilities must be >= 0"
        if problem == block_kernels.REWARD:
            return f"{where} has the reward {reward}; rewards must be finite (-inf: unavailable action)"
        return f"{where} has probabilities that sum to {p.sum():.12g}, not to 1"

    def __repr__(self) -> str:
        size = f"{self.num_states} states, {self.num_actions} actions"
        return f"MatrixFreeMDP({size}, up to {self.widest_row} successors, discount {self.discount:g})"

    def backup(self, values: np.ndarray) -> np.ndarray:
        """Return r(s, a) + γ Σ_s' p(s' | s, a) v(s'), [S] -> [S, A]; -inf where the action is not available."""
        shape = (self.num_states, self.num_actions)
        check_memory(f"action values of {self.num_states} states x {self.num_actions} actions", 8 * shape[0] * shape[1])
        q, values = np.empty(shape), np.ascontiguousarray(values, np.float64)
        self.source.action_values(self.discount, values, q)
        return q

    def to_mdp(self) -> MDP:
        """Return the model with its matrix: an `MDP`, for the methods that need one."""
        S, A = self.num_states, self.num_actions
        check_memory(f"matrix of {S} states x {A} actions", S * A * (60 + 50 * self.widest_row))
        found = [self.source.row(s, a) for s in range(S) for a in range(A)]
        to, p = (np.array([one[i] for one in found]).reshape(S, A, -1) for i in (0, 1))
        rewards = np.array([one[2] for one in found], float).reshape(S, A)
        ends = np.where(to == END, p, 0.0).sum(axis=2)
        unavailable = rewards == -np.inf
        kept = (to != END) & (p > 0) & ~unavailable[:, :, None]
        start = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=2))])
        table = sp.csr_array((p[kept], to[kept], start), shape=(S * A, S))
        table.sum_duplicates()
        termination = np.where(unavailable, 0.0, ends)
        return MDP(table, rewards, self.discount, termination=termination if termination.any() else None)


class Visits(NamedTuple):
    """What `visit_blocks` needs to know to choose blocks; see there."""

    readers: tuple[np.ndarray, np.ndarray]  # (start int64 [blocks + 1], block int64): who reads each block
    pending: np.ndarray  # float64 [blocks]
    others: np.ndarray  # float64 [blocks], of one thread
    visited: np.ndarray  # bool [blocks]
    threshold: float
    backward: bool
    inner: int


class RowNumbers(NamedTuple):
    """What error bounds need to know of the rows."""

    least: float
    most: float
    largest_reward: float
    longest: int


# -- where rows come from ---------------------------------------------------------------------------------------------


class RowSource:
    """The compiled loops of block_kernels.py on the rows of one model."""

    name: str  # of the argument, for messages
    parallel: bool  # whether the loops may run on several cores

    def __init__(self, row: Any, states: int, actions: int):
        self._row, self._states, self._actions = row, states, actions

    def row(self, s: int, a: int) -> Any:
        """Return (successors, probabilities, reward) of action a in state s."""
        raise NotImplementedError

    def pieces(self, begin: int, end: int) -> Iterator[tuple[tuple[Any, ...], int, int]]:
        """Split states begin .. end - 1 into ranges; yields (arguments of `row` besides s and a, begin, end)."""
        raise NotImplementedError

    def _loop(self, loop: Callable[..., Any], **functions: Any) -> Any:
        name = f"{loop.__name__}_of_{self.name}"
        return specialised(loop, name, cache=False, row=self._row, ACTIONS=self._actions, **functions)

    @cached_property
    def _check(self) -> Any:
        return self._loop(block_kernels.check_rows)

    @cached_property
    def _backup(self) -> Any:
        return self._loop(block_kernels.backup_rows)

    @cached_property
    def _visit(self) -> Any:
        return self._loop(block_kernels.visit_blocks, sweep=self._loop(block_kernels.sweep_rows))

    @cached_property
    def _list(self) -> Any:
        return self._loop(block_kernels.list_read_blocks, list_reads=self._loop(block_kernels.list_row_reads))

    def _run(self, loop: Any, *arguments: Any, begin: int, end: int) -> list[Any]:
        found = []
        for args, first, last in self.pieces(begin, end):
            entries = SUCCESSORS * (last - first) * self._actions
            found += kernels.run_parallel(loop, args, *arguments, begin=first, end=last, entries=entries)
        return found

    def check(self, begin: int, end: int) -> list[Any]:
        """Check the rows of states begin .. end - 1; returns what `check_rows` does, for each piece."""
        return self._run(self._check, self._states, ROW_SUM_TOLERANCE, begin=begin, end=end)

    def backup(
        self, discount: float, v: np.ndarray, out: np.ndarray, choice: np.ndarray, begin: int, end: int
    ) -> list[tuple[float, float]]:
        """Compute Bv and the greedy actions of states begin .. end - 1; returns (min, max) of Bv - v of each piece."""
        return self._run(self._backup, discount, v, out, choice, begin=begin, end=end)

    def action_values(self, discount: float, v: np.ndarray, q: np.ndarray) -> None:
        """Compute q(s, a) of the values v into q [S, A]."""
        self._run(self._loop(block_kernels.values_of_rows), discount, v, q, begin=0, end=len(q))

    def visit(
        self,
        discount: float,
        v: np.ndarray,
        w: np.ndarray,
        size: int,
        task: Visits,
        begin: int,
        end: int,
        at: int,
        most: int,
    ) -> tuple[int, int, float]:
        """Sweep the next blocks, as `visit_blocks` does."""
        raise NotImplementedError

    def list_reads(
        self, size: int, begin: int, end: int, seen: np.ndarray, start: np.ndarray, found: np.ndarray
    ) -> bool:
        """List the blocks that each of the blocks begin .. end - 1 leads to, as `list_read_blocks` does."""
        for args, first, last in self.pieces(begin * size, min(self._states, end * size)):
            if not self._list(args, size, first // size, -(-last // size), self._states, seen, start, found):
                return False
        return True


class RowFunction(RowSource):
    """Rows from a function that numba compiles."""

    name = "row"
    parallel = True

    def __init__(self, row: Callable[..., Any], args: tuple[Any, ...], states: int, actions: int):
        super().__init__(row if is_jitted(row) else njit(row), states, actions)
        self._args = args
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
        self,
        discount: float,
        v: np.ndarray,
        w: np.ndarray,
        size: int,
        task: Visits,
        begin: int,
        end: int,
        at: int,
        most: int,
    ) -> tuple[int, int, float]:
        return self._visit(self._args, discount, v, w, size, *task, begin, end, at, most)


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
        self,
        discount: float,
        v: np.ndarray,
        w: np.ndarray,
        size: int,
        task: Visits,
        begin: int,
        end: int,
        at: int,
        most: int,
    ) -> tuple[int, int, float]:
        # Rows of one block at a time: sweeps of it follow each other, so that they are asked for once per visit.
        step, sweeps, largest = -1 if task.backward else 1, 0, 0.0
        while begin <= at < end and most > 0:
            if task.pending[at] > task.threshold:
                first, last = at * size, min(v.size, at * size + size)
                rows = (*self.arrays(first, last), first)
                # Of all blocks this thread's are begin .. end - 1, but it looks at this one only.
                _, done, change = self._visit(rows, discount, v, w, size, *task, begin, end, at, 1)
                sweeps, largest, most = sweeps + done, max(largest, change), most - 1
            at += step
        return at, sweeps, largest

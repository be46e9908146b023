"""MDPs without a matrix: a function returns the row of a state and an action whenever the solver needs it.

Nothing is stored per transition, so that a model takes no more memory than a few arrays of values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from greedystep.checks import check_float, check_int, check_memory
from greedystep.mdp import MDP
from greedystep.planning import block_kernels
from greedystep.planning.block_kernels import END
from greedystep.planning.row_sources import SUCCESSORS, RowArrays, RowFunction, RowSource
from greedystep.signals import Deadline

MOST_ACTIONS = 2**15  # actions fit into int16


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


class RowNumbers(NamedTuple):
    """What error bounds need to know of the rows."""

    least: float
    most: float
    largest_reward: float
    longest: int

"""The empirical model of logged episodes: transition frequencies and mean rewards, counted in compiled loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from greedystep import io
from greedystep.checks import check_int, check_memory
from greedystep.envs.toy_task import END
from greedystep.mdp import MDP
from greedystep.tabular.episodes import Episodes, buffer_for, grown, load_episode
from greedystep.trajectory import Trajectory

NONE = -1  # the end of a list of edges
SAME_REWARD = 1e-9  # rewards whose relative difference is at most this count as equal


class TransitionCounts(NamedTuple):
    """Visits, mean rewards and successors of all rows s*A + a; an edge is one successor of a row, the end included.

    The edges of a row, and those that lead into a state, are linked lists: a new successor needs no sorting.
    """

    visits: np.ndarray  # int64 [S*A]: how often the action was taken
    reward: np.ndarray  # float64 [S*A]: the mean reward
    varies: np.ndarray  # bool [S*A]: whether its rewards differed
    propagated: np.ndarray  # float64 [S]: the value that planning passed on to the predecessors last; -inf for none
    head: np.ndarray  # int64 [S*A]: the first edge of the row, or NONE
    into: np.ndarray  # int64 [S]: the first edge that leads into the state, or NONE
    row: np.ndarray  # int64 [capacity]: the row of an edge
    successor: np.ndarray  # int32 [capacity]: the successor of an edge; END where the episode ends
    count: np.ndarray  # int64 [capacity]: how often it was taken
    next: np.ndarray  # int64 [capacity]: the next edge of the same row, or NONE
    next_into: np.ndarray  # int64 [capacity]: the next edge into the same state, or NONE
    size: np.ndarray  # int64 [1]: the number of edges


def make_counts(S: int, A: int) -> TransitionCounts:
    """Return empty counts for S states and A actions."""
    return TransitionCounts(
        visits=np.zeros(S * A, np.int64),
        reward=np.zeros(S * A),
        varies=np.zeros(S * A, np.bool_),
        propagated=np.full(S, -np.inf),
        head=np.full(S * A, NONE, np.int64),
        into=np.full(S, NONE, np.int64),
        row=np.empty(0, np.int64),
        successor=np.empty(0, np.int32),
        count=np.empty(0, np.int64),
        next=np.empty(0, np.int64),
        next_into=np.empty(0, np.int64),
        size=np.zeros(1, np.int64),
    )


class EmpiricalModel:
    """Transition frequencies and mean rewards of logged episodes, for S states and A actions.

    Args:
        num_states: S.
        num_actions: A.
    """

    def __init__(self, num_states: int, num_actions: int):
        S, A = self.shape = (check_int("num_states", num_states), check_int("num_actions", num_actions))
        check_memory(f"num_states={S}, num_actions={A}", 25 * S * A + 16 * S)
        self.counts = make_counts(S, A)

    @classmethod
    def of(
        cls,
        log: Episodes | Iterable[tuple | Trajectory],
        num_states: int | None = None,
        num_actions: int | None = None,
    ) -> EmpiricalModel:
        """Return the model of one log of episodes (see `Episodes.of`); S and A are by default just large enough."""
        log = Episodes.of(log)
        S = int(log.states.max()) + 1 if num_states is None else num_states
        A = int(log.actions.max()) + 1 if num_actions is None else num_actions
        return cls(S, A).add(log)

    def add(self, log: Episodes) -> EmpiricalModel:
        """Count the steps of more episodes; return the model itself."""
        log.check(*self.shape)
        self.counts = count_log(self.counts, log, self.shape[1])
        return self

    # -- estimates ----------------------------------------------------------------------------------------------------

    @property
    def visits(self) -> np.ndarray:
        """int64 [S, A]: how often each action was taken."""
        return self.counts.visits.reshape(self.shape)

    @property
    def seen(self) -> np.ndarray:
        """bool [S, A]: whether each action was ever taken."""
        return self.visits > 0

    @property
    def rewards(self) -> np.ndarray:
        """float64 [S, A]: the mean reward; -inf where the action was never taken."""
        return np.where(self.seen, self.counts.reward.reshape(self.shape), -np.inf)

    @property
    def termination(self) -> np.ndarray:
        """float64 [S, A]: the share of steps that ended the episode; 0 where the action was never taken."""
        row, successor, share = self._edges()
        ends = successor == END
        return np.bincount(row[ends], share[ends], minlength=self.visits.size).reshape(self.shape)

    @property
    def branching(self) -> np.ndarray:
        """int64 [S, A]: the number of different successors seen; the end of the episode counts as one."""
        return np.bincount(self._edges()[0], minlength=self.visits.size).reshape(self.shape)

    @property
    def rewards_vary(self) -> np.ndarray:
        """bool [S, A]: whether the action was seen with different rewards."""
        return self.counts.varies.reshape(self.shape)

    @property
    def deterministic(self) -> bool:
        """Whether every action always had the same successor and reward in the log."""
        return not (self.rewards_vary.any() or (self.branching > 1).any())

    def mdp(self, discount: float, unknown: float = 0.0) -> MDP:
        """Return the model as an MDP: frequencies as probabilities, mean rewards, actions never taken unavailable.

        A state in which no action was ever taken is marked terminal. Nothing leads there, except where an episode was
        truncated just as it reached a new state, whose value the log does not show: `unknown` stands for it.

        Args:
            discount: γ.
            unknown: the value of a state that was reached but never acted in. A low number is cautious; -inf takes away
                every action that was ever seen to lead there, and in turn what leads to states left without actions.
        """
        if not unknown < np.inf:
            raise ValueError(f"unknown: expected a number below infinity, got {unknown!r}")
        row, successor, share = self._edges()
        available, rewards, ends = self.seen.ravel(), self.rewards.ravel(), self.termination.ravel()
        lost = _without_actions(available, self.shape)
        if unknown == -np.inf:
            while True:
                doomed = np.unique(row[(successor != END) & lost[successor] & available[row]])
                if not len(doomed):
                    break
                available[doomed] = False
                lost = _without_actions(available, self.shape)
        else:
            into_lost = (successor != END) & lost[successor]
            cut = np.bincount(row[into_lost], share[into_lost], minlength=len(rewards))
            ends = ends + cut
            if cut.any():
                rewards = rewards + discount * cut * unknown
        inside = (successor != END) & ~lost[successor] & available[row]
        S, A = self.shape
        return MDP(
            sp.csr_array((share[inside], (row[inside], successor[inside])), shape=(S * A, S)),
            np.where(available, rewards, -np.inf).reshape(S, A),
            discount,
            terminal=lost,
            termination=np.where(available, ends, 0.0).reshape(S, A),
        )

    def _edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return arrays (row s*A + a, successor, share of the row's visits) of every successor seen."""
        size = self.counts.size[0]
        row = self.counts.row[:size]
        return row, self.counts.successor[:size], self.counts.count[:size] / self.counts.visits[row]

    # -- files --------------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """Return {name in files: array} of everything counted, to be saved."""
        size = self.counts.size[0]
        per_edge = ("row", "successor", "count", "next", "next_into")
        return {k: v[:size] if k in per_edge else v for k, v in self.counts._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], num_states: int, num_actions: int) -> EmpiricalModel:
        """Make the model again from what `arrays` returned; ValueError if something does not fit."""
        model = cls(num_states, num_actions)
        arrays = {"propagated": model.counts.propagated, **arrays}  # files of version 1.0 have none
        given = {name: io.get_array(arrays, name, mine.dtype.kind, 1) for name, mine in model.counts._asdict().items()}
        size = int(given["size"].sum())
        for name, mine in model.counts._asdict().items():
            length = len(mine) or size
            if given[name].dtype != mine.dtype or given[name].shape != (length,):
                raise ValueError(f"{name}: expected {mine.dtype} [{length}] in a stored model")
        counts = TransitionCounts(**{name: np.array(array) for name, array in given.items()})
        limits = ((counts.row, 0, num_states * num_actions), (counts.successor, END, num_states))
        links = (counts.head, counts.into, counts.next, counts.next_into)
        for numbers, low, high in (*limits, *((link, NONE, size) for link in links)):
            if len(numbers) and not low <= numbers.min() <= numbers.max() < high:
                raise ValueError("a number of a stored model lies outside its range")
        # New edges come before the old ones of a list, so that no list can be a circle.
        if not (np.maximum(counts.next, counts.next_into) < np.arange(size)).all():
            raise ValueError("the lists of a stored model are not in order")
        counted = np.bincount(counts.row, counts.count, len(counts.visits))
        if (counts.count < 1).any() or (counted != counts.visits).any():
            raise ValueError("the counts of a stored model do not add up")
        if not np.isfinite(counts.reward).all():
            raise ValueError("a reward of a stored model is not finite")
        if not (counts.propagated < np.inf).all():
            raise ValueError("a value of a stored model is not finite")
        model.counts = counts
        return model


def _without_actions(available: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return np.asarray(~available.reshape(shape).any(axis=1))


# -- counting --------------------------------------------------------------------------------------------------------


@njit(cache=True)
def with_capacity(counts, more):
    """Return counts with room for `more` further edges; arrays are copied only if there is not enough."""
    needed = counts.size[0] + more
    if needed <= len(counts.row):
        return counts
    capacity = 2 * needed
    visits, reward, varies, propagated, head, into, row, successor, count, following, next_into, size = counts
    row, successor, count = grown(row, capacity), grown(successor, capacity), grown(count, capacity)
    following, next_into = grown(following, capacity), grown(next_into, capacity)
    return TransitionCounts(
        visits, reward, varies, propagated, head, into, row, successor, count, following, next_into, size
    )


@njit(cache=True)
def rewards_differ(one, other):
    """Whether two rewards differ by more than rounding."""
    return abs(one - other) > SAME_REWARD * max(abs(one), abs(other))


@njit(cache=True)
def count_step(counts, row, successor, reward):
    """Add one step to the counts, which must have room for one more edge."""
    n = counts.visits[row] + 1
    mean = counts.reward[row]
    if n > 1 and rewards_differ(reward, mean):
        counts.varies[row] = True
    counts.visits[row] = n
    counts.reward[row] = mean + (reward - mean) / n  # exact while the rewards are equal
    edge = counts.head[row]
    while edge != NONE and counts.successor[edge] != successor:
        edge = counts.next[edge]
    if edge != NONE:
        counts.count[edge] += 1
        return
    edge = counts.size[0]
    counts.size[0] = edge + 1
    counts.row[edge], counts.successor[edge], counts.count[edge] = row, successor, 1
    counts.next[edge], counts.head[row] = counts.head[row], edge
    if successor == END:
        counts.next_into[edge] = NONE
    else:
        counts.next_into[edge], counts.into[successor] = counts.into[successor], edge


@njit(cache=True)
def count_episode(counts, buffer, steps, terminated, num_actions):
    """Add all steps of the buffered episode to the counts, which must have room for them."""
    for t in range(steps):
        successor = END if terminated and t == steps - 1 else buffer.states[t + 1]
        count_step(counts, buffer.states[t] * num_actions + buffer.actions[t], successor, buffer.rewards[t])


@njit(cache=True)
def count_log(counts, log, num_actions):
    """Return the counts with all logged episodes added."""
    counts, buffer = with_capacity(counts, len(log.actions)), buffer_for(log)
    for episode in range(len(log.terminated)):
        steps, terminated = load_episode(buffer, log, episode)
        count_episode(counts, buffer, steps, terminated, num_actions)
    return counts

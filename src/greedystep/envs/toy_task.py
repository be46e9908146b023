"""Finite tasks given as a table of outcomes, with their exact MDP and optimal return; no JAX.

A task lists everything that can happen: in state s, action a has outcomes k, each with a probability, a successor (or
the end of the episode) and a reward drawn from Normal(reward[k], noise[k]). The exact MDP holds the expectations of
that table and simulators draw from the table itself, so the two cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from greedystep.checks import INT32_MAX, check_int, check_memory
from greedystep.extras import deep_extra
from greedystep.mdp import MDP, Policy
from greedystep.planning import solve

if TYPE_CHECKING:
    from greedystep.envs.toy_env import ToyEnvironment

SOLVED_SHARE = 0.9  # A task counts as solved from this share of the optimal expected return on (RUDDER's rule)

BYTES_PER_OUTCOME, BYTES_PER_PAIR = 220, 50
"""Peak bytes while a task is made, per outcome and per pair (s, a); measured with tracemalloc."""

END = -1  # the successor of an outcome that ends the episode


class Outcomes(NamedTuple):
    """All outcomes of a task as arrays, sorted by row s*A + a; a row without outcomes is an unavailable action."""

    first: np.ndarray  # int64 [S*A + 1]: the outcomes of row i are first[i] .. first[i + 1] - 1.
    cumulative: np.ndarray  # float64 [K]: cumulative probabilities within the row; the last of each row is 1
    successor: np.ndarray  # int32 [K]: the next state, or END
    reward: np.ndarray  # float64 [K]: the mean reward of the outcome
    noise: np.ndarray  # float64 [K]: the standard deviation of its reward, which is Gaussian


@dataclass(frozen=True, eq=False)
class ToyTask:
    """A finite task with S states and A actions: its table of outcomes, its exact MDP and its optimal return."""

    name: str
    mdp: MDP  # the exact model: expected rewards, transitions, termination, discount
    outcomes: Outcomes  # the table that simulators draw from
    start: np.ndarray  # float64 [S]: the distribution of the first state
    horizon: int  # the most steps of an episode; where the task could go on, the episode is truncated there
    made_with: dict[str, Any] | None = None  # options of `envs.make`, for saved agents; None for any other task

    @property
    def num_states(self) -> int:
        """The number of states, S; observations are the state numbers 0..S-1."""
        return self.mdp.num_states

    @property
    def num_actions(self) -> int:
        """The number of actions, A."""
        return self.mdp.num_actions

    @property
    def stochastic(self) -> bool:
        """Whether some action has several outcomes, or a reward with noise."""
        return bool((np.diff(self.outcomes.first) > 1).any() or self.outcomes.noise.any())

    @cached_property
    def optimal_return(self) -> float:
        """Σ_s start(s) v*(s): the expected discounted return of the best policy, from the exact model."""
        return float(self.start @ solve(self.mdp, tolerance=1e-9 * max(1.0, self._largest_reward)).v)

    @property
    def solved_return(self) -> float:
        """The expected return from which a task counts as solved: optimal_return - 0.1 |optimal_return|."""
        return self.optimal_return - (1 - SOLVED_SHARE) * abs(self.optimal_return)

    @property
    def lowest_return(self) -> float:
        """A lower bound on every expected return: the worst mean reward, if negative, at every step.

        Initial values for greedy-step, whose running maximum must begin at or below the optimal values.
        """
        worst, gamma = min(float(self.outcomes.reward.min()), 0.0), self.mdp.discount
        steps = self.horizon if gamma == 1 else np.expm1(self.horizon * np.log(gamma)) / (gamma - 1)  # Σ γᵗ
        return worst * float(steps)

    def expected_return(self, policy: Policy) -> float:
        """The exact expected discounted return of an episode under a policy, int [S] or float [S, A].

        Computed by `horizon` backups v <- r^π + γ T^π v from zero: nothing after a truncation is counted.
        """
        chain, reward = self.mdp.under(policy)
        v = np.zeros(self.num_states)
        for _ in range(self.horizon):
            before, v = v, reward + self.mdp.discount * (chain @ v)
            if np.array_equal(v, before):  # a fixed point
                break
        return float(self.start @ v)

    def solved_by(self, policy: Policy) -> bool:
        """Whether the policy's exact expected return reaches `solved_return`."""
        return self.expected_return(policy) >= self.solved_return - 1e-9 * max(1.0, self._largest_reward)

    def as_env(self) -> ToyEnvironment:
        """Return the task as a JAX environment (`envs.core.Environment`)."""
        with deep_extra():
            from greedystep.envs.toy_env import ToyEnvironment

        return ToyEnvironment(self)

    @property
    def _largest_reward(self) -> float:
        return float(np.abs(self.outcomes.reward).max(initial=0.0))


def from_mdp(name: str, mdp: MDP, start: Any, horizon: int) -> ToyTask:
    """Make a task from an MDP: every step pays r(s, a), and reaching a terminal state ends the episode.

    Args:
        start: the first state, an int, or the distribution of first states, float [S].
        horizon: episodes are truncated after this number of steps.
    """
    matrix, A, outcomes = sp.coo_array(mdp.transitions), mdp.num_actions, OutcomeList()
    possible = matrix.data > 0
    row, successor = (index[possible] for index in matrix.coords)
    outcomes.add(
        state=row // A,
        action=row % A,
        probability=matrix.data[possible],
        successor=np.where(mdp.terminal[successor], END, successor),
        reward=mdp.rewards.ravel()[row],
    )
    if mdp.termination is not None:
        s, a = np.nonzero(mdp.termination)
        outcomes.add(state=s, action=a, probability=mdp.termination[s, a], reward=mdp.rewards[s, a])
    S = mdp.num_states
    return ToyTask(name, mdp, outcomes.table(S, A), _start_distribution(start, S), check_int("horizon", horizon))


# -- building a task from its outcomes --------------------------------------------------------------------------------


class OutcomeList:
    """A growing list of outcomes, in any order, from which `build_task` makes a task."""

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, ...]] = []

    def add(
        self, *, state, action, probability: Any = 1.0, successor: Any = END, reward: Any = 0.0, noise: Any = 0.0
    ) -> None:
        """Add the outcomes of many pairs (s, a): the arguments are arrays, broadcast against each other."""
        columns = np.broadcast_arrays(state, action, probability, successor, reward, noise)
        self._parts.append(tuple(column.ravel() for column in columns))

    def columns(self, A: int) -> tuple[np.ndarray, ...]:
        """Return the arrays row (s*A + a), probability, successor, reward and noise of all outcomes."""
        state, action, *others = map(np.concatenate, zip(*self._parts, strict=True))
        return state * A + action, *others

    def table(self, S: int, A: int) -> Outcomes:
        """Return the outcomes sorted by row, with cumulative probabilities within each row."""
        row, probability, successor, reward, noise = self.columns(A)
        order = np.argsort(row, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=S * A))]).astype(np.int64)
        total = np.cumsum(probability[order])
        cumulative = total - np.repeat(np.concatenate([[0.0], total])[first[:-1]], np.diff(first))
        cumulative[first[1:][np.diff(first) > 0] - 1] = 1.0
        reward, noise = reward[order].astype(np.float64), noise[order].astype(np.float64)
        return Outcomes(first, cumulative, successor[order].astype(np.int32), reward, noise)


def build_task(name: str, S: int, A: int, discount: float, start: Any, horizon: int, listed: OutcomeList) -> ToyTask:
    """Make a task from its outcomes, with the exact MDP of their expectations."""
    outcomes = listed.table(S, A)
    row, probability, successor, reward, _ = listed.columns(A)
    rewards = np.bincount(row, probability * reward, minlength=S * A)
    rewards[np.bincount(row, minlength=S * A) == 0] = -np.inf
    ends = successor == END
    termination = np.bincount(row[ends], probability[ends], minlength=S * A).reshape(S, A)
    entries = (probability[~ends], (row[~ends], successor[~ends]))
    mdp = MDP(sp.csr_array(entries, shape=(S * A, S)), rewards.reshape(S, A), discount, termination=termination)
    return ToyTask(name, mdp, outcomes, _start_distribution(start, S), horizon)


def _start_distribution(start: Any, S: int) -> np.ndarray:
    """Return the distribution of first states, float64 [S], from a state number or a distribution, checked."""
    if np.ndim(start) == 0:
        require(0 <= start < S, f"start: expected a state in 0..{S - 1}, got {start}")
        return np.eye(1, S, int(start))[0]
    start = np.asarray(start, np.float64)
    require(
        start.shape == (S,) and start.min() >= 0 and abs(start.sum() - 1) <= 1e-9,
        f"start: expected a distribution over {S} states",
    )
    return start


def check_size(options: str, *, states: int, actions: int, outcomes: int) -> None:
    """Raise MemoryError if a task of this size does not fit in memory; `options` names the options that decide it."""
    check_memory(options, BYTES_PER_OUTCOME * outcomes + BYTES_PER_PAIR * states * actions)
    check_int("states", states, 1, INT32_MAX)


def require(condition: Any, message: str) -> None:
    """Raise ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)

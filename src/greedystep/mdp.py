"""Finite Markov decision processes: the class, Gymnasium tables and files.

A model is three things, with S states and A actions:

    transitions   [S*A, S]   row s*A + a holds p(s' | s, a); SciPy CSR, or a NumPy array where the model is dense
    rewards       [S, A]     r(s, a) = E[r | s, a]; -inf marks an action that state s does not have
    discount      γ in (0, 1]

A step may end the episode: `termination[s, a]` is the probability that it does, and then row s*A + a sums to
1 - termination[s, a]. The value after the end is 0, so no absorbing state has to be added and state numbers stay those
of the environment. A *terminal state* is one in which every action ends at once and pays nothing: its value is 0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from greedystep import io
from greedystep.checks import check_entries, check_float, check_memory
from greedystep.mdp_checks import (
    ROW_SUM_TOLERANCE,
    as_mask,
    as_matrix,
    as_probabilities,
    check_rows,
    expected_rewards,
    is_per_action,
    other_reading,
    stacked_by_state,
    without_rows,
)

if TYPE_CHECKING:
    import gymnasium

Policy = ArrayLike
"""A policy: int [S] (the action of each state) or float [S, A] (action probabilities, rows sum to one)."""
Matrix = ArrayLike | sp.sparray | sp.spmatrix
"""An array, or a SciPy sparse matrix."""
Matrices = Matrix | Sequence[sp.sparray] | Sequence[sp.spmatrix]
"""One of them, or a list of sparse matrices, one per action."""

FILE_FORMAT = "greedystep-mdp-1"
CSR_ARRAYS = (("data", "iuf"), ("indices", "iu"), ("indptr", "iu"))
"""Names and dtype kinds of a sparse model's arrays in a file."""


class MDP:
    """A finite MDP, checked when it is made and not changed afterwards.

    Args:
        transitions: dense [S, A, S], or SciPy sparse [S*A, S] with row s*A + a. A CSR matrix of float64 is used as it
            is, without a copy. Or one matrix [S, S] per action, as for `from_action_matrices`: a list with sparse ones;
            or dense, where A != S tells [A, S, S] from [S, A, S].
        rewards: [S, A]; or, paid on arrival, [S, A, S] (dense) or [S*A, S] (sparse), which is averaged over s'.
            -inf in [S, A] marks an unavailable action, whose row and termination are ignored. Beside one matrix per
            action also [S], [A, S, S] or a list of matrices [S, S].
        discount: γ in (0, 1]. With 1, every state must be able to reach a terminal state. A state that pays nothing
            and that no action leaves, with however small a probability, then counts as terminal; and the entries of
            a row and its termination are weights: each outcome has its share of their sum, so that what leaves a
            state counts, even beside an entry of 1.0 for staying.
        terminal: bool [S], states in which the episode is over: value 0, their rows and rewards are ignored.
        available: bool [S, A], False where the state does not have the action.
        termination: [S, A], probability that the step ends the episode; the row holds the rest.
    """

    transitions: sp.csr_array | np.ndarray
    rewards: np.ndarray
    discount: float
    termination: np.ndarray | None
    row_sums: tuple[float, float]
    """(smallest, largest) sum of an available row of transitions, for error bounds."""

    def __init__(
        self,
        transitions: Matrices,
        rewards: Matrices,
        discount: float,
        *,
        terminal: ArrayLike | None = None,
        available: ArrayLike | None = None,
        termination: ArrayLike | None = None,
    ):
        if is_per_action(transitions):
            transitions, rewards = stacked_by_state(transitions, rewards)
        matrix, num_states, num_actions = as_matrix(transitions)
        shape = (num_states, num_actions)
        reward = expected_rewards(rewards, matrix, shape)
        ends = None if termination is None else as_probabilities(termination, shape)
        self.discount = check_float("discount", discount, 0, 1, above=True)
        # Not `> -inf`: a nan in the transitions makes the averaged reward nan, and must reach the check of the rows.
        missing = reward == -np.inf
        if terminal is None and available is None and not missing.any():  # most models: nothing to leave out
            has_action = True
            self.rewards, self.termination, self.transitions = reward.copy(), ends, matrix
        else:
            over = as_mask(terminal, "terminal", (num_states,), default=False)[:, None]
            has_action = as_mask(available, "available", shape, default=True) & ~missing | over
            hint = "has no available action; mark it in `terminal` if it is an end"
            check_entries(~has_action.any(axis=1), lambda s: f"available: state {s} {hint}")
            self.rewards = np.where(has_action, np.where(over, 0.0, reward), -np.inf)
            if over.any() or ends is not None:
                ends = np.where(over, 1.0, np.where(has_action, 0.0 if ends is None else ends, 0.0))
            self.termination = ends
            # Rows of terminal states and missing actions are emptied: then a plain product already has value 0 there.
            self.transitions = without_rows(matrix, (over | ~has_action).ravel())
        try:
            self.row_sums = check_rows(self.transitions, ends, has_action, shape)
        except ValueError as problem:
            raise ValueError(f"{problem}{other_reading(transitions, ends, has_action)}") from None
        if self.discount == 1.0:
            self._end_in_silent_loops()
            self._check_terminal_reachable()

    @classmethod
    def from_action_matrices(
        cls,
        transitions: Matrices,
        rewards: Matrices,
        discount: float,
        **more: Any,
    ) -> MDP:
        """Make a model from one matrix per action, as pymdptoolbox and mdpsolver take it.

        `MDP` itself takes most of these; here [A, S, S] is meant even where A = S.

        Args:
            transitions: [A, S, S], or A matrices [S, S], dense or sparse.
            rewards: [S, A]; [S], the same for all actions; or, paid on arrival, one matrix [S, S] per action.
            more: `terminal`, `available` and `termination`, as for `MDP`.
        """
        return cls(*stacked_by_state(transitions, rewards), discount, **more)

    # -- shape and structure ------------------------------------------------------------------------------------------

    @property
    def num_states(self) -> int:
        """The number of states, S."""
        return self.rewards.shape[0]

    @property
    def num_actions(self) -> int:
        """The number of actions, A."""
        return self.rewards.shape[1]

    @property
    def available(self) -> np.ndarray:
        """bool [S, A]: which actions each state has."""
        return self.rewards > -np.inf

    @property
    def terminal(self) -> np.ndarray:
        """bool [S]: states in which every action ends the episode at once and pays nothing."""
        if self.termination is None:
            return np.zeros(self.num_states, bool)
        silent_end = (self.termination >= 1.0) & (self.rewards == 0.0)
        return (silent_end | ~self.available).all(axis=1)

    @property
    def largest_reward(self) -> float:
        """The largest absolute reward of an available action."""
        lowest = self.rewards.min()
        if lowest == -np.inf:
            lowest = self.rewards.min(where=self.available, initial=np.inf)
        return float(max(abs(lowest), abs(self.rewards.max())))

    @property
    def deterministic(self) -> bool:
        """Whether every available step has one possible outcome."""
        possible: Any = self.transitions != 0
        outcomes = np.asarray(possible.sum(axis=1)).reshape(self.rewards.shape)
        if self.termination is not None:
            outcomes = outcomes + (self.termination > 0)
        return bool((outcomes <= 1).all())

    def __repr__(self) -> str:
        kind = "dense" if isinstance(self.transitions, np.ndarray) else f"{self.transitions.nnz} transitions"
        return f"MDP({self.num_states} states, {self.num_actions} actions, {kind}, discount {self.discount:g})"

    def backup(self, values: np.ndarray) -> np.ndarray:
        """Return r(s, a) + γ Σ_s' p(s' | s, a) v(s'), [S] -> [S, A]; -inf where the action is not available."""
        return self.rewards + self.discount * (self.transitions @ values).reshape(self.rewards.shape)

    def with_rewards(self, rewards: Matrix) -> MDP:
        """Return the MDP with other rewards, transitions shared; terminal states stay terminal and pay nothing."""
        mdp = MDP.__new__(MDP)
        mdp.transitions, mdp.discount = self.transitions, self.discount
        mdp.termination, mdp.row_sums = self.termination, self.row_sums
        reward = expected_rewards(rewards, self.transitions, self.rewards.shape)
        mdp.rewards = np.where(self.available, np.where(self.terminal[:, None], 0.0, reward), -np.inf)
        if not (mdp.available == self.available).all():
            raise ValueError("rewards: -inf where the action is available; make a new MDP to take actions away")
        return mdp

    # -- policies -----------------------------------------------------------------------------------------------------

    def check_policy(self, policy: Policy, name: str = "policy") -> np.ndarray:
        """Return the policy as an array, int [S] or float64 [S, A]; ValueError says what is wrong with it."""
        array, (S, A) = np.asarray(policy), self.rewards.shape
        if array.shape == (S,) and np.issubdtype(array.dtype, np.integer):
            outside = (array < 0) | (array >= A)
            check_entries(outside, lambda s: f"{name}: action {array[s]} of state {s} is not in 0..{A - 1}")
            missing = ~self.available[np.arange(S), array]
            check_entries(missing, lambda s: f"{name}: action {array[s]} is not available in state {s}")
            return array
        if array.shape == (S, A) and np.issubdtype(array.dtype, np.floating):
            array = array.astype(np.float64, copy=False)
            wrong = ~(array.min(axis=1) >= 0) | ~(np.abs(array.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE)
            check_entries(
                wrong, lambda s: f"{name}: the probabilities of state {s}, {array[s]}, are not a distribution"
            )
            missing = (array > 0) & ~self.available
            hint = "but is not available"
            check_entries(
                missing, lambda s, a: f"{name}: action {a} of state {s} has probability {array[s, a]:g} {hint}"
            )
            return array
        raise ValueError(f"{name}: expected int [{S}] or float [{S}, {A}], got {array.dtype} {list(array.shape)}")

    def check_policies(self, policies: Iterable[Policy]) -> list[np.ndarray]:
        """Return a non-empty list of checked policies; ValueError says what is wrong with one."""
        if isinstance(policies, np.ndarray) and policies.ndim < 2:
            raise ValueError("policies: expected a list of policies, got one array; write [policy]")
        checked = [self.check_policy(policy, f"policies[{i}]") for i, policy in enumerate(policies)]
        if not checked:
            raise ValueError("policies: the set is empty; give at least one behaviour policy")
        return checked

    def under(self, policy: Policy) -> tuple[sp.csr_array | np.ndarray, np.ndarray]:
        """Return the Markov chain of a policy: (T^π [S, S], r^π [S])."""
        policy = self.check_policy(policy)
        S, A = self.rewards.shape
        if policy.ndim == 1:
            rows = np.arange(S) * A + policy
            return self.transitions[rows], self.rewards.ravel()[rows]
        used = np.nonzero(policy)
        counts = np.concatenate([[0], np.cumsum(np.count_nonzero(policy, axis=1))])
        mixture = sp.csr_array((policy[used], used[0] * A + used[1], counts), shape=(S, S * A))
        reward = np.add.reduceat(policy[used] * self.rewards[used], counts[:-1])
        chain = mixture @ self.transitions
        return (chain if isinstance(chain, np.ndarray) else sp.csr_array(chain)), reward

    # -- other sources ------------------------------------------------------------------------------------------------

    @classmethod
    def from_gymnasium(cls, env: str | gymnasium.Env, discount: float = 0.99, **options: Any) -> MDP:
        """Return the MDP of a Gymnasium environment with a table `P[s][a] = [(p, s', reward, terminated), ...]`.

        Args:
            env: an environment id such as "FrozenLake-v1", or an environment object (custom ones too).
            discount: γ.
            **options: passed to `gymnasium.make` when `env` is an id, e.g. map_name="8x8", is_slippery=False.
        """
        import gymnasium

        if isinstance(env, str):
            try:
                made = gymnasium.make(env, **options)
            except (gymnasium.error.Error, ImportError, TypeError, LookupError, ValueError) as problem:
                raise ValueError(f"env: gymnasium cannot make {env!r}: {problem}") from None
            try:
                return cls.from_gymnasium(made, discount)
            finally:
                made.close()
        if options:
            raise ValueError(f"options: {sorted(options)} only apply when env is an id, not an environment object")
        table = getattr(getattr(env, "unwrapped", env), "P", None)
        if table is None:
            raise ValueError(f"env: {env} has no transition table `P`, so its model is not known")
        return cls.from_table(table, discount)

    @classmethod
    def from_table(cls, table: Any, discount: float) -> MDP:
        """Make an MDP from a table `P[s][a] = [(probability, next state, reward, terminated), ...]`, as in Gymnasium.

        Args:
            table: a list or a dict of states, each a list or a dict of actions.
            discount: γ.
        """
        S = len(table)
        missing = [s for s in range(S) if s not in table] if hasattr(table, "keys") else []
        if missing:
            raise ValueError(f"table: expected the states 0..{S - 1}, state {missing[0]} is missing")
        # A state may have fewer actions than others, or number them with gaps.
        actions = [dict(table[s].items() if hasattr(table[s], "items") else enumerate(table[s])) for s in range(S)]
        A = max((max(row, default=-1) + 1 for row in actions), default=0)
        if S == 0 or A == 0:
            raise ValueError(f"table: expected at least one state and one action, got {S} and {A}")
        check_memory(f"table: {S} states x {A} actions", 2 * 8 * S * A)
        rewards, termination = np.full((S, A), -np.inf), np.zeros((S, A))
        rows, columns, probabilities = [], [], []
        for s in range(S):
            for a, outcomes in actions[s].items():
                rewards[s, a] = 0.0
                for p, successor, reward, terminated in outcomes:
                    rewards[s, a] += p * reward
                    if terminated:
                        termination[s, a] += p
                    else:
                        rows.append(s * A + a)
                        columns.append(successor)
                        probabilities.append(p)
        if columns and not 0 <= min(columns) <= max(columns) < S:
            raise ValueError(f"table: next states must lie in 0..{S - 1}, found {min(columns)} to {max(columns)}")
        entries = (np.array(probabilities, float), (np.array(rows, int), np.array(columns, int)))
        return cls(sp.csr_array(entries, shape=(S * A, S)), rewards, discount, termination=termination)

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write one .npz file, atomically and without pickle."""
        arrays: dict[str, Any] = {"format": FILE_FORMAT, "rewards": self.rewards, "discount": self.discount}
        if isinstance(self.transitions, np.ndarray):
            arrays["dense"] = self.transitions
        else:
            arrays |= {name: getattr(self.transitions, name) for name, _ in CSR_ARRAYS}
        if self.termination is not None:
            arrays["termination"] = self.termination
        with io.atomic_write(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike) -> MDP:
        """Read an MDP written by `save`; FileNotFoundError or ValueError say in one sentence what is wrong."""
        arrays = io.load_npz(path, FILE_FORMAT, "model")
        try:
            rewards, discount = io.get_array(arrays, "rewards", "iuf", 2), io.get_array(arrays, "discount", "iuf", 0)
            S, A = rewards.shape
            if "dense" in arrays:
                transitions = io.get_array(arrays, "dense", "iuf", 2).reshape(S, A, S)
            else:
                data, *where = (io.get_array(arrays, *one, 1) for one in CSR_ARRAYS)
                transitions = sp.csr_array((data, *where), shape=(S * A, S))
                transitions.check_format(full_check=True)
            termination = io.get_array(arrays, "termination", "iuf", 2) if "termination" in arrays else None
            return cls(transitions, rewards, float(discount), termination=termination)
        except ValueError as problem:
            raise ValueError(f"{path} is damaged: {problem}") from None

    # -- within -------------------------------------------------------------------------------------------------------

    def _end_in_silent_loops(self) -> None:
        """With discount 1, mark states as terminal that pay nothing and that no action leaves."""
        S, A = self.rewards.shape
        matrix = sp.coo_array(self.transitions)
        leads_away = (matrix.coords[0] // A != matrix.coords[1]) & (matrix.data > 0)
        leaves = np.zeros(S * A, bool)
        leaves[matrix.coords[0][leads_away]] = True
        silent = ~leaves.reshape(S, A) & (self.rewards == 0)
        over = (silent | ~self.available).all(axis=1)
        if over.any():
            ends = np.zeros((S, A)) if self.termination is None else self.termination
            self.termination = np.where(over[:, None] & self.available, 1.0, ends)
            self.transitions = without_rows(self.transitions, np.repeat(over, A))
            self.row_sums = (0.0, self.row_sums[1])

    def _check_terminal_reachable(self) -> None:
        """With discount 1, raise ValueError if some state cannot reach the end of an episode."""
        S, A = self.rewards.shape
        ends = np.zeros(S, bool) if self.termination is None else (self.termination > 0).any(axis=1)
        matrix = sp.csr_array(self.transitions)
        # One extra node, reached from wherever a step may end; walk backwards from it.
        sources = np.repeat(np.repeat(np.arange(S), A), np.diff(matrix.indptr))
        positive = matrix.data > 0
        sources = np.concatenate([sources[positive], np.flatnonzero(ends)])
        targets = np.concatenate([matrix.indices[positive], np.full(ends.sum(), S)])
        backwards = sp.csr_array((np.ones(len(sources), bool), (targets, sources)), shape=(S + 1, S + 1))
        reached = sp.csgraph.breadth_first_order(backwards, S, return_predecessors=False)
        if len(reached) <= S:
            stranded = int(np.setdiff1d(np.arange(S), reached)[0])
            raise ValueError(
                f"discount: 1 needs a terminal state within reach of every state, and state {stranded} reaches none; "
                "mark terminal states or choose a discount below 1"
            )

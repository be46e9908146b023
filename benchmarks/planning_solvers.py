"""The planning packages that are compared: how each takes a model, and which of its algorithms are timed.

The other packages have no termination. Where a model has it, they get one more state, absorbing and of value 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from greedystep.mdp import MDP

UNLIMITED = 10**9
"""Iteration limit for the peers, so that only the time limit stops them."""


@dataclass(frozen=True)
class Configuration:
    """A package, one of its algorithms and the options of that algorithm."""

    package: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    max_states: float = np.inf
    """Larger models are skipped, since the algorithm is known to be far too slow on them."""

    def __str__(self) -> str:
        return f"{self.package} {self.name}".strip()


class Solver(Protocol):
    """A planning package behind one interface. `arrays` is not timed; `build`, `solve` and `values` are."""

    def arrays(self, mdp: MDP) -> Any:
        """Return the arrays that a user of the package would have in memory."""
        ...

    def rewards(self, arrays: Any, rewards: np.ndarray) -> np.ndarray:
        """Return rewards [S, A] in the layout of those arrays."""
        ...

    def build(self, arrays: Any, rewards: np.ndarray) -> Any:
        """Build the package's model object."""
        ...

    def solve(self, model: Any, configuration: Configuration, tolerance: float) -> Any:
        """Solve the model object."""
        ...

    def values(self, answer: Any) -> np.ndarray:
        """Return v [S] of the answer, or [S + 1] with the absorbing state."""
        ...


class Greedystep:
    """greedystep.solve with its default method."""

    def arrays(self, mdp: MDP) -> MDP:
        return mdp

    def rewards(self, arrays: MDP, rewards: np.ndarray) -> np.ndarray:
        return rewards

    def build(self, arrays: MDP, rewards: np.ndarray) -> MDP:
        table = arrays.transitions
        if isinstance(table, np.ndarray):
            table = table.reshape(*arrays.rewards.shape, -1)
        return MDP(table, rewards, arrays.discount, termination=arrays.termination)

    def solve(self, model: MDP, configuration: Configuration, tolerance: float) -> Any:
        from greedystep.planning import solve

        return solve(model, tolerance=tolerance)

    def values(self, answer: Any) -> np.ndarray:
        return answer.v


class Pairs(NamedTuple):
    """A model as a list of (state, action) pairs; termination is one more, absorbing state."""

    transitions: Any
    """CSR with one row per pair; dense [S, A, S] where the model is dense and every state has every action."""
    states: np.ndarray
    actions: np.ndarray
    has_absorbing: bool
    discount: float


def state_action_pairs(mdp: MDP) -> Pairs:
    """Return the model as the peers take it; a terminal state keeps one action."""
    used = mdp.available.copy()
    used[mdp.terminal, 1:] = False
    states, actions = np.nonzero(used)
    if isinstance(mdp.transitions, np.ndarray) and mdp.termination is None and used.all():
        return Pairs(mdp.transitions.reshape(*used.shape, -1), states, actions, False, mdp.discount)
    matrix = sp.csr_matrix(mdp.transitions)[np.flatnonzero(used)]
    if mdp.termination is not None:
        ends = sp.csr_matrix(mdp.termination[used][:, None])
        matrix = sp.csr_matrix(sp.bmat([[matrix, ends], [None, sp.csr_matrix([[1.0]])]]))
        states, actions = np.append(states, mdp.num_states), np.append(actions, 0)
    matrix.eliminate_zeros()
    return Pairs(matrix, states, actions, mdp.termination is not None, mdp.discount)


def pair_rewards(arrays: Pairs, rewards: np.ndarray) -> np.ndarray:
    """Return one reward per pair; [S, A] for a dense model."""
    if isinstance(arrays.transitions, np.ndarray):
        return rewards
    pairs = len(arrays.states) - arrays.has_absorbing
    flat = rewards[arrays.states[:pairs], arrays.actions[:pairs]]
    return np.append(flat, 0.0) if arrays.has_absorbing else flat


class Quantecon:
    """quantecon.markov.DiscreteDP."""

    def arrays(self, mdp: MDP) -> Pairs:
        return state_action_pairs(mdp)

    def rewards(self, arrays: Pairs, rewards: np.ndarray) -> np.ndarray:
        return pair_rewards(arrays, rewards)

    def build(self, arrays: Pairs, rewards: np.ndarray) -> Any:
        model = import_module("quantecon.markov").DiscreteDP
        if isinstance(arrays.transitions, np.ndarray):
            return model(rewards, arrays.transitions, arrays.discount)
        return model(rewards, arrays.transitions, arrays.discount, arrays.states, arrays.actions)

    def solve(self, model: Any, configuration: Configuration, tolerance: float) -> Any:
        return model.solve(epsilon=tolerance, max_iter=UNLIMITED, **configuration.options)

    def values(self, answer: Any) -> np.ndarray:
        return answer.v


class Mdpsolver:
    """mdpsolver, which takes nested lists. Each solve gets a new model, since a second one would be a warm start."""

    def arrays(self, mdp: MDP) -> Pairs:
        pairs = state_action_pairs(mdp)
        if isinstance(pairs.transitions, np.ndarray):
            pairs = pairs._replace(transitions=sp.csr_matrix(mdp.transitions))
        return pairs

    def rewards(self, arrays: Pairs, rewards: np.ndarray) -> np.ndarray:
        return pair_rewards(arrays, rewards)

    def build(self, arrays: Pairs, rewards: np.ndarray) -> Any:
        matrix = arrays.transitions
        first = np.searchsorted(arrays.states, np.arange(matrix.shape[1] + 1))
        rows = list(pairwise(matrix.indptr.tolist()))
        chances, columns = matrix.data.tolist(), matrix.indices.tolist()
        model = import_module("mdpsolver").model()
        model.mdp(
            discount=arrays.discount,
            rewards=_by_state(rewards.tolist(), first),
            tranMatProbs=_by_state([chances[i:j] for i, j in rows], first),
            tranMatColumns=_by_state([columns[i:j] for i, j in rows], first),
        )
        return model

    def solve(self, model: Any, configuration: Configuration, tolerance: float) -> Any:
        model.solve(tolerance=tolerance, makeFinalCheck=False, **configuration.options)
        return model

    def values(self, answer: Any) -> np.ndarray:
        return np.array(answer.getValueVector())


def _by_state(pairs: list, first: np.ndarray) -> list:
    return [pairs[i:j] for i, j in pairwise(first.tolist())]


SOLVERS: dict[str, type[Solver]] = {"greedystep": Greedystep, "quantecon": Quantecon, "mdpsolver": Mdpsolver}

OURS = Configuration("greedystep", "")


def _quantecon(name: str, max_states: float = np.inf, **options: Any) -> Configuration:
    return Configuration("quantecon", name, options, max_states)


def _mdpsolver(name: str, algorithm: str, update: str = "standard", **options: Any) -> Configuration:
    """The serial algorithms skip models so large that building mdpsolver's model alone takes half a minute."""
    parallel = name.endswith("parallel")
    options = {"algorithm": algorithm, "update": update, "parallel": parallel, **options}
    return Configuration("mdpsolver", name, options, np.inf if parallel else 300_000)


PEERS = (
    _quantecon("VI", method="vi"),
    _mdpsolver("MPI k=20, Gauss-Seidel", "mpi", "gs", parIterLim=20),
    _quantecon("MPI k=20", method="mpi", k=20),
    _quantecon("MPI k=100", method="mpi", k=100),
    _quantecon("PI", 2000, method="pi"),
    _mdpsolver("MPI k=20", "mpi", parIterLim=20),
    _mdpsolver("MPI k=20, parallel", "mpi", parIterLim=20),
    _mdpsolver("MPI k=100, parallel", "mpi", parIterLim=100),
    _mdpsolver("VI", "vi"),
    _mdpsolver("VI, parallel", "vi"),
    _mdpsolver("VI, Gauss-Seidel", "vi", "gs"),
    _mdpsolver("MPI k=20, SOR 1.3", "mpi", "sor", parIterLim=20, SORrelaxation=1.3),
    _mdpsolver("VI, SOR 1.3", "vi", "sor", SORrelaxation=1.3),
)
"""In the order of their trials: the first two are never very slow, so they set the time limit of the others."""


def installed(package: str) -> bool:
    """Return whether the package can be imported, without importing it."""
    return find_spec(package) is not None

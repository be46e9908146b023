"""The packages whose planning is timed: how each takes a model, and which of its ways to solve one are tried.

Peers know no end of an episode: where a model has one, they get one more state, absorbing and worth nothing.
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
"""Iterations: the clock stops a peer, not a count."""


@dataclass(frozen=True)
class Configuration:
    """One way to solve a model with a package."""

    package: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    most_states: float = np.inf
    """Not tried on larger models, where it is known to be hopeless."""

    def __str__(self) -> str:
        return f"{self.package} {self.name}".strip()


class Contestant(Protocol):
    """A package: `given` is prepared before the clock starts, the rest is timed."""

    def given(self, mdp: MDP) -> Any:
        """The arrays that its user would have in memory."""
        ...

    def rewards(self, given: Any, rewards: np.ndarray) -> np.ndarray:
        """Rewards [S, A] as those arrays hold them."""
        ...

    def build(self, given: Any, rewards: np.ndarray) -> Any:
        """Its model, from the arrays."""
        ...

    def solve(self, model: Any, configuration: Configuration, tolerance: float) -> Any:
        """Its answer, from its model."""
        ...

    def values(self, answer: Any) -> np.ndarray:
        """v [S] (or one more, the absorbing state) of its answer."""
        ...


class Greedystep:
    """This package."""

    def given(self, mdp: MDP) -> MDP:
        return mdp

    def rewards(self, given: MDP, rewards: np.ndarray) -> np.ndarray:
        return rewards

    def build(self, given: MDP, rewards: np.ndarray) -> MDP:
        table = given.transitions
        if isinstance(table, np.ndarray):
            table = table.reshape(*given.rewards.shape, -1)
        return MDP(table, rewards, given.discount, termination=given.termination)

    def solve(self, model: MDP, configuration: Configuration, tolerance: float) -> Any:
        from greedystep.planning import solve

        return solve(model, tolerance=tolerance)

    def values(self, answer: Any) -> np.ndarray:
        return answer.v


class Pairs(NamedTuple):
    """A model as a list of (state, action) pairs, the end of an episode being one more state."""

    transitions: Any
    """CSR, one row a pair; or dense [S, A, S] where the model is dense and every state has every action."""
    states: np.ndarray
    actions: np.ndarray
    ends: bool
    discount: float


def pairs_of(mdp: MDP) -> Pairs:
    """The model in the form of the peers; a terminal state keeps one action."""
    used = mdp.available.copy()
    used[mdp.terminal, 1:] = False
    states, actions = np.nonzero(used)
    if isinstance(mdp.transitions, np.ndarray) and mdp.termination is None and used.all():
        return Pairs(mdp.transitions.reshape(*used.shape, -1), states, actions, False, mdp.discount)
    matrix = sp.csr_matrix(mdp.transitions)[np.flatnonzero(used)]
    if mdp.termination is not None:
        over = sp.csr_matrix(mdp.termination[used][:, None])
        matrix = sp.csr_matrix(sp.bmat([[matrix, over], [None, sp.csr_matrix([[1.0]])]]))
        states, actions = np.append(states, mdp.num_states), np.append(actions, 0)
    matrix.eliminate_zeros()
    return Pairs(matrix, states, actions, mdp.termination is not None, mdp.discount)


def rewards_of_pairs(given: Pairs, rewards: np.ndarray) -> np.ndarray:
    """One reward a pair; [S, A] for a dense model."""
    if isinstance(given.transitions, np.ndarray):
        return rewards
    pairs = len(given.states) - given.ends
    flat = rewards[given.states[:pairs], given.actions[:pairs]]
    return np.append(flat, 0.0) if given.ends else flat


class Quantecon:
    """quantecon.markov.DiscreteDP."""

    def given(self, mdp: MDP) -> Pairs:
        return pairs_of(mdp)

    def rewards(self, given: Pairs, rewards: np.ndarray) -> np.ndarray:
        return rewards_of_pairs(given, rewards)

    def build(self, given: Pairs, rewards: np.ndarray) -> Any:
        model = import_module("quantecon.markov").DiscreteDP
        if isinstance(given.transitions, np.ndarray):
            return model(rewards, given.transitions, given.discount)
        return model(rewards, given.transitions, given.discount, given.states, given.actions)

    def solve(self, model: Any, configuration: Configuration, tolerance: float) -> Any:
        return model.solve(epsilon=tolerance, max_iter=UNLIMITED, **configuration.options)

    def values(self, answer: Any) -> np.ndarray:
        return answer.v


class Mdpsolver:
    """mdpsolver, which takes nested lists; a new model every time, since a second solve would start from the first."""

    def given(self, mdp: MDP) -> Pairs:
        pairs = pairs_of(mdp)
        if isinstance(pairs.transitions, np.ndarray):
            pairs = pairs._replace(transitions=sp.csr_matrix(mdp.transitions))
        return pairs

    def rewards(self, given: Pairs, rewards: np.ndarray) -> np.ndarray:
        return rewards_of_pairs(given, rewards)

    def build(self, given: Pairs, rewards: np.ndarray) -> Any:
        matrix = given.transitions
        first = np.searchsorted(given.states, np.arange(matrix.shape[1] + 1))
        rows = list(pairwise(matrix.indptr.tolist()))
        chances, columns = matrix.data.tolist(), matrix.indices.tolist()
        model = import_module("mdpsolver").model()
        model.mdp(
            discount=given.discount,
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


def _by_state(of_pairs: list, first: np.ndarray) -> list:
    return [of_pairs[i:j] for i, j in pairwise(first.tolist())]


CONTESTANTS: dict[str, type[Contestant]] = {"greedystep": Greedystep, "quantecon": Quantecon, "mdpsolver": Mdpsolver}

OURS = Configuration("greedystep", "")


def _quantecon(name: str, most_states: float = np.inf, **options: Any) -> Configuration:
    return Configuration("quantecon", name, options, most_states)


def _mdpsolver(name: str, algorithm: str, update: str = "standard", **options: Any) -> Configuration:
    """On all cores where it can; the serial ways are left out where taking the model in alone takes half a minute."""
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
"""In the order of their trials: the first two are never very slow, and limit the time of those that may be."""


def installed(package: str) -> bool:
    """Whether the package can be imported, without doing so."""
    return find_spec(package) is not None

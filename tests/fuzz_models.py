"""Random models with discount 1, and their optimal values in exact rational arithmetic.

`random_undiscounted_model(rng)` gives `(mdp, exact)`; `exact_values(exact)` the optimal values as fractions, or None
where some policy never ends. The exact model holds the floats that the MDP was made from. A row of it, with its
probability of termination, is a list of weights: each outcome has its share of their sum.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from greedystep.mdp import MDP

END = -1
"""The successor that stands for the end of the episode."""


class ExactRow(NamedTuple):
    """One action, until it leaves its state: where it leads, with what probability, and what it pays by then."""

    successors: dict[int, Fraction]
    reward: Fraction


class ExactModel(NamedTuple):
    rows: list[list[ExactRow]]
    """The available actions of each state; none for an end, whose value is 0."""
    endless: bool
    """Whether some policy never ends."""


def exact_model(transitions: np.ndarray, rewards: np.ndarray, ends: np.ndarray) -> ExactModel:
    """The model of these floats: [S, A, S], [S, A] (-inf: not available) and [S, A]."""
    S, A = rewards.shape
    rows, endless = [], False
    for s in range(S):
        rows.append([])
        if all(rewards[s, a] == -np.inf or (rewards[s, a] == 0 and only_stays(transitions, s, a)) for a in range(A)):
            continue
        for a in np.flatnonzero(rewards[s] > -np.inf):
            weights = {int(t): Fraction(float(transitions[s, a, t])) for t in np.flatnonzero(transitions[s, a])}
            if ends[s, a] > 0:
                weights[END] = Fraction(float(ends[s, a]))
            total, stay = sum(weights.values()), weights.pop(s, 0)
            leave = total - stay
            endless |= leave == 0
            if leave:
                successors = {t: weight / leave for t, weight in weights.items()}
                rows[-1].append(ExactRow(successors, Fraction(float(rewards[s, a])) * total / leave))
    return ExactModel(rows, endless or _can_stay(rows))


def only_stays(transitions: np.ndarray, s: int, a: int) -> bool:
    return set(np.flatnonzero(transitions[s, a])) <= {s}


def _can_stay(rows: list[list[ExactRow]]) -> bool:
    """Whether there are states whose actions can keep the process among them for ever."""
    inside = {s for s in range(len(rows)) if rows[s]}
    while True:
        able = {s for s in inside if any(set(row.successors) <= inside for row in rows[s])}
        if able == inside:
            return bool(inside)
        inside = able


def exact_values(exact: ExactModel) -> list[Fraction] | None:
    """v* by policy iteration; None where some policy never ends."""
    if exact.endless:
        return None
    choice = [0] * len(exact.rows)
    while True:
        v = exact_policy_values(exact, choice)
        better = False
        for s, rows in enumerate(exact.rows):
            worth = [row.reward + sum(p * v[t] for t, p in row.successors.items() if t != END) for row in rows]
            if worth and max(worth) > worth[choice[s]]:
                choice[s], better = worth.index(max(worth)), True
        if not better:
            return v


def exact_policy_values(exact: ExactModel, choice: list[int]) -> list[Fraction]:
    """The values of the policy that takes row choice[s] of state s, by elimination of one state after the other."""
    S = len(exact.rows)
    reward, to = [Fraction(0)] * S, [{} for _ in range(S)]
    for s, rows in enumerate(exact.rows):
        if rows:
            reward[s] = rows[choice[s]].reward
            to[s] = {t: p for t, p in rows[choice[s]].successors.items() if t != END}
    for s in range(S):
        stay = to[s].pop(s, 0)
        reward[s] /= 1 - stay
        to[s] = {t: p / (1 - stay) for t, p in to[s].items()}
        for i in range(s + 1, S):
            p = to[i].pop(s, 0)
            if p:
                reward[i] += p * reward[s]
                for t, q in to[s].items():
                    to[i][t] = to[i].get(t, 0) + p * q
    for s in reversed(range(S)):
        reward[s] += sum(p * reward[t] for t, p in to[s].items())
    return reward


def exact_longest_walk(exact: ExactModel) -> Fraction:
    """The largest expected number of changes of state before the end, of all policies and from all states."""
    counting = [[row._replace(reward=Fraction(1)) for row in rows] for rows in exact.rows]
    walks = exact_values(exact._replace(rows=counting))
    assert walks is not None, "some policy never ends"
    return max(walks)


def exact_action_policy(exact: ExactModel, mdp: MDP, policy: np.ndarray) -> list[int]:
    """A policy of actions as rows of the exact model."""
    return [int(np.count_nonzero(mdp.available[s, : policy[s]])) if exact.rows[s] else 0 for s in range(len(policy))]


# -- the models -------------------------------------------------------------------------------------------------------


def _tiny(rng: np.random.Generator) -> float:
    """A probability of any size."""
    return float(10.0 ** -rng.uniform(0, rng.choice([2, 7, 16, 60, 300])))


def _weights(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Anything leads anywhere, with weights of any size."""
    S, A = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    size = rng.choice([0, 2, 7, 16, 60, 300])
    weight = np.where(rng.random((S, A, S + 1)) < 0.5, 10.0 ** -rng.uniform(0, size, (S, A, S + 1)), 0.0)
    weight[..., int(rng.integers(S + 1))] += rng.choice([0.0, 1e-3, 1e-100])
    weight[weight.sum(axis=2) == 0, S] = 1.0
    weight /= weight.sum(axis=2, keepdims=True)
    return weight[..., :S], weight[..., S]


def _loops(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Every action stays for long, then goes on to a later state or ends."""
    S, A = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    p, ends = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S):
        for a in range(A):
            leave = _tiny(rng)
            share = rng.dirichlet(np.ones(S - s))
            p[s, a, s], p[s, a, s + 1 :], ends[s, a] = 1 - leave, leave * share[1:], leave * share[0]
    return p, ends


def _ring(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """States in a circle, which is left seldom."""
    S, A = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    p, ends = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S - 1):
        for a in range(A):
            leave = _tiny(rng) if s == 0 or rng.random() < 0.3 else 0.0
            p[s, a, (s + 1) % (S - 1)] += 1 - leave
            p[s, a, S - 1] += leave
    ends[S - 1] = 1.0
    return p, ends


def _chain(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A long way with setbacks: back to the start (an exponential number of steps), one step back, or none."""
    S, A = int(rng.integers(2, 40)), int(rng.integers(1, 3))
    p, ends = np.zeros((S, A, S)), np.zeros((S, A))
    setback = rng.choice([0.0, 0.1, 0.5]) if S < 20 else rng.choice([0.0, 0.1, 0.3])
    restart = rng.random() < 0.5
    for s in range(S):
        for a in range(A):
            back = 0 if restart else max(s - 1, 0)
            q = setback * rng.uniform(0.5, 1.0)
            p[s, a, back] += q
            if s + 1 < S:
                p[s, a, s + 1] += 1 - q
            else:
                ends[s, a] = 1 - q
    return p, ends


def random_undiscounted_model(rng: np.random.Generator) -> tuple[MDP, ExactModel]:
    """A model with discount 1, of one of several kinds, and the same model in exact arithmetic."""
    while True:
        p, ends = (_weights, _loops, _ring, _chain)[rng.choice(4, p=[0.3, 0.3, 0.2, 0.2])](rng)
        S, A = ends.shape
        if rng.random() < 0.15:  # a float32 table
            p = p.astype(np.float32).astype(np.float64)
        number = rng.permutation(S)
        p, ends = p[number][:, :, number], ends[number]
        rewards = [rng.normal(size=(S, A)), rng.integers(-1, 2, (S, A)).astype(float), -np.ones((S, A))][
            rng.integers(3)
        ]
        rewards = rewards * np.where(rng.random((S, A)) < rng.choice([0.0, 0.5, 0.9]), 0.0, 1.0)
        rewards = rewards * rng.choice([1e-6, 1.0, 1.0, 1e6])
        available = rng.random((S, A)) < rng.choice([1.0, 0.7])
        available[np.arange(S), rng.integers(0, A, S)] = True
        rewards[~available] = -np.inf
        dense = rng.random() < 0.4
        try:
            mdp = MDP(p if dense else sp.csr_array(p.reshape(S * A, S)), rewards, 1.0, termination=ends)
        except ValueError as problem:  # no end within reach of some state
            if "discount: 1 needs" not in str(problem):
                raise
            continue
        return mdp, exact_model(p, rewards, ends)

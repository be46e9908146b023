"""Policy iteration in exact rational arithmetic, for small models with discount 1 that float64 cannot solve.

Where a cycle of states is left with a probability of 1e-20 per round, a bound in float64 has to allow for the rounding
error of 1e20 rounds. Fractions have none, and from the policy that float64 found few iterations are needed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from greedystep.mdp import MDP

MOST_STATES = 64  # states above which no model is solved
MOST_BITS = 20_000_000
"""Bits of all numbers multiplied after which the solve gives up: about one second of work, whatever the model."""

Jump = tuple[dict[int, Fraction], Fraction]
"""(probabilities of the next state, given that this one is left; expected reward until then)."""


class RationalSolution(NamedTuple):
    """Exact optimal values, and the optimal policy that takes the first of equal actions."""

    v: list[Fraction]
    policy: np.ndarray  # int [S]

    def rounded(self) -> tuple[np.ndarray, float, float] | None:
        """Return (v in float64 [S], lower, upper) with v + lower <= v* <= v + upper; None if float64 overflows."""
        try:
            v = np.array([float(x) for x in self.v])
        except OverflowError:
            return None
        errors = [exact - Fraction(float(x)) for x, exact in zip(v, self.v, strict=True)]
        lower, upper = float(min(errors)), float(max(errors))
        return v, np.nextafter(min(lower, 0.0), -np.inf), np.nextafter(max(upper, 0.0), np.inf)


class TooLargeError(Exception):
    """The fractions have grown beyond MOST_BITS."""


def rational_policy_iteration(mdp: MDP, policy: np.ndarray, counting: bool = False) -> RationalSolution | None:
    """Return v* of a model with discount 1 whose every policy ends, or None if that is too much work.

    Args:
        mdp: the entries of a row and its termination are weights, as in undiscounted.py.
        policy: int [S], where to start.
        counting: pay 1 for each change of state instead of the rewards.
    """
    if mdp.num_states > MOST_STATES:
        return None
    jumps = [[_jump(mdp, s, a, counting) for a in range(mdp.num_actions)] for s in range(mdp.num_states)]
    policy, work = policy.copy(), _Work()
    try:
        while True:
            v = _policy_value([jumps[s][a] for s, a in enumerate(policy)], work)
            changed = False
            for s, actions in enumerate(jumps):
                q = [None if jump is None else jump[1] + work.dot(jump[0], v) for jump in actions]
                best = max(value for value in q if value is not None)
                changed |= best > v[s]
                policy[s] = q.index(best) if best > v[s] or q.index(v[s]) < policy[s] else policy[s]
            if not changed:
                return RationalSolution(v, policy)
    except TooLargeError:
        return None


class _Work:
    """Multiplies fractions and counts their bits."""

    def __init__(self) -> None:
        self._bits = 0

    def times(self, a: Fraction, b: Fraction) -> Fraction:
        for number in (a, b):
            self._bits += number.numerator.bit_length() + number.denominator.bit_length()
        if self._bits > MOST_BITS:
            raise TooLargeError
        return a * b

    def dot(self, weights: dict[int, Fraction], v: list[Fraction]) -> Fraction:
        return sum((self.times(p, v[t]) for t, p in weights.items()), Fraction(0))


def _jump(mdp: MDP, s: int, a: int, counting: bool) -> Jump | None:
    """Return the exact jump of an action (undiscounted.py); None if the action is not available."""
    if mdp.rewards[s, a] == -np.inf:
        return None
    row = mdp.transitions[[s * mdp.num_actions + a]]
    row = sp.csr_array(row)
    weights: dict[int, Fraction] = {}
    for t, p in zip(row.indices, row.data, strict=True):
        if p > 0:
            weights[int(t)] = weights.get(int(t), Fraction(0)) + Fraction(float(p))
    stay = weights.pop(s, Fraction(0))
    leave = sum(weights.values(), Fraction(0))
    if mdp.termination is not None:
        leave += Fraction(float(mdp.termination[s, a]))
    reward = Fraction(1) if counting else Fraction(float(mdp.rewards[s, a])) * (leave + stay) / leave
    return {t: weight / leave for t, weight in weights.items()}, reward


def _policy_value(chain: list[Jump], work: _Work) -> list[Fraction]:
    """Solve v = r + T v by elimination, state by state."""
    to, v = [dict(jump[0]) for jump in chain], [jump[1] for jump in chain]
    for s in range(len(chain)):
        rest = 1 / (1 - to[s].pop(s, Fraction(0)))
        if rest != 1:
            v[s] = work.times(v[s], rest)
            to[s] = {t: work.times(p, rest) for t, p in to[s].items()}
        for i in range(s + 1, len(chain)):
            through = to[i].pop(s, None)
            if through is not None:
                v[i] += work.times(through, v[s])
                for t, p in to[s].items():
                    to[i][t] = to[i].get(t, Fraction(0)) + work.times(through, p)
    for s in reversed(range(len(chain))):
        v[s] += work.dot(to[s], v)
    return v

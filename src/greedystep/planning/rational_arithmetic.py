"""Policy iteration in rational arithmetic, which has no rounding error: for small models with discount 1.

It starts from the policy that float64 found, and works on jumps, changes of state (undiscounted.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from greedystep.mdp import MDP

MOST_STATES = 64  # states above which no model is solved in rational arithmetic
MOST_BITS = 20_000_000  # bits of all numbers multiplied after which that gives up: about one second of work

Jump = tuple[dict[int, Fraction], Fraction]
"""(probabilities of the next state, given that it differs from this one; expected reward until then)."""


class RationalSolution(NamedTuple):
    """Exact optimal values as fractions, and an optimal policy, int [S], with the lowest of equal actions."""

    v: list[Fraction]
    policy: np.ndarray

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
    """Fractions in exact arithmetic have more than MOST_BITS bits."""


def rational_policy_iteration(mdp: MDP, policy: np.ndarray, counting: bool = False) -> RationalSolution | None:
    """Return the exact v* of a model with discount 1 whose every policy ends, or None if that is too much work.

    Starts from `policy`, int [S]. With `counting`, rewards are replaced by 1 per change of state.
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
    """Multiplies fractions and counts their bits; TooLargeError beyond a limit."""

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
    """Return the exact jump of action a in state s: what it leads to when it leaves s; None if it is not available."""
    if mdp.rewards[s, a] == -np.inf:
        return None
    row = sp.csr_array(mdp.transitions[[s * mdp.num_actions + a]])
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
    """Solve v = r + T v exactly by Gaussian elimination with fractions."""
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

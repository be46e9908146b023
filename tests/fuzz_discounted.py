"""Random models with a discount below 1, and their optimal values in exact rational arithmetic.

A discounted model is one that ends with probability 1 - γ after each step: the exact arithmetic of `fuzz_models` serves
it too. Probabilities are multiples of a power of two, so that every row sums to one exactly.
"""

from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from fuzz_models import END, ExactModel, ExactRow

from greedystep.mdp import MDP

DISCOUNTS = (1e-300, 1e-3, 0.5, 0.9, 0.99, 0.9999, 1 - 1e-9, float(np.nextafter(1.0, 0.0)))
REWARDS = (1e-300, 1e-6, 1.0, 1.0, 1.0, 1e6, 1e200)
PARTS = 2**20
"""A probability is a multiple of one over this."""


def random_discounted_model(rng: np.random.Generator) -> tuple[MDP, ExactModel]:
    """A model with a discount below 1, and the same model in exact arithmetic."""
    S, A = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    discount = float(rng.choice(DISCOUNTS))
    weight = rng.multinomial(PARTS, rng.dirichlet(np.full(S + 1, rng.choice([0.05, 0.3, 3.0])), (S, A)))
    if rng.random() < 0.5:  # nothing ends
        weight[..., 0] += weight[..., S]
        weight[..., S] = 0
    p, ends = weight[..., :S] / PARTS, weight[..., S] / PARTS
    rewards = rng.normal(size=(S, A)) if rng.random() < 0.5 else rng.integers(-1, 2, (S, A)).astype(float)
    rewards = rewards * rng.choice(REWARDS)
    rewards[(rng.random((S, A)) < 0.2) & (np.arange(A) > 0)] = -np.inf
    dense = rng.random() < 0.4
    mdp = MDP(p if dense else sp.csr_array(p.reshape(S * A, S)), rewards, discount, termination=ends)
    rows = [
        [_row(weight[s, a], rewards[s, a], Fraction(discount)) for a in range(A) if rewards[s, a] > -np.inf]
        for s in range(S)
    ]
    return mdp, ExactModel(rows, endless=False)


def _row(weight: np.ndarray, reward: float, discount: Fraction) -> ExactRow:
    successors = {int(t): discount * int(weight[t]) / PARTS for t in np.flatnonzero(weight[:-1])}
    return ExactRow({**successors, END: 1 - sum(successors.values())}, Fraction(float(reward)))

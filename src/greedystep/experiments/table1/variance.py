"""How much importance sampling makes multi-step returns vary: standard deviations, computed exactly.

The N-step return of the paper's off-policy operator obeys

    X_N(s, a) = r(s, a) + γ ρ(s', a') X_{N-1}(s', a'),    X_0 = Q,    s' ~ p(· | s, a),  a' ~ μ(· | s'),  ρ = π / μ

so its mean and its second moment have recursions of their own. With ρ = 1 it is the return without correction. Q is
Q^π, so that the correction is all that differs: r is the expected reward, and nothing is estimated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.experiments.table1.properties import Case, policy_q
from greedystep.mdp import MDP

STEPS = 8


def variance(cases: list[Case]) -> list[dict[str, Any]]:
    """For each model the deviations by N, root mean square over (s, a); the data come from another policy than π."""
    rows = []
    for case in cases:
        target, behaviour = np.eye(case.mdp.num_actions)[case.target], case.covering[1]
        start = policy_q(case.mdp, case.target)
        ratios = {"corrected": target / behaviour, "uncorrected": np.ones_like(behaviour)}
        found = {kind: deviations(case.mdp, behaviour, ratio, start, STEPS) for kind, ratio in ratios.items()}
        rows.append({"case": case.name, "steps": list(range(1, STEPS + 1)), **found})
    return rows


def deviations(mdp: MDP, behaviour: np.ndarray, ratio: np.ndarray, start: np.ndarray, steps: int) -> list[float]:
    """Root mean square over (s, a) of the standard deviation of X_1, X_2, ..., X_steps; all arguments [S, A]."""
    mean, square, found = start, start**2, []
    for _ in range(steps):
        ahead = (behaviour * ratio * mean).sum(axis=1)  # [S]: E[ρ X] on arriving there
        ahead_square = (behaviour * ratio**2 * square).sum(axis=1)
        paid, later = mdp.rewards, mdp.backup(ahead) - mdp.rewards
        later_square = mdp.discount * (mdp.backup(ahead_square) - mdp.rewards)
        mean, square = paid + later, paid**2 + 2 * paid * later + later_square
        found.append(float(np.sqrt(np.maximum(square - mean**2, 0).mean())))
    return found

"""Return estimators: pure functions on a segment of consecutive stored steps, in NumPy or in JAX.

`greedy` lets the data choose the bootstrapping step; `traces` holds the estimators with a fixed rule.
NumPy arrays in give NumPy arrays out, JAX arrays give JAX arrays, in the same dtype. Neither library's compiler is
imported before it is needed.
"""

from greedystep.returns.greedy import Greedy, greedy_step, greedy_step_twin, soft_greedy_step
from greedystep.returns.traces import (
    importance_sampled,
    lambda_return,
    monte_carlo,
    n_step,
    off_policy,
    q_lambda,
    q_sigma,
    retrace,
    sarsa,
    tree_backup,
    watkins,
    weighted,
)

__all__ = [
    "Greedy",
    "greedy_step",
    "greedy_step_twin",
    "importance_sampled",
    "lambda_return",
    "monte_carlo",
    "n_step",
    "off_policy",
    "q_lambda",
    "q_sigma",
    "retrace",
    "sarsa",
    "soft_greedy_step",
    "tree_backup",
    "watkins",
    "weighted",
]

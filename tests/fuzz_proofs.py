"""Solve a random model in a random way and compare what is claimed with the exact truth."""

from __future__ import annotations

import math
import sys
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
from fuzz_discounted import random_discounted_model
from fuzz_models import (
    ExactModel,
    exact_action_policy,
    exact_longest_walk,
    exact_policy_values,
    exact_values,
    random_undiscounted_model,
)

import greedystep as gs
from greedystep.planning.solve import METHODS


def prove(seed: int, index: int) -> None:
    """AssertionError where a bound, or a policy, is not what it says."""
    rng = np.random.default_rng([seed, index])
    mdp, exact = (random_discounted_model if rng.random() < 0.3 else random_undiscounted_model)(rng)
    options: dict[str, Any] = {"tolerance": float(rng.choice([1e-6, 1e-6, 1e-2, 1e-300]))}
    if rng.random() < 0.3:
        options["initial"] = rng.normal(size=mdp.num_states) * float(rng.choice([1.0, 1e10, 1e300]))
    if rng.random() < 0.5:
        options["method"] = str(rng.choice(METHODS))
        options["max_iterations"] = int(rng.choice([1, 5, 300]))
        if options["method"] == "multi-step":
            options["policies"] = [_policy(rng, mdp) for _ in range(2)]
    if exact.endless:  # goes on until somebody stops it
        options.setdefault("max_iterations", 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            solution = gs.solve(mdp, **options)
        except ValueError as problem:  # the method asks for the value of a policy that has none, or none in float64
            said = str(problem)
            if not ((exact.endless and "never ends" in said) or (_is_extreme(mdp) and "float64 cannot hold" in said)):
                raise
            return
    check(solution, exact, mdp)
    is_provable = mdp.discount == 1 or mdp.discount < 1 - 1e-12  # nearer to 1, rounding alone takes all that is left
    if is_provable and not exact.endless and not options.keys() & {"method", "initial"}:
        told = _is_extreme(mdp) and "too large for float64" in solution.message
        if "more steps than float64 can count" in solution.message:
            told = exact_longest_walk(exact) > Fraction(sys.float_info.max)
        assert math.isfinite(solution.error_bound) or told, (
            f"every policy ends, and nothing is proved: {solution.message}"
        )


def check(solution: gs.Solution, exact: ExactModel, mdp: gs.MDP) -> None:
    """The bounds hold in exact arithmetic, and every number is one."""
    for name in ("error_bound", "policy_loss_bound"):
        bound = getattr(solution, name)
        assert bound >= 0, f"{name} is {bound}"
    assert np.isfinite(solution.v).all() or math.isinf(solution.error_bound), f"v is {solution.v}"
    truth = exact_values(exact)
    if truth is None or math.isinf(solution.error_bound):
        assert not solution.converged
        assert solution.message, "no bound, and no word about it"
        return
    error = max(abs(Fraction(float(mine)) - true) for mine, true in zip(solution.v, truth, strict=True))
    assert error <= Fraction(solution.error_bound), f"v is off by {float(error):g}, bound {solution.error_bound:g}"
    if math.isfinite(solution.policy_loss_bound):
        own = exact_policy_values(exact, exact_action_policy(exact, mdp, solution.policy))
        loss = max(best - mine for best, mine in zip(truth, own, strict=True))
        bound = solution.policy_loss_bound
        assert loss <= Fraction(bound), f"the policy loses {float(loss):g}, bound {bound:g}"


def _is_extreme(mdp: gs.MDP) -> bool:
    """Whether walks may be so long that the sums along them leave float64."""
    data = mdp.transitions if isinstance(mdp.transitions, np.ndarray) else mdp.transitions.data
    ends = np.zeros(0) if mdp.termination is None else mdp.termination
    chances = np.concatenate([data.ravel(), ends.ravel()])
    return bool(chances[chances > 0].min() < 1e-100)


def _policy(rng: np.random.Generator, mdp: gs.MDP) -> np.ndarray:
    chosen = np.where(mdp.available, rng.random(mdp.available.shape), -1.0)
    return chosen.argmax(axis=1)

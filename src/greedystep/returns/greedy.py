"""Greedy-step returns: the data choose how many steps to take before bootstrapping.

The greedy-step return is the largest of the n-step returns:

    max_{1≤n≤N}  rₜ + dₜ rₜ₊₁ + … + dₜ⋯dₜ₊ₙ₋₂ rₜ₊ₙ₋₁ + dₜ⋯dₜ₊ₙ₋₁ vₜ₊ₙ₋₁

It needs no behaviour policy and no importance sampling. It is the sampled form of the greedy-step operator for
deterministic problems (Eq. 6 of the paper); where transitions or rewards are random it is biased upwards.
"""

from typing import NamedTuple

from greedystep.checks import check_int
from greedystep.returns._segment import Array, accepts_tensors, segment


class Greedy(NamedTuple):
    """Result of `greedy_step`: the returns, and the number of steps that each takes before bootstrapping."""

    returns: Array
    """`[T, ...]`, the dtype of the input."""
    steps: Array
    """`[T, ...]` int32: the number n ≥ 1 of rewards taken before bootstrapping; among equals the smallest."""


@accepts_tensors
def greedy_step(
    rewards: Array, discounts: Array, values: Array, *, cuts: Array | None = None, horizon: int | None = None
) -> Greedy:
    """Compute the largest n-step return, 1 ≤ n ≤ `horizon`, from every step of a segment (Eq. 6).

    Without a horizon the look-ahead ends with the episode (N = T - t) and one backward pass suffices (Eq. 7):

        yₜ = rₜ + dₜ max(vₜ, yₜ₊₁)

    With a horizon that recursion would look too far, and windows of `horizon` steps are composed instead: exact at
    every length, since no power of γ is ever divided out. The cost grows with the logarithm of `horizon` at most.

    Args:
        rewards: `[T, ...]`, rewards[t] for the action taken in s[t].
        discounts: `[T, ...]`, γ(1 - terminated[t]), not negative.
        values: `[T, ...]`, values[t] = max_a Q(s[t+1], a); -inf means "never bootstrap here".
        cuts: `[T, ...]` booleans, true where step t is the last of its episode or of what is stored, but not terminal.
        horizon: the largest n to consider; None for no limit.

    Returns:
        The returns and the chosen n. Under `jax.jit`, steps that are not used cost nothing.
    """
    if horizon is not None:
        horizon = check_int("horizon", horizon)
    s, _ = segment(rewards, discounts, values, cuts)
    if horizon is None or horizon >= len(s.rewards):
        return Greedy(*s.kernels.greedy(s.rewards, s.discounts, s.values, s.cuts))
    return Greedy(*s.kernels.window(s.one_step(), s.rewards, s.discounts, s.live(), horizon, greedy=True))


@accepts_tensors
def greedy_step_twin(
    rewards: Array, discounts: Array, values: Array, other_values: Array, *, cuts: Array | None = None
) -> Greedy:
    """Compute a double estimator over n: n is chosen with `values`, the return is read from `other_values`.

        nₜ = argmaxₙ of the n-step returns with v = `values`,    zₜ = the nₜ-step return with v = `other_values`

    The maximum over noisy estimates is too high on average; a second, independent estimate of the chosen one is not
    (Hu et al. 2021, Generalizable Episodic Memory; van Hasselt 2010 for the same idea over actions).

    other_values `[T, ...]` holds the values of the same states from another estimator; other arguments as in
    `greedy_step`.
    """
    s, (other_values,) = segment(rewards, discounts, values, cuts, other_values=other_values)
    xp = s.kernels.xp
    steps = s.kernels.greedy(s.rewards, s.discounts, s.values, s.cuts)[1]
    goes_on = steps > 1
    a = xp.where(goes_on, s.rewards, s._replace(values=other_values).one_step())
    b = xp.where(goes_on, s.discounts, 0)
    return Greedy(s.kernels.linear(a, b), steps)


@accepts_tensors
def soft_greedy_step(
    rewards: Array, discounts: Array, values: Array, alpha: Array, *, cuts: Array | None = None
) -> Array:
    """Compute greedy-step returns with a soft maximum, after the softmax of Highway RL (Wang et al. 2024).

        yₜ = rₜ + dₜ smax_α(vₜ, yₜ₊₁),    smax_α(v, y) = (v e^{αv} + y e^{αy}) / (e^{αv} + e^{αy})

    The weight of looking further is σ(α(yₜ₊₁ - vₜ)): as α → ∞ this is `greedy_step`, and at α = 0 it is
    `lambda_return` with λ = ½. The smaller α, the less weight a lucky return gets. The soft maximum is taken
    between two numbers at every step of the recursion, not once over all n.

    alpha, in units of one over reward, is ≥ 0 and finite, a number or `[T, ...]`; other arguments as in `greedy_step`,
    but values must be finite except at terminations.
    """
    s, (alpha,) = segment(rewards, discounts, values, cuts, alpha=alpha)
    return s.kernels.soft(s.rewards, s.discounts, s.values, s.cuts, alpha)

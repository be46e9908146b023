"""Returns with a fixed rule for how far to look: n steps, λ, traces and importance sampling.

Nearly all are cases of one recursion (Munos et al. 2016, Safe and Efficient Off-Policy Reinforcement Learning):

    yₜ = rₜ + dₜ (vₜ - cₜ₊₁ qₜ₊₁ + cₜ₊₁ yₜ₊₁)

with vₜ the value of the next state, qₜ₊₁ = Q(sₜ₊₁, aₜ₊₁) that of the action taken there, and a trace cₜ₊₁ that weights
what follows:

    lambda_return   q = v, c = λ                  retrace       c = λ min(1, π/μ)
    watkins         q = v, c = λ 1[a greedy]      tree_backup   c = λ π
    q_lambda        c = λ                         q_sigma       c = σ π/μ + (1 - σ) π

The others take a number of steps without correction: n_step, sarsa, monte_carlo, importance_sampled, weighted.
Arguments are those of `greedystep.returns`.
"""

import numpy as np

from greedystep.checks import check_int
from greedystep.returns._segment import Array, Segment, accepts_tensors, is_jax, segment


@accepts_tensors
def off_policy(
    rewards: Array, discounts: Array, values: Array, taken: Array, traces: Array, *, cuts: Array | None = None
) -> Array:
    """Compute the general off-policy return, yₜ = rₜ + dₜ (vₜ - cₜ₊₁ qₜ₊₁ + cₜ₊₁ yₜ₊₁).

    traces[t] = c[t+1] is not negative, a number or `[T, ...]`; other arguments as in `greedystep.returns`.
    """
    s, (taken, traces) = segment(rewards, discounts, values, cuts, taken=taken, traces=traces)
    return _corrected(s, taken, _in_range(s, "traces", traces, np.inf))


@accepts_tensors
def lambda_return(
    rewards: Array, discounts: Array, values: Array, lambda_: Array, *, cuts: Array | None = None
) -> Array:
    """Compute the λ-return, yₜ = rₜ + dₜ ((1 - λ) vₜ + λ yₜ₊₁).

    With values[t] = max_a Q(s[t+1], a) this is Peng's Q(λ), with Q(s[t+1], a[t+1]) Sarsa(λ), with V_μ(s[t+1]) TD(λ).
    The weights of the n-step returns are (1 - λ)λⁿ⁻¹; at the end of a segment the longest one takes what is left.
    (The paper prints λⁿ for λⁿ⁻¹: those weights do not sum to one.)
    """
    s, (lambda_,) = segment(rewards, discounts, values, cuts, lambda_=lambda_)
    return _corrected(s, s.values, lambda_)


@accepts_tensors
def watkins(
    rewards: Array, discounts: Array, values: Array, greedy: Array, lambda_: Array = 1.0, *, cuts: Array | None = None
) -> Array:
    """Compute Watkins's Q(λ): the λ-return up to the first action that is not greedy, c = λ 1[aₜ₊₁ is greedy].

    values[t] = max_a Q(s[t+1], a), and greedy[t] is true where a[t+1] attains that maximum (ties count).
    """
    s, (greedy, lambda_) = segment(rewards, discounts, values, cuts, greedy=greedy, lambda_=lambda_)
    return _corrected(s, s.values, lambda_ * _in_range(s, "greedy", greedy, 1))


@accepts_tensors
def q_lambda(
    rewards: Array, discounts: Array, values: Array, taken: Array, lambda_: Array, *, cuts: Array | None = None
) -> Array:
    """Compute Q^π(λ) of Harutyunyan et al. (2016), Q(λ) with Off-Policy Corrections: c = λ for every action.

    It converges only if λ is small or the behaviour close to π: λ < (1 - γ) / (γ max_s |π - μ|₁) suffices.
    With values[t] = max_a Q(s[t+1], a) it is Q*(λ). Peng's Q(λ) is `lambda_return`.
    """
    s, (taken, lambda_) = segment(rewards, discounts, values, cuts, taken=taken, lambda_=lambda_)
    return _corrected(s, taken, lambda_)


@accepts_tensors
def tree_backup(
    rewards: Array,
    discounts: Array,
    values: Array,
    taken: Array,
    target_prob: Array,
    lambda_: Array = 1.0,
    *,
    cuts: Array | None = None,
) -> Array:
    """Compute tree-backup returns TB(λ) of Precup et al. (2000): c = λ π(aₜ₊₁|sₜ₊₁), without behaviour probabilities.

    values[t] = E_π Q(s[t+1], ·).
    """
    others = {"taken": taken, "target_prob": target_prob, "lambda_": lambda_}
    s, (taken, target, lambda_) = segment(rewards, discounts, values, cuts, **others)
    return _corrected(s, taken, lambda_ * _in_range(s, "target_prob", target, 1))


@accepts_tensors
def retrace(
    rewards: Array,
    discounts: Array,
    values: Array,
    taken: Array,
    target_prob: Array,
    behaviour_prob: Array,
    lambda_: Array = 1.0,
    *,
    cuts: Array | None = None,
) -> Array:
    """Compute Retrace(λ) of Munos et al. (2016): c = λ min(1, π(aₜ₊₁|sₜ₊₁) / μ(aₜ₊₁|sₜ₊₁)).

    values[t] = E_π Q(s[t+1], ·).
    """
    others = {"taken": taken, "target_prob": target_prob, "behaviour_prob": behaviour_prob, "lambda_": lambda_}
    s, (taken, target, behaviour, lambda_) = segment(rewards, discounts, values, cuts, **others)
    return _corrected(s, taken, lambda_ * s.kernels.xp.minimum(1, _ratios(s, target, behaviour)))


@accepts_tensors
def q_sigma(
    rewards: Array,
    discounts: Array,
    values: Array,
    taken: Array,
    target_prob: Array,
    behaviour_prob: Array,
    sigma: Array,
    *,
    cuts: Array | None = None,
) -> Array:
    """Compute Q(σ) of De Asis et al. (2018): c = σ π/μ + (1 - σ) π, from tree backup (σ = 0) to sampling (σ = 1).

    Sutton & Barto (2018), Eq. 7.17, with the look-ahead going to the end of the segment. values[t] = E_π Q(s[t+1], ·).
    """
    others = {"taken": taken, "target_prob": target_prob, "behaviour_prob": behaviour_prob, "sigma": sigma}
    s, (taken, target, behaviour, sigma) = segment(rewards, discounts, values, cuts, **others)
    target = _in_range(s, "target_prob", target, 1)
    return _corrected(s, taken, sigma * _ratios(s, target, behaviour) + (1 - sigma) * target)


@accepts_tensors
def importance_sampled(
    rewards: Array,
    discounts: Array,
    values: Array,
    target_prob: Array,
    behaviour_prob: Array,
    n: int | None = None,
    *,
    cuts: Array | None = None,
) -> Array:
    """Compute per-decision importance-sampled n-step returns, without control variates (Eq. 9 of the paper).

        Σᵢ₌₀ⁿ⁻¹ dₜ⋯dₜ₊ᵢ₋₁ ζᵢ rₜ₊ᵢ + dₜ⋯dₜ₊ₙ₋₁ ζₙ₋₁ vₜ₊ₙ₋₁,    ζᵢ = ρₜ₊₁⋯ρₜ₊ᵢ,    ρ = π/μ

    The paper ends with ζₙ Q(sₜ₊ₙ, aₜ₊ₙ), whose expectation over aₜ₊ₙ ~ μ is ζₙ₋₁ E_π Q(sₜ₊ₙ, ·): bootstrapping from
    that expectation, values[t] = E_π Q(s[t+1], ·), says the same with less noise, and needs no action after the last
    step. For the letter of Eq. 9 pass values[t] = ρ[t+1] Q(s[t+1], a[t+1]). With control variates it is `q_sigma` at
    σ = 1. With n = None the return takes all rewards up to the end of the segment.
    """
    n = None if n is None else check_int("n", n)
    others = {"target_prob": target_prob, "behaviour_prob": behaviour_prob}
    s, (target, behaviour) = segment(rewards, discounts, values, cuts, **others)
    return _uncorrected(s, s.discounts * _ratios(s, target, behaviour), n)


@accepts_tensors
def n_step(rewards: Array, discounts: Array, values: Array, n: int, *, cuts: Array | None = None) -> Array:
    """Compute the uncorrected n-step return, rₜ + dₜ rₜ₊₁ + … + dₜ⋯dₜ₊ₙ₋₁ vₜ₊ₙ₋₁, n ≥ 1.

    Where the segment ends sooner, the return takes the steps that are left and bootstraps there, discounted for just
    those steps. The cost grows with the logarithm of n at most.
    """
    n = check_int("n", n)
    s, _ = segment(rewards, discounts, values, cuts)
    return _uncorrected(s, s.discounts, n)


@accepts_tensors
def sarsa(rewards: Array, discounts: Array, taken: Array, n: int = 1, *, cuts: Array | None = None) -> Array:
    """Compute the n-step Sarsa return, Eq. 8 of the paper: `n_step` with the values of the actions taken.

    At a cut, where no action was taken, put the value that π would give into `taken`. Sarsa(λ) is `lambda_return` with
    these values.
    """
    return n_step(rewards, discounts, taken, n, cuts=cuts)


@accepts_tensors
def monte_carlo(rewards: Array, discounts: Array, values: Array, *, cuts: Array | None = None) -> Array:
    """Compute the return up to the end of the segment, yₜ = rₜ + dₜ yₜ₊₁; values are read only at cuts.

    Pass zeros for values to count the stored rewards alone.
    """
    s, _ = segment(rewards, discounts, values, cuts)
    return _uncorrected(s, s.discounts, None)


@accepts_tensors
def weighted(rewards: Array, discounts: Array, values: Array, weights: Array, *, cuts: Array | None = None) -> Array:
    """Compute the weighted average Σₙ wₙ yₜ⁽ⁿ⁾ of the n-step returns y⁽¹⁾ … y⁽ᴺ⁾ (Sharma et al. 2017).

    weights `[N]` holds weights[n-1] = wₙ, which sum to one. Where fewer than n steps are left, y⁽ⁿ⁾ is the longest
    return there is, as in `n_step`: it takes the weights of those that are missing. One pass over the segment per
    weight.
    """
    if not is_jax(weights):
        weights = np.asarray(weights)
        if weights.dtype.kind not in "biuf":
            raise ValueError(f"weights must be real numbers, got {weights.dtype}")
        if weights.ndim == 1 and not abs(weights.sum() - 1) < 1e-5:
            raise ValueError(f"weights must sum to one, got a sum of {weights.sum()}")
    if weights.ndim != 1:
        raise ValueError(f"weights must be one row of numbers w_1 … w_N, got shape {weights.shape}")
    s, _ = segment(rewards, discounts, values, cuts, beside=weights)
    xp, live, v, one_step = s.kernels.xp, s.live(), s.successor_values(), s.one_step()
    w = xp.asarray(weights, dtype=s.rewards.dtype)[::-1]
    at_least = xp.cumsum(w)  # Σ_{m≥n} wₘ, from the last n to the first

    def prepend(longer, w, at_least):
        """Return Σ_{m≥n} wₘ y⁽ᵐ⁻ⁿ⁺¹⁾ at t from the same sum for n + 1 at t + 1: Horner's rule, no power of γ."""
        ahead = xp.where(live, w * v + xp.roll(longer, -1, axis=0), at_least * v)
        return at_least * s.rewards + s.discounts * ahead

    return s.kernels.fold(prepend, w[0] * one_step, (w[1:], at_least[1:]))


def _corrected(s: Segment, taken: Array, traces: Array) -> Array:
    """Return yₜ = rₜ + dₜ (vₜ - cₜ₊₁ qₜ₊₁ + cₜ₊₁ yₜ₊₁), with c = 0 where there is no next action."""
    xp, live = s.kernels.xp, s.live()
    c, q = xp.where(live, traces, 0), xp.where(live, taken, 0)
    return s.kernels.linear(s.rewards + s.discounts * (s.successor_values() - c * q), s.discounts * c)


def _uncorrected(s: Segment, discounts: Array, n: int | None) -> Array:
    """Return the sum of n rewards (None: up to the segment's end) and the bootstrap, discounted by `discounts`."""
    xp, live = s.kernels.xp, s.live()
    if n is None or n >= len(s.rewards):
        return s.kernels.linear(xp.where(live, s.rewards, s.one_step()), xp.where(live, discounts, 0))
    return s.kernels.window(s.one_step(), s.rewards, discounts, live, n, greedy=False)[0]


def _ratios(s: Segment, target_prob: Array, behaviour_prob: Array) -> Array:
    """Return ρₜ₊₁ = π(aₜ₊₁|sₜ₊₁) / μ(aₜ₊₁|sₜ₊₁), and 0 where there is no next action."""
    behaviour = s.kernels.xp.where(s.live(), behaviour_prob, 1)
    if isinstance(behaviour, np.ndarray) and not (behaviour > 0).all():
        raise ValueError(f"behaviour_prob must be positive wherever a next action was taken, got {behaviour.min()}")
    return _in_range(s, "target_prob", target_prob, np.inf) / behaviour


def _in_range(s: Segment, name: str, numbers: Array, high: float) -> Array:
    """Return the numbers, 0 where there is no next action; ValueError if one is not in [0, high] (densities: inf).

    A little above is in it: probabilities are often rounded.
    """
    numbers = s.kernels.xp.where(s.live(), numbers, 0)
    if isinstance(numbers, np.ndarray) and numbers.size and not (numbers.min() >= 0 and numbers.max() <= high + 1e-5):
        expected = "must not be negative" if high == np.inf else f"must lie in [0, {high}]"
        where = "wherever a next action was taken"
        raise ValueError(f"{name} {expected} {where}, got numbers from {numbers.min()} to {numbers.max()}")
    return numbers

"""The recursions of the estimators in NumPy, compiled with numba: kernels on `[T, lanes]`, functions on `[T, ...]`."""

from collections.abc import Callable

import numpy as np
from numba import njit

Array = np.ndarray
xp = np

COMPUTABLE = "float32, float64"


def is_computable(dtype: np.dtype) -> bool:
    return dtype in (np.float32, np.float64)


def linear(a: Array, b: Array) -> Array:
    """Return yₜ = aₜ + bₜ yₜ₊₁, `[T, ...]`; b must be 0 wherever nothing follows."""
    y = np.empty(a.shape, a.dtype)
    _linear(_lanes(a), _lanes(b), _lanes(y))
    return y


def greedy(rewards: Array, discounts: Array, values: Array, cuts: Array | None) -> tuple[Array, Array]:
    """Return yₜ = rₜ + dₜ max(vₜ, yₜ₊₁) and the chosen steps n."""
    y, steps = np.empty(rewards.shape, rewards.dtype), np.empty(rewards.shape, np.int32)
    cuts = np.zeros(rewards.shape, bool) if cuts is None else cuts
    _greedy(_lanes(rewards), _lanes(discounts), _lanes(values), _lanes(cuts), _lanes(y), _lanes(steps))
    return y, steps


def soft(rewards: Array, discounts: Array, values: Array, cuts: Array | None, alpha: Array) -> Array:
    """Return yₜ = rₜ + dₜ (vₜ + σ(α gₜ) gₜ) with the gain gₜ = yₜ₊₁ - vₜ."""
    y = np.empty(rewards.shape, rewards.dtype)
    cuts = np.zeros(rewards.shape, bool) if cuts is None else cuts
    alpha = np.broadcast_to(alpha, rewards.shape)
    _soft(_lanes(rewards), _lanes(discounts), _lanes(values), _lanes(cuts), _lanes(alpha), _lanes(y))
    return y


def window(bests: Array, rewards: Array, discounts: Array, live: Array, n: int, *, greedy: bool) -> tuple[Array, Array]:
    """Return the greedy (or n-step) return over steps t to t+n-1 for every t, and its steps; cost independent of n."""
    y, steps = np.empty(bests.shape, bests.dtype), np.empty(bests.shape, np.int32)
    maps = _lanes(bests), _lanes(rewards), _lanes(discounts), _lanes(live)
    _window(*maps, min(n, len(live)), greedy, _lanes(y), _lanes(steps))
    return y, steps


def fold(body: Callable, first: Array, steps: tuple[Array, ...]) -> Array:
    """Return body(... body(body(first, step 0), step 1) ...) over the leading axis of `steps`."""
    for step in zip(*steps, strict=True):
        first = body(first, *step)
    return first


def _lanes(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(len(x), -1)


@njit(cache=True)
def _linear(a, b, y):
    steps, lanes = a.shape
    for lane in range(lanes):
        ahead = a.dtype.type(0)
        for t in range(steps - 1, -1, -1):
            ahead = a[t, lane] + b[t, lane] * ahead
            y[t, lane] = ahead


@njit(cache=True)
def _greedy(rewards, discounts, values, cuts, y, n):
    steps, lanes = rewards.shape
    for lane in range(lanes):
        ahead, count = values[-1, lane], 0
        for t in range(steps - 1, -1, -1):
            r, d, v = rewards[t, lane], discounts[t, lane], values[t, lane]
            if d == 0:
                ahead, count = r, 1
            elif t < steps - 1 and not cuts[t, lane] and _beats(ahead, v):
                ahead, count = r + d * ahead, count + 1
            else:
                ahead, count = r + d * v, 1
            y[t, lane], n[t, lane] = ahead, count


@njit(cache=True)
def _soft(rewards, discounts, values, cuts, alpha, y):
    steps, lanes = rewards.shape
    one = rewards.dtype.type(1)
    for lane in range(lanes):
        ahead = values[-1, lane]
        for t in range(steps - 1, -1, -1):
            r, d, v = rewards[t, lane], discounts[t, lane], values[t, lane]
            if d == 0:
                ahead = r
            elif cuts[t, lane]:
                ahead = r + d * v
            else:
                gain = ahead - v
                ahead = r + d * (v + gain / (one + np.exp(-alpha[t, lane] * gain)))
            y[t, lane] = ahead


@njit(cache=True)
def _window(bests, rewards, discounts, live, n, greedy, y, chosen):
    """Compute `window` in blocks of n steps (van Herk's algorithm for sliding maxima, for maps instead of numbers).

    Every window of n steps is the tail of one block followed by the head of the next. Going backwards, the tails are
    composed by putting one step before another; the heads of the block behind them are kept in two small arrays.
    """
    steps, lanes = bests.shape
    zero, one = bests.dtype.type(0), bests.dtype.type(1)
    head_best, head_steps = np.empty(n, bests.dtype), np.empty(n, np.int32)
    for lane in range(lanes):
        for start in range((steps - 1) // n * n, -1, -n):
            end = min(start + n, steps)

            # Heads of the next block: the best return over its first 1, 2, ... steps.
            best, reward, discount, taken, is_live = zero, zero, one, 0, True
            for t in range(end, min(end + n, steps)):
                if is_live:
                    longer = _after(reward, discount, bests[t, lane])
                    if t == end or not greedy or _beats(longer, best):
                        best, taken = longer, t - end + 1
                    reward += discount * rewards[t, lane]
                    discount *= discounts[t, lane]
                    is_live = live[t, lane]
                head_best[t - end], head_steps[t - end] = best, taken

            # Tails of this block, each completed by a head.
            best, reward, discount, taken, is_live = zero, zero, one, 0, True
            for t in range(end - 1, start - 1, -1):
                r, d = rewards[t, lane], discounts[t, lane]
                longer = _after(r, d, best)
                if t < end - 1 and live[t, lane] and (not greedy or _beats(longer, bests[t, lane])):
                    best, taken = longer, taken + 1
                else:
                    best, taken = bests[t, lane], 1
                reward, discount = r + d * reward, d * discount
                is_live = is_live and live[t, lane]

                y[t, lane], chosen[t, lane] = best, taken
                rest = min(t + n, steps) - end  # how many steps of the next block belong to this window
                if rest > 0 and is_live:
                    longer = _after(reward, discount, head_best[rest - 1])
                    if not greedy or _beats(longer, best):
                        y[t, lane], chosen[t, lane] = longer, end - t + head_steps[rest - 1]


@njit(cache=True)
def _after(reward, discount, ahead):
    """Return reward + discount * ahead, where ahead = -inf gives -inf even if the discount has underflown to 0."""
    return ahead if ahead == -np.inf else reward + discount * ahead


@njit(cache=True)
def _beats(longer, best):
    """Whether `longer` > `best`, so that ties go to fewer steps; also True for NaN, passed on as by NumPy's maximum."""
    return longer > best or longer != longer

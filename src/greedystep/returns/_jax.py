"""The recursions of the estimators in JAX. All work under jit, vmap and grad, and with axes after the time axis.

A recursion that is a composition of maps can go through the steps one after another (`lax.scan`) or as a tree
(`lax.associative_scan`, log₂ T levels). Compiled for a CPU the scan is always faster, by far. On a GPU a scan pays a
kernel launch for every step, so that the tree wins once there are more than a few of them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
xp = jnp

COMPUTABLE = "floating-point numbers"

ASSOCIATIVE_FROM = 16  # steps from which a tree is faster than a scan on a GPU

WINDOW_SCAN_UP_TO = 512
"""Window length up to which a scan is used; beyond, a tree does less work on every device."""


def is_computable(dtype: jnp.dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


@jax.jit
def linear(a: Array, b: Array) -> Array:
    """Return yₜ = aₜ + bₜ yₜ₊₁, `[T, ...]`; b must be 0 wherever nothing follows."""
    return _fastest_for(linear_scan, linear_tree, a, b)


def linear_scan(a: Array, b: Array) -> Array:
    def body(y, step):
        a, b = step
        y = a + b * y
        return y, y

    return lax.scan(body, jnp.zeros_like(a[0]), (a, b), reverse=True)[1]


def linear_tree(a: Array, b: Array) -> Array:
    def compose(later, earlier):  # a reversed scan hands over the later steps first
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    return lax.associative_scan(compose, (a, b), reverse=True)[0]


@jax.jit
def greedy(rewards: Array, discounts: Array, values: Array, cuts: Array | None) -> tuple[Array, Array]:
    """Return yₜ = rₜ + dₜ max(vₜ, yₜ₊₁) and the chosen steps n. XLA drops whichever of the two is not used."""
    return _fastest_for(greedy_scan, greedy_tree, rewards, discounts, values, cuts)


def greedy_scan(rewards: Array, discounts: Array, values: Array, cuts: Array | None) -> tuple[Array, Array]:
    # The masks are made inside the body: made before the scan they would be arrays in memory, and on a CPU writing
    # and reading those takes longer than the scan itself.
    def body(ahead, step):
        (y, n), (r, d, v, cut) = ahead, step
        best, goes_on = jnp.maximum(v, y), _beats(y, v) & (d != 0)
        if cut is not None:
            best, goes_on = jnp.where(cut, v, best), goes_on & ~cut
        ahead = jnp.where(d == 0, r, r + d * best), jnp.where(goes_on, n + 1, 1)
        return ahead, ahead

    beyond = values[-1], jnp.zeros(values.shape[1:], jnp.int32)  # max(v, v) = v: the last step is a cut
    return lax.scan(body, beyond, (rewards, discounts, values, cuts), reverse=True)[1]


def greedy_tree(rewards: Array, discounts: Array, values: Array, cuts: Array | None) -> tuple[Array, Array]:
    def compose(later, earlier):
        return _compose(earlier, later, greedy=True)

    live = discounts != 0 if cuts is None else (discounts != 0) & ~cuts
    bests = rewards + jnp.where(discounts == 0, 0, discounts * values)
    maps = lax.associative_scan(compose, _Map.each_step(bests, rewards, discounts, live), reverse=True)
    return maps.best, maps.steps


@jax.jit
def soft(rewards: Array, discounts: Array, values: Array, cuts: Array | None, alpha: Array) -> Array:
    """Return yₜ = rₜ + dₜ (vₜ + σ(α gₜ) gₜ) with the gain gₜ = yₜ₊₁ - vₜ. Not a composition of simple maps: no tree."""

    def body(y, step):
        r, d, v, alpha, cut = step
        v = jnp.where(d == 0, 0, v)
        gain = jnp.where(d == 0 if cut is None else (d == 0) | cut, 0, y - v)
        y = r + d * (v + jax.nn.sigmoid(alpha * gain) * gain)
        return y, y

    alpha = jnp.broadcast_to(alpha, values.shape)
    return lax.scan(body, values[-1], (rewards, discounts, values, alpha, cuts), reverse=True)[1]


@partial(jax.jit, static_argnames=("n", "greedy"))
def window(bests: Array, rewards: Array, discounts: Array, live: Array, n: int, *, greedy: bool) -> tuple[Array, Array]:
    """Return the greedy (or n-step) return over steps t to t+n-1 for every t, and how many steps it takes."""
    scan, tree = partial(window_scan, n=n, greedy=greedy), partial(window_tree, n=n, greedy=greedy)
    if n > WINDOW_SCAN_UP_TO:
        return tree(bests, rewards, discounts, live)
    return _fastest_for(scan, tree, bests, rewards, discounts, live)


def window_scan(
    bests: Array, rewards: Array, discounts: Array, live: Array, *, n: int, greedy: bool
) -> tuple[Array, Array]:
    """`window` by a recursion over lengths: yₜ⁽ᵏ⁾ from yₜ₊₁⁽ᵏ⁻¹⁾, with yₜ⁽¹⁾ the one-step return. n T operations."""

    def body(ahead, step):
        (y, steps), (best, r, d, is_live) = ahead, step
        longer = r + d * y
        takes_longer = is_live & _beats(longer, best) if greedy else is_live
        y = jnp.where(is_live, jnp.maximum(best, longer) if greedy else longer, best)
        y, steps = (
            jnp.concatenate([jnp.broadcast_to(best, (1, *best.shape)), y]),
            jnp.concatenate([jnp.ones((1, *best.shape), jnp.int32), jnp.where(takes_longer, steps + 1, 1)]),
        )
        return (y[:-1], steps[:-1]), (y[-1], steps[-1])

    beyond = (n - 1, *bests.shape[1:])
    beyond = jnp.zeros(beyond, bests.dtype), jnp.zeros(beyond, jnp.int32)
    return lax.scan(body, beyond, (bests, rewards, discounts, live), reverse=True)[1]


def window_tree(
    bests: Array, rewards: Array, discounts: Array, live: Array, *, n: int, greedy: bool
) -> tuple[Array, Array]:
    """`window` by composing the maps of n steps: T log₂ n operations, which run in parallel.

    n is split into powers of two, whose compositions come from each other by doubling. Rolling wraps around the end
    of the segment, which does no harm: the last step is not live, so nothing that follows it is read.
    """
    power, size = _Map.each_step(bests, rewards, discounts, live), 1
    result, covered = None, 0
    for binary_digit in reversed(f"{min(n, len(live)):b}"):
        if binary_digit == "1":
            result = power if result is None else _compose(result, _ahead(power, covered), greedy=greedy)
            covered += size
        power, size = _compose(power, _ahead(power, size), greedy=greedy), 2 * size
    assert result is not None
    return result.best, result.steps


def fold(body: Callable, first: Array, steps: tuple[Array, ...]) -> Array:
    """Return body(... body(body(first, step 0), step 1) ...), a scan over the leading axis of `steps`."""
    return lax.scan(lambda carry, step: (body(carry, *step), None), first, steps)[0]


class _Map(NamedTuple):
    """The map from the return x after some consecutive steps to the return before them: max(best, reward + discount x).

    For n-step returns the map is reward + discount x, and `best` is the return that bootstraps after the last of the
    steps. A map that is not live is the constant `best`.
    """

    best: Array
    reward: Array
    discount: Array
    live: Array
    steps: Array  # how many steps `best` takes before it bootstraps
    length: Array

    @classmethod
    def each_step(cls, bests: Array, rewards: Array, discounts: Array, live: Array) -> "_Map":
        one = jnp.ones(live.shape, jnp.int32)
        return cls(bests, rewards, discounts, live, one, one)


def _compose(early: _Map, late: _Map, *, greedy: bool) -> _Map:
    # `live` keeps what follows a cut away by selection. Arithmetic alone (discount 0) would let rounding make a
    # longer return look better than the equal one that stops at the cut, and chosen steps would cross it.
    # -inf is kept apart from the product, where an underflown discount would make it NaN.
    longer = jnp.where(late.best == -jnp.inf, -jnp.inf, early.reward + early.discount * late.best)
    takes_longer = early.live & _beats(longer, early.best) if greedy else early.live
    return _Map(
        best=jnp.where(early.live, jnp.maximum(early.best, longer) if greedy else longer, early.best),
        reward=early.reward + early.discount * late.reward,
        discount=early.discount * late.discount,
        live=early.live & late.live,
        steps=jnp.where(takes_longer, early.length + late.steps, early.steps),
        length=early.length + late.length,
    )


def _beats(longer: Array, best: Array) -> Array:
    """Whether `longer` > `best`, so that ties go to fewer steps; also True for NaN, as in `_numba`."""
    return (longer > best) | jnp.isnan(longer)


def _ahead(maps: _Map, steps: int) -> _Map:
    return jax.tree.map(lambda x: jnp.roll(x, -steps, axis=0), maps)


def _fastest_for(scan: Callable, tree: Callable, first: Array, *others: Array | None) -> Any:
    """Call `scan` or `tree`, whichever is faster: by length now, by device when XLA compiles and knows it."""
    if len(first) < ASSOCIATIVE_FROM:
        return scan(first, *others)
    return lax.platform_dependent(first, *others, cuda=tree, default=scan)

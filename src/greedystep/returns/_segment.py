"""Check and convert the arguments of an estimator, and choose the backend (NumPy or JAX) that computes on them."""

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from greedystep.extras import deep_extra

Array = Any
"""A NumPy or JAX array, a PyTorch tensor, or a number; the same kind and dtype are returned. `Any`, because neither JAX
nor PyTorch is imported here."""
P = ParamSpec("P")
R = TypeVar("R")
RANGES = {"lambda_": (0.0, 1.0), "sigma": (0.0, 1.0), "alpha": (0.0, np.inf)}
"""Argument name -> closed interval in which its numbers must lie."""


class Segment(NamedTuple):
    """Consecutive stored steps `[T, ...]`, possibly of several episodes one after another."""

    rewards: Array
    discounts: Array  # γ, or 0 where the episode terminates
    values: Array  # values[t] is V(s[t+1])
    cuts: Array | None  # where the segment ends without a termination; the last step always counts as one
    kernels: ModuleType  # `_numba` or `_jax`: the same functions, and `xp`, the array namespace

    def live(self) -> Array:
        """Return bool `[T, ...]`: where the return may look past step t (no termination, no cut, not the last step)."""
        live = self.discounts != 0
        if self.cuts is not None:
            live = live & ~self.cuts
        last = self.kernels.xp.arange(len(live)) == len(live) - 1
        return live & ~last.reshape(-1, *[1] * (live.ndim - 1))

    def successor_values(self) -> Array:
        """Return vₜ `[T, ...]`, but 0 after a termination, whatever `values` holds there."""
        return self.kernels.xp.where(self.discounts == 0, 0, self.values)

    def one_step(self) -> Array:
        """Return the one-step returns rₜ + dₜ vₜ, `[T, ...]`."""
        return self.rewards + self.discounts * self.successor_values()


def accepts_tensors(estimator: Callable[P, R]) -> Callable[P, R]:
    """Let an estimator take PyTorch's tensors, too."""

    @wraps(estimator)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        torch = sys.modules.get("torch")  # not imported: nothing can be one of its tensors
        if torch is None or not any(isinstance(x, torch.Tensor) for x in (*arguments, *named.values())):
            return estimator(*arguments, **named)
        from greedystep.returns._torch import call_with_tensors

        with deep_extra():  # gradients, and tensors on a GPU, are computed by JAX
            return call_with_tensors(estimator, inspect.signature(estimator).bind(*arguments, **named).arguments)

    return call


def segment(
    rewards: Array, discounts: Array, values: Array, cuts: Array, *, beside: Array = None, **others: Array
) -> tuple[Segment, list[Array]]:
    """Check the arguments of an estimator; return them in one backend and one dtype, and `others` in the order given.

    `cuts` may be None. `others` are numbers or arrays of the shape of rewards. `beside`, an argument of another shape,
    only counts for the choice of the backend.
    """
    for name in RANGES.keys() & others.keys():
        _check_range(name, others[name], *RANGES[name])
    kernels = _kernels(rewards, discounts, values, cuts, beside, *others.values())
    arrays = {"rewards": rewards, "discounts": discounts, "values": values} | others
    arrays = {name: kernels.xp.asarray(x) for name, x in arrays.items()}
    shape = arrays["rewards"].shape
    if not shape or shape[0] == 0:
        raise ValueError(f"rewards must hold at least one step along its leading axis, got shape {shape}")
    for name, x in arrays.items():
        if x.shape != shape and not (name in others and x.shape == ()):
            raise ValueError(f"{name} must have the shape of rewards, {shape}, got {x.shape}")
        if not (kernels.is_computable(x.dtype) or x.dtype.kind in "biu"):
            raise TypeError(f"{name} must hold {kernels.COMPUTABLE} or integers, got {x.dtype}")
    floats = [x.dtype for x in arrays.values() if x.ndim and kernels.is_computable(x.dtype)]
    # Integers follow the floating arguments; where there are none, they become the backend's default float.
    dtype = kernels.xp.result_type(*(floats or [float]))
    arrays = {name: x.astype(dtype) if x.dtype != dtype else x for name, x in arrays.items()}
    if isinstance(discounts := arrays["discounts"], np.ndarray) and not discounts.min(initial=0) >= 0:
        raise ValueError(f"discounts must not be negative, got {discounts.min()}")
    if cuts is not None:
        cuts = kernels.xp.asarray(cuts)
        if cuts.dtype != bool:
            raise TypeError(f"cuts must hold booleans, got {cuts.dtype}")
        if cuts.shape != shape:
            raise ValueError(f"cuts must have the shape of rewards, {shape}, got {cuts.shape}")
    rewards, discounts, values, *rest = arrays.values()
    return Segment(rewards, discounts, values, cuts, kernels), rest


def _check_range(name: str, value: Array, low: float, high: float) -> None:
    """Raise ValueError unless NumPy numbers are finite and in [low, high]; JAX arrays, maybe still computing, pass."""
    if is_jax(value):
        return
    value = np.asarray(value)
    if value.size and not (value.min() >= low and value.max() <= high and np.isfinite(value).all()):
        expected = f"be finite and at least {low:g}" if high == np.inf else f"lie in [{low:g}, {high:g}]"
        found = value if value.ndim == 0 else f"numbers from {value.min()} to {value.max()}"
        raise ValueError(f"{name} must {expected}, got {found}")


def is_jax(x: Any) -> bool:
    jax = sys.modules.get("jax")  # not imported: nothing can be one of its arrays
    return jax is not None and isinstance(x, jax.Array)


def _kernels(*arguments: Any) -> ModuleType:
    if any(is_jax(x) for x in arguments):
        from greedystep.returns import _jax as kernels
    else:
        from greedystep.returns import _numba as kernels
    return kernels

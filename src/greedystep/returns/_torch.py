"""The estimators on PyTorch's tensors: memory shared by DLPack, and gradients through `torch.autograd`.

Tensors on a CPU go to the NumPy backend as views. On a GPU, and where a gradient is wanted, they go to JAX, again
without a copy if they are contiguous and aligned. This module is imported once a tensor has been passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from greedystep.extras import deep_extra

HALVES = (torch.float16, torch.bfloat16)
"""Dtypes that the NumPy backend does not compute with."""


def call_with_tensors(estimator: Callable, arguments: dict[str, Any]) -> Any:
    """Call an estimator with tensors among its arguments; return tensors on their device."""
    tensors = {name: x for name, x in arguments.items() if isinstance(x, torch.Tensor)}
    others = {name: x for name, x in arguments.items() if name not in tensors}
    device = _common_device(tensors, others)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors.values()):
        varying = [name for name, x in tensors.items() if x.requires_grad]
        fixed = {name: x for name, x in tensors.items() if not x.requires_grad}
        kind, *results = _Differentiable.apply(estimator, fixed, others, varying, *(tensors[name] for name in varying))
        return results[0] if kind is None else kind(*results)
    if device.type == "cpu" and not any(x.dtype in HALVES for x in tensors.values()):
        views = {name: np.from_dlpack(x.detach()) for name, x in tensors.items()}
        return _each_array(torch.from_numpy, estimator(**views, **others))
    with _x64():
        arrays = {name: _to_jax(x) for name, x in tensors.items()}
        return _each_array(_to_torch, estimator(**arrays, **others))


class _Differentiable(torch.autograd.Function):
    """An estimator whose gradient is JAX's: of the returns, not of the chosen steps."""

    @staticmethod
    def forward(
        ctx: Any, estimator: Callable, fixed: dict, others: dict, varying: list[str], *inputs: torch.Tensor
    ) -> Any:
        def returns_and_rest(*inputs: Any) -> Any:
            result = estimator(**dict(zip(varying, inputs, strict=True)), **arrays, **others)
            return result if isinstance(result, tuple) else (result, None)

        with _x64():
            arrays = {name: _to_jax(x) for name, x in fixed.items()}
            returns, ctx.vjp, steps = _jax().vjp(returns_and_rest, *map(_to_jax, inputs), has_aux=True)
            if steps is None:
                return None, _to_torch(returns)
            chosen = _to_torch(steps)
        from greedystep.returns.greedy import Greedy

        ctx.mark_non_differentiable(chosen)
        return Greedy, _to_torch(returns), chosen

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        with _x64():
            return None, None, None, None, *map(_to_torch, ctx.vjp(_to_jax(gradients[1])))


def _common_device(tensors: dict[str, torch.Tensor], others: dict[str, Any]) -> torch.device:
    """Return the device of all tensors; TypeError or ValueError for what cannot be computed with."""
    (first, one), *_ = tensors.items()
    for name, x in tensors.items():
        if x.device != one.device:
            raise ValueError(f"{name} must be on the device of {first}, {one.device}, got {x.device}")
        if x.layout != torch.strided:
            raise TypeError(f"{name} must be a dense tensor, got {x.layout}")
        if x.dtype.is_complex:
            raise TypeError(f"{name} must hold real numbers, got {x.dtype}")
    for name, x in others.items():
        if hasattr(x, "__dlpack__") and not isinstance(x, np.ndarray | np.generic):
            raise TypeError(f"{name} must be a tensor as {first} is, got {type(x).__name__}")
    if one.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{first} must be on a CPU or a CUDA device, got {one.device}")
    if one.device.type == "cuda" and _jax().default_backend() != "gpu":
        raise ValueError(f"{first} is on {one.device}, where JAX cannot compute: install jax with CUDA")
    return one.device


def _jax() -> Any:
    with deep_extra("gradients, half precision and tensors on a GPU need"):
        import jax

    return jax


def _x64() -> Any:
    """Keep 64-bit dtypes, in this call and thread only: JAX's own setting stays as the user has it."""
    return _jax().enable_x64(True)


def _to_jax(x: torch.Tensor) -> Any:
    return _jax().dlpack.from_dlpack(x.detach().contiguous())


def _to_torch(x: Any) -> torch.Tensor:
    # Wait: the inputs are the caller's memory, which it may write to as soon as this returns.
    return torch.from_dlpack(x.block_until_ready())


def _each_array(convert: Callable, result: Any) -> Any:
    return type(result)(*map(convert, result)) if isinstance(result, tuple) else convert(result)

"""How fast the return estimators are, beside rlax's λ-return on the same arrays.

Everything in one group is timed in turn, round after round, so that a busy machine slows all alike; the figures are
medians over the rounds, and ratios are the ones to trust.
"""

import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from greedystep import returns

SHAPES = {"1 lane of 1,000,000 steps": (1_000_000,), "1,024 lanes of 1,000 steps": (1000, 1024)}

BARS = {"greedy_step, returns only": 1.1, "greedy_step, returns and steps": 2.0}
"""What the greedy recursion may cost, as a multiple of `rlax.lambda_returns`."""

REFERENCE = "rlax.lambda_returns"


def run(out: Path, repeats: int = 30) -> dict[str, Any]:
    """Measure, write `returns.json` and `returns.md` to `out`, and return what the first holds."""
    rows = []
    for shape_name, shape in SHAPES.items():
        data = _data(shape)
        on_device = tuple(jnp.asarray(x) for x in data)
        jitted = {name: _compiled(f, on_device) for name, f in _jax_candidates().items()}
        rows += _rows("JAX, jit", shape_name, _time_in_turn(jitted, on_device, repeats), REFERENCE)
        rows += _rows("NumPy", shape_name, _time_in_turn(_numpy_candidates(), data, repeats), None)
    result = {
        "device": str(jax.devices()[0]),
        "dtype": "float32",
        "repeats": repeats,
        "bars": BARS,
        "rows": rows,
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "returns.json").write_text(json.dumps(result, indent=2) + "\n")
    (out / "returns.md").write_text(_markdown(result))
    return result


def _data(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rewards, discounts and values: episodes of 100 steps on average."""
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, *shape)).astype(np.float32)
    return rewards, (0.99 * (rng.random(shape) > 0.01)).astype(np.float32), values


def _jax_candidates() -> dict[str, Callable]:
    with warnings.catch_warnings():  # what rlax imports uses deprecated names of JAX
        warnings.simplefilter("ignore", DeprecationWarning)
        import rlax
    return {
        # `discount_t`, `r_t` and `v_t` of rlax are our arrays: index t for the step from s[t] to s[t+1].
        REFERENCE: lambda r, d, v: rlax.lambda_returns(r, d, v, 0.9),
        "greedy_step, returns only": lambda r, d, v: returns.greedy_step(r, d, v).returns,
        "greedy_step, returns and steps": lambda r, d, v: returns.greedy_step(r, d, v),
        "greedy_step, horizon 10, returns only": lambda r, d, v: returns.greedy_step(r, d, v, horizon=10).returns,
        "greedy_step, horizon 10, both": lambda r, d, v: returns.greedy_step(r, d, v, horizon=10),
        "lambda_return": lambda r, d, v: returns.lambda_return(r, d, v, 0.9),
        "n_step, n 10": lambda r, d, v: returns.n_step(r, d, v, 10),
        "soft_greedy_step": lambda r, d, v: returns.soft_greedy_step(r, d, v, 1.0),
    }


def _numpy_candidates() -> dict[str, Callable]:
    return {
        "greedy_step": lambda r, d, v: returns.greedy_step(r, d, v),
        "greedy_step, horizon 10": lambda r, d, v: returns.greedy_step(r, d, v, horizon=10),
        "greedy_step, horizon 500": lambda r, d, v: returns.greedy_step(r, d, v, horizon=500),
        "lambda_return": lambda r, d, v: returns.lambda_return(r, d, v, 0.9),
        "n_step, n 10": lambda r, d, v: returns.n_step(r, d, v, 10),
        "weighted, 10 weights": lambda r, d, v: returns.weighted(r, d, v, np.full(10, 0.1)),
    }


def _compiled(f: Callable, data: tuple[jax.Array, ...]) -> Callable:
    lanes = data[0].ndim > 1
    return jax.jit(jax.vmap(f, in_axes=1, out_axes=1) if lanes else f)


def _time_in_turn(candidates: dict[str, Callable], data: tuple, repeats: int) -> dict[str, float]:
    """Median seconds of each candidate."""
    for f in candidates.values():
        jax.block_until_ready(f(*data))  # compile, and touch the memory
    times = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, f in candidates.items():
            start = time.perf_counter()
            jax.block_until_ready(f(*data))
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def _rows(backend: str, shape: str, seconds: dict[str, float], reference: str | None) -> list[dict[str, Any]]:
    return [
        {
            "backend": backend,
            "shape": shape,
            "estimator": name,
            "milliseconds": 1e3 * s,
            "ratio": s / seconds[reference] if reference else None,
        }
        for name, s in seconds.items()
    ]


def _markdown(result: dict[str, Any]) -> str:
    lines = [
        f"Return estimators, {result['dtype']} on {result['device']}, medians of {result['repeats']} rounds.",
        "",
        f"| backend | shape | estimator | ms | × {REFERENCE} |",
        "|---|---|---|---:|---:|",
    ]
    for row in result["rows"]:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        lines.append(
            f"| {row['backend']} | {row['shape']} | {row['estimator']} | {row['milliseconds']:.2f} | {ratio} |"
        )
    return "\n".join(lines) + "\n"

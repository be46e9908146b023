"""Benchmark of the return estimators, relative to rlax's λ-return on the same arrays.

The estimators take turns, round after round, so that a busy machine slows all of them alike; the figures are medians
over the rounds, and ratios are more reliable than times.
"""

import statistics
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from greedystep import returns
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance

SHAPES = {"1 lane of 1,000,000 steps": (1_000_000,), "1,024 lanes of 1,000 steps": (1000, 1024)}

TARGETS = {"greedy_step, returns only": 1.1, "greedy_step, returns and steps": 2.0}
"""Targets for the time of the greedy recursion, as a multiple of that of `rlax.lambda_returns`."""

REFERENCE = "rlax.lambda_returns"


def run(out: Path, repeats: int = 30) -> dict[str, Any]:
    """Time all estimators, write `returns.json` and `returns.md` to `out`, and return the content of the JSON file."""
    rows = []
    for shape_name, shape in SHAPES.items():
        data = _data(shape)
        on_device = tuple(jnp.asarray(x) for x in data)
        jitted = {name: _compiled(f, on_device) for name, f in _jax_candidates().items()}
        rows += _rows("JAX, jit", shape_name, _time_in_turn(jitted, on_device, repeats), REFERENCE)
        rows += _rows("NumPy", shape_name, _time_in_turn(_numpy_candidates(), data, repeats), None)
    settings = {"repeats": repeats, "dtype": "float32", "shapes": SHAPES}
    result = {"targets": TARGETS, "rows": rows, "provenance": provenance(settings)}
    write_json(out / "returns.json", result)
    write_text(out / "returns.md", _markdown(result))
    return result


def _data(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random rewards, discounts and values, with episodes of 100 steps on average."""
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, *shape)).astype(np.float32)
    return rewards, (0.99 * (rng.random(shape) > 0.01)).astype(np.float32), values


def _reference() -> dict[str, Callable]:
    """Return rlax's estimator, if rlax is installed; its `r_t`, `discount_t` and `v_t` are our arrays."""
    if find_spec("rlax") is None:
        return {}
    with warnings.catch_warnings():  # what rlax imports uses deprecated names of JAX
        warnings.simplefilter("ignore", DeprecationWarning)
        import rlax
    return {REFERENCE: lambda r, d, v: rlax.lambda_returns(r, d, v, 0.9)}


def _jax_candidates() -> dict[str, Callable]:
    return {
        **_reference(),
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
    """Return the median seconds of each candidate."""
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
            "ratio": s / seconds[reference] if reference in seconds else None,
        }
        for name, s in seconds.items()
    ]


def _markdown(result: dict[str, Any]) -> str:
    made = result["provenance"]
    config = made["config"]
    rlax = [] if any(row["ratio"] for row in result["rows"]) else ["rlax is not installed, so nothing is compared.", ""]
    lines = [
        f"Return estimators, {config['dtype']} on {made['device']}, medians of {config['repeats']} rounds.",
        "",
        *rlax,
        f"| backend | shape | estimator | ms | × {REFERENCE} |",
        "|---|---|---|---:|---:|",
    ]
    for row in result["rows"]:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        lines.append(
            f"| {row['backend']} | {row['shape']} | {row['estimator']} | {row['milliseconds']:.2f} | {ratio} |"
        )
    return "\n".join(lines) + "\n"

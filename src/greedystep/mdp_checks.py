"""Checks of the arguments of an MDP, and their conversion to the form in which it stores them.

Every error is a ValueError of one sentence that names the argument, the entry and what was expected.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from greedystep.checks import check_float, check_float_array

ROW_SUM_TOLERANCE = 1e-6
"""How far the sum of a row may be from 1 (float32 tables are not exact); error bounds use the sums as they are."""

DENSE_FROM = 0.25
"""Share of non-zeros from which dense input stays dense: a CSR entry takes 12 bytes, a dense one 8."""
SAMPLED_ROWS = 1000
"""Rows of which the non-zeros are counted: on a large array even counting takes a while."""


def as_matrix(transitions: Any) -> tuple[sp.csr_array | np.ndarray, int, int]:
    """Return (matrix [S*A, S], S, A): CSR with int32 indices, or an array if dense; CSR input is not copied."""
    if sp.issparse(transitions):
        rows, S = transitions.shape
        if transitions.dtype.kind not in "fiub":
            raise ValueError(f"transitions: expected real numbers, got {transitions.dtype}")
        if S == 0 or rows == 0 or rows % S:
            raise ValueError(f"transitions: sparse input must be [S*A, S] with row s*A + a, got {[rows, S]}")
        matrix = sp.csr_array(transitions, dtype=np.float64)
        if matrix.indices.dtype != np.int32 and matrix.nnz < 2**31:
            entries = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
            matrix = sp.csr_array(entries, shape=matrix.shape)
        return matrix, S, rows // S
    dense = np.asarray(transitions)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise ValueError(
            f"transitions: expected a dense [S, A, S] array or a sparse [S*A, S] matrix, got shape {list(dense.shape)}"
        )
    if not (np.issubdtype(dense.dtype, np.floating) or np.issubdtype(dense.dtype, np.integer)):
        raise ValueError(f"transitions: expected numbers, got {dense.dtype}")
    S, A, _ = dense.shape
    matrix = np.ascontiguousarray(dense, dtype=np.float64).reshape(S * A, S)
    sample = matrix[:: -(-len(matrix) // SAMPLED_ROWS)]
    if np.count_nonzero(sample) < DENSE_FROM * sample.size:
        return sp.csr_array(matrix), S, A
    return matrix, S, A


def expected_rewards(rewards: Any, matrix: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return rewards as float64 [S, A], averaged over s' where they are given per successor."""
    S, A = shape
    by_successor = None
    if sp.issparse(rewards):
        if rewards.shape != (S * A, S):
            raise ValueError(f"rewards: sparse rewards must be [S*A, S] = {[S * A, S]}, got {list(rewards.shape)}")
        if rewards.dtype.kind not in "fiub":
            raise ValueError(f"rewards: expected real numbers, got {rewards.dtype}")
        by_successor = sp.csr_array(rewards, dtype=np.float64)
        _check_finite(by_successor.data, "rewards")
    else:
        rewards = check_float_array("rewards", rewards)
        if rewards.shape == (S, A, S):
            by_successor = rewards.reshape(S * A, S)
            _check_finite(by_successor, "rewards")
    if by_successor is not None:
        product = sp.csr_array(matrix).multiply(by_successor)
        return np.asarray(product.sum(axis=1)).reshape(S, A)
    if rewards.shape != (S, A):
        raise ValueError(f"rewards: expected [S, A] = {[S, A]} or [S, A, S], got shape {list(rewards.shape)}")
    wrong = ~(rewards < np.inf)
    if wrong.any():
        s, a = np.argwhere(wrong)[0]
        raise ValueError(f"rewards: r[{s}, {a}] is {rewards[s, a]}; rewards must be finite (-inf: unavailable action)")
    return rewards


def _check_finite(array: np.ndarray, name: str) -> None:
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: every entry of [S, A, S] rewards must be finite, found nan or infinity")


def as_mask(mask: Any, name: str, shape: tuple[int, ...], default: bool = False) -> np.ndarray:
    """Return a boolean mask of this shape, filled with `default` if it is None."""
    if mask is None:
        return np.full(shape, default)
    array = np.asarray(mask)
    if array.shape != shape or array.dtype != bool:
        raise ValueError(f"{name}: expected bool {list(shape)}, got {array.dtype} {list(array.shape)}")
    return array


def checked_discount(discount: Any) -> float:
    """Return the discount as a float in (0, 1]."""
    return check_float("discount", discount, 0, 1, above=True)


def checked_termination(termination: Any, shape: tuple[int, int]) -> np.ndarray | None:
    """Return the termination probabilities as float64 [S, A], or None."""
    if termination is None:
        return None
    ends = check_float_array("termination", termination)
    if ends.shape != shape:
        raise ValueError(f"termination: expected [S, A] = {list(shape)}, got shape {list(ends.shape)}")
    wrong = ~((ends >= 0) & (ends <= 1 + ROW_SUM_TOLERANCE))
    if wrong.any():
        s, a = np.argwhere(wrong)[0]
        raise ValueError(f"termination: the entry for state {s}, action {a} is {ends[s, a]}, not a probability")
    return ends


def without_rows(matrix: Any, empty: np.ndarray) -> Any:
    """Return the matrix with some rows set to zero; indices are shared with the given one."""
    if not empty.any():
        return matrix
    if isinstance(matrix, np.ndarray):
        return np.where(empty[:, None], 0.0, matrix)
    data = matrix.data.copy()
    data[np.repeat(empty, np.diff(matrix.indptr))] = 0.0
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def check_rows(matrix: Any, ends: np.ndarray | None, has_action: Any, shape: tuple[int, int]) -> tuple[float, float]:
    """Check that available rows and their termination sum to 1; returns (smallest, largest) sum of a row."""
    A = shape[1]
    entries = matrix if isinstance(matrix, np.ndarray) else matrix.data
    if entries.size and not entries.min() >= 0:  # a nan fails this too
        if isinstance(matrix, np.ndarray):
            row, successor = np.argwhere(~(matrix >= 0))[0]
            entry = matrix[row, successor]
        else:
            k = int(np.argmin(matrix.data >= 0))
            row = int(np.searchsorted(matrix.indptr, k, side="right")) - 1
            successor, entry = matrix.indices[k], matrix.data[k]
        raise ValueError(
            f"transitions: p(s'={successor} | s={row // A}, a={row % A}) is {entry}; probabilities must be >= 0"
        )
    sums = (matrix @ np.ones(matrix.shape[1])).reshape(shape)
    total = sums if ends is None else sums + ends
    least, most = _range(total, has_action)
    if not (least >= 1 - ROW_SUM_TOLERANCE and most <= 1 + ROW_SUM_TOLERANCE):
        wrong = ~(np.abs(total - 1) <= ROW_SUM_TOLERANCE) & has_action
        s, a = (int(i) for i in np.argwhere(wrong)[0])
        what = "the row" if ends is None else "the row and its termination"
        raise ValueError(
            f"transitions: {what} of state {s}, action {a} (row {s * A + a}) sums to {total[s, a]:.12g}, not to 1"
        )
    return (least, most) if ends is None else _range(sums, has_action)


def _range(array: np.ndarray, where: Any) -> tuple[float, float]:
    """Return the smallest and largest entry of those selected."""
    if where is np.True_:
        return float(array.min()), float(array.max())
    return float(array.min(where=where, initial=np.inf)), float(array.max(where=where, initial=-np.inf))

"""Checks of the arguments of an MDP, and their conversion to the form in which it stores them.

Every error is a ValueError of one sentence that names the argument, the entry and what was expected.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from greedystep.checks import check_entries, check_float_array

ROW_SUM_TOLERANCE = 1e-6
"""How far the sum of a row may be from 1 (float32 tables are not exact); error bounds use the sums as they are."""
DENSE_FROM = 0.25
"""Share of non-zeros from which dense input stays dense: a CSR entry takes 12 bytes, a dense one 8."""
FORMS = (
    "expected a dense [S, A, S] array, a sparse [S*A, S] matrix, or one matrix [S, S] per action as "
    "MDP.from_action_matrices takes them"
)
"""What transitions can be, for errors."""
ROWS_AT_ONCE = 100_000  # states whose rows are summed at once
SAMPLED_ROWS = 1000  # rows of which the non-zeros are counted: on a large array even counting takes a while


def is_per_action(transitions: Any) -> bool:
    """Whether transitions are one matrix [S, S] per action, by their form alone: [S, A, S] and sparse [S*A, S] are not.

    A list with sparse matrices is, and so is a stack [A, S, S] with A != S. An array with A = S is read as [S, A, S].

    Raises:
        ValueError: a list of S matrices [S, S], which may be one per state or one per action; or arrays of different
            shapes.
    """
    if sp.issparse(transitions):
        return False
    given = _as_list(transitions)
    if isinstance(given, list) and any(map(sp.issparse, given)):
        return True
    try:
        shape = np.shape(given)
    except ValueError:  # NumPy's own message names neither the argument nor the shapes
        raise ValueError(f"transitions: {FORMS}, got a list of different shapes") from None
    if len(shape) != 3 or shape[1] != shape[2]:
        return False
    if shape[0] == shape[1] > 1 and isinstance(given, list) and all(isinstance(one, np.ndarray) for one in given):
        raise ValueError(
            f"transitions: a list of {shape[0]} matrices {list(shape[1:])} can be one per state or one per action; "
            "give one array [S, A, S], or call MDP.from_action_matrices with one matrix [S, S] per action"
        )
    return shape[0] != shape[1]


def stacked_by_state(transitions: Any, rewards: Any) -> tuple[Any, Any]:
    """Return what `MDP.from_action_matrices` takes as transitions [S, A, S], or sparse [S*A, S], and their rewards."""
    matrices = [one if sp.issparse(one) else np.asarray(one) for one in transitions]
    shapes = sorted({one.shape for one in matrices})
    if len(shapes) != 1 or len(shapes[0]) != 2 or len(set(shapes[0])) != 1:
        raise ValueError(f"transitions: expected one square matrix [S, S] per action, got shapes {shapes}")
    A, S = len(matrices), shapes[0][0]
    given = _as_list(rewards)
    if isinstance(given, list) and any(map(sp.issparse, given)):
        paid = [one if sp.issparse(one) else np.asarray(one) for one in given]
        if [one.shape for one in paid] != [(S, S)] * A:
            got = sorted({one.shape for one in paid})
            raise ValueError(
                f"rewards: expected {A} matrices {[S, S]}, one per action, got {len(paid)} of shapes {got}"
            )
        return _stack(matrices), _stack(paid)
    if not sp.issparse(rewards):
        rewards = check_float_array("rewards", rewards)
        if rewards.shape == (A, S, S):
            rewards = _stack(list(rewards))
        elif rewards.shape == (S,):
            rewards = np.repeat(rewards[:, None], A, axis=1)
    return _stack(matrices), rewards


def _as_list(given: Any) -> Any:
    """Return a tuple or a one-dimensional array of objects as a list, anything else as it is."""
    is_array_of_objects = isinstance(given, np.ndarray) and given.dtype == object and given.ndim == 1
    return list(given) if isinstance(given, tuple) or is_array_of_objects else given


def _stack(matrices: list[Any]) -> Any:
    """Return one matrix [S, S] per action as an array [S, A, S], or as CSR [S*A, S] if one of them is sparse."""
    if not any(map(sp.issparse, matrices)):
        return np.stack(matrices, axis=1)
    S, A = matrices[0].shape[0], len(matrices)
    order = np.arange(S * A).reshape(A, S).T.ravel()  # row a*S + s of the stack is row s*A + a of the model
    return sp.csr_array(sp.vstack([sp.csr_array(one) for one in matrices]))[order]


def as_matrix(transitions: Any) -> tuple[sp.csr_array | np.ndarray, int, int]:
    """Return (transition matrix [S*A, S], S, A): CSR with int32 indices, or an array if dense; CSR is not copied."""
    if sp.issparse(transitions):
        rows, S = transitions.shape
        _check_real("transitions", transitions)
        if S == 0 or rows == 0 or rows % S:
            hint = "MDP.from_action_matrices takes one [S, S] per action"
            raise ValueError(f"transitions: sparse input must be [S*A, S] with row s*A + a, got {[rows, S]}; {hint}")
        matrix = sp.csr_array(transitions, dtype=np.float64)
        if matrix.indices.dtype != np.int32 and matrix.nnz < 2**31:
            entries = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
            matrix = sp.csr_array(entries, shape=matrix.shape)
        return matrix, S, rows // S
    dense = np.asarray(transitions)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise ValueError(f"transitions: {FORMS}, got shape {list(dense.shape)}")
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
        _check_real("rewards", rewards)
        by_successor = sp.csr_array(rewards, dtype=np.float64)
    else:
        rewards = check_float_array("rewards", rewards)
        if rewards.shape == (S, A, S):
            by_successor = rewards.reshape(S * A, S)
    if by_successor is not None:
        if not np.isfinite(by_successor if isinstance(by_successor, np.ndarray) else by_successor.data).all():
            raise ValueError("rewards: every entry of [S, A, S] rewards must be finite, found nan or infinity")
        return np.asarray(sp.csr_array(matrix).multiply(by_successor).sum(axis=1)).reshape(S, A)
    if rewards.shape != (S, A):
        others = {(S,): "[S]", (A, S, S): "[A, S, S]"}  # beside transitions of the same form
        hint = f"; MDP.from_action_matrices takes {others[rewards.shape]}" if rewards.shape in others else ""
        if rewards.shape == (A, S):
            hint = "; these may be [A, S]: give the transpose, rewards.T"
        raise ValueError(f"rewards: expected [S, A] = {[S, A]} or [S, A, S], got shape {list(rewards.shape)}{hint}")
    rule = "rewards must be finite (-inf: unavailable action)"
    check_entries(~(rewards < np.inf), lambda s, a: f"rewards: r[{s}, {a}] is {rewards[s, a]}; {rule}")
    return rewards


def _check_real(name: str, matrix: Any) -> None:
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"{name}: expected real numbers, got {matrix.dtype}")


def as_mask(mask: Any, name: str, shape: tuple[int, ...], *, default: bool) -> np.ndarray:
    """Return `mask` as a bool array of this shape; if it is None, one filled with `default`."""
    array = np.full(shape, default) if mask is None else np.asarray(mask)
    if array.shape != shape or array.dtype != bool:
        raise ValueError(f"{name}: expected bool {list(shape)}, got {array.dtype} {list(array.shape)}")
    return array


def as_probabilities(termination: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return the termination probabilities as float64 [S, A]."""
    ends = check_float_array("termination", termination)
    if ends.shape != shape:
        raise ValueError(f"termination: expected [S, A] = {list(shape)}, got shape {list(ends.shape)}")
    wrong, rule = ~((ends >= 0) & (ends <= 1 + ROW_SUM_TOLERANCE)), "not a probability"
    check_entries(wrong, lambda s, a: f"termination: the entry for state {s}, action {a} is {ends[s, a]}, {rule}")
    return ends


def without_rows(matrix: Any, empty: np.ndarray) -> Any:
    """Return the matrix with the rows where `empty` is True set to zero; CSR indices are shared with `matrix`."""
    if not empty.any():
        return matrix
    if isinstance(matrix, np.ndarray):
        return np.where(empty[:, None], 0.0, matrix)
    data = matrix.data.copy()
    data[np.repeat(empty, np.diff(matrix.indptr))] = 0.0
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def other_reading(transitions: Any, ends: np.ndarray | None, has_action: Any) -> str:
    """Return a hint for errors if the rows of a dense [S, S, S] array sum to 1 with its first axes exchanged alone."""
    if sp.issparse(transitions) or len(set(np.shape(transitions))) != 1:
        return ""
    sums = np.asarray(transitions, np.float64).sum(axis=2)
    right, exchanged = (
        ((np.abs(total + (0.0 if ends is None else ends) - 1) <= ROW_SUM_TOLERANCE) | ~np.asarray(has_action)).all()
        for total in (sums, sums.T)
    )
    if right or not exchanged:
        return ""
    return "; with the first two axes exchanged all rows do: MDP takes [S, A, S], MDP.from_action_matrices [A, S, S]"


def check_rows(matrix: Any, ends: np.ndarray | None, has_action: Any, shape: tuple[int, int]) -> tuple[float, float]:
    """Check that each available row plus its termination probability sums to 1; return (smallest, largest) row sum."""
    A = shape[1]
    entries = matrix if isinstance(matrix, np.ndarray) else matrix.data
    if entries.size and not entries.min() >= 0:  # a nan fails this too
        given = sp.coo_array(matrix)
        k = int(np.argmin(given.data >= 0))
        row, successor = (int(index[k]) for index in given.coords)
        where = f"p(s'={successor} | s={row // A}, a={row % A})"
        raise ValueError(f"transitions: {where} is {given.data[k]}; probabilities must be >= 0")
    ranges = []
    for first, last in pairwise(range(0, shape[0] + ROWS_AT_ONCE, ROWS_AT_ONCE)):
        part = slice(first, min(last, shape[0]))
        sums = _row_sums(matrix, part.start * A, part.stop * A).reshape(-1, A)
        has = has_action if has_action is True else has_action[part]
        total = sums if ends is None else sums + ends[part]
        least, most = _range(total, has)
        if not (least >= 1 - ROW_SUM_TOLERANCE and most <= 1 + ROW_SUM_TOLERANCE):
            s, a = np.argwhere(~(np.abs(total - 1) <= ROW_SUM_TOLERANCE) & has)[0]
            what = "the row" if ends is None else "the row and its termination"
            where = f"{what} of state {first + s}, action {a} (row {(first + s) * A + a})"
            raise ValueError(f"transitions: {where} sums to {total[s, a]:.12g}, not to 1")
        ranges.append(_range(sums, has))
    return min(least for least, _ in ranges), max(most for _, most in ranges)


def _row_sums(matrix: Any, first: int, last: int) -> np.ndarray:
    """Return the sums of the rows first .. last - 1 of a matrix; its entries are not copied."""
    if isinstance(matrix, np.ndarray):
        rows: Any = matrix[first:last]
    elif last - first == matrix.shape[0]:
        rows = matrix
    else:
        start = matrix.indptr[first : last + 1]
        entries = slice(start[0], start[-1])
        parts = (matrix.data[entries], matrix.indices[entries], start - start[0])
        rows = sp.csr_array(parts, shape=(last - first, matrix.shape[1]))
    return rows @ np.ones(matrix.shape[1])


def _range(array: np.ndarray, where: Any) -> tuple[float, float]:
    """Return (smallest, largest) entry of the array where the mask is True."""
    return float(array.min(where=where, initial=np.inf)), float(array.max(where=where, initial=-np.inf))

"""Checks of numbers and names that users pass in.

Every check returns the value as a plain `int`, `float` or float64 array, or raises ValueError in one form:
"argument: expected ..., got ...".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any

import numpy as np

INT32_MAX = 2**31 - 1
"""The largest count that a counter in compiled JAX code holds."""
INT64_MAX = 2**63 - 1
"""The largest count that NumPy and Numba hold."""
LARGEST_SEED = 2**32 - 1
"""The largest seed: JAX makes its keys from 32 bits where `jax_enable_x64` is off."""
FLOAT32_TINY, FLOAT32_MAX = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""The range of positive float32 numbers: settings beyond it would be 0 or infinite in compiled code."""


def check_int(name: str, value: Any, low: int = 1, high: int = INT64_MAX) -> int:
    """Return an integer in [low, high]; only ints and NumPy integers pass, not bools, floats or text."""
    is_int = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_int and low <= value <= high):
        expected = f">= {low}" if high == INT64_MAX else f"from {low} to {high}"
        raise ValueError(f"{name}: expected an integer {expected}, got {short_repr(value)}")
    return int(value)


def check_seed(seed: Any, name: str = "seed") -> int:
    """Return a random seed in [0, LARGEST_SEED]."""
    return check_int(name, seed, 0, LARGEST_SEED)


def check_float(name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> float:
    """Return a finite number in [low, high], or in (low, high] with `above`."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an int beyond the range of float64
            number = math.inf
        if math.isfinite(number) and (low < number if above else low <= number) and number <= high:
            return number
    if math.isfinite(high):
        expected = f"a number in {'(' if above else '['}{low:g}, {high:g}]"
    elif math.isfinite(low):
        expected = f"a finite number {'>' if above else '>='} {low:g}"
    else:
        expected = "a finite number"
    raise ValueError(f"{name}: expected {expected}, got {short_repr(value)}")


def check_float_array(name: str, value: Any) -> np.ndarray:
    """Return an array of real numbers as float64; complex numbers would lose their imaginary parts and are refused."""
    try:
        array = np.asarray(value)
        if array.dtype.kind != "c":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: expected an array of real numbers, got {short_repr(value)}") from None
    raise ValueError(f"{name}: expected real numbers, got {array.dtype}")


def parse_int(text: str) -> int:
    """Parse an integer exactly, also with an exponent or underscores: 5e6 and 5_000_000 are five million."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if number.is_finite():
        if not -INT64_MAX <= number <= INT64_MAX:  # compared as Decimals: 1e400 is never written out
            raise ValueError(f"expected an integer between -2^63 and 2^63, got {short_repr(text)}")
        if number == number.to_integral_value():
            return int(number)
    raise ValueError(f"expected an integer such as 1000 or 5e6, got {short_repr(text)}")


def parse_value(text: str) -> Any:
    """Parse the VALUE of NAME=VALUE: true, false, none, a number, or else the text itself.

    An integer stays exact, also with an exponent (5e6); with a decimal point and no exponent (1.0) it is a float.
    """
    constants = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    if not re.fullmatch(r"[^eE]*\.[^eE]*", text):
        try:
            return parse_int(text)
        except ValueError:
            pass
    try:
        number = float(text)
    except ValueError:
        return text
    # A number beyond float64 stays text, so that the check of the option can quote it.
    return text if math.isinf(number) and "inf" not in text.lower() else number


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "; did you mean 'x'?" with the known name that is meant by a misspelt or short one, or "" if none is.

    Short ones are initials, vi for value-iteration, or the beginning of a name.
    """
    known = list(known)
    initials = [one for one in known if name == "".join(word[0] for word in one.strip("-").split("-") if word)]
    beginnings = [one for one in known if len(name) > 2 and one.startswith(name)]
    near = initials or beginnings or get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def short_repr(value: Any) -> str:
    """Return the value's repr for an error message: on one line, of at most 80 characters."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out integers of thousands of digits
        text = "a number of thousands of digits"
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:77]}..."

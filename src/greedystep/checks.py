"""Checks of numbers that users give: whole numbers, real numbers and arrays, with one form of answer for all of them.

Every check returns the number as a plain `int` or `float` (or float64 array) and raises ValueError with a sentence that
names the argument, what was expected and what was given.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

INT32 = 2**31 - 1
"""The largest count that a counter in compiled JAX code holds."""
INT64 = 2**63 - 1
"""The largest count that NumPy and Numba hold."""
LARGEST_SEED = 2**32 - 1
"""JAX makes its keys from 32 bits where `jax_enable_x64` is off."""
FLOAT32_TINY, FLOAT32_MAX = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""Settings beyond these would be 0 or infinite in compiled code."""


_WHOLE, _REAL = (int, np.integer), (int, float, np.integer, np.floating)


def check_whole(name: str, value: Any, least: int = 1, most: int = INT64) -> int:
    """A whole number from `least` to `most`: an int or a NumPy integer, never a bool, a float or text."""
    is_whole = isinstance(value, _WHOLE) and not isinstance(value, bool)
    if not (is_whole and least <= value <= most):
        raise ValueError(f"{name}: expected a whole number from {least} to {most}, got {shown(value)}")
    return int(value)


def check_seed(seed: Any, name: str = "seed") -> int:
    """A seed of anything random."""
    return check_whole(name, seed, 0, LARGEST_SEED)


def check_real(name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> float:
    """A finite number in [low, high], or in (low, high] with `above`."""
    is_real = isinstance(value, _REAL) and not isinstance(value, bool)
    if is_real:
        try:
            number = float(value)
        except OverflowError:  # an int beyond the range of float64
            number = math.inf
        if math.isfinite(number) and (low < number if above else low <= number) and number <= high:
            return number
    if math.isfinite(high):
        expected = f"a number in {'(' if above else '['}{low:g}, {high:g}]"
    elif math.isfinite(low):
        expected = f"a finite number {'above' if above else 'of at least'} {low:g}"
    else:
        expected = "a finite number"
    raise ValueError(f"{name}: expected {expected}, got {shown(value)}")


def check_real_array(name: str, value: Any) -> np.ndarray:
    """An array of real numbers as float64; complex numbers, whose imaginary parts would be dropped, are refused."""
    try:
        array = np.asarray(value)
        if array.dtype.kind != "c":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: expected an array of real numbers, got {shown(value)}") from None
    raise ValueError(f"{name}: expected real numbers, got {array.dtype}")


def parse_whole(text: str) -> int:
    """The whole number that somebody typed, exactly: 5e6 and 5_000_000 are five million."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if number.is_finite():
        if not -INT64 <= number <= INT64:  # compared as Decimals: 1e400 is never written out
            raise ValueError(f"expected a whole number between -2^63 and 2^63, got {shown(text)}")
        if number == number.to_integral_value():
            return int(number)
    raise ValueError(f"expected a whole number such as 1000 or 5e6, got {shown(text)}")


def parse_value(text: str) -> Any:
    """What NAME=VALUE means by VALUE: true, false, none, a number, or else the text itself.

    A whole number stays exact, also with an exponent (5e6); with a decimal point and no exponent (1.0) it is a float.
    """
    constants = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    if not re.fullmatch(r"[^eE]*\.[^eE]*", text):
        try:
            return parse_whole(text)
        except ValueError:
            pass
    try:
        number = float(text)
    except ValueError:
        return text
    # What float64 cannot hold is left as it was typed, for the check of the option to name it.
    return text if math.isinf(number) and "inf" not in text.lower() else number


def shown(value: Any) -> str:
    """The value as an error message shows it: one line, and not too long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out whole numbers of thousands of digits
        text = "a number of thousands of digits"
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:77]}..."

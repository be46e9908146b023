"""Checks of numbers and names that users pass in, and of memory before what they ask for is allocated.

Every check of a value returns it as a plain `int`, `float` or float64 array, or raises ValueError in one form:
"argument: expected ..., got ...".
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

INT32_MAX = 2**31 - 1  # the largest count that a counter in compiled JAX code holds
INT64_MAX = 2**63 - 1  # the largest count that NumPy and Numba hold
LARGEST_SEED = 2**32 - 1  # the largest seed: JAX makes its keys from 32 bits where `jax_enable_x64` is off
FLOAT32_TINY, FLOAT32_MAX = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""The range of positive float32 numbers: settings beyond it would be 0 or infinite in compiled code."""
PROCESSES, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
NEVER_REFUSED = 1_000_000
"""Bytes up to which free memory is not looked up, which would slow down loops that check many small arrays."""
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


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
    """Return a finite number in [low, high], or in (low, high] if `above`."""
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
    """Return an array of real numbers as float64; complex numbers are refused."""
    try:
        array = np.asarray(value)
        if array.dtype.kind != "c":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: expected an array of real numbers, got {short_repr(value)}") from None
    raise ValueError(f"{name}: expected real numbers, got {array.dtype}")


def check_entries(wrong: np.ndarray, message: Callable[..., str]) -> None:
    """Raise ValueError with message(*index) of the first entry that is wrong, if any is."""
    if wrong.any():
        raise ValueError(message(*np.argwhere(wrong)[0].tolist()))


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


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name closest to a misspelt or abbreviated one; None if none is close.

    Abbreviations are initials (vi for value-iteration) and beginnings of a name.
    """
    known = list(known)
    initials = [one for one in known if name == "".join(word[0] for word in one.strip("-").split("-") if word)]
    beginnings = [one for one in known if len(name) > 2 and one.startswith(name)]
    near = initials or beginnings or get_close_matches(name, known, n=1, cutoff=cutoff)
    return near[0] if near else None


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "; did you mean 'x'?" with the closest known name; "" if none is close."""
    near = closest(name, known, cutoff)
    return "" if near is None else f"; did you mean {near!r}?"


def short_repr(value: Any) -> str:
    """Return the value's repr for an error message: on one line, of at most 80 characters."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out integers of thousands of digits
        text = "a number of thousands of digits"
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- memory -----------------------------------------------------------------------------------------------------------


def check_memory(what: str, needed: int, free: int | None = None) -> None:
    """Raise MemoryError with both numbers if `needed` bytes are more than are free (default: `free_memory`).

    `what` is the argument or object that needs the memory; the message begins with it.
    """
    if free is None and needed <= NEVER_REFUSED:
        return
    free = free_memory() if free is None else free
    if needed > free:
        need, have = format_bytes(needed), format_bytes(free)
        raise MemoryError(f"{what}: needs about {need} of memory, this machine has {have} free")


def free_memory() -> int:
    """Return the bytes that this process can still allocate, within the limits of its control groups."""
    available = _field(PROCESSES / "meminfo", "MemAvailable:")
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # where nothing tells more: not Linux
    return min([physical if available is None else 1024 * available, *_control_groups()])


def format_bytes(size: float) -> str:
    """Format a number of bytes with two or three digits: 870 bytes, 4.2 GB, 41 GB."""
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            return f"{size:.0f} {unit}" if 9.95 <= size < 1e6 else f"{size:.2g} {unit}"
        size /= 1000
    raise AssertionError


def _control_groups() -> Iterator[int]:
    """Yield the bytes left under each memory limit of this process (cgroup v2 or v1); page cache counts as free."""
    try:
        lines = (PROCESSES / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = CGROUPS / ("memory" if controllers else "")
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        group = root / path.lstrip("/")
        # Within a container the path may be the host's, which is not there: then the root is the container's own.
        for folder in (group, *group.parents):
            if folder == root.parent:
                break
            with suppress(OSError, ValueError):  # a file is missing, or says "max"
                limit, used = (int((folder / name).read_text()) for name in names)
                yield max(0, limit - used + (_field(folder / "memory.stat", "inactive_file") or 0))


def _field(file: Path, name: str) -> int | None:
    """Return the number after `name` in a file of lines "name number"; None if there is no such line."""
    with suppress(OSError):
        for line in file.read_text().splitlines():
            if line.split()[:1] == [name]:
                return int(line.split()[1])
    return None

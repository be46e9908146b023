"""Performance targets: a bound, the measured value and whether it was met."""

from __future__ import annotations

from typing import Any

OPERATORS = {"at_least": "≥", "at_most": "≤", "below": "<"}


def check_target(what: str, value: float, **bound: float) -> dict[str, Any]:
    """Compare a value with one bound: `at_least`, `at_most` or `below`."""
    ((kind, limit),) = bound.items()
    met = {"at_least": value >= limit, "at_most": value <= limit, "below": value < limit}[kind]
    return {"what": what, kind: limit, "value": value, "met": met}


def bound_text(target: dict[str, Any]) -> str:
    """Return the bound of a target as a table shows it: ≥ 20,000."""
    kind = next(kind for kind in OPERATORS if kind in target)
    limit = target[kind]
    return f"{OPERATORS[kind]} {f'{limit:,}' if isinstance(limit, int) else f'{limit:g}'}"


def met_text(target: dict[str, Any]) -> str:
    """Return yes, or no in bold."""
    return "yes" if target["met"] else "**no**"


def three_digits(value: float) -> str:
    """Round to three digits and group thousands."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"

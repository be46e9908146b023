"""Check values read from JSON files against a schema; the first mismatch is reported in one sentence. Schemas are:

str, bool, dict, list           a value of that type; object: any value
Int(1), Float(0, 1)             a finite number within bounds; booleans are not numbers
[schema]                        a list whose items all match
{"name": schema, ...}           an object with at least these entries
Nullable(schema)                null, or a value that matches
OneOf("a", "b")                 one of these strings
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, TypeVar

from greedystep.checks import INT64_MAX, check_float, check_int, short_repr

Schema = Any
T = TypeVar("T")

TYPE_NAMES = {str: "text", bool: "true or false", dict: "an object", list: "a list", object: "anything"}


class Int(NamedTuple):
    """Schema of an integer in [low, high]."""

    low: int = 0
    high: int = INT64_MAX


class Float(NamedTuple):
    """Schema of a finite number in [low, high]."""

    low: float = -math.inf
    high: float = math.inf


class Nullable(NamedTuple):
    """Schema of null or a value that matches the inner schema."""

    schema: Schema


class OneOf(tuple):
    """Schema of one of the given strings."""

    def __new__(cls, *texts: str) -> OneOf:
        return super().__new__(cls, texts)


def check(value: Any, schema: Schema, where: str) -> Any:
    """Return the value if it matches the schema; otherwise raise ValueError, which calls the value `where`."""
    match schema:
        case Nullable():
            return value if value is None else check(value, schema.schema, where)
        case Int():
            return check_int(where, value, schema.low, schema.high)
        case Float():
            check_float(where, value, schema.low, schema.high)
        case OneOf():
            _expect(isinstance(value, str) and value in schema, value, f"one of {', '.join(schema)}", where)
        case dict():
            _expect(isinstance(value, dict), value, TYPE_NAMES[dict], where)
            for name, inner in schema.items():
                if name not in value:
                    raise ValueError(f"{where} has no {name!r}")
                check(value[name], inner, f"{where}.{name}")
        case list():
            _expect(isinstance(value, list), value, TYPE_NAMES[list], where)
            for number, item in enumerate(value):
                check(item, schema[0], f"{where}[{number}]")
        case _:
            _expect(isinstance(value, schema), value, TYPE_NAMES[schema], where)
    return value


def build(cls: type[T], content: dict[str, Any], where: str) -> T:
    """Make a dataclass from a JSON object; ValueError names an entry that is not a field of the class."""
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := [name for name in content if name not in known]:
        raise ValueError(f"{where} has an entry {short_repr(unknown[0])} that is not known")
    return cls(**content)


def _expect(is_right: bool, value: Any, expected: str, where: str) -> None:
    if not is_right:
        raise ValueError(f"{where}: expected {expected}, got {short_repr(value)}")

"""Checks of what was read from a JSON file: the first value that is not as expected is named in one sentence.

A kind says what a value has to be:

    str, bool, dict, list           of that type; object: anything
    Whole(1), Real(0, 1)            a finite number within bounds; true and false are none
    [kind]                          a list of such values
    {"name": kind, ...}             an object with at least these entries
    Maybe(kind)                     null, or such a value
    OneOf("a", "b")                 one of these texts
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from greedystep.checks import INT64, check_real, check_whole, shown

Kind = Any

NAMES = {str: "text", bool: "true or false", dict: "an object", list: "a list", object: "anything"}


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`."""

    least: int = 0
    most: int = INT64


@dataclass(frozen=True)
class Real:
    """A finite number in [low, high]."""

    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class Maybe:
    """Null, or a value of a kind."""

    kind: Kind


class OneOf(tuple):
    """One of some texts."""

    def __new__(cls, *texts: str) -> OneOf:
        return super().__new__(cls, texts)


def check(value: Any, kind: Kind, where: str) -> Any:
    """The value, if it is of that kind; ValueError says where it is not, what was expected and what is there.

    Args:
        where: how the sentence names the value.
    """
    match kind:
        case Maybe():
            return value if value is None else check(value, kind.kind, where)
        case Whole():
            return check_whole(where, value, kind.least, kind.most)
        case Real():
            check_real(where, value, kind.low, kind.high)
        case OneOf():
            _expect(isinstance(value, str) and value in kind, value, f"one of {', '.join(kind)}", where)
        case dict():
            _expect(isinstance(value, dict), value, NAMES[dict], where)
            for name, inner in kind.items():
                if name not in value:
                    raise ValueError(f"{where} has no {name!r}")
                check(value[name], inner, f"{where}.{name}")
        case list():
            _expect(isinstance(value, list), value, NAMES[list], where)
            for number, one in enumerate(value):
                check(one, kind[0], f"{where}[{number}]")
        case _:
            _expect(isinstance(value, kind), value, NAMES[kind], where)
    return value


def build(kind: type, content: dict[str, Any], where: str) -> Any:
    """The dataclass made from an object of a file; ValueError names an entry that it does not have."""
    known = [field.name for field in dataclasses.fields(kind)]
    for name in content:
        if name not in known:
            raise ValueError(f"{where} has an entry {shown(name)} that is not known")
    return kind(**content)


def _expect(is_right: bool, value: Any, expected: str, where: str) -> None:
    if not is_right:
        raise ValueError(f"{where}: expected {expected}, got {shown(value)}")

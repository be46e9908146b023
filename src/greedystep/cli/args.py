"""What the commands share: numbers as people type them, and how bad input is answered."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg
from tyro.constructors import PrimitiveConstructorSpec

from greedystep.checks import parse_int, parse_value, short_repr

COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""What Gymnasium colours its warnings with."""


class BadInputError(Exception):
    """What the user gave cannot be used; the message is the sentence to answer with."""


class FailedError(Exception):
    """The work failed on its way, say because a loss is not finite; the message is the sentence to end with."""


@contextmanager
def answering_bad_input() -> Iterator[None]:
    """Complaints within are about the input; anywhere else they are bugs and keep their traceback."""
    try:
        yield
    except OSError as problem:
        raise BadInputError(
            f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)
        ) from problem
    except (ValueError, MemoryError) as problem:
        raise BadInputError(str(problem)) from problem


def check_place(folder: Path) -> None:
    """Before the work, not after it: the folder is one to write to, or can be made."""
    place = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise ValueError(f"out: {place} is not a folder one can write to")


def note(text: str) -> None:
    print(text, file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Whatever the learner warns of is said once the line of progress is gone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for message in dict.fromkeys(str(warning.message) for warning in caught):
                note(f"Note: {message}")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as notes of one line, without colours and without the place in the code that warned."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: note(f"Note: {' '.join(COLOUR.sub('', str(message)).split())}")
        yield


def parse_real(text: str) -> float:
    """A finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {short_repr(text)}")
    return number


def parse_path(text: str) -> Path:
    """A path; the empty one, which Python takes for the current folder, is a variable that was not set."""
    if not text.strip() or "\0" in text:
        raise ValueError(f"expected a path, got {short_repr(text)}")
    return Path(text)


def parse_options(words: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE, with numbers, true, false and none as such and everything else as text."""
    options = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not (sign and name.isidentifier()):
            raise ValueError(f"options: expected NAME=VALUE, got {word!r}")
        if name in options:
            raise ValueError(f"options: {name} is given twice")
        options[name] = parse_value(text)
    return options


def _number(parse: Callable[[str], Any]) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="NUMBER",
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda value: value is None or isinstance(value, int | float),
        str_from_instance=lambda value: ["none" if value is None else f"{value:g}"],
    )


def choice(*names: str) -> PrimitiveConstructorSpec[Any]:
    """One of these, or None where nothing is given."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="|".join(names),
        instance_from_str=lambda words: words[0],
        is_instance=lambda value: value is None or value in names,
        str_from_instance=lambda value: [str(value)],
        choices=names,
    )


def some(what: str, parse: Callable[[str], Any] = str) -> PrimitiveConstructorSpec[Any]:
    """One or more words after an option: an option that is given without any is a mistake, not an empty list."""

    def read(words: list[str]) -> tuple[Any, ...]:
        if not words:
            raise ValueError(f"expected at least one {what}, got none")
        return tuple(map(parse, words))

    shown_as = f"{what} [{what} ...]"
    return PrimitiveConstructorSpec("*", shown_as, read, lambda value: True, lambda value: [str(x) for x in value])


PATH = PrimitiveConstructorSpec(
    1, "PATH", lambda words: parse_path(words[0]), lambda value: True, lambda value: [str(value)]
)
PathArg = Annotated[Path, PATH]
Count = Annotated[int, _number(parse_int)]
Real = Annotated[float, _number(parse_real)]
MaybeCount = Annotated[int | None, _number(parse_int), arg(help_behavior_hint="")]
MaybeReal = Annotated[float | None, _number(parse_real), arg(help_behavior_hint="")]
MaybePath = Annotated[Path | None, PATH, arg(help_behavior_hint="")]
NAMES = arg(metavar="NAME [NAME ...]", help_behavior_hint="(required)")

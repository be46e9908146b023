"""Types of command-line arguments, and how the commands report bad input, failures and warnings."""

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
"""Pattern of terminal escape sequences, with which Gymnasium colours its warnings."""


class BadInputError(Exception):
    """The input cannot be used (exit status 2); the message is the sentence to print."""


class FailedError(Exception):
    """The work failed, say because a loss is not finite (exit status 1); the message is the sentence to print."""


@contextmanager
def answering_bad_input() -> Iterator[None]:
    """Within the block, turn ValueError, OSError and MemoryError into BadInputError; outside it they are bugs."""
    try:
        yield
    except OSError as problem:
        raise BadInputError(sentence(problem)) from problem
    except (ValueError, MemoryError) as problem:
        raise BadInputError(str(problem)) from problem


def sentence(problem: Exception) -> str:
    """Return what an error says, that of the operating system without its number."""
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.filename}: {problem.strerror}" if problem.filename else problem.strerror
    return str(problem)


def check_writable(folder: Path) -> None:
    """Raise ValueError, before any work, if the folder can neither be written to nor be created."""
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise ValueError(f"out: {existing} is not a folder one can write to")


def print_note(text: str) -> None:
    """Print a line to standard error."""
    print(text, file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Within the block, print every warning as a one-line note, each sentence once, above a line of progress.

    Deprecations are noted if they are Gymnasium's, say of an old environment; others are for the authors of packages.
    """
    told: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = _plain(message)
        if text not in told:
            told.add(text)
            print_note(f"Note: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning):
            warnings.simplefilter("ignore", category)
            warnings.filterwarnings("always", category=category, module=r"gymnasium\b")
        warnings.showwarning = show
        yield


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Within the block, print warnings as one-line notes, without colours and source lines."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print_note(f"Note: {_plain(message)}")
        yield


@contextmanager
def saying_when_compiling() -> Iterator[None]:
    """Within the block, print a note when numba compiles: after an installation this takes half a minute."""
    from numba.core.event import Event, Listener, install_listener

    class Note(Listener):
        has_told = False

        def on_start(self, event: Event) -> None:
            if not self.has_told:
                self.has_told = True
                print_note("Compiling for this machine; only the first time takes so long ...")

        def on_end(self, event: Event) -> None:
            pass

    with install_listener("numba:compile", Note()):
        yield


def _plain(message: Warning | str) -> str:
    return " ".join(COLOUR.sub("", str(message)).split())


def parse_real(text: str) -> float:
    """Parse a finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {short_repr(text)}")
    return number


def parse_path(text: str) -> Path:
    """Parse a path; an empty one is refused, since it is most likely a shell variable that was not set."""
    if not text.strip() or "\0" in text:
        raise ValueError(f"expected a path, got {short_repr(text)}")
    return Path(text)


def parse_options(words: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE words; numbers, true, false and none become Python values, everything else stays text."""
    options = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not (sign and name.isidentifier()):
            raise ValueError(f"options: expected NAME=VALUE, got {word!r}")
        if name in options:
            raise ValueError(f"options: {name} is given twice")
        options[name] = parse_value(text)
    return options


def _spec(metavar: str, parse: Callable[[str], Any]) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(1, metavar, lambda words: parse(words[0]), lambda value: True, _show)


def _show(value: Any) -> list[str]:
    return [f"{value:g}" if isinstance(value, int | float) else str(value)]


def one_of(*names: str, metavar: str = "") -> PrimitiveConstructorSpec[Any]:
    """Return tyro's specification of an option whose value is one of these names."""
    return PrimitiveConstructorSpec(
        1, metavar or "|".join(names), lambda words: words[0], lambda value: True, _show, names
    )


def one_or_more(metavar: str, parse: Callable[[str], Any] = str) -> PrimitiveConstructorSpec[Any]:
    """Return tyro's specification of an option that takes one or more words; none is an error, not an empty list."""

    def read(words: list[str]) -> tuple[Any, ...]:
        if not words:
            raise ValueError(f"expected at least one {metavar}, got none")
        return tuple(map(parse, words))

    return PrimitiveConstructorSpec(
        "*", f"{metavar} [{metavar} ...]", read, lambda value: True, lambda value: [str(x) for x in value]
    )


def none_or(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser that also takes the word none."""
    return lambda text: None if text == "none" else parse(text)


PATH, COUNT, REAL = _spec("PATH", parse_path), _spec("NUMBER", parse_int), _spec("NUMBER", parse_real)
COUNT_OR_NONE = _spec("NUMBER|none", none_or(parse_int))
REAL_OR_NONE = _spec("NUMBER|none", none_or(parse_real))
NO_HINT = arg(help_behavior_hint="")
"""Hides the default in help, for options whose help text says what happens without them."""

PathArg = Annotated[Path, PATH]
Count = Annotated[int, COUNT]
Real = Annotated[float, REAL]
MaybeCount = Annotated[int | None, COUNT, NO_HINT]
MaybeReal = Annotated[float | None, REAL, NO_HINT]
MaybePath = Annotated[Path | None, PATH, NO_HINT]
EnvOptions = Annotated[tuple[str, ...], one_or_more("NAME=VALUE"), NO_HINT]
NAMES = arg(metavar="NAME [NAME ...]", help_behavior_hint="(required)")

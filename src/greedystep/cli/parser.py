"""Parses a command line with tyro and turns its complaints into sentences."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import tyro

from greedystep.cli.args import BadInputError

try:
    # tyro marks this hook as experimental. Without it tyro prints its own message; the exit status is 2 either way.
    from tyro import _errors
except ImportError:
    _errors = None

CONFIG = (tyro.conf.FlagCreatePairsOff, tyro.conf.PositionalMetavarFromFieldName)


def parse(command: Any, argv: list[str], *, prog: str, description: str | None = None) -> Any:
    """Return the command that the words ask for; BadInputError if they cannot be parsed.

    Args:
        command: a dataclass, or a union of dataclasses with `tyro.conf.subcommand`.
    """
    with _errors.on_parse_error(_refuse) if _errors else nullcontext():
        return tyro.cli(command, prog=prog, description=description, args=argv, config=CONFIG)


def _refuse(event: Any) -> None:
    """Raise BadInputError with one sentence about a parse error of tyro; kinds that are not known are left to tyro."""
    assert _errors is not None
    match event:
        case _errors.MissingArgs(missing_arguments=missing):
            names = ", ".join(_name(one.arg) for one in missing)
            command = f"{event.prog} {missing[0].source_parser.prog_suffix}".strip()
            raise BadInputError(f"Missing from {command}: {names}")
        case _errors.InvalidChoice(argument=argument, value=value, choices=choices):
            names = ", ".join(choices)
            raise BadInputError(f"invalid choice {value!r} for argument '{_name(argument)}': expected one of {names}")
        case _errors.BadValue(argument=argument, reason="too_few_values"):
            raise BadInputError(f"{_name(argument)}: expected {argument.lowered.metavar}, got nothing")
        case _errors.UnrecognizedArgs(tokens=words):
            raise BadInputError(f"Unrecognized options: {', '.join(words)}")
        case _errors.InstantiationFailure(argument=argument, message=message):
            raise BadInputError(message if argument is None else f"{_name(argument)}: {message}")


def _name(argument: Any) -> str:
    """Return an argument as it is typed: --method, or MODEL where it has no dashes."""
    return str(argument.lowered.metavar) if argument.is_positional() else "/".join(argument.lowered.name_or_flags)

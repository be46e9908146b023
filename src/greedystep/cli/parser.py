"""Parse a command line with tyro, and report its errors in one sentence each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import tyro

from greedystep.checks import closest, did_you_mean
from greedystep.cli.args import BadInputError
from greedystep.cli.plan import Method

try:
    # tyro marks this hook as experimental. Without it tyro prints its own message; the exit status is 2 either way.
    from tyro import _errors
except ImportError:
    _errors = None

POSITIONAL = get_args(tyro.conf.Positional[int])[1]
"""How tyro marks arguments that are given by their place, without a name."""
CONFIG = (tyro.conf.FlagCreatePairsOff, tyro.conf.PositionalMetavarFromFieldName)


def parse(command: Any, argv: list[str], *, prog: str, description: str | None = None) -> Any:
    """Return the command (a dataclass instance) for `argv`; BadInputError if it cannot be parsed.

    Args:
        command: a dataclass, or a union of dataclasses with `tyro.conf.subcommand`.
    """
    with _errors.on_parse_error(partial(_refuse, command, argv)) if _errors else nullcontext():
        return tyro.cli(command, prog=prog, description=description, args=argv, config=CONFIG)


def _refuse(command: Any, argv: list[str], event: Any) -> None:
    """Raise BadInputError with one sentence about a parse error of tyro; unknown kinds of errors are left to tyro."""
    assert _errors is not None
    if isinstance(event, _errors.MissingArgs | _errors.BadValue | _errors.UnrecognizedArgs):
        _refuse_unknown_option(command, argv)
    match event:
        case _errors.MissingArgs(missing_arguments=missing):
            names = ", ".join(_name(one.arg) for one in missing)
            command = f"{event.prog} {missing[0].source_parser.prog_suffix}".strip()
            raise BadInputError(f"Missing from {command}: {names}")
        case _errors.InvalidChoice(argument=argument, value=value, choices=choices):
            what = f"invalid choice {value!r} for argument '{_name(argument)}': expected one of {', '.join(choices)}"
            raise BadInputError(what + did_you_mean(value, choices))
        case _errors.BadValue(argument=argument, reason="too_few_values"):
            raise BadInputError(f"{_name(argument)}: expected {argument.lowered.metavar}, got nothing")
        case _errors.UnrecognizedArgs(tokens=words):
            raise BadInputError(f"Unrecognized options: {', '.join(words)}")
        case _errors.InstantiationFailure(argument=argument, message=message):
            raise BadInputError(message if argument is None else f"{_name(argument)}: {message}")


def _refuse_unknown_option(command: Any, argv: list[str]) -> None:
    """Raise BadInputError if the command or an option is misspelt: tyro may take what follows for something else."""
    commands = _commands(command)
    if commands and argv[0] not in commands:
        near = closest(argv[0], commands)
        method = closest(argv[0], get_args(Method))
        hint = near or (method and f"plan MODEL --method {method}")
        raise BadInputError(f"Unrecognized command: {argv[0]}{f'; did you mean {hint!r}?' if hint else ''}")
    arguments = list(_arguments(commands[argv[0]] if commands else command))
    known = [name for name, is_positional in arguments if not is_positional]
    unknown = [_option(word) for word in argv if word.startswith("--") and _option(word) not in (*known, "--help")]
    if unknown:
        by_place = (unknown[0], True) in arguments
        hint = f"; give it without {unknown[0]}" if by_place else did_you_mean(unknown[0], known)
        raise BadInputError(f"Unrecognized options: {', '.join(unknown)}{hint}")


def _option(word: str) -> str:
    """Return the option in a word of the command line: --batch-size for --batch_size=3, since tyro takes both."""
    return word.partition("=")[0].replace("_", "-")


def _commands(command: Any) -> dict[str, Any]:
    """Return the dataclass of each command of a union; {} for a single command."""
    return {
        config.name: cls
        for cls, *configs in map(get_args, get_args(command))
        for config in configs
        if isinstance(getattr(config, "name", None), str)
    }


def _arguments(cls: Any) -> Iterator[tuple[str, bool]]:
    """Yield the arguments of a dataclass and of those in it: --name, and whether it is given by its place."""
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        kind, *about = (
            get_args(hints[field.name]) if get_origin(hints[field.name]) is Annotated else [hints[field.name]]
        )
        if dataclasses.is_dataclass(kind):
            yield from _arguments(kind)
        else:
            yield f"--{field.name.strip('_').replace('_', '-')}", POSITIONAL in about


def _name(argument: Any) -> str:
    """Return an argument as it is typed: --method, or MODEL where it has no dashes."""
    return str(argument.lowered.metavar) if argument.is_positional() else "/".join(argument.lowered.name_or_flags)

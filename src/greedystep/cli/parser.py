"""Parse a command line with tyro, and report its errors in one sentence each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, get_args, get_type_hints

import tyro

from greedystep.checks import did_you_mean
from greedystep.cli.args import BadInputError

try:
    # tyro marks this hook as experimental. Without it tyro prints its own message; the exit status is 2 either way.
    from tyro import _errors
except ImportError:
    _errors = None

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
            raise _unrecognized(words, _known_words(command, argv))
        case _errors.InstantiationFailure(argument=argument, message=message):
            raise BadInputError(message if argument is None else f"{_name(argument)}: {message}")


def _refuse_unknown_option(command: Any, argv: list[str]) -> None:
    """Raise BadInputError if an option is misspelt: tyro may take what follows it for something else."""
    known = _known_words(command, argv)
    unknown = [word for word in argv if word.startswith("--") and _option(word) not in (*known, "--help")]
    if not unknown:
        return
    name = _option(unknown[0])
    if name in _options(_chosen(command, argv), positional=True):
        raise BadInputError(f"Unrecognized options: {unknown[0]}; type its value without {name}")
    raise _unrecognized(unknown, known)


def _unrecognized(words: Sequence[str], known: Sequence[str]) -> BadInputError:
    return BadInputError(f"Unrecognized options: {', '.join(words)}{did_you_mean(_option(words[0]), known)}")


def _option(word: str) -> str:
    """Return the option in a word of the command line: --batch-size for --batch_size=3, since tyro takes both."""
    return word.partition("=")[0].replace("_", "-")


def _known_words(command: Any, argv: list[str]) -> list[str]:
    """Return the words to suggest for a misspelt one: the options of the named command, or all commands."""
    commands = _commands(command)
    return list(commands) if commands and argv[0] not in commands else list(_options(_chosen(command, argv)))


def _chosen(command: Any, argv: list[str]) -> Any:
    """Return the dataclass of the named command."""
    return _commands(command).get(argv[0], command)


def _commands(command: Any) -> dict[str, Any]:
    """Return {name: dataclass} of a union of commands; nothing if there is only one."""
    return {
        config.name: cls
        for cls, *configs in map(get_args, get_args(command))
        for config in configs
        if isinstance(getattr(config, "name", None), str)
    }


def _options(cls: Any, *, positional: bool = False) -> Iterator[str]:
    """Yield the options of a dataclass as they are typed, those of nested ones included.

    Args:
        positional: yield instead, in the same form, the arguments that are typed without their names.
    """
    if not dataclasses.is_dataclass(cls):
        return
    hints, marked = get_type_hints(cls), get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from _options(hints[field.name], positional=positional)
        elif (tyro.conf.Positional in getattr(marked[field.name], "__metadata__", ())) == positional:
            yield f"--{field.name.strip('_').replace('_', '-')}"


def _name(argument: Any) -> str:
    """Return an argument as it is typed: --method, or MODEL where it has no dashes."""
    return str(argument.lowered.metavar) if argument.is_positional() else "/".join(argument.lowered.name_or_flags)

"""The settings of `DQNConfig` as command-line options; the field docstrings are the help texts."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable
from itertools import pairwise
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from tyro.conf import arg
from tyro.constructors import PrimitiveConstructorSpec

from greedystep.checks import parse_int
from greedystep.cli.args import parse_real
from greedystep.deep.config import DQNConfig


class _Unset:
    """Marks an option that was not given and is left to the preset; None is a value of its own."""


UNSET = _Unset()


def given(settings: Any) -> dict[str, Any]:
    """Return the settings that were given, by their names in `DQNConfig`."""
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    return {name: value for name, value in values.items() if value is not UNSET and value is not False}


def _texts(cls: type) -> dict[str, str]:
    """Return the docstring of each field of a dataclass."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def _spec(
    metavar: str, parse: Callable[[list[str]], Any], nargs: Any = 1, choices: tuple[str, ...] | None = None
) -> Any:
    return PrimitiveConstructorSpec(nargs, metavar, parse, lambda value: True, lambda value: [], choices)


def _option(kind: Any) -> Any:
    """Return how an option of that type is parsed."""
    if isinstance(kind, UnionType):
        (inner,) = (one for one in get_args(kind) if one is not type(None))
        spec = _option(inner)
        return _spec(f"{spec.metavar}|none", lambda words: None if words == ["none"] else spec.instance_from_str(words))
    if get_origin(kind) is Literal:
        names = get_args(kind)
        return _spec("|".join(names) if len(names) < 4 else "NAME", lambda words: words[0], choices=names)
    if get_origin(kind) is tuple:
        return _spec("NUMBER [NUMBER ...]", lambda words: tuple(map(parse_int, words)), nargs="*")
    return _spec("NUMBER", lambda words: {int: parse_int, float: parse_real}[kind](words[0]))


def _field(name: str, kind: Any, text: str) -> tuple[str, Any, Any]:
    if kind is bool:
        return name, Annotated[bool, arg(help=text, help_behavior_hint="")], False
    if get_origin(kind) is Literal and len(get_args(kind)) >= 4:
        text = f"{text.rstrip('.')}: {', '.join(get_args(kind))}."
    shown = arg(name=name.strip("_").replace("_", "-"), help=text, help_behavior_hint="")
    return name, Annotated[Any, _option(kind), shown], dataclasses.field(default=UNSET)


def _make() -> Any:
    texts, kinds = _texts(DQNConfig), get_type_hints(DQNConfig)
    fields = [_field(field.name, kinds[field.name], texts[field.name]) for field in dataclasses.fields(DQNConfig)]
    made = dataclasses.make_dataclass("DeepSettings", fields, frozen=True)
    made.__doc__ = "Settings of the network agent (default: those of the preset)"
    return made


if TYPE_CHECKING:
    DeepSettings = Any
else:
    DeepSettings = _make()

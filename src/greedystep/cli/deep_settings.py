"""The settings of deep agents as options of the command line: the fields of `DQNConfig`, all of them optional.

Names, types and help texts are those of `DQNConfig`, whose source is read for the docstrings of its fields.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from tyro.conf import arg
from tyro.constructors import PrimitiveConstructorSpec

from greedystep.checks import parse_int
from greedystep.cli.args import COUNT, COUNT_OR_NONE, REAL, REAL_OR_NONE, one_of
from greedystep.deep.config import DQNConfig, Returns


class Unset:
    """Value of an option that was not typed, so that the preset decides; None is a value of its own."""


UNSET = Unset()

SIZES = PrimitiveConstructorSpec(
    "*", "NUMBER [NUMBER ...]", lambda words: tuple(map(parse_int, words)), lambda value: True, lambda value: []
)
SPECS: dict[Any, PrimitiveConstructorSpec[Any]] = {
    int: COUNT,
    float: REAL,
    int | None: COUNT_OR_NONE,
    float | None: REAL_OR_NONE,
    tuple[int, ...]: SIZES,
}
"""Type of a field -> how its option is read; options with a few names are read by `one_of`."""

OPTION_NAMES, METAVARS = {"lambda_": "lambda"}, {"returns": "NAME"}
MORE_HELP = {
    "returns": f": {', '.join(get_args(Returns))}.",
    "updates": "; in `fit` the number of updates (default there: 10 000).",
}
"""How the help goes on where the docstring of the field ends."""


def field_docs(cls: type) -> dict[str, str]:
    """Return {name: docstring} of the fields of a dataclass, from its source; each in one line."""
    (tree,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: " ".join(doc.value.value.split())
        for field, doc in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }


def _option(name: str, kind: Any, doc: str) -> tuple[str, Any, Any]:
    """Return name, type and default of the option for a field of this type."""
    text = doc.removesuffix(".") + MORE_HELP[name] if name in MORE_HELP else doc
    about = arg(name=OPTION_NAMES.get(name), help=text, help_behavior_hint="")
    if kind is bool:
        return name, Annotated[bool, about], False
    spec = one_of(*get_args(kind), metavar=METAVARS.get(name, "")) if get_origin(kind) is Literal else SPECS[kind]
    return name, Annotated[kind | Unset, spec, about], UNSET


_DOCS = field_docs(DQNConfig)
_Options: Any = make_dataclass(
    "_Options", [_option(name, kind, _DOCS[name]) for name, kind in get_type_hints(DQNConfig).items()], frozen=True
)


@dataclass(frozen=True)
class DeepSettings(_Options):
    """Settings of networks; the defaults are those of the preset"""


def given(settings: DeepSettings) -> dict[str, Any]:
    """Return {name in `DQNConfig`: value} of the options that were typed."""
    return {name: value for name, value in vars(settings).items() if value is not UNSET and value is not False}

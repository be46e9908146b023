"""The import graph of the package: layers, cycles, JAX and names. It is read from the source, nothing is imported."""

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "greedystep"

PUBLIC_NAMES = ""
"""greedystep/__init__.py, which imports the public names lazily."""
LAYERS = (
    ("checks", "extras", "io", "numba_cache", "provenance", "schema", "signals"),
    ("returns", "mdp_checks", "mdp"),
    (
        "models",
        "operators",
        "planning",
        "minari_store",
        "trajectory",
        "datasets",
        "onnx_policy",
        "numpy_policy",
        "pretrained",
    ),
    ("metrics", "checkpoint", "evaluation", "stats", "learning_curves", "tables", "charts", "figures"),
    ("runs", "replay", "envs"),
    ("tabular", "deep", "agents"),
    ("experiments",),
    ("report",),
    (PUBLIC_NAMES,),
    ("cli", "__main__"),
)
"""Top-level modules and packages, lowest layer first. An import points to the same layer or to a lower one."""

KNOWN_UPWARD: set[tuple[str, str]] = set()
"""Upward imports, as (module, imported module), that are still to be removed."""
KNOWN_JAX: set[tuple[str, str]] = set()
"""Imports of JAX, as (start, importing module), that are still to be removed."""

JAX = {"jax", "equinox", "optax"}
WITHOUT_JAX = (
    *("greedystep.planning", "greedystep.tabular", "greedystep.agents", "greedystep.datasets"),
    *("greedystep.cli.commands", "greedystep.cli.plan", "greedystep.cli.train_table"),
)

SAME_NAMES = {"deep", "offline", "presets"}
"""experiments/deep is what the experiments with networks share; experiments/presets compares those of deep/presets, and
experiments/offline learns with deep/offline."""

COMMAND_NAMES = {"envs", "report", "bench", "eval", "fit", "plan", "reproduce", "train", "watch"}
"""cli/NAME.py holds the command NAME, which may be called like the package that does its work."""


class Import(NamedTuple):
    """One imported module of an import statement."""

    module: str
    """The module that has the statement."""
    target: str
    lazy: bool
    """Whether it stands in a function or under TYPE_CHECKING, so that importing the module does not run it."""


def module_name(path: Path) -> str:
    parts = ("greedystep", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(module: str) -> list[Import]:
    """All imports of a module, with names that are modules resolved to them."""
    found: list[Import] = []

    def visit(node: ast.AST, lazy: bool) -> None:
        match node:
            case ast.Import(names=names):
                found.extend(Import(module, alias.name, lazy) for alias in names)
            case ast.ImportFrom(module=str(origin), names=names, level=0):
                members = [f"{origin}.{alias.name}" for alias in names]
                found.extend(Import(module, name if name in SOURCES else origin, lazy) for name in members)
            case ast.ImportFrom():
                raise AssertionError(f"{module}: a relative import")
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test).strip("_") == "TYPE_CHECKING"
        for child in ast.iter_child_nodes(node):
            visit(child, lazy or is_typing or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    visit(ast.parse(SOURCES[module].read_text(encoding="utf-8")), False)
    return found


IMPORTS = {module: imports_of(module) for module in SOURCES}
OWN_IMPORTS = [one for found in IMPORTS.values() for one in found if one.target.split(".")[0] == "greedystep"]


def top_level(module: str) -> str:
    """The top-level module or package that a module belongs to: greedystep.deep.agent -> deep."""
    return [*module.split("."), PUBLIC_NAMES][1]


LAYER_OF = {name: number for number, layer in enumerate(LAYERS) for name in layer}


def test_every_module_has_a_layer():
    assert {top_level(module) for module in SOURCES} <= set(LAYER_OF)


def test_imports_point_to_the_same_layer_or_a_lower_one():
    upward = {
        (one.module, one.target)
        for one in OWN_IMPORTS
        if LAYER_OF[top_level(one.module)] < LAYER_OF[top_level(one.target)]
    }
    assert upward == KNOWN_UPWARD


def test_no_cycle_between_packages():
    graph: dict[str, set[str]] = defaultdict(set)
    for one in OWN_IMPORTS:
        if top_level(one.module) != top_level(one.target):
            graph[top_level(one.module)].add(top_level(one.target))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as problem:
        pytest.fail(f"these import each other: {' <- '.join(problem.args[1])}")


def loaded_by(start: str) -> dict[str, set[str]]:
    """Module -> what it imports when it is loaded, for all that loading `start` (a package: with all modules) loads."""
    waiting = [module for module in SOURCES if module == start or module.startswith(f"{start}.")]
    loaded: dict[str, set[str]] = {}
    while waiting:
        module = waiting.pop()
        if module in SOURCES and module not in loaded:
            loaded[module] = {one.target for one in IMPORTS[module] if not one.lazy}
            waiting += [*loaded[module], module.rpartition(".")[0]]
    return loaded


def test_planning_and_tables_do_not_load_jax():
    using = {
        (start, module)
        for start in WITHOUT_JAX
        for module, targets in loaded_by(start).items()
        if JAX & {target.split(".")[0] for target in targets}
    }
    assert using == KNOWN_JAX


def test_modules_have_different_names():
    names = defaultdict(list)
    for module, path in SOURCES.items():
        if path.stem == "__main__" or module == "greedystep":
            continue
        name = module.rpartition(".")[2]
        if not (module == f"greedystep.cli.{name}" and name in COMMAND_NAMES):
            names[name].append(module)
    assert {name for name, modules in names.items() if len(modules) > 1} == SAME_NAMES


def test_only_the_bench_command_knows_the_benchmarks():
    knowing = [one for found in IMPORTS.values() for one in found if one.target.split(".")[0] == "benchmarks"]
    assert {(one.module, one.lazy) for one in knowing} == {("greedystep.cli.bench", True)}


def test_only_a_tensor_loads_pytorch():
    knowing = {one.module for found in IMPORTS.values() for one in found if one.target.split(".")[0] == "torch"}
    assert knowing == {"greedystep.returns._torch"}
    assert [one.lazy for one in OWN_IMPORTS if one.target == "greedystep.returns._torch"] == [True]

"""The names that `import greedystep as gs` gives, and those that the reference page lists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import greedystep as gs

REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"
LISTED = re.findall(r"^::: ([\w.]+)$", REFERENCE.read_text(), re.MULTILINE)


def resolve(path):
    """Return the object of a dotted path, which may be a module or a name in one."""
    module, _, name = path.rpartition(".")
    try:
        return import_module(path)
    except ModuleNotFoundError:
        return getattr(import_module(module), name)


def test_dir_shows_the_public_names_only():
    assert dir(gs) == sorted(gs.__all__)
    assert all(getattr(gs, name) is not None for name in gs.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        gs.nothing  # noqa: B018


@pytest.mark.parametrize("path", LISTED)
def test_the_reference_page_lists_what_is_importable_from_the_package(path):
    assert path.startswith("greedystep.")
    name = path.rpartition(".")[2]
    home = gs.envs if path.startswith("greedystep.envs") else gs
    assert resolve(path) is getattr(home, name)


def test_the_guide_to_estimators_has_them_all():
    guide = REFERENCE.with_name("estimators.md").read_text(encoding="utf-8")
    assert [name for name in gs.returns.__all__ if name != "Greedy" and f"`{name}`" not in guide] == []

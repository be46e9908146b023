"""Results folders: read and check the results of `greedystep reproduce`, and write everything made from them.

NAME.json           a result
NAME-*.png, .svg    its figures
NAME-*.md, .tex     its tables
claims.md, .tex     the table of all claims
report.html         all results of the folder on one page

A result that cannot be read or drawn does not stop the others: the page names it and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from greedystep import experiments, figures, schema, tables
from greedystep.experiments.claims import Claim
from greedystep.io import read_json, write_text
from greedystep.report import page
from greedystep.tables import Table

_CLAIM = {"id": str, "claim": str, "where": str, "claimed": object, "measured": object, "verdict": str}
CONTENT = {"name": str, "title": str, "settings": dict, "numbers": dict, "claims": [_CLAIM]}
CONTENT |= {"provenance": {"command": str}}
PAGE = "report.html"

MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError)
"""Errors raised by drawing a result whose numbers have another structure than this version writes."""


class Found(NamedTuple):
    """Results in the order of `experiments.NAMES`, and a sentence for each file that could not be read."""

    results: list[dict[str, Any]]
    problems: list[str]


def read(path: Path) -> dict[str, Any]:
    """Read and check one result file; ValueError says in one sentence what is wrong with the file."""
    try:
        result = schema.check(read_json(path), CONTENT, "it")
    except ValueError as problem:
        raise ValueError(f"{path} is not a result of `greedystep reproduce`: {problem}") from None
    if result["name"] not in experiments.NAMES:
        raise ValueError(f"{path} is of an experiment that is not known: {result['name']!r}")
    for claim in result["claims"]:
        try:
            schema.build(Claim, claim, "it")
        except ValueError as problem:
            raise ValueError(f"{path} holds a claim that cannot be read ({problem})") from None
    return result


def collect(paths: Iterable[Path]) -> Found:
    """Read the results in these folders and files; each experiment may occur once.

    A file in a folder that cannot be read is listed as a problem; a file that was named itself raises ValueError,
    as does a folder without any result.
    """
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    problems = []
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
        possible = [path / f"{name}.json" for name in experiments.NAMES]
        files = [file for file in possible if file.is_file()] if path.is_dir() else [path]
        if not files:
            named = ", ".join(file.name for file in possible)
            raise ValueError(f"{path} holds no results ({named}) and no run (config.json and metrics.jsonl)")
        unread = []
        for file in files:
            try:
                result = read(file)
            except ValueError as problem:
                if not path.is_dir():
                    raise
                unread.append(str(problem))
                continue
            earlier = found.setdefault(result["name"], (file, result))[0]
            if earlier != file:
                raise ValueError(f"{result['name']} was given twice: {earlier} and {file}")
        if len(unread) == len(files):
            raise ValueError(unread[0])
        problems += unread
    return Found([found[name][1] for name in experiments.NAMES if name in found], problems)


def write(found: Found, folder: Path) -> Path:
    """Write the figures and tables of all results into the folder; return the path of the page."""
    sections = [_draw(result, folder) for result in found.results]
    columns = ("claim", "where", "claimed", "measured", "verdict")
    rows = [
        [*(claim[column] for column in columns), experiments.heading(result["name"]), claim.get("reason") or None]
        for result in found.results
        for claim in result["claims"]
    ]
    title = "What the paper claims, and what was measured"
    tables.write(Table("claims", title, [*columns, "evidence", "why"], rows), folder / "claims")
    write_text(folder / PAGE, page.render(sections, found.problems))
    return folder / PAGE


def _draw(result: dict[str, Any], folder: Path) -> page.Section:
    """Write the figures and tables of one result, and return its section of the page."""
    experiment = experiments.load(result["name"])
    problems: list[str] = []

    def attempt(what: str, make: Callable[[dict[str, Any]], Any]) -> Any:
        try:
            with figures.style():
                return make(result)
        except MALFORMED as problem:
            problems.append(f"no {what}: its numbers do not have the structure of this version ({problem!r})")
            return None

    def stem(key: str) -> str:
        """Return the file name, without suffix, for `key`: it begins with the experiment's name."""
        return key if key.startswith(result["name"]) else f"{result['name']}-{key}"

    pictures = {}
    for key, drawing in (attempt("figures", experiment.draw) or {}).items():
        _, svg = figures.save(drawing, folder / stem(key))
        pictures[stem(key)] = svg.read_bytes()
    made = attempt("tables", experiment.tables) or []
    for table in made:
        tables.write(table, folder / stem(table.id))
    charts = attempt("charts", partial(experiments.page_charts, experiment))
    shown = result if attempt("summary", page.check) else result | {"numbers": {}}
    return page.Section(shown, pictures, made, charts, problems)

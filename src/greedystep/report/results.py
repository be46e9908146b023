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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Found:
    """Results in the order of `experiments.NAMES`, and a sentence for each file that could not be read."""

    results: list[dict[str, Any]]
    problems: list[str]


def read(path: Path) -> dict[str, Any]:
    """Read and check one result; ValueError says in one sentence what is wrong with the file."""
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
        files = _files(path) if path.is_dir() else [path]
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


def _files(folder: Path) -> list[Path]:
    files = [file for name in experiments.NAMES if (file := folder / f"{name}.json").is_file()]
    if not files:
        named = ", ".join(f"{name}.json" for name in experiments.NAMES)
        raise ValueError(f"{folder} holds no results ({named}) and no run (config.json and metrics.jsonl)")
    return files


def write(found: Found, folder: Path) -> Path:
    """Write the figures and tables of all results into the folder; return the path of the page."""
    sections = [_draw(result, folder) for result in found.results]
    _write_table(_claims(found.results), folder / "claims")
    write_text(folder / PAGE, page.render(sections, found.problems))
    return folder / PAGE


def _draw(result: dict[str, Any], folder: Path) -> page.Section:
    """Write the files of one result and return its section of the page, with what could not be drawn."""
    experiment = experiments.load(result["name"])
    problems: list[str] = []

    def attempt(what: str, make: Callable[[], Any]) -> Any:
        try:
            with figures.style():
                return make()
        except MALFORMED as problem:
            problems.append(f"no {what}: its numbers do not have the structure of this version ({problem!r})")
            return None

    pictures = {}
    for key, drawing in (attempt("figures", lambda: experiment.draw(result)) or {}).items():
        _, svg = figures.save(drawing, folder / _stem(result, key))
        pictures[_stem(result, key)] = svg.read_bytes()
    made = attempt("tables", lambda: experiment.tables(result)) or []
    for table in made:
        _write_table(table, folder / _stem(result, table.id))
    charts = attempt("charts", lambda: experiments.page_charts(experiment, result))
    before = len(problems)
    attempt("summary", lambda: page.check(result))
    shown = result if len(problems) == before else result | {"numbers": {}}
    return page.Section(shown, pictures, made, charts, problems)


def _claims(results: list[dict[str, Any]]) -> Table:
    columns = ("claim", "where", "claimed", "measured", "verdict")
    rows = [
        [*(claim[column] for column in columns), experiments.heading(result["name"]), claim.get("reason") or None]
        for result in results
        for claim in result["claims"]
    ]
    return Table("claims", "What the paper claims, and what was measured", [*columns, "evidence", "why"], rows)


def _write_table(table: Table, stem: Path) -> None:
    write_text(f"{stem}.md", tables.markdown(table))
    write_text(f"{stem}.tex", tables.latex(table))


def _stem(result: dict[str, Any], key: str) -> str:
    """Return a file's name without suffix, which begins with the experiment's name."""
    return key if key.startswith(result["name"]) else f"{result['name']}-{key}"

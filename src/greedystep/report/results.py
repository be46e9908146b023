"""A folder of results: read, check, and write everything that is made from them.

NAME.json           the result itself, the only thing that took time to make
NAME-*.png, .svg    its figures
NAME-*.md, .tex     its tables
claims.md, .tex     the table of all claims
report.html         all results of the folder on one page

What cannot be read or drawn does not stop the rest: the page says what it lacks, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greedystep import experiments, figures, schema, tables
from greedystep.experiments.claims import Claim
from greedystep.io import read_json, write_text
from greedystep.report import curves, page
from greedystep.report.elements import heading
from greedystep.tables import Table

_CLAIM = {"id": str, "claim": str, "where": str, "claimed": object, "measured": object, "verdict": str}
CONTENT = {"name": str, "title": str, "settings": dict, "numbers": dict, "claims": [_CLAIM]}
CONTENT |= {"provenance": {"command": str}}
PAGE = "report.html"

MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError)
"""What drawing a result raises whose numbers are not those that its experiment makes."""


@dataclass(frozen=True)
class Found:
    """Results in the order of the paper, and a sentence for each file of a folder that is none."""

    results: list[dict[str, Any]]
    problems: list[str]


def read(path: Path) -> dict[str, Any]:
    """One result; ValueError says in one sentence why a file is none."""
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
    """The results in some folders and files; a name may occur once.

    In a folder, a file that cannot be read is a problem beside the others; one that was named is an error, and so is a
    folder without any result.
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
    """Draw every result into the folder and return the page of them all."""
    sections = [_draw(result, folder) for result in found.results]
    _write_table(_claims(found.results), folder / "claims")
    write_text(folder / PAGE, page.render(sections, found.problems))
    return folder / PAGE


def _draw(result: dict[str, Any], folder: Path) -> page.Section:
    """Files of one result, and its section; what its numbers do not give is said there."""
    experiment = experiments.load(result["name"])
    problems: list[str] = []

    def attempt(what: str, make: Callable[[], Any]) -> Any:
        try:
            with figures.style():
                return make()
        except MALFORMED as problem:
            problems.append(f"no {what}: its numbers are not those of this version ({problem!r})")
            return None

    pictures = {}
    for key, drawing in (attempt("figures", lambda: experiment.draw(result)) or {}).items():
        _, svg = figures.save(drawing, folder / _stem(result, key))
        pictures[_stem(result, key)] = svg.read_bytes()
    made = attempt("tables", lambda: experiment.tables(result)) or []
    for table in made:
        _write_table(table, folder / _stem(result, table.id))
    live = attempt("curves", lambda: _live(experiment, result))
    before = len(problems)
    attempt("summary", lambda: page.check(result))
    shown = result if len(problems) == before else result | {"numbers": {}}
    return page.Section(shown, pictures, made, live, problems)


def _live(experiment: experiments.Experiment, result: dict[str, Any]) -> page.Live | None:
    """What the page's script draws, if there is any."""
    about, charts = experiments.charts_of(experiment, result)
    if charts:
        return page.Live(curves.charts(charts), about, instead_of=(result["name"],))
    if curves.has_curves(result):
        return page.Live(curves.figure(result, getattr(experiment, "STYLES", {})))
    return None


def _claims(results: list[dict[str, Any]]) -> Table:
    columns = ("claim", "where", "claimed", "measured", "verdict")
    rows = [
        [*(claim[column] for column in columns), heading(result["name"]), claim.get("reason") or None]
        for result in results
        for claim in result["claims"]
    ]
    return Table("claims", "What the paper claims, and what was measured", [*columns, "evidence", "why"], rows)


def _write_table(table: Table, stem: Path) -> None:
    write_text(f"{stem}.md", tables.markdown(table))
    write_text(f"{stem}.tex", tables.latex(table))


def _stem(result: dict[str, Any], key: str) -> str:
    """The experiment's name leads every file, once."""
    return key if key.startswith(result["name"]) else f"{result['name']}-{key}"

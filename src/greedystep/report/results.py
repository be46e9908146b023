"""Results folders: read and check the results of `greedystep reproduce`, and write everything made from them.

NAME.json           a result
NAME-*.png, .svg    its figures
NAME-*.md, .tex     its tables
claims.md, .tex     the table of all claims
outcome.md          the first screen of the page, with its figure outcome.png, .svg
report.html         all results of the folder on one page

A result that cannot be read or drawn does not stop the others: the page names it and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from greedystep import experiments, figures, schema, tables
from greedystep.experiments import outcome
from greedystep.experiments.claims import Claim, check
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
    kept: frozenset[str] = frozenset()
    """Names of the results that were read from a folder of full-size results, to be shown and not written again."""
    checks: Mapping[str, dict[str, Any]] = MappingProxyType({})
    """Quick results by name, which check the verdicts of full-size ones."""


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


def beside(found: Found, kept: Found, names: Iterable[str]) -> Found:
    """Return the results of these experiments with the full-size ones in `kept` in place of quick ones.

    The quick ones check the verdicts of the full-size ones; what `kept` does not have stays as it is.
    """
    own, full = ({result["name"]: result for result in one.results} for one in (found, kept))
    quick = {name for name, result in own.items() if result["settings"].get("scale") == "quick"}
    wanted = [name for name in experiments.NAMES if name in own or (name in full and name in set(names))]
    is_kept = frozenset(name for name in wanted if name in full and (name in quick or name not in own))
    results = [full[name] if name in is_kept else own[name] for name in wanted]
    checks = {name: own[name] for name in is_kept & quick}
    return Found(results, [*found.problems, *kept.problems], is_kept, checks)


Drawn = dict[tuple[str, str, bool], page.Section]
"""Sections that were drawn already, by experiment, date of the result and whether it is a kept one."""


def write(found: Found, folder: Path, drawn: Drawn | None = None) -> Path:
    """Write the figures and tables of all results into the folder; return the path of the page.

    Of kept results only the page is made. What is in `drawn` is not drawn again.
    """
    known: Drawn = {} if drawn is None else drawn

    def section(result: dict[str, Any], is_kept: bool) -> page.Section:
        key = (result["name"], str(result["provenance"].get("date")), is_kept)
        if key not in known:
            known[key] = _draw(result, None if is_kept else folder)
        return known[key]

    sections = []
    for result in found.results:
        quick = found.checks.get(result["name"])
        check = None if quick is None else section(quick, is_kept=False)
        sections.append(section(result, result["name"] in found.kept)._replace(check=check))
    tables.write(claims_table(found), folder / "claims")
    picture = _draw_outcome(found.results, folder)
    if rows := outcome.rows(found.results):
        about = _outcome_markdown(outcome.paragraph(found.results), rows, picture is not None)
        write_text(folder / "outcome.md", about)
    write_text(folder / PAGE, page.render(sections, found.problems, picture))
    return folder / PAGE


def _draw_outcome(results: list[dict[str, Any]], folder: Path) -> bytes | None:
    """Write the figure of the first screen and return its SVG file; None if no result has the numbers for it."""
    if not {"fig3", "protocol"} & {result["name"] for result in results}:
        return None
    from greedystep.experiments import outcome_figure  # imports JAX, which reports of models and tables do without

    try:
        drawing = outcome_figure.draw(results)
    except MALFORMED:  # the section of that result names the problem
        return None
    return None if drawing is None else figures.save(drawing, folder / outcome.FIGURE)[1].read_bytes()


def _outcome_markdown(paragraph: str, rows: list[outcome.Row], has_figure: bool) -> str:
    """Return the first screen of the page as Markdown."""
    header = ["the paper says", "measured", "verdict"]
    table = Table("outcome", "The outcome", header, [[row.says, row.measured, row.verdict] for row in rows])
    figure = f"![{outcome.CAPTION}]({outcome.FIGURE}.png)\n\n" if has_figure else ""
    return f"{paragraph}\n\n{figure}{tables.markdown(table)}"


def claims_table(found: Found) -> Table:
    """Return all claims as a table, with a last column on what the quick run says where there is one."""
    columns = ("claim", "where", "claimed", "measured", "verdict")
    quick = {claim["id"]: claim for result in found.checks.values() for claim in result["claims"]}
    rows = []
    for name, claim in ((result["name"], claim) for result in found.results for claim in result["claims"]):
        row = [*(claim[column] for column in columns), experiments.heading(name), claim.get("reason") or None]
        mine = quick.get(claim["id"])
        row += [claim.get("rule") or None]
        rows.append([*row, *([None if mine is None else check(claim["verdict"], mine["verdict"])] if quick else [])])
    header = [*columns, "evidence", "why", "rule", *(["quick run"] if quick else [])]
    return Table("claims", "What the paper claims, and what was measured", header, rows)


def _draw(result: dict[str, Any], folder: Path | None) -> page.Section:
    """Return a result's section of the page; write its figures and tables into the folder, if one is given."""
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
        if folder is None:
            pictures[stem(key)] = figures.to_bytes(drawing, ".svg")
        else:
            _, svg = figures.save(drawing, folder / stem(key))
            pictures[stem(key)] = svg.read_bytes()
    made = attempt("tables", experiment.tables) or []
    if folder is not None:
        for table in made:
            tables.write(table, folder / stem(table.id))
    charts = attempt("charts", partial(experiments.page_charts, experiment))
    shown = result if attempt("summary", page.check) else result | {"numbers": {}}
    return page.Section(shown, pictures, made, charts, problems)

"""The page of claims and results: one HTML file without network access, with every picture and chart inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from greedystep import experiments
from greedystep.experiments import PageCharts, errata, heading
from greedystep.report import claim_tables, elements
from greedystep.report.elements import text
from greedystep.tables import Table

PAPER = "https://arxiv.org/abs/2102.11717"

OWN_SECTIONS = {
    "sentences": "Sentences",
    "errata": "Errata",
    "chance": "Luck",
    "making": "How it was made",
    "missing": "What is missing",
}
"""Sections besides those of the experiments: id and entry in the table of contents."""


@dataclass(frozen=True)
class Section:
    """An experiment's section of the page."""

    result: dict[str, Any]
    pictures: dict[str, bytes]
    """SVG files by name."""
    tables: list[Table]
    charts: PageCharts | None = None
    problems: list[str] = field(default_factory=list)
    """What could not be drawn, a sentence each."""


def render(sections: Sequence[Section], problems: Sequence[str] = ()) -> str:
    """Return the page as HTML; `problems` are sentences on files that could not be read."""
    results = [section.result for section in sections]
    body = [
        _summary(results, problems),
        _contents(results),
        *claim_tables.claims(results),
        *map(_section, sections),
        claim_tables.sentences(results),
        _errata(results),
        elements.section(
            "chance",
            "Luck in stochastic environments",
            _paragraph(errata.luck_note(results)),
            elements.table(errata.LUCK_TABLE),
        ),
        _making(results),
        _missing(sections, problems),
    ]
    return elements.whole("claims and measurements", "Greedy-Step: what the paper claims, and what we measured", body)


def check(result: dict[str, Any]) -> None:
    """Raise what the result's numbers would raise outside the experiment's own section."""
    gaps_of(result)
    _errata([result])
    errata.luck_note([result])
    _making([result])


def _paragraph(words: str) -> str:
    return f"<p>{text(words)}</p>"


def _summary(results: list[dict[str, Any]], problems: Sequence[str]) -> str:
    total = claim_tables.summary((claim["verdict"] for result in results for claim in result["claims"]), "claims")
    share = f"{len(results)} of {len(experiments.NAMES)} experiments are on this page"
    scales = ", ".join(sorted({str(result["settings"].get("scale")) for result in results}))
    unread = f", {len(problems)} could not be read" if problems else ""
    return (
        f'<p>Wang, Wu, He and Tan, <cite>Greedy-Step Off-Policy Reinforcement Learning</cite>, <a href="{PAPER}">arXiv '
        f"2102.11717</a> (2021). <strong>{text(total)}</strong> Each verdict follows from a rule in the experiment's "
        f"code. {share} (scale: {text(scales)}){unread}; "
        f'<a href="#missing">what is missing or shorter than requested</a> is listed at the end.</p>'
    )


def _contents(results: list[dict[str, Any]]) -> str:
    links = {result["name"]: heading(result["name"]) for result in results} | OWN_SECTIONS
    return " ".join(["<nav>", *(f'<a href="#{escape(to)}">{text(name)}</a>' for to, name in links.items()), "</nav>"])


# -- the experiments --------------------------------------------------------------------------------------------------


def _section(section: Section) -> str:
    result = section.result
    pictures = {name: elements.picture(name, svg, result["title"]) for name, svg in section.pictures.items()}
    drawn = list(pictures.values())
    if section.charts is not None:
        charts, caption, replaces = section.charts
        same = [picture for name, picture in pictures.items() if replaces in (None, name)]
        others = [picture for picture in drawn if picture not in same]
        drawn = [_paragraph(caption), elements.charts(result["name"], charts, same), *others]
    return elements.section(
        result["name"],
        result["title"],
        claim_tables.short_list(result["claims"]),
        f'<div class="missing">{elements.bullets(section.problems)}</div>' if section.problems else "",
        *drawn,
        *map(elements.table, section.tables),
        elements.folded("Settings", elements.pairs(result["settings"])),
        elements.folded("Provenance", *elements.origin(result["provenance"])),
        above=heading(result["name"]),
    )


def _making(results: list[dict[str, Any]]) -> str:
    rows = []
    for result in results:
        made = result["provenance"]
        tasks = result["numbers"].get("tasks", {}).values()
        trained = sorted({d for task in tasks for one in task["methods"].values() for d in one.get("machines", ())})
        commit, *local_changes = str(made.get("commit") or "").partition("-")
        commit = "".join([commit[:10], *local_changes])
        date = str(made.get("date") or "")[:16].replace("T", " ")
        about = [made.get("command"), result["settings"].get("scale"), date or None]
        machine = [", ".join(trained) or made.get("device"), made.get("cpu"), commit or None]
        rows.append([heading(result["name"]), *about, *machine])
    header = ["experiment", "command", "scale", "date (UTC)", "device", "processor", "commit"]
    table = Table("making", "Commands and machines; package versions are listed with each experiment", header, rows)
    return elements.section("making", "How it was made", elements.table(table))


def _errata(results: list[dict[str, Any]]) -> str:
    items = []
    for one in errata.ERRATA:
        counted = errata.violations(one, results)
        items.append(
            f"<li><strong>{text(one.where)}.</strong> {text(one.printed)}<br><em>Counterexample:</em> "
            f"{text(one.example)}<br><em>Correct:</em> {text(one.instead)}<br><small>"
            f"{text(f'On random models: {counted}. ' if counted else '')}<code>{text(one.test)}</code></small></li>"
        )
    return elements.section(
        "errata",
        "Errata of the paper",
        "<p>Statements of the paper that are wrong as printed, with the smallest counterexample of each. The numbers "
        f"are computed by the tests named beside them, in <code>{errata.TESTS}</code>.</p>",
        f'<ol class="errata">{"".join(items)}</ol>',
    )


# -- what is missing --------------------------------------------------------------------------------------------------


def _missing(sections: Sequence[Section], problems: Sequence[str]) -> str:
    found = {"Could not be read": list(problems)} if problems else {}
    for section in sections:
        if section.problems:
            found[f"{heading(section.result['name'])}: could not be drawn"] = section.problems
    found |= gaps([section.result for section in sections])
    parts = [f"<h3>{text(name)}</h3>{elements.bullets(sentences)}" for name, sentences in found.items()]
    nothing = "<p>Nothing: every experiment was run in full.</p>"
    return elements.section("missing", "What is missing, or shorter than requested", *(parts or [nothing]))


def gaps(results: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """List by heading which experiments were not run, which are small, and which trainings are missing or short."""
    present = {result["name"] for result in results}
    quick = ", ".join(heading(result["name"]) for result in results if result["settings"].get("scale") == "quick")
    found = {
        "Not run": [f"{heading(n)}: greedystep reproduce {n}" for n in experiments.NAMES if n not in present],
        "Smaller than in the paper": [f"{quick}: scale quick; in full: --scale paper"] if quick else [],
    }
    found |= {heading(result["name"]): gaps_of(result) for result in results}
    return {name: sentences for name, sentences in found.items() if sentences}


def gaps_of(result: Mapping[str, Any]) -> list[str]:
    """List what one result lacks."""
    numbers = result["numbers"]
    short = _short_trainings(numbers.get("tasks", {}).values())
    return [*numbers.get("problems", ()), *numbers.get("missing", ()), *short]


def _short_trainings(tasks: Iterable[Mapping[str, Any]]) -> list[str]:
    """List trainings that are shorter than their task's full length, equal ones in one sentence."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        labels: dict[int, list[str]] = {}
        for one in task["methods"].values():
            if one["steps"][-1] < 0.99 * task["full_steps"]:  # a chunk may end a few steps before
                labels.setdefault(one["steps"][-1], []).append(one["label"])
        for steps, methods in labels.items():
            who = "" if len(methods) == len(task["methods"]) else f" of {', '.join(methods)}"
            found.setdefault(f"{steps:,} of {task['full_steps']:,} steps{who}", []).append(task["title"])
    return [f"{', '.join(titles)}: {length}" for length, titles in found.items()]

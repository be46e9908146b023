"""The HTML page of claims and results: one file that needs no network, with every picture and chart inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from greedystep import experiments
from greedystep.experiments import PageCharts, errata, heading
from greedystep.report import elements, verdicts
from greedystep.report.elements import text
from greedystep.report.front import front, note, which_run
from greedystep.report.verdicts import badge, breakable
from greedystep.tables import Table

OWN_SECTIONS = {"all-claims": "Claims", "experiments": "Figures and tables", "sentences": "Sentences"}
OWN_SECTIONS |= {"errata": "Errata", "chance": "Stochastic environments"}
OWN_SECTIONS |= {"making": "How it was made", "missing": "What is missing"}
"""Parts besides those of the experiments: id and name."""

RULES = (
    "<p>A verdict follows from the rule below the claim. A rule that was written or changed after the full-length runs "
    "says so. Three things changed for all of them: <em>undecided</em> is a verdict of its own (what it names was "
    "called partly); a method has learned if its final return minus its first one has a 95 % CI above a tenth of "
    "the largest mean gain of any method (it was: above 0); and CIs are bootstrap intervals between expanded "
    "percentiles (Hesterberg 2015), which cover a difference of two means in 89, 94 and 95 % of cases with 3, 5 and 10 "
    "seeds (they were the usual ones, which cover 80, 87 and 92 %). <em>Why</em> is the likeliest reason that the runs "
    "show; that it is the cause is not proved.</p>"
)


class Section(NamedTuple):
    """What the page shows of one experiment."""

    result: dict[str, Any]
    pictures: dict[str, bytes]
    """SVG files by name."""
    tables: list[Table]
    charts: PageCharts | None = None
    problems: Sequence[str] = ()
    """One sentence for each figure or table that could not be made."""
    check: Section | None = None
    """The same experiment, run quickly to check the verdicts of this one."""


def render(sections: Sequence[Section], problems: Sequence[str] = (), picture: bytes | None = None) -> str:
    """Return the page as HTML.

    Args:
        problems: sentences on files that could not be read.
        picture: the SVG file of the first screen's figure.
    """
    results = [section.result for section in sections]
    quick = [section.check.result for section in sections if section.check is not None]
    checks = {claim["id"]: claim for result in quick for claim in result["claims"]}
    total = sum(len(result["claims"]) for result in results)
    links = (f'<a href="#{escape(one["name"])}">{text(heading(one["name"]))}</a>' for one in results)
    luck = (_paragraph(errata.luck_note(results)), elements.table(errata.LUCK_TABLE))
    body = [
        front(results, picture, checks, note(results, problems)),
        verdicts.buttons(results),
        elements.part("all-claims", f"All claims ({total})", RULES, verdicts.claims_table(results, checks)),
        elements.part(
            "experiments",
            f"Figures and tables ({len(results)} experiments)",
            f"<nav>{' '.join(links)}</nav>",
            *map(_section, sections),
        ),
        verdicts.sentences(results),
        _errata(results),
        elements.part("chance", "Stochastic environments", *luck),
        _making([*results, *quick]),
        _missing(sections, problems),
    ]
    return elements.document(
        "claims and measurements", "Greedy-Step: what the paper claims, and what we measured", body
    )


def check(result: dict[str, Any]) -> bool:
    """Return True if the page's summaries can be made from a result; otherwise its malformed numbers raise."""
    gaps_of(result)
    _errata([result])
    errata.luck_note([result])
    _making([result])
    return True


def _paragraph(words: str) -> str:
    return f"<p>{text(words)}</p>"


# -- the experiments --------------------------------------------------------------------------------------------------


def _section(section: Section) -> str:
    result = section.result
    claims = [
        f'<li>{badge(claim["verdict"])}<a href="#claim-{escape(claim["id"])}">{text(claim["claim"])}</a></li>'
        for claim in result["claims"]
    ]
    shown = _shown(section, result["name"])
    if section.check is not None:
        quick = _shown(section.check, f"{result['name']}-quick")
        shown = ["<h3>Full run</h3>", *shown, "<h3>Quick run, to check it</h3>", *quick]
    return elements.part(
        result["name"],
        result["title"],
        f'<ul class="judged">{"".join(claims)}</ul>' if claims else "",
        *shown,
        above=heading(result["name"]),
    )


def _shown(section: Section, id: str) -> list[str]:
    """Return the figures, charts, tables, settings and provenance of one run of an experiment."""
    result = section.result
    # A figure beside a table of its own name shows the same; the one with the experiment's name is the experiment's.
    titles = {table.id: table.title for table in section.tables if table.id != result["name"]}
    pictures = {
        name: elements.picture(name, svg, result["title"], titles.get(name) or result["title"])
        for name, svg in section.pictures.items()
    }
    drawn = list(pictures.values())
    if section.charts is not None:
        charts, caption, replaced = section.charts
        same = [picture for name, picture in pictures.items() if name in replaced]
        others = [picture for picture in drawn if picture not in same]
        drawn = [_paragraph(caption), elements.charts(id, charts, same), *others]
    return [
        f'<p class="run">{text(which_run(result))}.</p>',
        f'<div class="missing">{elements.bullets(section.problems)}</div>' if section.problems else "",
        *drawn,
        *map(elements.table, section.tables),
        elements.folded("Settings", elements.pairs(result["settings"])),
        elements.folded("Provenance", *elements.provenance(result["provenance"])),
    ]


def _making(results: list[dict[str, Any]]) -> str:
    rows = []
    for result in results:
        made = result["provenance"]
        tasks, maps = (result["numbers"].get(name, {}).values() for name in ("tasks", "maps"))
        trained = sorted(
            {device for task in tasks for one in task["methods"].values() for device in one.get("machines", ())}
            | {device for one in maps for device in one.get("devices", ())}
        )
        commit, *local_changes = str(made.get("commit") or "").partition("-")
        commit = "".join([commit[:10], *local_changes])
        date = str(made.get("date") or "")[:16].replace("T", " ")
        about = [made.get("command"), result["settings"].get("scale"), date or None]
        machine = [", ".join(trained) or made.get("device"), made.get("cpu"), commit or None]
        rows.append([heading(result["name"]), *about, *machine])
    header = ["experiment", "command", "scale", "date (UTC)", "device", "processor", "commit"]
    table = Table("making", "Commands and machines; package versions are listed with each experiment", header, rows)
    return elements.part("making", "How it was made", elements.table(table))


def _errata(results: list[dict[str, Any]]) -> str:
    items = []
    for one in errata.ERRATA:
        counted = errata.violations(one, results)
        items.append(
            f"<li><strong>{text(one.where)}.</strong> {text(one.printed)}<br><em>Counterexample:</em> "
            f"{text(one.example)}<br><em>Correct:</em> {text(one.instead)}<br><small>"
            f"{text(f'On random models: {counted}. ' if counted else '')}<code>{breakable(text(one.test))}</code>"
            "</small></li>"
        )
    return elements.part(
        "errata",
        "Errata of the paper",
        "<p>Statements of the paper that are wrong as printed, with the smallest counterexample of each. The numbers "
        f"are computed by the tests named beside them, in <code>{errata.TESTS}</code>.</p>",
        f'<ol class="errata">{"".join(items)}</ol>',
    )


# -- what is missing --------------------------------------------------------------------------------------------------


def _missing(sections: Sequence[Section], problems: Sequence[str]) -> str:
    found = {"Could not be read": problems}
    found |= {f"{heading(one.result['name'])}: could not be drawn": one.problems for one in sections}
    found |= gaps([section.result for section in sections])
    parts = [f"<h3>{text(name)}</h3>{elements.bullets(lacks)}" for name, lacks in found.items() if lacks]
    nothing = "<p>Nothing: every experiment was run in full.</p>"
    return elements.part("missing", "What is missing, or shorter than requested", *(parts or [nothing]))


def gaps(results: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return {heading: sentences} on experiments not run or run small, and trainings that are missing or short."""
    present = {result["name"] for result in results}
    quick = ", ".join(heading(result["name"]) for result in results if result["settings"].get("scale") == "quick")
    found = {
        "Not run": [f"{heading(n)}: greedystep reproduce {n}" for n in experiments.NAMES if n not in present],
        "Smaller than in the paper": [f"{quick}: scale quick; in full: --scale paper"] if quick else [],
    }
    found |= {heading(result["name"]): gaps_of(result) for result in results}
    return {name: sentences for name, sentences in found.items() if sentences}


def gaps_of(result: Mapping[str, Any]) -> list[str]:
    """Return sentences on what one result lacks: its own notes, and trainings that are shorter than planned."""
    numbers = result["numbers"]
    found: dict[str, list[str]] = {}
    for task in numbers.get("tasks", {}).values():
        labels: dict[int, list[str]] = {}
        for one in task["methods"].values():
            if one["steps"][-1] < 0.99 * task["full_steps"]:  # a chunk may end a few steps before
                labels.setdefault(one["steps"][-1], []).append(one["label"])
        for steps, methods in labels.items():
            who = "" if len(methods) == len(task["methods"]) else f" of {', '.join(methods)}"
            found.setdefault(f"{steps:,} of {task['full_steps']:,} steps{who}", []).append(task["title"])
    short = [f"{', '.join(titles)}: {length}" for length, titles in found.items()]
    return [*numbers.get("problems", ()), *numbers.get("missing", ()), *short]

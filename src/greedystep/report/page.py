"""The HTML page of claims and results: one file that needs no network, with every picture and chart inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from greedystep import experiments
from greedystep.experiments import PageCharts, errata, heading
from greedystep.experiments.claims import VERDICTS
from greedystep.experiments.sentence_verdicts import Evidence, rows
from greedystep.report import elements
from greedystep.report.elements import text
from greedystep.tables import Table

PAPER = "https://arxiv.org/abs/2102.11717"

OWN_SECTIONS = {"sentences": "Sentences", "errata": "Errata", "chance": "Luck"}
OWN_SECTIONS |= {"making": "How it was made", "missing": "What is missing"}
"""Sections besides those of the experiments: id and entry in the table of contents."""


class Section(NamedTuple):
    """What the page shows of one experiment."""

    result: dict[str, Any]
    pictures: dict[str, bytes]
    """SVG files by name."""
    tables: list[Table]
    charts: PageCharts | None = None
    problems: Sequence[str] = ()
    """One sentence for each figure or table that could not be made."""


def render(sections: Sequence[Section], problems: Sequence[str] = ()) -> str:
    """Return the page as HTML; `problems` are sentences on files that could not be read."""
    results = [section.result for section in sections]
    luck = (_paragraph(errata.luck_note(results)), elements.table(errata.LUCK_TABLE))
    body = [
        _summary(results, problems),
        _contents(results),
        *_claims(results),
        *map(_section, sections),
        sentences(results),
        _errata(results),
        elements.section("chance", "Luck in stochastic environments", *luck),
        _making(results),
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


def _summary(results: list[dict[str, Any]], problems: Sequence[str]) -> str:
    total = _count_verdicts((claim["verdict"] for result in results for claim in result["claims"]), "claims")
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


# -- verdicts ---------------------------------------------------------------------------------------------------------

MARKS = {"confirmed": "✓", "partly": "~", "refuted": "✗", "untested": "?"}
"""Verdict -> sign shown beside its colour, for readers who cannot tell the colours apart."""


def _count_verdicts(verdicts: Iterable[str], what: str) -> str:
    """Return the counts as text, as in "3 claims: 2 confirmed, 1 refuted."."""
    tally = Counter(verdicts)
    parts = ", ".join(f"{tally[verdict]} {verdict}" for verdict in VERDICTS if tally[verdict])
    return f"{sum(tally.values())} {what}: {parts}." if tally else f"No {what}."


def _badge(verdict: str) -> str:
    return f'<span class="verdict" data-verdict="{verdict}">{MARKS[verdict]} {verdict}</span>'


def _claims(results: list[dict[str, Any]]) -> list[str]:
    tally = Counter(claim["verdict"] for result in results for claim in result["claims"])
    buttons = [
        f'<button type="button" aria-pressed="true" data-show="{verdict}" class="verdict" data-verdict="{verdict}">'
        f"{MARKS[verdict]} {verdict} ({tally[verdict]})</button>"
        for verdict in VERDICTS
        if tally[verdict]
    ]
    cards = []
    for name, claim in ((result["name"], claim) for result in results for claim in result["claims"]):
        id = escape(claim["id"])
        reason = f" <small>Why: {text(claim['reason'])}</small>" if claim.get("reason") else ""
        cells = {
            "claim": text(claim["claim"]),
            "where": text(claim["where"]),
            "claimed": text(claim["claimed"]),
            "measured": f"{text(claim['measured'])}{reason}",
            "verdict": _badge(claim["verdict"]),
            "evidence": f'<a href="#{escape(name)}">{text(heading(name))}</a>',
        }
        cards.append((f'id="claim-{id}" data-claim="{id}" data-verdict="{claim["verdict"]}"', cells))
    return [
        f'<div class="choices control" role="group" aria-label="Show claims that are">{"".join(buttons)}</div>',
        _cards("claims", ("claim", "where", "claimed", "measured", "verdict", "evidence"), cards),
    ]


def sentences(results: list[dict[str, Any]]) -> str:
    """Return the section with a verdict for every sentence of the paper."""
    found = rows(results)
    present = {claim["id"] for result in results for claim in result["claims"]}
    cards = []
    for row in found:
        reason = f"<small>Why: {text(row.reason)}</small>" if row.reason else ""
        cells = {
            "where": text(row.where),
            "says": f"{text(row.sentence)} {reason}",
            "verdict": _badge(row.verdict),
            "evidence": f"<ul>{''.join(f'<li>{_evidence(one, present)}</li>' for one in row.evidence)}</ul>",
        }
        cards.append((f'id="sentence-{escape(row.id)}" data-verdict="{row.verdict}"', cells))
    table = _cards("sentence-rows", ("where", "says", "verdict", "evidence"), cards)
    return elements.section(
        "sentences",
        "The paper, sentence by sentence",
        "<p>Every sentence of the paper that can be checked, in our words, with its evidence: claims of the table "
        "above, and recorded outcomes of this project's tests. A sentence is confirmed if all evidence is.</p>",
        elements.folded(_count_verdicts((row.verdict for row in found), "sentences"), table),
    )


def _evidence(one: Evidence, present: set[str]) -> str:
    if one.claim is None:
        return f"{MARKS[one.verdict]} {text(one.measured)} <small><code>{text(one.link)}</code></small>"
    if one.claim in present:
        return f'{MARKS[one.verdict]} <a href="#claim-{escape(one.claim)}">{text(one.claim)}</a>'
    return f"{MARKS[one.verdict]} {text(one.claim)} <small>{text(one.measured)}</small>"


def _cards(id: str, columns: Sequence[str], cards: list[tuple[str, dict[str, str]]]) -> str:
    """Return an HTML table of (attributes, {column: cell}) rows; narrow screens show each row as a labelled card."""
    names = {key: "The paper says" if key in ("claim", "says") else key.capitalize() for key in columns}
    head = "".join(f'<th class="{key}">{name}</th>' for key, name in names.items())
    lines = [f'<table id="{id}" class="cards"><thead><tr>{head}</tr></thead>', "<tbody>"]
    for attributes, cells in cards:
        inner = [f'<td class="{key}" data-label="{names[key]}">{cell}</td>' for key, cell in cells.items()]
        lines.append(f"<tr {attributes}>{''.join(inner)}</tr>")
    return "\n".join([*lines, "</tbody>", "</table>"])


# -- the experiments --------------------------------------------------------------------------------------------------


def _section(section: Section) -> str:
    result = section.result
    claims = [
        f'<li>{_badge(claim["verdict"])}<a href="#claim-{escape(claim["id"])}">{text(claim["claim"])}</a></li>'
        for claim in result["claims"]
    ]
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
        f'<ul class="judged">{"".join(claims)}</ul>' if claims else "",
        f'<div class="missing">{elements.bullets(section.problems)}</div>' if section.problems else "",
        *drawn,
        *map(elements.table, section.tables),
        elements.folded("Settings", elements.pairs(result["settings"])),
        elements.folded("Provenance", *elements.provenance(result["provenance"])),
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
    found = {"Could not be read": problems}
    found |= {f"{heading(one.result['name'])}: could not be drawn": one.problems for one in sections}
    found |= gaps([section.result for section in sections])
    parts = [f"<h3>{text(name)}</h3>{elements.bullets(lacks)}" for name, lacks in found.items() if lacks]
    nothing = "<p>Nothing: every experiment was run in full.</p>"
    return elements.section("missing", "What is missing, or shorter than requested", *(parts or [nothing]))


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

"""The page of claims and results: one file, no network, every picture and curve inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from greedystep import experiments
from greedystep.report import elements, gaps, verdicts
from greedystep.report.elements import heading, text
from greedystep.report.errata import ERRATA, TESTS, counts
from greedystep.tables import Table

PAPER = "https://arxiv.org/abs/2102.11717"

LUCK = Table(
    "luck",
    "Slippery FrozenLake from 5000 random episodes; the true value of the start is 0.542 "
    "(python examples/tabular_from_logs.py)",
    ["form of Greedy-Step", "believes", "reaches the goal, of 1000 episodes"],
    [
        ["average over what was seen, then the maximum (expected)", 0.534, "73 %"],
        ["best return ever seen (running)", 0.951, "9 %"],
    ],
)


@dataclass(frozen=True)
class Live:
    """What the page's script draws (`report.curves`)."""

    figure: dict[str, Any]
    about: str = "Lines are means over seeds, shades or bars their 95 % bootstrap intervals."
    instead_of: Sequence[str] | None = None
    """Names of pictures that show the same; None: all of the section's."""


@dataclass(frozen=True)
class Section:
    """An experiment's part of the page."""

    result: dict[str, Any]
    pictures: dict[str, bytes]
    """SVG files by name."""
    tables: list[Table]
    live: Live | None = None
    problems: list[str] = field(default_factory=list)
    """What could not be drawn."""


def render(sections: Sequence[Section], problems: Sequence[str] = ()) -> str:
    """The page, as HTML; `problems` are sentences on files that could not be used."""
    results = [section.result for section in sections]
    body = [
        _summary(results, problems),
        _contents(results),
        *verdicts.claims(results),
        *map(_section, sections),
        verdicts.sentences(results),
        _errata(results),
        _caveat(results),
        _making(results),
        _missing(sections, problems),
    ]
    return elements.whole("claims and measurements", "Greedy-Step: what the paper claims, and what we measured", body)


def check(result: dict[str, Any]) -> None:
    """Raises what would go wrong outside the experiment's own section, if its numbers are not those it makes."""
    gaps.of_result(result)
    for part in (_errata, _caveat, _making):
        part([result])


# -- the top ----------------------------------------------------------------------------------------------------------


def _summary(results: list[dict[str, Any]], problems: Sequence[str]) -> str:
    total = verdicts.summary((claim["verdict"] for result in results for claim in result["claims"]), "claims")
    whole = f"{len(results)} of {len(experiments.NAMES)} experiments are on this page"
    scales = ", ".join(sorted({str(result["settings"].get("scale")) for result in results}))
    unread = f", {len(problems)} could not be read" if problems else ""
    return (
        f'<p>Wang, Wu, He and Tan, <cite>Greedy-Step Off-Policy Reinforcement Learning</cite>, <a href="{PAPER}">arXiv '
        f"2102.11717</a> (2021). <strong>{text(total)}</strong> Each verdict follows from a rule that stands "
        f"beside its experiment, in the code. {whole} (scale: {text(scales)}){unread}; "
        f'<a href="#missing">what is missing or shorter than asked</a> is listed at the end.</p>'
    )


OWN_SECTIONS = {
    "sentences": "Sentences",
    "errata": "Errata",
    "chance": "The trap: chance",
    "making": "How it was made",
    "missing": "What is missing",
}
"""By their ids, beside those of the experiments, which are their names."""


def _contents(results: list[dict[str, Any]]) -> str:
    links = {result["name"]: heading(result["name"]) for result in results} | OWN_SECTIONS
    return " ".join(["<nav>", *(f'<a href="#{escape(to)}">{text(name)}</a>' for to, name in links.items()), "</nav>"])


# -- the experiments --------------------------------------------------------------------------------------------------


def _section(section: Section) -> str:
    result = section.result
    pictures = {name: elements.picture(name, svg, result["title"]) for name, svg in section.pictures.items()}
    drawn = list(pictures.values())
    if (live := section.live) is not None:
        same = [one for name, one in pictures.items() if live.instead_of is None or name in live.instead_of]
        curves = elements.curves(result["name"], live.figure, same)
        drawn = [f"<p>{text(live.about)}</p>", curves, *(one for one in drawn if one not in same)]
    return elements.section(
        result["name"],
        result["title"],
        verdicts.judged(result["claims"]),
        f'<div class="missing">{elements.bullets(section.problems)}</div>' if section.problems else "",
        *drawn,
        *map(elements.table, section.tables),
        elements.folded("Settings", elements.pairs(result["settings"])),
        elements.folded("Where it comes from", *elements.origin(result["provenance"])),
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
    return elements.section(
        "making",
        "How it was made",
        elements.table(Table("making", "Commands and machines; versions stand with each experiment", header, rows)),
    )


# -- what a reader should know ----------------------------------------------------------------------------------------


def _errata(results: list[dict[str, Any]]) -> str:
    items = []
    for one in ERRATA:
        counted = f"On random models: {counts(one, results)}. " if counts(one, results) else ""
        items.append(
            f"<li><strong>{text(one.where)}.</strong> {text(one.printed)}<br><em>But:</em> {text(one.example)}<br>"
            f"<em>Right:</em> {text(one.instead)}<br><small>{text(counted)}<code>{text(one.test)}</code></small></li>"
        )
    return elements.section(
        "errata",
        "Errata of the paper",
        "<p>What its text says and cannot mean, with the smallest example of each. The numbers are computed by the "
        f"tests named beside them, in <code>{TESTS}</code>.</p>",
        f'<ol class="errata">{"".join(items)}</ol>',
    )


def _caveat(results: list[dict[str, Any]]) -> str:
    too_high = [
        case.get("above_optimum", 0.0)
        for result in results
        if result["name"] == "table1"
        for case in result["numbers"].get("properties", {}).get("sampled Greedy-Step", {}).get("cases", ())
        if not case["deterministic"]
    ]
    measured = f" In Table 1 they exceed Q* by up to {max(too_high):.3g}." if too_high else ""
    return elements.section(
        "chance",
        "The trap: chance",
        "<p>The sampled operator, the one that every learning agent of the paper uses, keeps the best return that was "
        "ever seen. Where the same action can do two different things, that return was luck, and the agent takes it "
        f"for skill: its values converge to something above Q*.{measured} More data makes it worse, since more luck is "
        "seen: of a step that is worth 1 or 0 by a coin, it believes 1 with probability 1 - 1/2^D after D episodes. "
        "The theorem behind it is for deterministic worlds only; an average over what was seen, with the maximum "
        "inside, is right everywhere.</p>",
        elements.table(LUCK),
    )


def _missing(sections: Sequence[Section], problems: Sequence[str]) -> str:
    found = {"Could not be read": list(problems)} if problems else {}
    for section in sections:
        if section.problems:
            found[f"{heading(section.result['name'])}: could not be drawn"] = section.problems
    found |= gaps.of_results([section.result for section in sections])
    parts = [f"<h3>{text(name)}</h3>{elements.bullets(sentences)}" for name, sentences in found.items()]
    nothing = "<p>Nothing: every experiment was run in full.</p>"
    return elements.section("missing", "What is missing, or shorter than asked", *(parts or [nothing]))

"""HTML tables of verdicts: all claims of the results, and the paper sentence by sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import Any

from greedystep.experiments import heading
from greedystep.experiments.claims import VERDICTS
from greedystep.experiments.sentence_verdicts import Evidence, rows
from greedystep.report import elements
from greedystep.report.elements import text

MARKS = {"confirmed": "✓", "partly": "~", "refuted": "✗", "untested": "?"}
"""Signs beside the colours, for readers who cannot tell these apart."""

CLAIMS = {
    "claim": "The paper says",
    "where": "Where",
    "claimed": "Claimed",
    "measured": "Measured",
    "verdict": "Verdict",
    "evidence": "Evidence",
}
SENTENCES = {"where": "Where", "says": "The paper says", "verdict": "Verdict", "evidence": "Evidence"}
"""CSS classes and headings of the columns."""


def summary(verdicts: Iterable[str], what: str) -> str:
    """Count verdicts, as in "3 claims: 2 confirmed, 1 refuted."."""
    tally = Counter(verdicts)
    parts = ", ".join(f"{tally[verdict]} {verdict}" for verdict in VERDICTS if tally[verdict])
    return f"{sum(tally.values())} {what}: {parts}." if tally else f"No {what}."


def badge(verdict: str) -> str:
    """Return a verdict with its sign and colour."""
    return f'<span class="verdict" data-verdict="{verdict}">{MARKS[verdict]} {verdict}</span>'


def claims(results: list[dict[str, Any]]) -> list[str]:
    """Return buttons that filter by verdict, and the table of all claims, one row per claim."""
    tally = Counter(claim["verdict"] for result in results for claim in result["claims"])
    buttons = [
        f'<button type="button" aria-pressed="true" data-show="{verdict}" class="verdict" data-verdict="{verdict}">'
        f"{MARKS[verdict]} {verdict} ({tally[verdict]})</button>"
        for verdict in VERDICTS
        if tally[verdict]
    ]
    made = [_claim(result["name"], claim) for result in results for claim in result["claims"]]
    return [
        f'<div class="choices control" role="group" aria-label="Show claims that are">{"".join(buttons)}</div>',
        _table("claims", CLAIMS, made),
    ]


def short_list(claims: list[dict[str, Any]]) -> str:
    """Return a list of claims with their verdicts, linked to their rows."""
    items = [
        f'<li>{badge(claim["verdict"])}<a href="#claim-{escape(claim["id"])}">{text(claim["claim"])}</a></li>'
        for claim in claims
    ]
    return f'<ul class="judged">{"".join(items)}</ul>' if items else ""


def sentences(results: list[dict[str, Any]]) -> str:
    """Return the section with a verdict for every sentence of the paper."""
    found = rows(results)
    present = {claim["id"] for result in results for claim in result["claims"]}
    made = []
    for row in found:
        reason = f"<small>Why: {text(row.reason)}</small>" if row.reason else ""
        items = "".join(f"<li>{_evidence(one, present)}</li>" for one in row.evidence)
        cells = {
            "where": text(row.where),
            "says": f"{text(row.sentence)} {reason}",
            "verdict": badge(row.verdict),
            "evidence": f"<ul>{items}</ul>",
        }
        made.append(f'<tr id="sentence-{escape(row.id)}" data-verdict="{row.verdict}">{_cells(SENTENCES, cells)}</tr>')
    return elements.section(
        "sentences",
        "The paper, sentence by sentence",
        "<p>Every sentence of the paper that can be checked, in our words, with its evidence: claims of the table "
        "above, and recorded outcomes of this project's tests. A sentence is confirmed if all evidence is.</p>",
        elements.folded(summary((row.verdict for row in found), "sentences"), _table("sentence-rows", SENTENCES, made)),
    )


def _evidence(one: Evidence, present: set[str]) -> str:
    if one.claim is None:
        return f"{MARKS[one.verdict]} {text(one.measured)} <small><code>{text(one.link)}</code></small>"
    if one.claim in present:
        return f'{MARKS[one.verdict]} <a href="#claim-{escape(one.claim)}">{text(one.claim)}</a>'
    return f"{MARKS[one.verdict]} {text(one.claim)} <small>{text(one.measured)}</small>"


def _claim(name: str, claim: dict[str, Any]) -> str:
    reason = f" <small>Why: {text(claim['reason'])}</small>" if claim.get("reason") else ""
    cells = {
        "claim": text(claim["claim"]),
        "where": text(claim["where"]),
        "claimed": text(claim["claimed"]),
        "measured": f"{text(claim['measured'])}{reason}",
        "verdict": badge(claim["verdict"]),
        "evidence": f'<a href="#{escape(name)}">{text(heading(name))}</a>',
    }
    id = escape(claim["id"])
    return f'<tr id="claim-{id}" data-claim="{id}" data-verdict="{claim["verdict"]}">{_cells(CLAIMS, cells)}</tr>'


def _cells(columns: dict[str, str], cells: dict[str, str]) -> str:
    """Return the cells of a row, labelled for narrow screens, where a row is shown as a card."""
    return "".join(f'<td class="{key}" data-label="{columns[key]}">{inner}</td>' for key, inner in cells.items())


def _table(id: str, columns: dict[str, str], made: list[str]) -> str:
    head = "".join(f'<th class="{key}">{name}</th>' for key, name in columns.items())
    return "\n".join(
        [f'<table id="{id}" class="cards"><thead><tr>{head}</tr></thead>', "<tbody>", *made, "</tbody>", "</table>"]
    )

"""Verdicts on the page: badges, counts, buttons, and the tables of claims and of the paper's sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from greedystep import experiments
from greedystep.experiments import heading
from greedystep.experiments.claims import VERDICTS, check
from greedystep.experiments.sentence_verdicts import Evidence, rows
from greedystep.report import elements
from greedystep.report.elements import text

MARKS = {"confirmed": "✓", "partly": "~", "undecided": "±", "refuted": "✗", "untested": "?"}
"""Verdict -> sign shown beside its colour, for readers who cannot tell the colours apart."""

Results = Sequence[Mapping[str, Any]]
Checks = Mapping[str, Mapping[str, Any]]
"""Claim's id -> the same claim as judged by a quick run."""


def badge(verdict: str) -> str:
    """Return a verdict with its sign and colour."""
    return f'<span class="verdict" data-verdict="{verdict}">{MARKS[verdict]} {verdict}</span>'


def count_verdicts(verdicts: Iterable[str], what: str) -> str:
    """Return the counts as text, as in "3 claims: 2 confirmed, 1 refuted."."""
    tally = Counter(verdicts)
    parts = ", ".join(f"{tally[verdict]} {verdict}" for verdict in VERDICTS if tally[verdict])
    return f"{sum(tally.values())} {what}: {parts}." if tally else f"No {what}."


def all_claims(results: Results) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (experiment, claim) of all results."""
    return [(result["name"], claim) for result in results for claim in result["claims"]]


def buttons(results: Results) -> str:
    """Return buttons that select the claims with one verdict in the table of claims."""
    tally = Counter(claim["verdict"] for _, claim in all_claims(results))
    made = [f'<button type="button" aria-pressed="true" data-show="">all ({sum(tally.values())})</button>']
    made += [
        f'<button type="button" aria-pressed="false" data-show="{verdict}" class="verdict" data-verdict="{verdict}">'
        f"{MARKS[verdict]} {verdict} ({tally[verdict]})</button>"
        for verdict in VERDICTS
        if tally[verdict]
    ]
    return f'<div class="choices control" role="group" aria-label="Show claims">Show claims: {"".join(made)}</div>'


def claims_table(results: Results, checks: Checks) -> str:
    """Return the table of all claims, one row each."""
    known = {claim["id"] for _, claim in all_claims(results)}
    cards = []
    for name, claim in all_claims(results):
        id = escape(claim["id"])
        reason = f" <small>Why: {linked(claim['reason'], known)}</small>" if claim.get("reason") else ""
        cells = {
            "claim": text(claim["claim"]),
            "where": text(claim["where"]),
            "claimed": text(claim["claimed"]),
            "measured": f"{text(claim['measured'])}{reason}{_check(claim, checks)}{_rule(claim)}",
            "verdict": badge(claim["verdict"]),
            "evidence": f'<a href="#{escape(name)}">{text(heading(name))}</a>',
        }
        cards.append((f'id="claim-{id}" data-claim="{id}" data-verdict="{claim["verdict"]}"', cells))
    return table("claims", ("claim", "where", "claimed", "measured", "verdict", "evidence"), cards)


def _rule(claim: Mapping[str, Any]) -> str:
    """Return the rule of the verdict, folded under a word on whether it is older than the runs."""
    rule = claim.get("rule")
    if not rule:
        return ""
    late = " (changed or written after the runs)" if is_late(rule) else ""
    return elements.folded(f"Rule{late}", text(rule))


def is_late(rule: str) -> bool:
    """Return whether a rule says of itself that it was changed or written after the runs that it judges."""
    return re.search(r"(was|were) (changed|written|made again),? after", rule) is not None


def _check(claim: Mapping[str, Any], checks: Checks) -> str:
    quick = checks.get(claim["id"])
    if quick is None:
        return ""
    found = check(claim["verdict"], quick["verdict"])
    return (
        f'<small data-check="{found}">Quick run: {found}{" with the full run" if found != "not checked" else ""} '
        f"({text(quick['verdict'])}: {text(quick['measured'])})</small>"
    )


def linked(reason: str, claims: Iterable[str]) -> str:
    """Return a reason as HTML in which ids of claims and names of experiments are links to them."""
    known = {id: f"claim-{id}" for id in claims} | {name: name for name in experiments.NAMES}
    names = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))

    def link(match: re.Match[str]) -> str:
        shown = heading(match[0]) if match[0] in experiments.NAMES else match[0]
        return f'<a href="#{escape(known[match[0]])}">{text(shown)}</a>'

    return breakable(re.sub(rf"(?<=[(, ])(?:{names})(?=[),;])", link, text(reason)))


def breakable(html: str) -> str:
    """Let the names of tests be broken between their words, and nowhere else."""
    return re.sub(r"tests?[/_][\w./:]+", lambda match: match[0].replace("_", "_<wbr>").replace("::", "::<wbr>"), html)


def sentences(results: Results) -> str:
    """Return the part of the page with a verdict for every sentence of the paper."""
    found = rows(results)
    present = {claim["id"] for _, claim in all_claims(results)}
    cards = []
    for row in found:
        cells = {
            "where": text(row.where),
            "says": text(row.sentence),
            "verdict": badge(row.verdict),
            "evidence": f"<ul>{''.join(f'<li>{_evidence(one, present)}</li>' for one in row.evidence)}</ul>",
        }
        cards.append((f'id="sentence-{escape(row.id)}" data-verdict="{row.verdict}"', cells))
    return elements.part(
        "sentences",
        f"The paper, sentence by sentence ({len(found)})",
        "<p>Every sentence of the paper that can be checked, in our words, with its evidence: claims of the table "
        "above, which say why it fails, and recorded outcomes of this project's tests. A sentence is confirmed if all "
        "evidence is. "
        f"{text(count_verdicts((row.verdict for row in found), 'sentences'))}</p>",
        table("sentence-rows", ("where", "says", "verdict", "evidence"), cards),
    )


def _evidence(one: Evidence, present: set[str]) -> str:
    if one.claim is None:
        return f"{MARKS[one.verdict]} {text(one.measured)} <small><code>{breakable(text(one.link))}</code></small>"
    if one.claim in present:
        return f'{MARKS[one.verdict]} <a href="#claim-{escape(one.claim)}">{text(one.claim)}</a>'
    return f"{MARKS[one.verdict]} {text(one.claim)} <small>{text(one.measured)}</small>"


def table(id: str, columns: Sequence[str], cards: list[tuple[str, dict[str, str]]]) -> str:
    """Return an HTML table of (attributes, {column: cell}) rows; narrow screens show each row as a labelled card."""
    names = {key: "The paper says" if key in ("claim", "says") else key.capitalize() for key in columns}
    head = "".join(f'<th class="{key}">{name}</th>' for key, name in names.items())
    lines = [f'<table id="{id}" class="cards"><thead><tr>{head}</tr></thead>', "<tbody>"]
    for attributes, cells in cards:
        inner = [f'<td class="{key}" data-label="{names[key]}">{cell}</td>' for key, cell in cells.items()]
        lines.append(f"<tr {attributes}>{''.join(inner)}</tr>")
    return "\n".join([*lines, "</tbody>", "</table>"])

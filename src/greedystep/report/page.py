"""One self-contained page of results: no scripts, no network, every picture inside."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from greedystep.experiments.claims import VERDICTS, Table
from greedystep.report.tables import cell, numeric_columns

CLAIM_COLUMNS = {"claim": "The paper says", "claimed": "Claimed", "measured": "Measured"}
VERDICT_MARKS = {"confirmed": "✓", "partly": "~", "refuted": "✗", "untested": "?"}
"""Beside the colour, so that nobody depends on it."""


@dataclass(frozen=True)
class Section:
    """An experiment's part of the page."""

    result: dict[str, Any]
    pictures: dict[str, bytes]
    """SVG files by name."""
    tables: list[Table]


def render(sections: list[Section]) -> str:
    """The page of claims and results, as HTML."""
    claims = [_claim(section.result, claim) for section in sections for claim in section.result["claims"]]
    body = [
        "<h1>What the paper claims, and what we measured</h1>",
        "<p>Wang, Wu, He and Tan, <cite>Greedy-Step Off-Policy Reinforcement Learning</cite>, arXiv 2102.11717 (2021)."
        "</p>",
        f"<p>{_summary(sections)}</p>",
        '<table id="claims">',
        "<thead><tr><th>The paper says</th><th>Claimed</th><th>Measured</th><th>Verdict</th></tr></thead>",
        "<tbody>",
        *claims,
        "</tbody>",
        "</table>",
        *map(_section, sections),
    ]
    return whole("claims and measurements", body)


def whole(title: str, body: list[str]) -> str:
    """Parts of a page, in the style of all our pages."""
    template = Template(files("greedystep.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=text(title), body="\n".join(body))


def _summary(sections: list[Section]) -> str:
    counts = Counter(claim["verdict"] for section in sections for claim in section.result["claims"])
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    return f"{sum(counts.values())} claims: {parts}." if counts else "No claims."


def _claim(result: dict[str, Any], claim: dict[str, Any]) -> str:
    name, verdict = escape(result["name"]), claim["verdict"]
    first = f'{text(claim["claim"])} <small>{text(claim["where"])} · <a href="#{name}">{name}</a></small>'
    cells = {"claim": first, "claimed": text(claim["claimed"]), "measured": text(claim["measured"])}
    columns = "".join(f'<td data-label="{CLAIM_COLUMNS[key]}">{inner}</td>' for key, inner in cells.items())
    badge = f'<span class="verdict">{VERDICT_MARKS[verdict]} {verdict}</span>'
    return (
        f'<tr data-claim="{escape(claim["id"])}" data-verdict="{verdict}">{columns}'
        f'<td data-label="Verdict">{badge}</td></tr>'
    )


def _section(section: Section) -> str:
    result = section.result
    parts = [
        f'<section id="{escape(result["name"])}">',
        f"<h2>{text(result['title'])}</h2>",
        *(picture(name, svg, result["title"]) for name, svg in section.pictures.items()),
        *map(table, section.tables),
        "<h3>Settings</h3>",
        pairs(result["settings"]),
        *origin(result["provenance"]),
        "</section>",
    ]
    return "\n".join(parts)


def origin(provenance: dict[str, Any]) -> list[str]:
    """Where a result comes from: the command, and what it was made with."""
    made_with = {key: value for key, value in provenance.items() if key != "command"}
    return ["<h3>Where it comes from</h3>", f"<pre>{text(provenance['command'])}</pre>", pairs(made_with)]


def picture(name: str, svg: bytes, title: str) -> str:
    """An image of its own rather than inline SVG: the ids inside two drawings cannot clash."""
    source = base64.b64encode(svg).decode()
    return (
        f'<figure><img alt="{text(f"{title} ({name})")}" src="data:image/svg+xml;base64,{source}">'
        f"<figcaption><code>{text(name)}</code></figcaption></figure>"
    )


def table(table: Table) -> str:
    """Numbers flush right; a wide one scrolls by itself."""
    sides = [' class="number"' if numeric else "" for numeric in numeric_columns(table)]

    def row(tag: str, cells: list[Any]) -> str:
        inner = "".join(f"<{tag}{side}>{text(value)}</{tag}>" for side, value in zip(sides, cells, strict=True))
        return f"<tr>{inner}</tr>"

    body = "".join(row("td", values) for values in table.rows)
    return (
        f'<div class="wide"><table><caption>{text(table.title)}</caption>'
        f"<thead>{row('th', table.header)}</thead><tbody>{body}</tbody></table></div>"
    )


def pairs(mapping: dict[str, Any]) -> str:
    """Names and values in two columns."""
    items = "".join(f"<dt>{text(key)}</dt><dd>{text(value)}</dd>" for key, value in mapping.items())
    return f"<dl>{items}</dl>"


def text(value: Any) -> str:
    """As in a table's cell, safe within HTML."""
    return escape(cell(value))

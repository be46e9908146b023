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
    """The page, as HTML."""
    template = Template(files("greedystep.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        summary=_summary(sections),
        claims="\n".join(_claim(section.result, claim) for section in sections for claim in section.result["claims"]),
        sections="\n".join(map(_section, sections)),
    )


def _summary(sections: list[Section]) -> str:
    counts = Counter(claim["verdict"] for section in sections for claim in section.result["claims"])
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    return f"{sum(counts.values())} claims: {parts}." if counts else "No claims."


def _claim(result: dict[str, Any], claim: dict[str, Any]) -> str:
    name, verdict = escape(result["name"]), claim["verdict"]
    first = f'{_text(claim["claim"])} <small>{_text(claim["where"])} · <a href="#{name}">{name}</a></small>'
    cells = {"claim": first, "claimed": _text(claim["claimed"]), "measured": _text(claim["measured"])}
    columns = "".join(f'<td data-label="{CLAIM_COLUMNS[key]}">{inner}</td>' for key, inner in cells.items())
    badge = f'<span class="verdict">{VERDICT_MARKS[verdict]} {verdict}</span>'
    return (
        f'<tr data-claim="{escape(claim["id"])}" data-verdict="{verdict}">{columns}'
        f'<td data-label="Verdict">{badge}</td></tr>'
    )


def _section(section: Section) -> str:
    result = section.result
    provenance = dict(result["provenance"])
    command = provenance.pop("command")
    parts = [
        f'<section id="{escape(result["name"])}">',
        f"<h2>{_text(result['title'])}</h2>",
        *(_picture(name, svg, result["title"]) for name, svg in section.pictures.items()),
        *map(_table, section.tables),
        "<h3>Settings</h3>",
        _pairs(result["settings"]),
        "<h3>Where it comes from</h3>",
        f"<pre>{_text(command)}</pre>",
        _pairs(provenance),
        "</section>",
    ]
    return "\n".join(parts)


def _picture(name: str, svg: bytes, title: str) -> str:
    """An image of its own rather than inline SVG: the ids inside two drawings cannot clash."""
    source = base64.b64encode(svg).decode()
    return (
        f'<figure><img alt="{_text(f"{title} ({name})")}" src="data:image/svg+xml;base64,{source}">'
        f"<figcaption><code>{_text(name)}</code></figcaption></figure>"
    )


def _table(table: Table) -> str:
    sides = [' class="number"' if numeric else "" for numeric in numeric_columns(table)]

    def row(tag: str, cells: list[Any]) -> str:
        inner = "".join(f"<{tag}{side}>{_text(value)}</{tag}>" for side, value in zip(sides, cells, strict=True))
        return f"<tr>{inner}</tr>"

    body = "".join(row("td", values) for values in table.rows)
    return (
        f'<div class="wide"><table><caption>{_text(table.title)}</caption>'
        f"<thead>{row('th', table.header)}</thead><tbody>{body}</tbody></table></div>"
    )


def _pairs(mapping: dict[str, Any]) -> str:
    items = "".join(f"<dt>{_text(key)}</dt><dd>{_text(value)}</dd>" for key, value in mapping.items())
    return f"<dl>{items}</dl>"


def _text(value: Any) -> str:
    return escape(cell(value))

"""HTML building blocks of the pages: escaped text, tables, lists, pictures, charts, and the document around them."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any
from urllib.parse import quote

from greedystep.charts import Chart
from greedystep.io import to_json
from greedystep.report.chart_data import chart_data
from greedystep.tables import Table, cell, numeric_columns

SCRIPTS = ("page.js", "charts.js")
LONG = 24
"""Tables with more rows and lists with more entries are folded."""

MANY = 8
"""Tables with more columns are printed in a small font."""


def whole(title: str, top: str, body: list[str]) -> str:
    """Return a page with this body. Its security policy lists the hashes of our scripts, so that no other can run."""
    scripts = [_own(name) for name in SCRIPTS]
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return Template(_own("page.html")).substitute(
        title=text(title),
        top=text(top),
        body="\n".join(body),
        style=_own("page.css"),
        hashes=hashes,
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _own(name: str) -> str:
    return files("greedystep.report").joinpath(name).read_text(encoding="utf-8")


def text(value: Any) -> str:
    """Format a value as in a table's cell, escaped for HTML."""
    return escape(cell(value))


def section(id: str, title: str, *parts: str, above: str = "") -> str:
    """Return a section with a heading that can be linked to."""
    small = f"<small>{text(above)}</small> " if above else ""
    return "\n".join([f'<section id="{escape(id)}">', f"<h2>{small}{text(title)}</h2>", *parts, "</section>"])


def folded(summary: str, *parts: str) -> str:
    """Return folded content; it is open without scripts and in print."""
    return "\n".join([f"<details open><summary>{text(summary)}</summary>", *parts, "</details>"])


def picture(name: str, svg: bytes, title: str) -> str:
    """Return an SVG file as an image; unlike inline SVG, ids of two drawings cannot clash."""
    source = quote(shorter(svg).replace(b"\n", b" "), safe=" ,;:=/.()-!?@*+_~[]")  # shorter than base64
    return (
        f'<figure><img alt="{text(f"{title} ({name})")}" src="data:image/svg+xml,{source}">'
        f"<figcaption><code>{text(name)}</code></figcaption></figure>"
    )


def shorter(svg: bytes) -> bytes:
    """Shorten matplotlib's paths to a third: one decimal of a point instead of six, and no letter per line segment.

    The shapes of letters, which have curves, stay as they are.
    """

    def straight(path: re.Match[bytes]) -> bytes:
        return re.sub(rb"(\.\d)\d+|\n|L ", rb"\1", path[0])  # points after the first are lines by default

    return re.sub(rb' d="[^"CQHVAST]*"', straight, svg)


def table(table: Table) -> str:
    """Return a table with numbers flush right; a wide one scrolls in its own box, a long one is folded."""
    sides = [' class="number"' if numeric else "" for numeric in numeric_columns(table)]

    def row(tag: str, cells: list[Any]) -> str:
        inner = "".join(f"<{tag}{side}>{text(value)}</{tag}>" for side, value in zip(sides, cells, strict=True))
        return f"<tr>{inner}</tr>"

    body = "".join(row("td", values) for values in table.rows)
    many = " many" if len(table.header) > MANY else ""
    is_long = len(table.rows) > LONG
    made = (
        f'<div class="wide{many}" tabindex="0" role="region" aria-label="{text(table.title)}"><table>'
        f"{'' if is_long else f'<caption>{text(table.title)}</caption>'}"
        f"<thead>{row('th', table.header)}</thead><tbody>{body}</tbody></table></div>"
    )
    return folded(f"{table.title} ({len(table.rows)} rows)", made) if is_long else made


def pairs(mapping: dict[str, Any]) -> str:
    """Return names and values in two columns; a mapping of mappings becomes a nested list."""
    items = "".join(f"<dt>{text(key)}</dt><dd>{_value(value)}</dd>" for key, value in mapping.items())
    return f"<dl>{items}</dl>"


def _value(value: Any) -> str:
    has_levels = isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values())
    return pairs(value) if has_levels else text(value)


def bullets(sentences: list[str]) -> str:
    """Return a list of sentences; a long one is folded."""
    made = f"<ul>{''.join(f'<li>{text(sentence)}</li>' for sentence in sentences)}</ul>"
    return folded(f"{len(sentences)} entries", made) if len(sentences) > LONG else made


def origin(provenance: dict[str, Any]) -> list[str]:
    """Return the provenance of a result: its command, then versions and machine."""
    made_with = {key: value for key, value in provenance.items() if key != "command"}
    return [f"<pre>{text(provenance['command'])}</pre>", pairs(made_with)]


def charts(name: str, charts: Sequence[Chart], pictures: list[str]) -> str:
    """Return charts that the page's script draws, and pictures of the same for print and for pages without scripts."""
    data = to_json(chart_data(charts)).replace("<", r"\u003c")  # nothing within can end the element
    return "\n".join(
        [
            f'<div class="charts" id="{escape(name)}-charts">',
            f'<script type="application/json">{data}</script>',
            "<p><small>Point at a panel to read its numbers, or use the arrow keys in it. The buttons select the lines "
            "and quantities shown in all panels.</small></p>",
            "</div>",
            '<div class="static">',
            *pictures,
            "</div>",
        ]
    )

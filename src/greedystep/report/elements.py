"""The pieces that our pages are made of, as HTML: text, tables, lists, pictures, and the frame around them all."""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from importlib.resources import files
from string import Template
from typing import Any
from urllib.parse import quote

from greedystep.io import to_json
from greedystep.tables import Table, cell, numeric_columns

SCRIPTS = ("page.js", "curves.js")
LONG = 24
"""A table of more rows, or a list of more entries, is folded up until a reader asks for it."""

MANY = 8
"""A table of more columns is set small on paper."""


def whole(title: str, top: str, body: list[str]) -> str:
    """A page of some parts under a heading. No script but our own can run in it: the page names the hashes of ours."""
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
    """As in a table's cell, safe within HTML."""
    return escape(cell(value))


def heading(name: str) -> str:
    """An experiment as the paper calls it: fig3 is Figure 3."""
    known = re.fullmatch(r"(table|fig)(\d+)", name)
    return f"{'Table' if known[1] == 'table' else 'Figure'} {known[2]}" if known else name.capitalize()


def section(id: str, title: str, *parts: str, above: str = "") -> str:
    """A part of a page that can be linked to."""
    small = f"<small>{text(above)}</small> " if above else ""
    return "\n".join([f'<section id="{escape(id)}">', f"<h2>{small}{text(title)}</h2>", *parts, "</section>"])


def folded(summary: str, *parts: str) -> str:
    """What few readers want to see. It is open without scripts and on paper."""
    return "\n".join([f"<details open><summary>{text(summary)}</summary>", *parts, "</details>"])


def picture(name: str, svg: bytes, title: str) -> str:
    """An image of its own rather than inline SVG: the ids inside two drawings cannot clash."""
    source = quote(shorter(svg).replace(b"\n", b" "), safe=" ,;:=/.()-!?@*+_~[]")  # shorter than base64
    return (
        f'<figure><img alt="{text(f"{title} ({name})")}" src="data:image/svg+xml,{source}">'
        f"<figcaption><code>{text(name)}</code></figcaption></figure>"
    )


def shorter(svg: bytes) -> bytes:
    """Matplotlib's paths with one decimal of a point instead of six, and no letter for every line: a third of the
    bytes, and no eye sees it. The shapes of letters, which have curves, stay as they are."""

    def straight(path: re.Match[bytes]) -> bytes:
        return re.sub(rb"(\.\d)\d+|\n|L ", rb"\1", path[0])  # what follows a first point are lines, said or not

    return re.sub(rb' d="[^"CQHVAST]*"', straight, svg)


def table(table: Table) -> str:
    """Numbers flush right; a wide one scrolls by itself, a long one is folded up."""
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
    """Names and values in two columns; a mapping of mappings is such a list again."""
    items = "".join(f"<dt>{text(key)}</dt><dd>{_value(value)}</dd>" for key, value in mapping.items())
    return f"<dl>{items}</dl>"


def _value(value: Any) -> str:
    has_levels = isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values())
    return pairs(value) if has_levels else text(value)


def bullets(sentences: list[str]) -> str:
    """A list of sentences; a long one is folded up."""
    made = f"<ul>{''.join(f'<li>{text(sentence)}</li>' for sentence in sentences)}</ul>"
    return folded(f"{len(sentences)} entries", made) if len(sentences) > LONG else made


def origin(provenance: dict[str, Any]) -> list[str]:
    """Where a result comes from: the command, and what it was made with."""
    made_with = {key: value for key, value in provenance.items() if key != "command"}
    return [f"<pre>{text(provenance['command'])}</pre>", pairs(made_with)]


def curves(name: str, figure: dict[str, Any], pictures: list[str]) -> str:
    """Curves that the page's script draws, and the same as pictures, for paper and for a reader without scripts."""
    data = to_json(figure).replace("<", r"\u003c")  # nothing within can end the element
    return "\n".join(
        [
            f'<div class="curves" id="{escape(name)}-curves">',
            f'<script type="application/json">{data}</script>',
            "<p><small>Point at a panel to read its numbers, or use the arrow keys in it; the buttons choose what is "
            "shown in all panels.</small></p>",
            "</div>",
            '<div class="static">',
            *pictures,
            "</div>",
        ]
    )

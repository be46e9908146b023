"""HTML building blocks of the pages: escaped text, tables, lists, pictures, charts, and the document around them."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any
from urllib.parse import quote

from greedystep.charts import Chart, line_styles
from greedystep.io import to_json
from greedystep.tables import Table, cell, numeric_columns

LONG = 24
"""Tables with more rows than this, and lists with more entries, are folded."""
MANY = 8
"""Tables with more columns than this are printed in a small font."""


def document(title: str, heading: str, body: list[str]) -> str:
    """Return an HTML document with this body. Its security policy allows our own scripts only, by their hashes."""
    names = ("page.html", "page.css", "page.js", "charts.js")
    page, style, *scripts = (files("greedystep.report").joinpath(name).read_text(encoding="utf-8") for name in names)
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    parts = {"title": text(title), "top": text(heading), "body": "\n".join(body), "style": style, "hashes": hashes}
    return Template(page).substitute(parts, scripts="\n".join(f"<script>{script}</script>" for script in scripts))


def text(value: Any) -> str:
    """Format a value as in a table cell, and escape it for HTML."""
    return escape(cell(value))


def part(id: str, title: str, *parts: str, above: str = "") -> str:
    """Return a part of the page that is folded under its heading, which can be linked to; a link unfolds it."""
    small = f"<small>{text(above)}</small> " if above else ""
    head = f"<summary><h2>{small}{text(title)}</h2></summary>"
    return "\n".join([f'<details open class="part" id="{escape(id)}">{head}', *parts, "</details>"])


def folded(summary: str, *parts: str) -> str:
    """Return content that is folded under a summary; open where scripts do not run, and in print."""
    return "\n".join([f"<details open><summary>{text(summary)}</summary>", *parts, "</details>"])


def picture(name: str, svg: bytes, title: str, caption: str) -> str:
    """Return an <img> element of an SVG file; unlike inline SVG, ids of two drawings cannot clash."""
    source = quote(shorten_svg(svg).replace(b"\n", b" "), safe=" ,;:=/.()-!?@*+_~[]")  # shorter than base64
    return (
        f'<figure><img alt="{text(f"{title} ({name})")}" src="data:image/svg+xml,{source}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def shorten_svg(svg: bytes) -> bytes:
    """Shorten matplotlib's SVG paths to a third: one decimal instead of six, and no letter per line segment.

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
    """Return names and values in two columns; nested mappings become nested lists."""

    def inner(value: Any) -> str:
        has_levels = isinstance(value, dict) and any(isinstance(one, dict) for one in value.values())
        return pairs(value) if has_levels else text(value)

    return f"<dl>{''.join(f'<dt>{text(key)}</dt><dd>{inner(value)}</dd>' for key, value in mapping.items())}</dl>"


def bullets(sentences: Sequence[str]) -> str:
    """Return a list of sentences; a long one is folded."""
    made = f"<ul>{''.join(f'<li>{text(sentence)}</li>' for sentence in sentences)}</ul>"
    return folded(f"{len(sentences)} entries", made) if len(sentences) > LONG else made


def provenance(made: dict[str, Any]) -> list[str]:
    """Return the provenance of a result as HTML: its command, then versions and machine."""
    others = {key: value for key, value in made.items() if key != "command"}
    return [f"<pre>{text(made['command'])}</pre>", pairs(others)]


# -- charts -----------------------------------------------------------------------------------------------------------


def charts(name: str, charts: Sequence[Chart], pictures: list[str]) -> str:
    """Return charts for the page's script to draw, and static `pictures` for print and for pages without scripts."""
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


Grids = dict[tuple[float, ...], int]
"""x values that several curves share -> their index in the list of grids."""


def chart_data(charts: Sequence[Chart]) -> dict[str, Any]:
    """Return charts as JSON for charts.js, which draws them under one legend:

    methods     one per label: label, light and dark colour, dash lengths, whether it is shown at first
    grids       lists of x values, shared by the curves that refer to them
    quantities  one per vertical axis: label, whether it is shown at first, and a panel per chart: title, x, logX, logY,
                and curves [{method, grid, y, low, high}] with the decimals of their numbers (digits), or bars [{label,
                light, dark, values}] over bins
    """
    styles, grids = line_styles(charts), Grids()
    shown = {line.label: line.shown for chart in charts for line in chart.lines}
    methods = [
        {"label": label, "shown": shown[label]} | page_colours(colour) | {"dash": [] if dash == "-" else list(dash[1])}
        for label, (colour, dash) in styles.items()
    ]
    place = {label: number for number, label in enumerate(styles)}
    quantities: dict[str, dict[str, Any]] = {}
    for chart in charts:
        quantity = quantities.setdefault(chart.y, {"label": chart.y, "shown": chart.shown, "panels": []})
        quantity["panels"].append(_panel(chart, place, grids))
    return {"methods": methods, "grids": [_rounded(x, 9) for x in grids], "quantities": list(quantities.values())}


def _panel(chart: Chart, place: Mapping[str, int], grids: Grids) -> dict[str, Any]:
    panel: dict[str, Any] = {"title": chart.title, "x": chart.x, "logX": chart.log_x, "logY": chart.log_y}
    panel |= {"run": chart.run} if chart.run else {}
    if chart.bins:
        bars = [{"label": b.label, "values": _rounded(b.heights, 4)} | page_colours(b.colour) for b in chart.bars]
        return panel | {"bins": list(chart.bins), "bars": bars}
    parts = [{"y": line.y, "low": line.low, "high": line.high} for line in chart.lines]
    digits = None if chart.log_y else _digits([value for part in parts for values in part.values() for value in values])
    curves = [
        {"method": place[line.label], "grid": grids.setdefault(tuple(line.x), len(grids))}
        | {name: _rounded(values, digits) for name, values in part.items() if len(values)}
        for line, part in zip(chart.lines, parts, strict=True)
    ]
    return panel | {"curves": curves, "digits": max(0, digits or 0)}


def _digits(values: Sequence[float | None]) -> int:
    """Return how many decimals resolve a thousandth of the range of the values."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    span = max(known, default=0.0) - min(known, default=0.0) or max(map(abs, known), default=1.0) or 1.0
    return 3 - math.floor(math.log10(span))


def _rounded(values: Sequence[float | None], digits: int | None) -> list[float | int | None]:
    """Round to `digits` decimals, or to four significant digits if None; missing values become None."""

    def short(value: float | None) -> float | int | None:
        if value is None or not math.isfinite(value):
            return None
        number = float(f"{value:.4g}") if digits is None else round(float(value), digits)
        return int(number) if number == int(number) else number

    return [short(value) for value in values]


# -- colours ----------------------------------------------------------------------------------------------------------

LIGHT, DARK = "#ffffff", "#0d1117"
"""Background colours of page.css."""
CONTRAST = 3.0
"""Smallest contrast of a line against the page, after WCAG 2.1."""


def page_colours(colour: str) -> dict[str, str]:
    """Return {"light": ..., "dark": ...}: the colour, adapted to be readable on a light and on a dark page."""
    return {"light": readable(colour, LIGHT), "dark": readable(colour, DARK)}


def readable(colour: str, background: str) -> str:
    """Move a colour towards black or white until its contrast suffices; greys are inverted on a dark background."""
    given, is_dark = rgb(colour), _luminance(rgb(background)) < 0.5
    if is_dark and len(set(given)) == 1:
        given = [255 - part for part in given]
    ink = 255 if is_dark else 0
    for step in range(101):
        mixed = [round(own + (ink - own) * step / 100) for own in given]
        if contrast(mixed, rgb(background)) >= CONTRAST:
            return "#{:02x}{:02x}{:02x}".format(*mixed)
    raise AssertionError("pure black and white have enough contrast")


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """Return WCAG's contrast ratio of two colours, 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(parts: Sequence[int]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in parts)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def rgb(colour: str) -> list[int]:
    """Return red, green and blue, 0 to 255, of a colour "#rrggbb"."""
    return list(bytes.fromhex(colour[1:]))

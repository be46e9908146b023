"""Tables with a title, as Markdown and LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greedystep.io import write_text

_SYMBOLS = "α alpha γ gamma ε varepsilon λ lambda π pi σ sigma Π Pi Σ sum "
_SYMBOLS += "‖ | ≤ leq ≥ geq ∞ infty × times ± pm → to · cdot ≈ approx"
"""Characters that pdfLaTeX cannot typeset, each followed by its LaTeX command."""

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        **{sign: f"$\\{name}$" for sign, name in re.findall(r"(\S) (\S+)", _SYMBOLS)},
        **{sign: f"${sign}$" for sign in "<>|"},
        **dict(zip("−–²", ("$-$", "--", "$^2$"), strict=True)),
    }
)


@dataclass(frozen=True)
class Table:
    """A table: a header and rows of the same width; cells are text, numbers, booleans or None."""

    id: str
    title: str
    header: list[str]
    rows: list[list[Any]]

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise ValueError(f"rows: row {number} has {len(row)} cells, the header has {len(self.header)}")

    @classmethod
    def from_records(cls, id: str, title: str, records: Sequence[Mapping[str, Any]]) -> Table:
        """Make a table from dicts with the same keys, which become its header."""
        return cls(id, title, list(records[0]) if records else [], [list(record.values()) for record in records])


def cell(value: Any) -> str:
    """Format a value: about four significant digits for numbers, yes and no, a dash for None and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if math.isinf(value):
            return "∞" if value > 0 else "-∞"
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(cell, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}: {cell(inner)}" for key, inner in value.items())
    return str(value)


def is_number(value: Any) -> bool:
    """Return whether the value is a number and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def numeric_columns(table: Table) -> list[bool]:
    """Return for each column whether it holds only numbers and None, and at least one number."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    return [any(map(is_number, c)) and all(is_number(v) or v is None for v in c) for c in columns]


def write(table: Table, stem: Path) -> None:
    """Write the table to STEM.md and STEM.tex."""
    write_text(f"{stem}.md", markdown(table))
    write_text(f"{stem}.tex", latex(table))


def markdown(table: Table) -> str:
    """Return the table as GitHub Markdown, below its title."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(text.replace("|", r"\|").replace("\n", " ") for text in cells) + " |"

    rule = ["---:" if numeric else "---" for numeric in numeric_columns(table)]
    rows = [line([cell(value) for value in row]) for row in table.rows]
    return "\n".join([f"**{table.title}**", "", line(table.header), line(rule), *rows, ""])


PAGE = 40
"""Tables with more rows than this become a LaTeX longtable."""
LINE = 50
"""Columns with a cell of more characters than this are wrapped."""


def latex(table: Table) -> str:
    r"""Return a LaTeX `table`, or for many rows a `longtable`; needs \usepackage{booktabs} and {longtable}."""

    def line(cells: list[str]) -> str:
        return "    " + " & ".join(text.translate(_LATEX) for text in cells) + r" \\"

    rows = [[cell(value) for value in row] for row in table.rows]
    columns, caption = _columns(table, rows), f"\\caption{{{table.title.translate(_LATEX)}}}"
    label = f"\\label{{tab:{table.id}}}"
    head, body = [r"    \toprule", line(table.header), r"    \midrule"], [*map(line, rows), r"    \bottomrule"]
    if len(rows) > PAGE:
        first, rest = [rf"  {caption}{label} \\", *head, r"    \endfirsthead"], [*head, r"    \endhead"]
        parts = [f"\\begin{{longtable}}{{{columns}}}", *first, *rest, *body, r"\end{longtable}"]
    else:
        begin = [r"\begin{table}", r"  \centering", f"  {caption}", f"  {label}", f"  \\begin{{tabular}}{{{columns}}}"]
        parts = [*begin, *head, *body, r"  \end{tabular}", r"\end{table}"]
    return "\n".join([*parts, ""])


def _columns(table: Table, rows: list[list[str]]) -> str:
    """Return LaTeX column types: numbers right, text left; columns of long text share four fifths of the line."""
    texts = zip(*rows, strict=True) if rows else [()] * len(table.header)
    is_long = [max(map(len, column), default=0) > LINE for column in texts]
    wide = f"p{{{0.8 / max(1, sum(is_long)):.2f}\\linewidth}}"
    kinds = zip(numeric_columns(table), is_long, strict=True)
    return "".join("r" if numeric else wide if long else "l" for numeric, long in kinds)

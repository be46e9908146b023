"""Tables as Markdown and LaTeX."""

from __future__ import annotations

import math
import re
from typing import Any

from greedystep.experiments.claims import Table

_SYMBOLS = "γ gamma λ lambda π pi Π Pi ε varepsilon Σ sum ‖ | ≤ leq ≥ geq ∞ infty × times ± pm → to · cdot ≈ approx"
"""What plain pdfLaTeX cannot set by itself, each before its command."""

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        **{sign: f"$\\{name}$" for sign, name in re.findall(r"(\S) (\S+)", _SYMBOLS)},
        **dict(zip("−–²", ("$-$", "--", "$^2$"), strict=True)),
    }
)


def cell(value: Any) -> str:
    """A value as a reader wants it: about four significant digits, yes and no, a dash for nothing."""
    if value is None:
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
    """Whether a column of such values is set flush right."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers (and gaps) only."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    return [any(map(is_number, c)) and all(is_number(v) or v is None for v in c) for c in columns]


def markdown(table: Table) -> str:
    """A GitHub table under its title."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(text.replace("|", r"\|").replace("\n", " ") for text in cells) + " |"

    rule = ["---:" if numeric else "---" for numeric in numeric_columns(table)]
    rows = [line([cell(value) for value in row]) for row in table.rows]
    return "\n".join([f"**{table.title}**", "", line(table.header), line(rule), *rows, ""])


def latex(table: Table) -> str:
    r"""A `table` environment that needs \usepackage{booktabs}."""

    def line(cells: list[str]) -> str:
        return " & ".join(text.translate(_LATEX) for text in cells) + r" \\"

    columns = "".join("r" if numeric else "l" for numeric in numeric_columns(table))
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{table.title.translate(_LATEX)}}}",
            f"  \\label{{tab:{table.id}}}",
            f"  \\begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            f"    {line(table.header)}",
            r"    \midrule",
            *(f"    {line([cell(value) for value in row])}" for row in table.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )

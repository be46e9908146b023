"""Print solutions and claims: in colour on a terminal, as plain text to a pipe or file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from greedystep.experiments.claims import check
from greedystep.runs.progress import say
from greedystep.tables import cell

if TYPE_CHECKING:
    from greedystep.models import GridLayout, NamedModel
    from greedystep.planning import Solution

MAX_ROWS = 64
"""Grid layouts with more rows are not printed as maps."""
MAX_STATES = 16
"""Models without a layout and with more states are not printed state by state."""

MARKS = {"goal": "G", "hole": "H", "wall": "#"}
MARK_STYLES = {"goal": "bold green", "hole": "bold red", "wall": "dim"}
VERDICT_STYLES = {"confirmed": "green", "partly": "yellow", "undecided": "magenta", "refuted": "red", "untested": "dim"}
ASCII_ARROWS = str.maketrans("↑→↓←", "^>v<")


def print_solution(console: Console, model: NamedModel, solution: Solution) -> None:
    """Print a solved model: method and work, error bound, values and policy."""
    mdp = model.mdp
    parts = [_count(mdp.num_states, "state"), _count(mdp.num_actions, "action")]
    if not isinstance(mdp.transitions, np.ndarray):
        parts.append(_count(mdp.transitions.nnz, "transition"))
    parts += ["deterministic" if mdp.deterministic else "stochastic", f"discount {mdp.discount:g}"]
    say(console, f"{model.name}: {', '.join(parts)}")
    work = f"{_count(solution.iterations, 'iteration')}, {_count(round(solution.sweeps), 'sweep')}"
    say(console, f"{solution.method}: {work}, {solution.seconds:.3g} s")
    quality = solution.message or f"v is within {solution.error_bound:.2g} of v*"
    say(console, f"{quality}.")
    if math.isfinite(solution.policy_loss_bound):
        say(console, f"Following the policy loses at most {solution.policy_loss_bound:.2g} from any state.")
    say(console)
    if model.layout is not None:
        _print_maps(console, model.layout, solution)
    elif len(solution.v) <= MAX_STATES:
        for state, (value, action) in enumerate(zip(solution.v, solution.policy, strict=True)):
            say(console, f"state {state}: v {value:.4g}, action {action}")
    else:
        _print_summary(console, solution)


def print_claims(console: Console, results: list[dict[str, Any]], quick: Iterable[dict[str, Any]] = ()) -> None:
    """Print a table of all claims with what was measured and the verdict, and whether `quick` results agree with it."""
    checks = {claim["id"]: claim["verdict"] for result in quick for claim in result["claims"]}
    table = RichTable(header_style="bold", show_lines=True, expand=True)
    for heading, width in (("claim", 4), ("claimed", 2), ("measured", 5)):
        table.add_column(heading, ratio=width, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for result in results:
        for claim in result["claims"]:
            verdict = Text(claim["verdict"], style=VERDICT_STYLES[claim["verdict"]])
            if claim["id"] in checks:
                verdict.append(f"\n{check(claim['verdict'], checks[claim['id']])}", style="dim")
            cells = (Text(cell(claim[key])) for key in ("claim", "claimed", "measured"))
            table.add_row(*cells, verdict)
    console.print(table)


def _print_summary(console: Console, solution: Solution) -> None:
    say(console, f"v: lowest {solution.v.min():.4g}, mean {solution.v.mean():.4g}, highest {solution.v.max():.4g}")
    actions, counts = np.unique(solution.policy, return_counts=True)
    shares = ", ".join(f"{a} in {count}" for a, count in zip(actions, counts, strict=True))
    say(console, f"policy: action {shares} of {len(solution.policy)} states")


def _print_maps(console: Console, layout: GridLayout, solution: Solution) -> None:
    """Print the values and the policy on the grid, if the terminal is wide enough."""
    if layout.width > console.width or layout.height > MAX_ROWS:
        say(console, f"The map of {layout.height} x {layout.width} cells is too large to print here.")
        _print_summary(console, solution)
        return
    formats = ([f"{value:.{decimals}f}" for value in solution.v] for decimals in (3, 2, 1, 0))
    fitting = (texts for texts in formats if (max(map(len, texts)) + 1) * layout.width <= console.width)
    if (numbers := next(fitting, None)) is not None:
        say(console, "v")
        _print_map(console, layout, numbers, _heat(solution.v))
    else:
        _print_summary(console, solution)
    say(console, "policy")
    arrows = layout.arrows if console.encoding.startswith("utf") else layout.arrows.translate(ASCII_ARROWS)
    _print_map(console, layout, [arrows[action] for action in solution.policy], None)
    used = [f"{MARKS[kind]} {kind}" for kind in MARKS if kind in layout.cells]
    if used:
        say(console, ", ".join(used))


def _print_map(console: Console, layout: GridLayout, texts: list[str], styles: list[str] | None) -> None:
    texts = [MARKS.get(kind, text) for kind, text in zip(layout.cells, texts, strict=True)]
    widest = max(map(len, texts))
    gap = 1 if (widest + 1) * layout.width <= console.width else 0
    for row in range(layout.height):
        line = Text()
        for state in range(row * layout.width, (row + 1) * layout.width):
            plain = "" if styles is None else styles[state]
            line.append(texts[state].rjust(widest + gap), style=MARK_STYLES.get(layout.cells[state], plain))
        say(console, line)
    say(console)


def _heat(values: np.ndarray) -> list[str]:
    """Return one rich style per value: background from dark (lowest) to bright (highest), readable foreground."""
    low, high = values.min(), values.max()
    share = (values - low) / (high - low) if high > low else np.ones_like(values)
    anchors = np.array([(68, 1, 84), (33, 145, 140), (253, 231, 37)])  # Viridis: the order survives in grey
    channels = [np.interp(share, (0, 0.5, 1), channel).astype(int) for channel in anchors.T]
    cells = zip(share, *channels, strict=True)
    return [f"{'black' if bright > 0.6 else 'white'} on rgb({r},{g},{b})" for bright, r, g, b in cells]


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"

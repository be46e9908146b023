"""The tables of Figure 2, from the result alone."""

from __future__ import annotations

from typing import Any

from greedystep.experiments.fig2.grid_world import OFFLINE_METHODS
from greedystep.experiments.fig2.toy_claims import by_exploration_alone, rows_of
from greedystep.experiments.fig2.toy_methods import METHODS, TASK_TITLES, published
from greedystep.tables import Table


def tables(result: dict[str, Any]) -> list[Table]:
    """Return the tables whose numbers are complete."""
    numbers, settings = result["numbers"], result["settings"]
    made = []
    if numbers["trace-back"]:
        made.append(_by_delay("fig2", "trace-back", result))
    if numbers["choice"]:
        made.append(_by_delay("choice", "choice", result))
    if numbers["trace-back"]:
        made.append(_order(numbers, settings["delays"]["trace-back"][-1]))
    if numbers["exploration"] and numbers["trace-back"]:
        made.append(_exploration(numbers))
    if numbers["noise"]:
        made.append(_noise(numbers["noise"]))
    if numbers["offline"]:
        made.append(_offline(numbers["offline"], settings["logged"]))
    return made


def _by_delay(name: str, task: str, result: dict[str, Any]) -> Table:
    numbers, settings = result["numbers"], result["settings"]
    delays, trials = settings["delays"][task], settings["trials"]
    rows: list[list[Any]] = [
        [
            "best return first seen (Greedy-Step)",
            *(_spread(row["seen"]) for row in rows_of(numbers, task, "greedy-step")),
        ]
    ]
    for method, how in METHODS.items():
        rows.append([how.label, *(_episodes(row) for row in rows_of(numbers, task, method))])
        theirs = [published(method, delay) for delay in delays] if task == "trace-back" else []
        if any(theirs):
            rows.append([f"{how.label}, published", *(number and f"{number:,}" for number in theirs)])
    fewer = ""
    if trials["slow"] < trials["fast"]:
        others = f", {trials['slow']} of slower methods" if task == "trace-back" else ""
        few = "RUDDER and Monte Carlo" if task == "trace-back" else "RUDDER"
        fewer = f" ({trials['medium']} of {few}{others})"
    return Table(
        name,
        f"{TASK_TITLES[task]}: episodes to solve by delay, median (40 % to 60 % quantile) of {trials['fast']} trials"
        f"{fewer}, ε = {settings['epsilon']:g} for all",
        ["method", *map(str, delays)],
        rows,
    )


def _order(numbers: dict[str, Any], delay: int) -> Table:
    rows = []
    for method, how in METHODS.items():
        row = next(row for row in rows_of(numbers, "trace-back", method) if row["delay"] == delay)
        solved, seen = row["solved"]["median"], row["seen"]["median"]
        times = None if solved is None or not seen else round(solved / seen, 2)
        about = [how.label, how.target, how.order, how.step]
        rows.append([*about, _episodes(row), _spread(row["seen"]), times, by_exploration_alone(row)])
    rows.sort(key=lambda row: float("inf") if row[6] is None else row[6])
    return Table(
        "order",
        f"Trace Back, delay {delay}: effect of operator, update order and exploration on the episodes to solve",
        [
            *("method", "target", "update order", "step size"),
            *("solved", "best return first seen", "ratio", "explained by exploration"),
        ],
        rows,
    )


def _exploration(numbers: dict[str, Any]) -> Table:
    ours = rows_of(numbers, "trace-back", "greedy-step")
    rows = sorted([*numbers["exploration"], *ours], key=lambda row: (-row["epsilon"], row["delay"]))
    return Table(
        "exploration",
        "Greedy-Step on Trace Back by the share ε of random actions",
        ["ε", "delay", "solved", "best return first seen", "in the same episode", "explained by exploration"],
        [
            [row["epsilon"], row["delay"], _episodes(row), _spread(row["seen"]), _same(row), by_exploration_alone(row)]
            for row in rows
        ],
    )


def _same(row: dict[str, Any]) -> str:
    pairs = list(zip(row["solved"]["trials"], row["seen"]["trials"], strict=True))
    return f"{sum(a == b for a, b in pairs)} of {len(pairs)}"


def _noise(rows: list[dict[str, Any]]) -> Table:
    levels = sorted({row["noise"] for row in rows})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    right = {(row["method"], row["noise"]): row["right"] for row in rows}
    return Table(
        "noise",
        f"Choice with noise on every irrelevant step, delay {rows[0]['delay']}: share of trials that choose right "
        f"after {rows[0]['episodes']} episodes",
        ["method", *(f"σ = {level:g}" for level in levels)],
        [[METHODS[method].label, *(right[method, level] for level in levels)] for method in methods],
    )


def _offline(rows: list[dict[str, Any]], logged: int) -> Table:
    sizes = sorted({row["size"] for row in rows})
    found = {(row["method"], row["size"]): row for row in rows}
    return Table(
        "grid",
        f"Grid World from {logged} random episodes: quality of the policy after one pass (1 is optimal), and passes "
        "until quality 0.9",
        ["method", *(f"quality, size {size}" for size in sizes), *(f"passes, size {size}" for size in sizes)],
        [
            [
                how.label,
                *(round(found[name, size]["mean_quality"], 3) + 0.0 for size in sizes),
                *(_passes(found[name, size]) for size in sizes),
            ]
            for name, how in OFFLINE_METHODS.items()
        ],
    )


def _passes(row: dict[str, Any]) -> str:
    median = row["passes"]["median"]
    return f"> {row['limit']}" if median is None else f"{median:g}"


def _episodes(row: dict[str, Any]) -> str:
    """Format median, band, and the number of unsolved trials."""
    count = len(row["solved"]["trials"])
    lost = f", {row['censored']} of {count} unsolved" if row["censored"] else ""
    if row["solved"]["median"] is None:
        return f"> {row['limit']:,}{lost}"
    return _spread(row["solved"]) + lost


def _spread(summary: dict[str, Any]) -> str:
    if summary["median"] is None:
        return "unknown"
    low, median, high = (summary[name] for name in ("low", "median", "high"))
    text = f"{median:,.0f}" if median >= 100 else f"{median:g}"
    top = "?" if high is None else f"{high:,.0f}"
    return text if low == high else f"{text} ({low:,.0f} to {top})"

"""What the timings of environments mean: what is promised and whether it is kept, and a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from greedystep.bench.games import DIFFERENCES, OURS, PACKAGES

MANY = 256
"""The number of environments at which packages are compared on a CPU."""

HARDEST = "minatar/seaquest"


def bars(rows: list[dict[str, Any]], on_cpu: bool) -> list[dict[str, Any]]:
    """What we promise, the game that comes nearest to breaking it, and whether it is kept.

    A promise about something that was not measured is left out.
    """
    rates = {(r["package"], r["game"], r["number"]): r["steps_per_second"] for r in rows if r["failed"] is None}
    ours = {(game, number): rate for (package, game, number), rate in rates.items() if package == OURS}
    minatar = {key: rate for key, rate in ours.items() if key[0].startswith("minatar/")}
    sizes = {r["game"]: r["state_bytes"] for r in rows if r["package"] == OURS and r["game"].startswith("minatar/")}
    found = [_bar("bytes of a MinAtar state", sizes, below=2048)]
    if on_cpu:
        times = _times_the_faster_peer(rates, MANY)
        many = {game: rate for (game, number), rate in minatar.items() if number == MANY}
        fastest = max(many.values(), default=1.0)
        found += [
            _bar(f"times as fast as the faster peer, {MANY} environments", times, at_least=1),
            _bar(
                f"times as fast as the faster peer, {MANY} environments of Seaquest",
                {game: ratio for game, ratio in times.items() if game == HARDEST},
                at_least=30,
            ),
            _bar(
                f"share of the speed of our fastest MinAtar game, {MANY} environments",
                {game: rate / fastest for game, rate in many.items()},
                at_least=0.1,
            ),
            _bar(
                "steps/s of a single environment",
                {game: rate for (game, number), rate in ours.items() if number == 1},
                at_least=20_000,
            ),
        ]
    else:
        best: dict[str, float] = {}
        for (game, _), rate in minatar.items():
            best[game] = max(rate, best.get(game, 0.0))
        found.append(_bar("steps/s of a MinAtar game at its best number of environments", best, at_least=20_000_000))
    return [bar for bar in found if bar is not None]


def _bar(what: str, values: Mapping[str, float], **limit: float) -> dict[str, Any] | None:
    if not values:
        return None
    ((kind, bound),) = limit.items()
    worst = (min if kind == "at_least" else max)(values, key=lambda game: values[game])
    kept = values[worst] >= bound if kind == "at_least" else values[worst] < bound
    return {"what": what, kind: bound, "worst": worst, "value": values[worst], "kept": kept}


def _times_the_faster_peer(rates: Mapping[tuple[str, str, int], float], number: int) -> dict[str, float]:
    """Game -> our speed over that of the fastest other package that has it."""
    peers: dict[str, float] = {}
    for (package, game, n), rate in rates.items():
        if package != OURS and n == number:
            peers[game] = max(rate, peers.get(game, 0.0))
    return {game: rates[OURS, game, number] / rate for game, rate in peers.items() if (OURS, game, number) in rates}


def markdown(result: dict[str, Any]) -> str:
    """The table, what is promised, and how the packages differ."""
    made = result["provenance"]
    present = [package for package in PACKAGES if package not in result["absent"]]
    lines = [
        f"Steps a second with random actions, auto-reset and observations, {made['device']} ({made['cpu']}), "
        f"medians of {made['config']['repeats']} rounds.",
        "",
    ]
    if result["absent"]:
        lines += [f"Not installed, so not compared: {', '.join(result['absent'])}.", ""]
    heads = [f"{package}{what}" for package in present for what in ("", ": compile s", ": state bytes")]
    lines += [f"| game | environments | {' | '.join(heads)} |", "|---|---:|" + "---:|" * len(heads)]
    places = dict.fromkeys((row["game"], row["number"]) for row in result["rows"])
    rows = {(row["game"], row["number"], row["package"]): row for row in result["rows"]}
    for game, number in places:
        cells = [cell for package in present for cell in _cells(rows.get((game, number, package)))]
        lines.append(f"| {game} | {number:,} | {' | '.join(cells)} |")
    lines += ["", "| promise | bound | nearest to breaking it | value | kept |", "|---|---:|---|---:|---|"]
    for bar in result["bars"]:
        bound = f"≥ {bar['at_least']:,}" if "at_least" in bar else f"< {bar['below']:,}"
        kept = "yes" if bar["kept"] else "**no**"
        lines.append(f"| {bar['what']} | {bound} | {bar['worst']} | {_figure(bar['value'])} | {kept} |")
    lines += ["", "The games of the other packages are not quite the originals, which ours equal step for step.", ""]
    lines += [f"- {package}: {DIFFERENCES[package]}" for package in present if package in DIFFERENCES]
    return "\n".join(lines).rstrip() + "\n"


def _cells(row: dict[str, Any] | None) -> tuple[str, str, str]:
    if row is None:
        return "–", "–", "–"
    if row["failed"] is not None:
        return "failed", "–", f"{row['state_bytes']:,}"
    return _figure(row["steps_per_second"]), f"{row['compile_seconds']:.1f}", f"{row['state_bytes']:,}"


def _figure(value: float) -> str:
    """Three digits, and thousands grouped."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"

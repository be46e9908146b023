"""What the timings of training mean: what is promised and whether it is kept, and a table for people."""

from __future__ import annotations

from typing import Any

from greedystep.bench.learners import PEER

MOST_COST = 1.10
"""Greedy-step against one-step returns: "almost equal training time" in the paper."""
LEAST_TIMES = {"minatar/": 3.0, "classic/": 20.0}
"""Our steps/s over the peer's, by family."""
LEAST_RATES = {("one-step", 1): 500_000, ("greedy-step", 6): 300_000}
"""Lane-steps/s on an accelerator, by returns and ensemble."""
MOST_BYTES = {"minatar/breakout": 8_000_000, "minatar/seaquest": 15_000_000}
BUSY = 0.5
"""Load of the machine above which speeds tell little."""
MOST_SECONDS = {"cold": 30.0, "warm": 10.0}


def bars(result: dict[str, Any], on_cpu: bool) -> list[dict[str, Any]]:
    """What we promise, each beside what was measured; a promise about something that was not measured is left out."""
    found = []
    for row in result["rows"]:
        if row["cost"] is not None:
            lanes = "" if on_cpu else f", {row['lanes']} lanes"
            what = f"{row['game']}: cost of greedy-step over one-step returns, ensemble {row['ensemble']}{lanes}"
            found.append(_bar(what, row["cost"], at_most=MOST_COST))
    for game, times in times_the_peer(result["rows"]).items():
        least = next(least for start, least in LEAST_TIMES.items() if game.startswith(start))
        found.append(_bar(f"{game}: times as fast as {PEER}", times, at_least=least))
    if on_cpu:
        for start in result["starts"]:
            for kind, most in MOST_SECONDS.items():
                what = {"cold": "never compiled before", "warm": "compiled before"}[kind]
                found.append(_bar(f"{start['game']}: seconds to the first row, {what}", start[kind], at_most=most))
    else:
        for (returns, ensemble), least in LEAST_RATES.items():
            rates = [
                r["steps_per_second"] for r in result["rows"] if (r["returns"], r["ensemble"]) == (returns, ensemble)
            ]
            if rates:
                what = f"lane-steps/s of {returns}, ensemble {ensemble}, at its best number of lanes"
                found.append(_bar(what, max(rates), at_least=least))
    for game, most in MOST_BYTES.items():
        found.append(_bar(f"{game}: bytes of the replay of 100,000 rows", result["memory"][game], at_most=most))
    return found


def _bar(what: str, value: float, **limit: float) -> dict[str, Any]:
    ((kind, bound),) = limit.items()
    kept = value >= bound if kind == "at_least" else value <= bound
    return {"what": what, kind: bound, "value": value, "kept": kept}


def times_the_peer(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Game -> our speed over the peer's, with the same returns and one network."""
    rates = {
        (row["package"], row["game"]): row["steps_per_second"]
        for row in rows
        if (row["returns"], row["ensemble"], row["lanes"]) == ("one-step", 1, 1)
    }
    return {
        game: rates["greedystep", game] / rate
        for (package, game), rate in rates.items()
        if package == PEER and ("greedystep", game) in rates
    }


def markdown(result: dict[str, Any]) -> str:
    """The table, what is promised, and how long one waits for a first row."""
    made = result["provenance"]
    config = made["config"]
    lines = [
        f"Environment steps a second while training, preset {config['preset']}, on {made['device']} ({made['cpu']}), "
        f"medians of {config['turns'] * config['repeats']} runs in turn. "
        "Steps of all lanes are counted; 32 samples are trained a step.",
        "",
    ]
    if result["absent"]:
        lines += [f"Not installed, so not compared: {', '.join(result['absent'])}.", ""]
    if result["load"] > BUSY:
        busy = f"The machine was busy before we began (load {result['load']:.1f}): speeds are lower than they would be."
        lines += [busy, ""]
    heads = "| game | agent | returns | ensemble | lanes | steps/s | × the time of one-step | compile s |"
    lines += [heads, "|---|---|---|---:|---:|---:|---:|---:|"]
    for row in result["rows"]:
        cost = "" if row["cost"] is None else f"{row['cost']:.2f}"
        compiled = "" if row["compile_seconds"] is None else f"{row['compile_seconds']:.1f}"
        who = f"| {row['game']} | {row['package']} | {row['returns']} | {row['ensemble']} | {row['lanes']} |"
        lines.append(f"{who} {_figure(row['steps_per_second'])} | {cost} | {compiled} |")
    lines += ["", "| first row of `greedystep train GAME` | never compiled before, s | compiled before, s |"]
    lines.append("|---|---:|---:|")
    lines += [f"| {start['game']} | {start['cold']:.1f} | {start['warm']:.1f} |" for start in result["starts"]]
    lines += ["", "| promise | bound | value | kept |", "|---|---:|---:|---|"]
    for bar in result["bars"]:
        bound = f"≥ {_figure(bar['at_least'])}" if "at_least" in bar else f"≤ {_figure(bar['at_most'])}"
        lines.append(f"| {bar['what']} | {bound} | {_figure(bar['value'])} | {'yes' if bar['kept'] else '**no**'} |")
    return "\n".join(lines) + "\n"


def _figure(value: float) -> str:
    """Three digits, and thousands grouped."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"

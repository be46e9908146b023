"""Benchmark of planning: the time to a true error of 1e-6, for greedystep, quantecon and mdpsolver.

The true error is measured against reference values with a proven error of about 1e-9. Compilation is not timed,
rewards are fresh in every round, and the figures are medians; ratios are more reliable than times.

    solve-only    from the package's own model object to its answer
    end-to-end    from arrays in memory to values in an array: a CSR matrix and rewards for greedystep and quantecon;
                  mdpsolver takes nested lists, which are made from the same arrays within the time
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import planning_solvers
from benchmarks.planning_problems import PROBLEMS, Problem
from benchmarks.planning_solvers import SOLVERS
from benchmarks.planning_timing import TARGET_ERROR, TIME_LIMIT, TIMED_OUT, TOLERANCES, measure
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance
from greedystep.runs.progress import progress_line

TARGETS = {"goal": 20.0, "diffusive": 2.0, "mixing": 2.0, "other": 1.0}
"""Target speedup over the best peer, per kind, on models of more than TARGET_STATES states."""
TARGET_STATES = 500
MEMORY_TARGET, MEMORY_TARGET_STATES = 4.0, 1_000_000
"""Target for the memory on top of the model, as a multiple of its CSR arrays, and the fewest states it applies to."""


def run(out: Path, repeats: int = 5, problems: Sequence[Problem] = PROBLEMS) -> dict[str, Any]:
    """Time all problems, write `planning.json` and `planning.md` to `out`, and return the content of the JSON file.

    An interrupted run writes the problems that it finished.
    """
    settings = {
        "repeats": repeats,
        "problems": [problem.name for problem in problems],
        "target": TARGET_ERROR,
        "ladder": TOLERANCES,
        "time_limit": TIME_LIMIT,
    }
    rows, result = [], {}
    try:
        with progress_line(Console(stderr=True), "planning") as report:
            for done, problem in enumerate(problems):
                report(done / len(problems), problem.name)
                row = measure(problem, repeats)
                rows.append({**row, **compare(row["solvers"])})
    finally:
        if rows:
            result = {
                "packages": {package: version(package) for package in SOLVERS},
                "targets": TARGETS,
                "memory_target": MEMORY_TARGET,
                "problems": rows,
                "summary": summarise(rows),
                "provenance": provenance(settings),
            }
            write_json(out / "planning.json", result)
            write_text(out / "planning.md", markdown(result))
    return result


def version(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    return metadata.version(package) if planning_solvers.installed(package) else None


# -- comparison --------------------------------------------------------------------------------------------------------


def compare(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the best peer and our speedup over it, solve-only and end-to-end.

    Where every peer timed out, the ratio is a lower bound and `at_least` is true.
    """
    ours, peers = records[0], records[1:]
    compared: dict[str, Any] = {"at_least": False}
    for kind in ("solve", "total"):
        key = f"{kind}_seconds"
        timed = [peer for peer in peers if peer[key] is not None]
        best = min(timed, key=lambda peer: peer[key], default=None)
        seconds = None if best is None else best[key]
        if best is None and any(peer["excluded"] == TIMED_OUT for peer in peers):
            seconds, compared["at_least"] = TIME_LIMIT, True
        compared[f"best_peer_{kind}"] = None if best is None else best["configuration"]
        compared[f"ratio_{kind}"] = None if seconds is None or ours[key] is None else seconds / ours[key]
    return compared


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the worst ratios of each kind, its target and every problem that misses it."""
    kinds: dict[str, Any] = {}
    for kind, target in TARGETS.items():
        counted = [row for row in rows if row["kind"] == kind and row["states"] > TARGET_STATES and row["ratio_solve"]]
        if counted:
            worst = {key: min(counted, key=lambda row: row[key]) for key in ("ratio_solve", "ratio_total")}
            kinds[kind] = {
                "target": target,
                "problems": len(counted),
                **{key: row[key] for key, row in worst.items()},
                **{f"worst_{key[6:]}": row["name"] for key, row in worst.items()},
                "misses": [row["name"] for row in counted if min(row["ratio_solve"], row["ratio_total"]) < target],
            }
    large = [row for row in rows if row["states"] >= MEMORY_TARGET_STATES and (row["memory"] or {}).get("greedystep")]
    return {
        "kinds": kinds,
        "memory_times_model": {row["name"]: row["memory"]["greedystep"]["times_model"] for row in large},
        "unsolved": [row["name"] for row in rows if row["solvers"][0]["solve_seconds"] is None],
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the tables of a result in Markdown."""
    settings = result["provenance"]["config"]
    missing = [package for package, version in result["packages"].items() if version is None]
    used = ", ".join(f"{package} {version}" for package, version in result["packages"].items() if version)
    done, wanted = len(result["problems"]), len(settings["problems"])
    lines = [
        *([f"Stopped after {done} of {wanted} problems.", ""] if done < wanted else []),
        f"Time to a true error of {settings['target']:g}, medians of {settings['repeats']} rounds with fresh rewards "
        f"in each. {used}, on {result['provenance']['cpu']}.",
        *([f"Not installed, so not compared: {', '.join(missing)}."] if missing else []),
        "",
        "Solve-only is from a package's model object to its answer, end-to-end from arrays in memory to values. "
        "× is the time of the best peer configuration over ours. "
        "Memory is the peak on top of the model, over the size of its transitions, for the packages in that order.",
        "",
        "| problem | kind | states | actions | entries | ours, ms | best peer, ms | which | solve-only × "
        "| end-to-end × | memory |",
        "|---|---|---:|---:|---:|---:|---:|---|---:|---:|---|",
        *(_line(row) for row in result["problems"]),
        "",
        *_summary_lines(result["summary"]),
    ]
    return "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    ours = row["solvers"][0]
    best = next((c for c in row["solvers"] if c["configuration"] == row["best_peer_solve"]), None)
    sign = "> " if row["at_least"] else ""
    cells = (
        row["name"],
        row["kind"],
        f"{row['states']:,}",
        f"{row['actions']:,}",
        f"{row['entries']:,}",
        ours["excluded"] or _milliseconds(ours["solve_seconds"]),
        f"> {1e3 * TIME_LIMIT:g}" if row["at_least"] else _milliseconds(best and best["solve_seconds"]),
        row["best_peer_solve"] or "",
        sign + _ratio(row["ratio_solve"]),
        sign + _ratio(row["ratio_total"]),
        ", ".join(f"{used['times_model']:.1f}" for used in (row["memory"] or {}).values()),
    )
    return f"| {' | '.join(cells)} |"


def _summary_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"Over {TARGET_STATES} states:",
        "",
        "| kind | problems | target × | worst solve-only × | worst end-to-end × | below the target |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for kind, row in found["kinds"].items():
        worst = (f"{_ratio(row[f'ratio_{key}'])} ({row[f'worst_{key}']})" for key in ("solve", "total"))
        misses = "; ".join(row["misses"]) or "none"
        lines.append(f"| {kind} | {row['problems']} | {row['target']:g} | {' | '.join(worst)} | {misses} |")
    for name, times in found["memory_times_model"].items():
        verdict = "within" if times <= MEMORY_TARGET else "above"
        lines += ["", f"Memory on {name}: {times:.2f} times its CSR arrays, {verdict} the target of {MEMORY_TARGET:g}."]
    if found["unsolved"]:
        lines += ["", f"Not solved by greedystep: {'; '.join(found['unsolved'])}."]
    return lines


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:,.0f}"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"

"""Benchmark of learning from logs: greedy play and time per update beside d3rlpy's DQN, CQL and behaviour cloning.

The logs, networks, batches, learning rates and numbers of updates are the same for all. Ours are the default of `fit`
(Peng's Q(λ) with bcq), and auto, greedy-step and one-step returns with bcq. A score is the mean return of greedy play
on a scale on which the random log's mean return is 0 and the expert's is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.offline_peers import METHODS as PEER_METHODS
from benchmarks.offline_peers import PEER, fit_peer, peer_is_installed
from benchmarks.targets import bound_text, check_target, met_text, three_digits
from greedystep.experiments.offline import SCALES
from greedystep.experiments.offline.fit_methods import METHODS, method
from greedystep.experiments.offline.fits import LaneFit
from greedystep.experiments.offline.logs import OfflineTask, behaviour_return, make_logs
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance
from greedystep.stats import interval
from greedystep.trajectory import Trajectory

_PAPER = SCALES["paper"]
TASKS: dict[str, OfflineTask] = {
    # d3rlpy takes minutes for so few updates.
    "classic/cartpole": replace(_PAPER["cartpole"], steps=20_000, updates=6_000, episodes=50),
    "ple/catcher": replace(_PAPER["catcher"], training=150_000, steps=40_000, updates=6_000, episodes=50),
    "classic/mountaincar": replace(_PAPER["mountaincar"], steps=60_000, updates=6_000, episodes=50),
    "minatar/breakout": replace(_PAPER["breakout"], training=500_000, steps=60_000, updates=4_000, episodes=50),
}
DEFAULT = method("Peng's Q(λ)", "bcq")
OURS = (DEFAULT, method("auto", "bcq"), method("greedy-step", "bcq"), method("one-step", "bcq"))
MIN_SHARES = {"random": 1.0, "mixed": 0.95, "expert": 0.95}
"""Targets for the score of our default over that of the better of d3rlpy's DQN and CQL, by kind of log."""
MIN_SPEEDUP = 3.0
"""Target for d3rlpy's time per update over ours."""


def run(out: Path, repeats: int = 2, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Fit all methods to all logs, write `offline.json` and `offline.md` to `out`, and return the JSON's content.

    The logs are kept in `out`/logs, and read from there if they have been made before.

    Args:
        repeats: number of seeds.
        names: tasks; all of TASKS by default.
    """
    result: dict[str, Any] = {"absent": [] if peer_is_installed() else [PEER], "logs": [], "rows": []}
    settings = {"seeds": repeats, "tasks": [TASKS[name].as_settings for name in names or TASKS]}
    for name in names or TASKS:
        task = replace(TASKS[name], seeds=repeats)
        logs = make_logs(task, out / "logs")
        for kind, log in logs.items():
            about = {"return": behaviour_return(log), "steps": sum(map(len, log)), "episodes": len(log)}
            result["logs"].append({"task": name, "log": kind} | about)
        rows = max(sum(map(len, log)) + len(log) for log in logs.values())
        fits: dict[tuple[str, str], Callable[[list[Trajectory]], dict[str, Any]]] = {
            ("greedystep", ours): LaneFit(task, METHODS[ours], rows).run for ours in OURS
        }
        if peer_is_installed():
            fits |= {(PEER, theirs): partial(fit_peer, task, theirs) for theirs in PEER_METHODS}
        for (package, how), fit in fits.items():
            for kind, log in logs.items():
                found = fit(log)
                result["rows"].append({"task": name, "log": kind, "package": package, "method": how, **found})
        result["targets"] = targets(result)
        result["provenance"] = provenance(settings)
        write_json(out / "offline.json", result)
        write_text(out / "offline.md", markdown(result))
    return result


def scores(result: dict[str, Any]) -> dict[tuple[str, str, str, str], float]:
    """Return the mean scores by task, log, package and method."""
    ends = {(log["task"], log["log"]): log["return"] for log in result["logs"]}
    found = {}
    for row in result["rows"]:
        low, high = ends[row["task"], "random"], ends[row["task"], "expert"]
        score = (float(np.mean(row["returns"])) - low) / (high - low)
        found[row["task"], row["log"], row["package"], row["method"]] = score
    return found


def targets(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the targets beside the measured values; none without the peer."""
    found, score = [], scores(result)
    for task, kind in dict.fromkeys((row["task"], row["log"]) for row in result["rows"]):
        theirs = [score[task, kind, PEER, x] for x in ("DQN", "CQL") if (task, kind, PEER, x) in score]
        if not theirs:
            continue
        # A score near 0, or below, has no share: there the difference decides.
        share = 1 + (score[task, kind, "greedystep", DEFAULT] - max(theirs)) / max(max(theirs), 0.1)
        what = f"{task}, {kind} log: {DEFAULT}, share of the better of {PEER}'s DQN and CQL"
        found.append(check_target(what, share, at_least=MIN_SHARES[kind]))
    times = {(row["task"], row["log"], row["package"], row["method"]): row["microseconds"] for row in result["rows"]}
    for task in dict.fromkeys(row["task"] for row in result["rows"]):
        theirs = [value for (t, _, package, x), value in times.items() if (t, package) == (task, PEER) and x != "BC"]
        ours = [value for (t, _, _, x), value in times.items() if (t, x) == (task, DEFAULT)]
        if theirs:
            what = f"{task}: time per update, {PEER}'s fastest of DQN and CQL over ours"
            found.append(check_target(what, min(theirs) / float(np.median(ours)), at_least=MIN_SPEEDUP))
    return found


def markdown(result: dict[str, Any]) -> str:
    """Return the tables as text."""
    made, score = result["provenance"], scores(result)
    lines = ["# Learning from logs", "", f"On {made['device']} ({made['cpu']}), one core each."]
    if result["absent"]:
        lines += ["", f"Not installed, so not compared: {', '.join(result['absent'])}."]
    lines += ["", "| task | log | steps | episodes | mean return |", "|---|---|---:|---:|---:|"]
    for log in result["logs"]:
        ends = f"{log['steps']} | {log['episodes']} | {log['return']:.4g}"
        lines.append(f"| {log['task']} | {log['log']} | {ends} |")
    lines += ["", "| task | log | package | method | mean return | 95 % CI | score | µs per update |"]
    lines.append("|---|---|---|---|---:|---:|---:|---:|")
    for row in result["rows"]:
        mean, low, high = map(float, interval(np.array(row["returns"]), "mean"))
        between = "" if np.isnan(low) else f"{low:.4g} to {high:.4g}"
        who = f"{row['task']} | {row['log']} | {row['package']} | {row['method']}"
        own = score[row["task"], row["log"], row["package"], row["method"]]
        lines.append(f"| {who} | {mean:.4g} | {between} | {own:.2f} | {row['microseconds']:.0f} |")
    lines += ["", "| target | bound | measured | met |", "|---|---:|---:|---|"]
    for one in result["targets"]:
        lines.append(f"| {one['what']} | {bound_text(one)} | {three_digits(one['value'])} | {met_text(one)} |")
    return "\n".join(lines) + "\n"

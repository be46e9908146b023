"""Benchmark of training: steps per second beside stable-baselines3's DQN, cost of greedy-step and auto, first rows.

On a CPU: the preset "paper", one environment and one update of 32 samples per step. On an accelerator: if nothing else
is said, the preset "fast" with several lanes, as many samples per step; with the preset "paper", the two agents of
PAPER_RATES. All agents of one game take turns, many times,
so that a busy machine slows all of them alike; figures are medians, and costs are medians of the ratios of neighbouring
runs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks.targets import bound_text, check_target, met_text, three_digits
from benchmarks.train_peers import PEER, TimedPeer, peer_is_installed, replay_bytes
from greedystep.deep.presets import DEFAULT_RULE
from greedystep.deep.train_speed import TimedTrainer, steps_lasting
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance

GAMES = ("minatar/breakout", "minatar/freeway", "classic/mountaincar")
MORE_GAMES = ("minatar/seaquest",)
"""Games that are timed only when they are asked for."""
AGENTS = (("one-step", 1), ("greedy-step", 1), ("one-step", 6), ("greedy-step", 6), ("auto", DEFAULT_RULE["ensemble"]))
"""Returns and number of networks (with auto, at each learning rate) of the agents that are timed."""
ACCELERATOR_LANES = (1, 5, 24)
SECONDS = 0.5
"""Approximate length of a timed run: short, so that compared runs see the same load of the machine."""
TURNS = 4
"""Timed runs of each agent per round."""
FIRST_ROW_LIMIT = 300.0
"""Seconds to wait for a first row of metrics."""
MAX_LOAD = 0.5
"""Load of the machine above which the table warns that speeds are too low."""

MAX_COST = 1.10
"""Target for the time of greedy-step over that of one-step returns: "almost equal training time" in the paper."""
MAX_AUTO_COST = {"cpu": 2.0, "accelerator": 1.5}
"""Targets for the time of returns="auto" over that of one-step returns with one network."""
MIN_SPEEDUPS = {"minatar/": 3.0, "classic/": 20.0}
"""Targets for our steps/s over the peer's, by family of environments."""
MIN_RATES = {("one-step", 1): 500_000, ("greedy-step", 6): 300_000}
"""Targets for lane-steps/s on an accelerator with the preset "fast", by returns and ensemble size."""
PAPER_LANES = 48
PAPER_RATES = {
    ("minatar/breakout", "one-step", 1): 588_000,
    ("minatar/breakout", "greedy-step", 6): 448_000,
    ("minatar/seaquest", "one-step", 1): 316_000,
    ("minatar/seaquest", "greedy-step", 6): 376_000,
}
"""Targets for lane-steps/s on one H200 with the preset "paper" and PAPER_LANES lanes, by game, returns and ensemble
size: four times those of commit 612f238."""
MAX_REPLAY_BYTES = {"minatar/breakout": 8_000_000, "minatar/seaquest": 15_000_000}
"""Targets for the size of a replay buffer of 100,000 rows."""
MAX_FIRST_ROW_SECONDS = {"cold": 30.0, "warm": 10.0}
"""Targets for the seconds to a first row, without and with cached compilations."""


def run(
    out: Path,
    repeats: int = 5,
    names: Sequence[str] | None = None,
    lanes: Sequence[int] | None = None,
    preset: str | None = None,
) -> dict[str, Any]:
    """Time all games, write `train.json` and `train.md` to `out`, and return the content of the JSON file.

    Args:
        names: games; all of GAMES by default.
        lanes: numbers of lanes to time; by default 1 on a CPU and ACCELERATOR_LANES otherwise.
        preset: by default "paper" on a CPU and "fast" otherwise.
    """
    names, on_cpu = list(names or GAMES), jax.default_backend() == "cpu"
    lanes = list(lanes or ((1,) if on_cpu else ACCELERATOR_LANES))
    settings = {"repeats": repeats, "games": names, "lanes": lanes, "seconds": SECONDS, "turns": TURNS}
    settings["preset"] = preset or ("paper" if on_cpu else "fast")
    result: dict[str, Any] = {"absent": [] if peer_is_installed() else [PEER], "rows": [], "starts": []}
    result["load"] = (
        os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    )  # of other processes, before the benchmark begins
    result["memory"] = {game: replay_bytes(game) for game in MAX_REPLAY_BYTES}
    with _no_cache():
        for name in names:
            if on_cpu:
                result["starts"].append({"game": name, **first_rows(name)})
            for number in lanes:
                result["rows"] += measure(name, settings["preset"], number, repeats, with_peer=on_cpu and number == 1)
            result["targets"] = targets(result, on_cpu, settings["preset"])
            result["provenance"] = provenance(settings)
            write_json(out / "train.json", result)
            write_text(out / "train.md", markdown(result))
    return result


class _no_cache:  # noqa: N801 (reads like a function)
    """Switch the compilation cache off, so that compilation can be timed."""

    def __enter__(self) -> None:
        self._before = jax.config.values["jax_enable_compilation_cache"]
        jax.config.update("jax_enable_compilation_cache", False)

    def __exit__(self, *_: object) -> None:
        jax.config.update("jax_enable_compilation_cache", self._before)


def measure(game: str, preset: str, lanes: int, repeats: int, with_peer: bool) -> list[dict[str, Any]]:
    """Time one game; return a row for each of our agents, and one for the peer if it is installed and asked for."""
    learners: dict[tuple[str, str, int], TimedTrainer | TimedPeer] = {}
    agents = AGENTS
    if preset == "paper" and jax.default_backend() != "cpu":
        agents = tuple(dict.fromkeys((returns, ensemble) for _, returns, ensemble in PAPER_RATES))
    for returns, ensemble in agents:
        learners["greedystep", returns, ensemble] = TimedTrainer(
            game, preset, lanes, returns=returns, ensemble=ensemble
        )
    if with_peer and peer_is_installed():
        learners[PEER, "one-step", 1] = TimedPeer(game)
    steps = {who: steps_lasting(learner, SECONDS) for who, learner in learners.items()}
    rounds: dict[tuple[str, str, int], list[float]] = {who: [] for who in learners}
    for _ in range(TURNS * repeats):
        for who, learner in learners.items():
            rounds[who].append(lanes * steps[who] / learner.time(steps[who]))
    return [
        {
            "game": game,
            "package": who[0],
            "returns": who[1],
            "ensemble": who[2],
            "lanes": lanes,
            "steps": steps[who],
            "compile_seconds": learner.compile_seconds,
            "rounds": rounds[who],
            "steps_per_second": statistics.median(rounds[who]),
            "cost": _cost(rounds, who),
        }
        for who, learner in learners.items()
    ]


def _cost(rounds: dict[tuple[str, str, int], list[float]], who: tuple[str, str, int]) -> float | None:
    """Return the time relative to one-step returns; None for these themselves, and where they were not timed."""
    package, returns, ensemble = who
    plain = rounds.get((package, "one-step", 1 if returns == "auto" else ensemble))
    if returns == "one-step" or plain is None:
        return None
    return statistics.median(fast / slow for fast, slow in zip(plain, rounds[who], strict=True))


def first_rows(game: str) -> dict[str, float]:
    """Return the seconds from `greedystep train GAME` to its first row, with an empty and with a filled cache."""
    with tempfile.TemporaryDirectory() as folder:
        return {kind: _first_row(game, Path(folder), kind) for kind in ("cold", "warm")}


def _first_row(game: str, folder: Path, kind: str) -> float:
    command = [sys.executable, "-m", "greedystep.cli", "train", game, "--out", str(folder / kind)]
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    env.pop("JAX_COMPILATION_CACHE_DIR", None)
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        path = folder / kind / "metrics.jsonl"
        while not (path.exists() and b"\n" in path.read_bytes()):
            if process.poll() is not None:
                raise OSError(f"{' '.join(command)} failed: {process.stderr.read().strip()}")
            if time.perf_counter() - begin > FIRST_ROW_LIMIT:
                raise OSError(f"{' '.join(command)} had no row of metrics after {FIRST_ROW_LIMIT:g} seconds")
            time.sleep(0.01)
        return time.perf_counter() - begin
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


# -- targets and table ------------------------------------------------------------------------------------------------


def targets(result: dict[str, Any], on_cpu: bool, preset: str) -> list[dict[str, Any]]:
    """Return the performance targets beside the measured values; targets about what was not timed are left out."""
    found = []
    for row in result["rows"]:
        if row["cost"] is not None:
            lanes = "" if on_cpu else f", {row['lanes']} lanes"
            if row["returns"] == "auto":
                what, most = "auto over one-step returns, 1 network", MAX_AUTO_COST["cpu" if on_cpu else "accelerator"]
            else:
                what, most = f"greedy-step over one-step returns, ensemble {row['ensemble']}", MAX_COST
            found.append(check_target(f"{row['game']}: cost of {what}{lanes}", row["cost"], at_most=most))
    for game, speedup in speedups(result["rows"]).items():
        least = next(least for start, least in MIN_SPEEDUPS.items() if game.startswith(start))
        found.append(check_target(f"{game}: times as fast as {PEER}", speedup, at_least=least))
    if on_cpu:
        for start in result["starts"]:
            for kind, most in MAX_FIRST_ROW_SECONDS.items():
                what = {"cold": "never compiled before", "warm": "compiled before"}[kind]
                found.append(
                    check_target(f"{start['game']}: seconds to the first row, {what}", start[kind], at_most=most)
                )
    elif preset == "fast":
        for (returns, ensemble), least in MIN_RATES.items():
            rates = [
                r["steps_per_second"] for r in result["rows"] if (r["returns"], r["ensemble"]) == (returns, ensemble)
            ]
            if rates:
                what = f"lane-steps/s of {returns}, ensemble {ensemble}, at its best number of lanes"
                found.append(check_target(what, max(rates), at_least=least))
    else:
        for row in result["rows"]:
            least = PAPER_RATES.get((row["game"], row["returns"], row["ensemble"]))
            if least is not None and row["lanes"] == PAPER_LANES:
                what = (
                    f"{row['game']}: lane-steps/s of {row['returns']}, ensemble {row['ensemble']}, {PAPER_LANES} lanes"
                )
                found.append(check_target(what, row["steps_per_second"], at_least=least))
    for game, most in MAX_REPLAY_BYTES.items():
        found.append(check_target(f"{game}: bytes of the replay of 100,000 rows", result["memory"][game], at_most=most))
    return found


def speedups(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return our speed over the peer's per game, with one-step returns and one network."""
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
    """Return the table of timings, the times to a first row and the targets in Markdown."""
    made = result["provenance"]
    config = made["config"]
    lines = [
        f"Environment steps per second while training, preset {config['preset']}, on {made['device']} ({made['cpu']}), "
        f"medians of {config['turns'] * config['repeats']} runs in turn. "
        "Steps of all lanes are counted; each step trains on 32 samples.",
        "",
    ]
    if result["absent"]:
        lines += [f"Not installed, so not compared: {', '.join(result['absent'])}.", ""]
    if result["load"] > MAX_LOAD:
        load = f"load {result['load']:.1f}"
        lines += [f"The machine was busy before the benchmark began ({load}): the speeds are too low.", ""]
    heads = "| game | agent | returns | ensemble | lanes | steps/s | × the time of one-step | compile s |"
    lines += [heads, "|---|---|---|---:|---:|---:|---:|---:|"]
    for row in result["rows"]:
        cost = "" if row["cost"] is None else f"{row['cost']:.2f}"
        compiled = "" if row["compile_seconds"] is None else f"{row['compile_seconds']:.1f}"
        who = f"| {row['game']} | {row['package']} | {row['returns']} | {row['ensemble']} | {row['lanes']} |"
        lines.append(f"{who} {three_digits(row['steps_per_second'])} | {cost} | {compiled} |")
    if result["starts"]:  # timed on CPUs only
        lines += ["", "| first row of `greedystep train GAME` | never compiled before, s | compiled before, s |"]
        lines.append("|---|---:|---:|")
    lines += [f"| {start['game']} | {start['cold']:.1f} | {start['warm']:.1f} |" for start in result["starts"]]
    lines += ["", "| target | bound | value | met |", "|---|---:|---:|---|"]
    for target in result["targets"]:
        value = three_digits(target["value"])
        lines.append(f"| {target['what']} | {bound_text(target)} | {value} | {met_text(target)} |")
    return "\n".join(lines) + "\n"

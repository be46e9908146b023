"""Environment steps a second of training, beside stable-baselines3's DQN; what greedy-step costs; time to a first row.

On a CPU: the preset "paper", one environment and one update of 32 samples a step. On an accelerator: the preset "fast"
with some lanes side by side, as many samples a step. Everything about one game is timed in turn, many times, so that a
busy machine slows all alike; figures are medians, and costs are medians of the ratios of runs that stood side by side.
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

from greedystep.bench.learners import PEER, Ours, Theirs, fitting_steps, peer_is_installed, replay_bytes
from greedystep.bench.train_table import bars, markdown
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance

GAMES = ("minatar/breakout", "minatar/freeway", "classic/mountaincar")
RETURNS = ("one-step", "greedy-step")
ENSEMBLES = (1, 6)
LANES_ELSEWHERE = (1, 5, 24)
MEMORIES = ("minatar/breakout", "minatar/seaquest")
SECONDS = 0.5
"""About the length of a timed run: short, so that those that are compared see the same machine."""
TURNS = 4
"""Timed runs of each in a round."""
PATIENCE = 300.0
"""Seconds to wait for a first row."""


def run(
    out: Path, repeats: int = 5, names: Sequence[str] | None = None, lanes: Sequence[int] | None = None
) -> dict[str, Any]:
    """Measure, write `train.json` and `train.md` to `out`, and return what the first holds.

    Args:
        names: games; all of GAMES by default.
        lanes: how many at once; by default 1 on a CPU and LANES_ELSEWHERE otherwise.
    """
    names, on_cpu = list(names or GAMES), jax.default_backend() == "cpu"
    lanes = list(lanes or ((1,) if on_cpu else LANES_ELSEWHERE))
    settings = {"repeats": repeats, "games": names, "lanes": lanes, "seconds": SECONDS, "turns": TURNS}
    settings["preset"] = "paper" if on_cpu else "fast"
    result: dict[str, Any] = {"absent": [] if peer_is_installed() else [PEER], "rows": [], "starts": []}
    result["load"] = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # of others, before we begin
    result["memory"] = {game: replay_bytes(game) for game in MEMORIES}
    with _no_cache():
        for name in names:
            result["starts"].append({"game": name, **first_rows(name)})
            for number in lanes:
                result["rows"] += measure(name, settings["preset"], number, repeats, with_peer=on_cpu and number == 1)
            result["bars"] = bars(result, on_cpu)
            result["provenance"] = provenance(settings)
            write_json(out / "train.json", result)
            write_text(out / "train.md", markdown(result))
    return result


class _no_cache:  # noqa: N801 (reads like a function)
    """Compile everything anew, so that the time it takes can be told."""

    def __enter__(self) -> None:
        self._before = jax.config.values["jax_enable_compilation_cache"]
        jax.config.update("jax_enable_compilation_cache", False)

    def __exit__(self, *_: object) -> None:
        jax.config.update("jax_enable_compilation_cache", self._before)


def measure(game: str, preset: str, lanes: int, repeats: int, with_peer: bool) -> list[dict[str, Any]]:
    """A row for each of our agents, and one for the peer if it is there and has such a workload."""
    learners: dict[tuple[str, str, int], Ours | Theirs] = {}
    for ensemble in ENSEMBLES:
        for returns in RETURNS:
            learners["greedystep", returns, ensemble] = Ours(game, preset, lanes, returns=returns, ensemble=ensemble)
    if with_peer and peer_is_installed():
        learners[PEER, "one-step", 1] = Theirs(game)
    steps = {who: fitting_steps(learner, SECONDS) for who, learner in learners.items()}
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
    """How many times the time of one-step returns; None for one-step returns themselves."""
    package, returns, ensemble = who
    if returns == "one-step":
        return None
    plain = rounds[package, "one-step", ensemble]
    return statistics.median(fast / slow for fast, slow in zip(plain, rounds[who], strict=True))


def first_rows(game: str) -> dict[str, float]:
    """Seconds from `greedystep train GAME` to its first row: never compiled before, and once more."""
    with tempfile.TemporaryDirectory() as place:
        return {kind: _first_row(game, Path(place), kind) for kind in ("cold", "warm")}


def _first_row(game: str, place: Path, kind: str) -> float:
    command = [sys.executable, "-m", "greedystep.cli", "train", game, "--out", str(place / kind)]
    own = {**os.environ, "XDG_CACHE_HOME": str(place / "cache")}
    own.pop("JAX_COMPILATION_CACHE_DIR", None)
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        path = place / kind / "metrics.jsonl"
        while not (path.exists() and b"\n" in path.read_bytes()):
            if process.poll() is not None:
                raise OSError(f"{' '.join(command)} failed: {process.stderr.read().strip()}")
            if time.perf_counter() - begin > PATIENCE:
                raise OSError(f"{' '.join(command)} had no row of metrics after {PATIENCE:g} seconds")
            time.sleep(0.01)
        return time.perf_counter() - begin
    finally:
        process.kill()
        process.wait()
        process.stderr.close()

"""Benchmark of lanes on several devices: training steps per second on one of them and on all, in turn.

A CPU is one device unless JAX is told otherwise, as in `JAX_NUM_CPU_DEVICES=2 python -m benchmarks devices`. On a busy
machine more threads get a larger share of it, so CPU time is measured besides seconds: where lanes on many devices cost
as much of it as on one, nothing is lost by spreading them. Both run in one process, where XLA has at least one thread
per device, which a single device uses too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks.targets import three_digits
from greedystep.checks import format_bytes
from greedystep.cli.args import BadInputError
from greedystep.deep.device_memory import tree_bytes
from greedystep.deep.train_speed import TimedTrainer, steps_lasting
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance

GAMES = ("minatar/breakout", "classic/mountaincar")
AGENT = {"returns": "greedy-step", "ensemble": 1}
SECONDS = 1.0
"""Approximate length of a timed run on one device."""


def run(
    out: Path, repeats: int = 5, names: Sequence[str] | None = None, lanes: Sequence[int] | None = None
) -> dict[str, Any]:
    """Time all games, write `devices.json` and `devices.md` to `out`, and return the content of the JSON file.

    Args:
        names: games; all of GAMES by default.
        lanes: numbers of lanes; by default as many as there are devices on a CPU, 24 per device otherwise.
    """
    count, on_cpu = len(jax.local_devices()), jax.default_backend() == "cpu"
    if count == 1:
        raise BadInputError("devices: JAX has only one here; JAX_NUM_CPU_DEVICES=2 makes two of a CPU")
    names, lanes = list(names or GAMES), list(lanes or (count if on_cpu else 24 * count,))
    settings = {"repeats": repeats, "games": names, "lanes": lanes, "seconds": SECONDS, **AGENT}
    settings["preset"] = "paper" if on_cpu else "fast"
    result: dict[str, Any] = {"rows": []}
    for name in names:
        for number in lanes:
            result["rows"].append(measure(name, settings["preset"], number, repeats))
        result["provenance"] = provenance(settings)
        write_json(out / "devices.json", result)
        write_text(out / "devices.md", markdown(result))
    return result


def measure(game: str, preset: str, lanes: int, repeats: int) -> dict[str, Any]:
    """Time one game with its lanes on one device and on many, in turn."""
    with jax.default_device(jax.local_devices()[0]):
        one = TimedTrainer(game, preset, lanes, **AGENT)
    many = TimedTrainer(game, preset, lanes, **AGENT)
    steps = steps_lasting(one, SECONDS)
    rounds = [{"one": _time(one, steps), "many": _time(many, steps)} for _ in range(repeats)]

    def median(who: str, what: str) -> float:
        return statistics.median(round_[who][what] for round_ in rounds)

    def ratio(what: str) -> float:
        """Return the median over rounds of one device's time over that of many."""
        return statistics.median(round_["one"][what] / round_["many"][what] for round_ in rounds)

    return {
        "game": game,
        "lanes": lanes,
        "devices": len(many.trainer.devices),
        "steps": steps,
        "rounds": rounds,
        "one_steps_per_second": lanes * steps / median("one", "seconds"),
        "many_steps_per_second": lanes * steps / median("many", "seconds"),
        "speedup": ratio("seconds"),
        "cpu_cost": 1 / ratio("cpu_seconds"),
        "bytes_per_lane": tree_bytes(many.trainer.state.lanes) // lanes,
    }


def _time(trainer: TimedTrainer, steps: int) -> dict[str, float]:
    cpu = time.process_time()
    return {"seconds": trainer.time(steps), "cpu_seconds": time.process_time() - cpu}


def markdown(result: dict[str, Any]) -> str:
    """Return the table of timings in Markdown."""
    made = result["provenance"]
    config = made["config"]
    lines = [
        f"Training steps per second of all lanes together, greedy-step with one network, preset {config['preset']}, on "
        f"{made['device']} ({made['cpu']}): on one device and on many in turn, medians of {config['repeats']} rounds.",
        "",
        "| game | lanes | devices | steps/s, one device | steps/s, all | speedup | × the CPU time of one | per lane |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        speeds = [three_digits(row[f"{who}_steps_per_second"]) for who in ("one", "many")]
        lines.append(
            f"| {row['game']} | {row['lanes']} | {row['devices']} | {speeds[0]} | {speeds[1]} | {row['speedup']:.2f} | "
            f"{row['cpu_cost']:.2f} | {format_bytes(row['bytes_per_lane'])} |"
        )
    return "\n".join(lines) + "\n"

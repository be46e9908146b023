"""Benchmark of the environments: steps per second with random actions, for greedystep, pgx and gymnax.

A step includes everything that a learner pays for: random numbers, the rules, auto-reset and the observation. The
packages take turns, round after round, so that a busy machine slows all of them alike; the figures are medians.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks import env_peers
from benchmarks.env_peers import DIFFERENCES, OURS, PACKAGES, Game
from benchmarks.targets import bound_text, check_target, met_text, three_digits
from greedystep import envs
from greedystep.deep.device_memory import tree_bytes
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance

CPU_NUMBERS = (1, 256, 4096)
"""Environments stepped in parallel on a CPU."""
ACCELERATOR_NUMBERS = (4096, 16_384, 65_536, 262_144)
"""Environments stepped in parallel on any other device."""
COMPARED_NUMBER = 256
"""Number of environments at which the targets on a CPU compare packages."""
SECONDS = 0.2
"""Shortest timed run."""
SEAQUEST = "minatar/seaquest"


def all_games() -> list[str]:
    """Return the names of all environments but the toy tasks."""
    return [name for name in envs.names() if not name.startswith("toy/")]


def run(
    out: Path, repeats: int = 5, names: Sequence[str] | None = None, numbers: Sequence[int] | None = None
) -> dict[str, Any]:
    """Time all games, write `envs.json` and `envs.md` to `out`, and return the content of the JSON file.

    Args:
        names: environments; all but the toy tasks by default.
        numbers: how many environments to step in parallel; by default what suits the device.
    """
    names = all_games() if names is None else list(names)
    on_cpu = jax.default_backend() == "cpu"
    numbers = list(numbers or (CPU_NUMBERS if on_cpu else ACCELERATOR_NUMBERS))
    present = [package for package in PACKAGES if env_peers.installed(package)]
    settings = {"repeats": repeats, "games": names, "numbers": numbers, "seconds": SECONDS, "sticky": env_peers.STICKY}
    result: dict[str, Any] = {"absent": [package for package in PACKAGES if package not in present], "rows": []}
    for name in names:
        for number in numbers:
            result["rows"] += measure(name, number, present, repeats)
            result["targets"] = targets(result["rows"], on_cpu)
            result["provenance"] = provenance(settings)
            write_json(out / "envs.json", result)
            write_text(out / "envs.md", markdown(result))
    return result


# -- measuring --------------------------------------------------------------------------------------------------------


class Loop:
    """Parallel environments stepped by one compiled loop."""

    def __init__(self, game: Game, number: int) -> None:
        def walk(carry: Any, key: jax.Array, length: jax.Array) -> Any:
            def one(i: jax.Array, carry: Any) -> Any:
                action_key, step_key = jax.random.split(jax.random.fold_in(key, i))
                actions = jax.random.randint(action_key, (number,), 0, game.num_actions)
                return jax.vmap(game.step)(jax.random.split(step_key, number), carry[0], actions)

            return jax.lax.fori_loop(0, length, one, carry)

        self._carry = jax.jit(jax.vmap(game.reset))(jax.random.split(jax.random.key(0), number))
        self._round = 0
        began = time.perf_counter()
        self._walk = jax.jit(walk).lower(self._carry, jax.random.key(0), 1).compile()
        self.compile_seconds = time.perf_counter() - began
        self.length = self._find_length()

    def time(self, length: int) -> float:
        """Step every environment `length` times and return the seconds it took."""
        self._round += 1
        key = jax.block_until_ready(jax.random.key(self._round))
        began = time.perf_counter()
        self._carry = jax.block_until_ready(self._walk(self._carry, key, length))
        return time.perf_counter() - began

    def _find_length(self) -> int:
        """Return how many steps take `SECONDS`."""
        length = 1
        self.time(1)
        while (spent := self.time(length)) < SECONDS / 4:
            length *= 4
        return max(1, math.ceil(length * SECONDS / spent))


def measure(name: str, number: int, packages: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    """Time one game and return a row for each package that has it."""
    rows, loops = [], {}
    for package in packages:
        game = env_peers.make_game(package, name)
        if game is None:
            continue
        row = {"game": name, "package": package, "number": number, "state_bytes": _state_bytes(game)}
        try:
            loops[package] = Loop(game, number)
            row |= {"failed": None, "compile_seconds": loops[package].compile_seconds, "length": loops[package].length}
        except jax.errors.JaxRuntimeError as problem:  # out of memory
            row["failed"] = str(problem).splitlines()[0]
        rows.append(row)
    seconds: dict[str, list[float]] = {package: [] for package in loops}
    for _ in range(repeats):
        for package, loop in loops.items():
            seconds[package].append(loop.time(loop.length))
    for row in rows:
        if row["failed"] is None:
            rates = [number * row["length"] / spent for spent in seconds[row["package"]]]
            row |= {"rounds": rates, "steps_per_second": statistics.median(rates)}
    return rows


def _state_bytes(game: Game) -> int:
    """Return the bytes of one environment's state."""
    state, _ = jax.eval_shape(game.reset, jax.random.key(0))
    return tree_bytes(state)


# -- targets and table ------------------------------------------------------------------------------------------------


def targets(rows: list[dict[str, Any]], on_cpu: bool) -> list[dict[str, Any]]:
    """Return the performance targets, each with its worst game; targets without a timed game are left out."""
    rates = {(r["package"], r["game"], r["number"]): r["steps_per_second"] for r in rows if r["failed"] is None}
    ours = {(game, number): rate for (package, game, number), rate in rates.items() if package == OURS}
    minatar = {key: rate for key, rate in ours.items() if key[0].startswith("minatar/")}
    sizes = {r["game"]: r["state_bytes"] for r in rows if r["package"] == OURS and r["game"].startswith("minatar/")}
    found = [_worst("bytes of a MinAtar state", sizes, below=2048)]
    if on_cpu:
        speedups = _speedups(rates, COMPARED_NUMBER)
        compared = {game: rate for (game, number), rate in minatar.items() if number == COMPARED_NUMBER}
        fastest = max(compared.values(), default=1.0)
        found += [
            _worst(f"times as fast as the faster peer, {COMPARED_NUMBER} environments", speedups, at_least=1),
            _worst(
                f"times as fast as the faster peer, {COMPARED_NUMBER} environments of Seaquest",
                {game: ratio for game, ratio in speedups.items() if game == SEAQUEST},
                at_least=30,
            ),
            _worst(
                f"share of the speed of our fastest MinAtar game, {COMPARED_NUMBER} environments",
                {game: rate / fastest for game, rate in compared.items()},
                at_least=0.1,
            ),
            _worst(
                "steps/s of a single environment",
                {game: rate for (game, number), rate in ours.items() if number == 1},
                at_least=20_000,
            ),
        ]
    else:
        best: dict[str, float] = {}
        for (game, _), rate in minatar.items():
            best[game] = max(rate, best.get(game, 0.0))
        found.append(_worst("steps/s of a MinAtar game at its best number of environments", best, at_least=20_000_000))
    return [target for target in found if target is not None]


def _worst(what: str, values: Mapping[str, float], **bound: float) -> dict[str, Any] | None:
    """Return the target for the game with the worst value; None if there is no game."""
    if not values:
        return None
    worst = (min if "at_least" in bound else max)(values, key=lambda game: values[game])
    return {**check_target(what, values[worst], **bound), "worst": worst}


def _speedups(rates: Mapping[tuple[str, str, int], float], number: int) -> dict[str, float]:
    """Return our speed over that of the fastest peer, per game."""
    peers: dict[str, float] = {}
    for (package, game, n), rate in rates.items():
        if package != OURS and n == number:
            peers[game] = max(rate, peers.get(game, 0.0))
    return {game: rates[OURS, game, number] / rate for game, rate in peers.items() if (OURS, game, number) in rates}


def markdown(result: dict[str, Any]) -> str:
    """Return the table of timings, the targets and the differences between packages in Markdown."""
    made = result["provenance"]
    present = [package for package in PACKAGES if package not in result["absent"]]
    lines = [
        f"Steps per second with random actions, auto-reset and observations, {made['device']} ({made['cpu']}), "
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
    lines += ["", "| target | bound | worst game | value | met |", "|---|---:|---|---:|---|"]
    for target in result["targets"]:
        value = three_digits(target["value"])
        lines.append(f"| {target['what']} | {bound_text(target)} | {target['worst']} | {value} | {met_text(target)} |")
    lines += ["", "The games of the other packages are not quite the originals, which ours equal step for step.", ""]
    lines += [f"- {package}: {DIFFERENCES[package]}" for package in present if package in DIFFERENCES]
    return "\n".join(lines).rstrip() + "\n"


def _cells(row: dict[str, Any] | None) -> tuple[str, str, str]:
    if row is None:
        return "–", "–", "–"
    if row["failed"] is not None:
        return "failed", "–", f"{row['state_bytes']:,}"
    return three_digits(row["steps_per_second"]), f"{row['compile_seconds']:.1f}", f"{row['state_bytes']:,}"

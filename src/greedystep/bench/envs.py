"""Steps a second of the environments, beside pgx and gymnax: random actions, auto-reset, one compiled loop.

A step is everything a learner would pay for: random numbers, the rules, a new episode where one is due, and the
observation. The packages that have a game are timed in turn, round after round, so that a busy machine slows all alike;
the figures are medians.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from greedystep import envs
from greedystep.bench import games
from greedystep.bench.envs_table import bars, markdown
from greedystep.bench.games import PACKAGES, Game
from greedystep.deep.device_memory import tree_bytes
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance

NUMBERS_ON_CPU = (1, 256, 4096)
NUMBERS_ELSEWHERE = (4096, 16_384, 65_536, 262_144)
SECONDS = 0.2
"""Least length of a timed run."""


def known() -> list[str]:
    """All environments but the toy tasks."""
    return [name for name in envs.names() if not name.startswith("toy/")]


def run(
    out: Path, repeats: int = 5, names: Sequence[str] | None = None, numbers: Sequence[int] | None = None
) -> dict[str, Any]:
    """Measure, write `envs.json` and `envs.md` to `out`, and return what the first holds.

    Args:
        names: environments; all but the toy tasks by default.
        numbers: how many environments at once; by default what suits the device.
    """
    names = known() if names is None else list(names)
    on_cpu = jax.default_backend() == "cpu"
    numbers = list(numbers or (NUMBERS_ON_CPU if on_cpu else NUMBERS_ELSEWHERE))
    present = [package for package in PACKAGES if games.installed(package)]
    settings = {"repeats": repeats, "games": names, "numbers": numbers, "seconds": SECONDS, "sticky": games.STICKY}
    result: dict[str, Any] = {"absent": [package for package in PACKAGES if package not in present], "rows": []}
    for name in names:
        for number in numbers:
            result["rows"] += measure(name, number, present, repeats)
            result["bars"] = bars(result["rows"], on_cpu)
            result["provenance"] = provenance(settings)
            write_json(out / "envs.json", result)
            write_text(out / "envs.md", markdown(result))
    return result


# -- measuring --------------------------------------------------------------------------------------------------------


class Loop:
    """Many environments under one compiled loop; they go on from where they are."""

    def __init__(self, game: Game, number: int) -> None:
        def walk(everything: Any, key: jax.Array, length: jax.Array) -> Any:
            def one(i: jax.Array, everything: Any) -> Any:
                for_actions, for_steps = jax.random.split(jax.random.fold_in(key, i))
                actions = jax.random.randint(for_actions, (number,), 0, game.num_actions)
                return jax.vmap(game.step)(jax.random.split(for_steps, number), everything[0], actions)

            return jax.lax.fori_loop(0, length, one, everything)

        self._everything = jax.jit(jax.vmap(game.start))(jax.random.split(jax.random.key(0), number))
        self._turn = 0
        began = time.perf_counter()
        self._walk = jax.jit(walk).lower(self._everything, jax.random.key(0), 1).compile()
        self.compile_seconds = time.perf_counter() - began
        self.length = self._find_length()

    def time(self, length: int) -> float:
        """Seconds for so many steps of every environment."""
        self._turn += 1
        key = jax.block_until_ready(jax.random.key(self._turn))
        began = time.perf_counter()
        self._everything = jax.block_until_ready(self._walk(self._everything, key, length))
        return time.perf_counter() - began

    def _find_length(self) -> int:
        """How many steps take `SECONDS`."""
        length = 1
        self.time(1)
        while (spent := self.time(length)) < SECONDS / 4:
            length *= 4
        return max(1, math.ceil(length * SECONDS / spent))


def measure(name: str, number: int, packages: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    """A row for each package that has the game."""
    rows, loops = [], {}
    for package in packages:
        game = games.game(package, name)
        if game is None:
            continue
        row = {"game": name, "package": package, "number": number, "state_bytes": _state_bytes(game)}
        try:
            loops[package] = Loop(game, number)
            row |= {"failed": None, "compile_seconds": loops[package].compile_seconds, "length": loops[package].length}
        except jax.errors.JaxRuntimeError as problem:  # too little memory for so many
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
    """Of one environment, without what else was seen."""
    state, _ = jax.eval_shape(game.start, jax.random.key(0))
    return tree_bytes(state)

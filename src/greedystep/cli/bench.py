"""`greedystep bench`: time it beside other packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from greedystep import bench
from greedystep.checks import check_int, parse_int
from greedystep.cli.args import NAMES, BadInputError, Count, PathArg, answering_bad_input, check_place, some


@dataclass(frozen=True)
class Bench:
    """Time greedystep beside other packages (the extra `peers`) on this machine."""

    # What to time: envs, planning, returns, train.
    names: Annotated[Positional[tuple[bench.Name, ...]], NAMES]

    # Folder to write NAME.json and NAME.md to.
    out: PathArg = Path("benchmarks/results")

    # How often each case is timed; medians are reported.
    repeats: Count = 5

    # Of planning, only the problems of these kinds (goal, diffusive, mixing, other), or with these texts in their names
    # (default: all).
    problems: Annotated[tuple[str, ...], some("TEXT"), arg(help_behavior_hint="")] = ()

    # Of envs and train, only the environments whose names contain one of these texts (default: for envs all but the toy
    # tasks, for train minatar/breakout, minatar/freeway and classic/mountaincar).
    games: Annotated[tuple[str, ...], some("TEXT"), arg(help_behavior_hint="")] = ()

    # Of envs, how many environments to step at once (default: 1 256 4096 on a CPU, 4096 to 262144 elsewhere); of train,
    # how many lanes (default: 1 on a CPU, 1 5 24 elsewhere).
    numbers: Annotated[tuple[int, ...], some("NUMBER", parse_int), arg(help_behavior_hint="")] = ()

    def run(self) -> int:
        from rich.console import Console

        from greedystep.runs.progress import say

        if not self.names:
            raise BadInputError("names: give at least one of envs, planning, returns, train")
        with answering_bad_input():
            check_int("repeats", self.repeats)
            check_place(self.out)
            options = self._options()
        self.out.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys(self.names):
            bench.load(name).run(self.out, self.repeats, **options.get(name, {}))
            say(Console(), (self.out / f"{name}.md").read_text(encoding="utf-8"))
        return 0

    def _options(self) -> dict[str, dict[str, Any]]:
        """What single benchmarks are told besides `out` and `repeats`."""
        options: dict[str, dict[str, Any]] = {}
        if self.problems:
            self._only("problems", "planning")
            from greedystep.bench.problems import select

            options["planning"] = {"problems": select(self.problems)}
        if self.games or self.numbers:
            self._only("games" if self.games else "numbers", "envs", "train")
            numbers = bench.counts(self.numbers)
            if "envs" in self.names:
                from greedystep.bench.envs import known

                found = bench.chosen(self.games, known())
                options["envs"] = {"names": found, "numbers": numbers}
            if "train" in self.names:
                from greedystep.bench.train import GAMES

                found = bench.chosen(self.games, GAMES)
                options["train"] = {"names": found, "lanes": numbers}
        return options

    def _only(self, option: str, *names: bench.Name) -> None:
        if not set(names) & set(self.names):
            having = " and ".join(names)
            raise ValueError(f"{option}: only {having} {'has' if len(names) == 1 else 'have'} {option} to choose from")

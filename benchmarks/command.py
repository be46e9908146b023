"""The options of `greedystep bench` and `python -m benchmarks`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, cast, get_args

from tyro.conf import Positional

from greedystep.checks import INT32_MAX, check_int, parse_int
from greedystep.cli.args import (
    NAMES,
    NO_HINT,
    BadInputError,
    Count,
    PathArg,
    answering_bad_input,
    check_writable,
    one_or_more,
)

Name = Literal[
    "auto-alternatives",
    "data",
    "devices",
    "envs",
    "gym",
    "install",
    "offline",
    "planning",
    "planning-large",
    "returns",
    "settings",
    "train",
]
Texts = Annotated[tuple[str, ...], one_or_more("TEXT"), NO_HINT]


OPTION_OWNERS: dict[str, tuple[Name, ...]] = {
    "problems": ("planning",),
    "games": ("auto-alternatives", "devices", "envs", "offline", "settings", "train"),
    "numbers": ("devices", "envs", "train"),
    "preset": ("train",),
}
"""Option -> the benchmarks that have it."""


class Benchmark(Protocol):
    """The interface of a benchmark's module."""

    def run(self, out: Path, repeats: int, **options: Any) -> dict[str, Any]: ...


def load(name: Name) -> Benchmark:
    """Import the benchmark of that name."""
    return cast(Benchmark, import_module(f"benchmarks.{name.replace('-', '_')}"))


@dataclass(frozen=True)
class Bench:
    """Time greedystep beside other packages (the extra `peers`) on this machine."""

    # What to time: auto-alternatives (returns of the rules that were tried besides returns="auto"), data (learning from
    # a large dataset), devices (lanes on one device and on many), envs, gym (training in Gymnasium environments),
    # install (size and start-up time of the wheel with each extra), offline (learning from logs), planning,
    # planning-large (10 and 100 million states, which takes an hour), returns, settings (greedy play after training in
    # Gymnasium environments), train.
    names: Annotated[Positional[tuple[Name, ...]], NAMES]

    # Folder to write NAME.json and NAME.md to.
    out: PathArg = Path("benchmarks/results")

    # How often each case is timed; medians are reported. For auto-alternatives, offline and settings: the number of
    # seeds.
    repeats: Count = 5

    # For planning: only the problems of these kinds (goal, diffusive, mixing, other), or with these texts in their
    # names (default: all).
    problems: Texts = ()

    # For auto-alternatives, devices, envs, offline, settings and train: only the environments whose names contain one
    # of these texts (default: for auto-alternatives catcher, pixelcopter and mountaincar, for devices minatar/breakout
    # and classic/mountaincar, for envs all but the toy tasks, for offline classic/cartpole, ple/catcher,
    # classic/mountaincar and minatar/breakout, for settings CartPole-v1, Acrobot-v1 and LunarLander-v3, for train
    # minatar/breakout, minatar/freeway and classic/mountaincar; it knows minatar/seaquest too).
    games: Texts = ()

    # For envs: how many environments to step in parallel (default: 1 256 4096 on a CPU, 4096 to 262144 elsewhere); for
    # train: how many lanes (default: 1 on a CPU, 1 5 24 elsewhere); for devices: how many lanes (default: one per
    # device of a CPU, 24 elsewhere).
    numbers: Annotated[tuple[int, ...], one_or_more("NUMBER", parse_int), NO_HINT] = ()

    # For train: the preset to time; auto: paper (one environment, batches of 32) on a CPU, fast elsewhere.
    preset: Literal["auto", "paper", "fast"] = "auto"

    def run(self) -> int:
        from rich.console import Console

        from greedystep.runs.progress import say

        if not self.names:
            raise BadInputError(f"names: give at least one of {', '.join(get_args(Name))}")
        with answering_bad_input():
            check_int("repeats", self.repeats)
            check_writable(self.out)
            options = self._options()
        self.out.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys(self.names):
            load(name).run(self.out, self.repeats, **options.get(name, {}))
            say(Console(), (self.out / f"{name}.md").read_text(encoding="utf-8"))
        return 0

    def _options(self) -> dict[str, dict[str, Any]]:
        """Return the options of single benchmarks besides `out` and `repeats`."""
        for option, owners in OPTION_OWNERS.items():
            if getattr(self, option) not in ((), "auto") and not set(owners) & set(self.names):
                listed = " and ".join(filter(None, (", ".join(owners[:-1]), owners[-1])))
                raise ValueError(f"{option}: only {listed} {'has' if len(owners) == 1 else 'have'} this option")
        options: dict[str, dict[str, Any]] = {name: {} for name in self.names}
        if self.problems:
            from benchmarks.planning_problems import select

            options["planning"] = {"problems": select(self.problems)}
        numbers = [check_int("numbers", number, 1, INT32_MAX) for number in self.numbers]
        for name in self.names:
            if self.games and name in OPTION_OWNERS["games"]:
                options[name]["names"] = select_games(self.games, _known_games(name))
            if numbers and name in OPTION_OWNERS["numbers"]:
                options[name]["numbers" if name == "envs" else "lanes"] = numbers
            if self.preset != "auto" and name in OPTION_OWNERS["preset"]:
                options[name]["preset"] = self.preset
        return options


def _known_games(name: Name) -> list[str]:
    """Return the environments from which `--games` chooses for a benchmark."""
    match name:
        case "auto-alternatives":
            from greedystep.experiments.deep.suite import FIGURE_3

            return list(FIGURE_3)
        case "devices":
            from benchmarks.devices import GAMES

            return list(GAMES)
        case "envs":
            from benchmarks.envs import all_games

            return list(all_games())
        case "train":
            from benchmarks.train import GAMES, MORE_GAMES

            return [*GAMES, *MORE_GAMES]
        case _:
            return list(import_module(f"benchmarks.{name}").TASKS)


def select_games(texts: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the games whose names contain one of the texts, or all of them without any text."""
    for text in texts:
        if not any(text in name for name in known):
            raise ValueError(f"games: no name contains {text!r}; known are {', '.join(known)}")
    return [name for name in known if not texts or any(text in name for text in texts)]

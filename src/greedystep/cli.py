"""The command line: one frozen dataclass a command, whose fields are its options and whose comments are its help.

Modules that do the work are imported by the command that needs them: help is quick, and `plan` never imports JAX.
"""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional, arg, subcommand
from tyro.constructors import PrimitiveConstructorSpec

from greedystep import __version__, bench, experiments
from greedystep.record import config_hash, provenance, replacing, write_json

if TYPE_CHECKING:
    from greedystep.planning import Solution


class BadInputError(Exception):
    """What the user gave cannot be used; the message is the sentence to answer with."""


@contextmanager
def answering_bad_input() -> Iterator[None]:
    """Complaints within are about the input; anywhere else they are bugs and keep their traceback."""
    try:
        yield
    except OSError as problem:
        raise BadInputError(
            f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)
        ) from problem
    except (ValueError, MemoryError) as problem:
        raise BadInputError(str(problem)) from problem


# -- numbers as people type them --------------------------------------------------------------------------------------


def _count(text: str) -> int:
    """A whole number; 5e6 and 5_000_000 are five million."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise ValueError(f"expected a whole number such as 1000 or 5e6, got {text!r}")
    return int(number)


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a number, got {text!r}") from None


def _number(parse: Callable[[str], Any]) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="NUMBER",
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda value: value is None or isinstance(value, int | float),
        str_from_instance=lambda value: ["none" if value is None else f"{value:g}"],
    )


Count = Annotated[int, _number(_count)]
Real = Annotated[float, _number(_real)]
MaybeCount = Annotated[int | None, _number(_count), arg(help_behavior_hint="")]
MaybeReal = Annotated[float | None, _number(_real), arg(help_behavior_hint="")]
MaybePath = Annotated[
    Path | None,
    PrimitiveConstructorSpec(1, "PATH", lambda words: Path(words[0]), lambda value: True, lambda value: [str(value)]),
    arg(help_behavior_hint=""),
]
Method = Literal[
    "auto", "greedy-step", "value-iteration", "policy-iteration", "modified-policy-iteration", "multi-step"
]
NAMES = arg(metavar="NAME [NAME ...]", help_behavior_hint="(required)")


# -- commands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Solve a finite MDP and print its values, its policy and a proven bound on the error."""

    # A built-in name, a Gymnasium id with a transition table (FrozenLake-v1), or a .npz file that `MDP.save` wrote.
    # Built in: frozenlake-4x4, frozenlake-8x8, cliffwalking, taxi, chain-STATES, grid-HEIGHTxWIDTH, maze-HEIGHTxWIDTH,
    # garnet-STATESxACTIONSxBRANCHING; for example grid-20x30. Mazes and Garnets are drawn with seed 0.
    model: Positional[str]

    # γ in (0, 1] (default: the file's own, or 0.99).
    discount: MaybeReal = None

    # Probability of not moving in the chosen direction, for frozenlake (default: 2/3), grid and maze (default: 0).
    slip: MaybeReal = None

    # auto is the fast general solver; greedy-step is the paper's Algorithm 1.
    method: Method = "auto"

    # Behaviour policies: greedy (of the current values), or for greedy-step and multi-step also each-action (one
    # constant policy for every action), uniform, or random-8 (any number of deterministic ones, drawn with seed 0).
    # multi-step needs one of the latter.
    policies: Annotated[str, arg(metavar="SET")] = "greedy"

    # Longest look-ahead N of greedy-step, multi-step and modified-policy-iteration (default: 20).
    horizon: MaybeCount = None

    # Stop once the values are proven to be this close to the optimal ones.
    tolerance: Real = 1e-6

    # Stop after that many iterations, with the bound reached by then (default: no limit).
    max_iterations: MaybeCount = None

    # Stop after that many seconds, with the bound reached by then (default: no limit).
    time_limit: MaybeReal = None

    # Also write the solution to this .npz or .json file (default: print only).
    out: MaybePath = None

    def run(self) -> int:
        from rich.console import Console

        from greedystep import catalogue
        from greedystep.planning import solve
        from greedystep.report.terminal import print_solution, say

        with answering_bad_input():
            if self.out is not None:
                _check_place(self.out.parent)
                if self.out.suffix not in (".npz", ".json") or self.out.is_dir():
                    raise ValueError(f"out: expected a file that ends in .npz or .json, got {str(self.out)!r}")
            model = catalogue.model(self.model, self.discount, self.slip)
            solution = solve(
                model.mdp,
                self.method,
                catalogue.policies(self.policies, model.mdp),
                self.horizon,
                self.tolerance,
                max_iterations=self.max_iterations,
                time_limit=self.time_limit,
                progress=sys.stderr.isatty(),
            )
        console = Console()
        print_solution(console, model, solution)
        if self.out is not None:
            settings = {key: value for key, value in asdict(self).items() if key != "out"}
            _write_solution(self.out, solution, provenance(settings))
            say(console, f"Written: {self.out}")
        return 130 if solution.message.startswith("interrupted") else 0


@dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper and compare what they measure with what it claims."""

    # Which experiments to run: table1, fig1, or all.
    names: Annotated[Positional[tuple[Literal[experiments.Name, "all"], ...]], NAMES]

    # quick takes minutes on two cores; paper has the paper's sizes.
    scale: experiments.Scale = "quick"

    # Folder to write to (default: results/SCALE). It gets NAME.json, figures (PNG, SVG) and tables (Markdown, LaTeX) of
    # each experiment, and one page of them all, report.html. An experiment's JSON is written as soon as it is finished:
    # an interrupted run keeps what it has.
    out: MaybePath = None

    # Run only what the folder lacks; results made by the same version with the same settings stay.
    resume: bool = False

    def run(self) -> int:
        names = self._names()
        from greedystep.report import results

        out = self.out or Path("results", self.scale)
        with answering_bad_input():
            _check_place(out)
            present = {result["name"]: result for result in results.collect([out])} if _has_results(out) else {}
        try:
            for name in names:
                settings = {"experiment": name, "scale": self.scale}
                if self.resume and name in present and _made_by(settings, present[name]["provenance"]):
                    _note(f"{name}: already in {out}")
                    continue
                self._run_one(name, settings, out)
        except KeyboardInterrupt:
            _note(f"Finished experiments are in {out}; add --resume to run only the others.")
            raise
        return _conclude(results.collect([out]), out)

    def _names(self) -> list[str]:
        if not self.names:
            raise BadInputError(f"names: give at least one of {', '.join(experiments.NAMES)}, or all")
        return [name for name in experiments.NAMES if name in self.names or "all" in self.names]

    def _run_one(self, name: str, settings: dict[str, Any], out: Path) -> None:
        from rich.console import Console

        from greedystep.report.terminal import progress

        with progress(Console(stderr=True), name) as report:
            result = experiments.load(name).run(self.scale, report)
        # Asked after the run: only then is it known which device was used.
        write_json(out / f"{name}.json", {"name": name, **result, "provenance": provenance(settings)})


@dataclass(frozen=True)
class Report:
    """Draw figures, tables and the page again from the JSON of earlier runs, without running anything."""

    # Folders that `greedystep reproduce` wrote, or single JSON files of them.
    paths: Annotated[Positional[tuple[Path, ...]], arg(metavar="PATH [PATH ...]", help_behavior_hint="(required)")]

    # Folder to write to; the JSON is copied there too.
    out: Path

    def run(self) -> int:
        from greedystep.report import results

        if not self.paths:
            raise BadInputError("paths: give at least one results folder or JSON file")
        with answering_bad_input():
            _check_place(self.out)
            found = results.collect(self.paths)
        for result in found:
            write_json(self.out / f"{result['name']}.json", result)
        return _conclude(found, self.out)


@dataclass(frozen=True)
class Bench:
    """Time greedystep beside other packages (the extra `peers`) on this machine."""

    # What to time: planning, returns, or both.
    names: Annotated[Positional[tuple[bench.Name, ...]], NAMES]

    # Folder to write NAME.json and NAME.md to.
    out: Path = Path("benchmarks/results")

    # How often each case is timed; medians are reported.
    repeats: Count = 5

    # Of planning, only the problems whose names contain one of these texts (default: all).
    problems: Annotated[tuple[str, ...], arg(metavar="TEXT [TEXT ...]", help_behavior_hint="")] = ()

    def run(self) -> int:
        from rich.console import Console

        from greedystep.report.terminal import say

        if not self.names:
            raise BadInputError("names: give planning, returns, or both")
        if self.repeats < 1:
            raise BadInputError(f"repeats: expected at least 1, got {self.repeats}")
        with answering_bad_input():
            _check_place(self.out)
            options = self._options()
        self.out.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys(self.names):
            bench.load(name).run(self.out, self.repeats, **options.get(name, {}))
            say(Console(), (self.out / f"{name}.md").read_text(encoding="utf-8"))
        return 0

    def _options(self) -> dict[str, dict[str, Any]]:
        """What single benchmarks are told besides `out` and `repeats`."""
        if not self.problems:
            return {}
        if "planning" not in self.names:
            raise ValueError("problems: only planning has problems to choose from")
        from greedystep.bench.problems import select

        return {"planning": {"problems": select(self.problems)}}


def _check_place(folder: Path) -> None:
    """Before the work, not after it: the folder is one to write to, or can be made."""
    place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise ValueError(f"out: {place} is not a folder one can write to")


def _has_results(folder: Path) -> bool:
    return any((folder / f"{name}.json").exists() for name in experiments.NAMES)


def _made_by(settings: dict[str, Any], made: dict[str, Any]) -> bool:
    return made["config_hash"] == config_hash(settings) and made["versions"]["greedystep"] == __version__


def _conclude(found: list[dict[str, Any]], out: Path) -> int:
    from rich.console import Console

    from greedystep.report import results
    from greedystep.report.terminal import print_claims, say

    page = results.write(found, out)
    console = Console()
    print_claims(console, found)
    say(console, f"Written: {page}")
    return 0


def _write_solution(path: Path, solution: Solution, made_by: dict[str, Any]) -> None:
    import json

    import numpy as np

    content: dict[str, Any] = {
        name: getattr(solution, name)
        for name in (
            *("q", "v", "policy", "error_bound", "policy_loss_bound", "converged", "iterations", "sweeps"),
            *("trace", "seconds", "method", "message"),
        )
    }
    if path.suffix == ".json":
        write_json(path, {**content, "provenance": made_by})
    else:
        with replacing(path) as file:
            np.savez(file, **content, provenance=json.dumps(made_by))


def _note(text: str) -> None:
    print(text, file=sys.stderr)


# -- the way in -------------------------------------------------------------------------------------------------------

Command = (
    Annotated[Plan, subcommand("plan")]
    | Annotated[Reproduce, subcommand("reproduce")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Bench, subcommand("bench")]
)

ABOUT = """Exact planning with a proven error bound, and the greedy-step paper's results.

  greedystep plan frozenlake-8x8      solve a model, print its values and policy
  greedystep reproduce all            run the paper's experiments, write results/quick/report.html
  greedystep COMMAND --help           every option of a command
  greedystep --version"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv == ["--version"]:
        print(f"greedystep {__version__}")
        return 0
    try:
        return _parse(argv).run()
    except BadInputError as problem:
        _note(f"greedystep: {_one_line(str(problem))}")
        return 2
    except OSError as problem:
        _note(f"greedystep: {_one_line(str(problem))}")
        return 1
    except KeyboardInterrupt:
        _note("greedystep: interrupted")
        return 130


def _parse(argv: list[str]) -> Any:
    said = io.StringIO()
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.PositionalMetavarFromFieldName)
    try:
        with redirect_stderr(said):
            return tyro.cli(Command, prog="greedystep", description=ABOUT, args=argv or ["--help"], config=config)
    except SystemExit as stop:
        if stop.code != 2:
            raise
        raise BadInputError(_unboxed(said.getvalue())) from None


def _unboxed(box: str) -> str:
    """The first paragraph of tyro's framed error message, without the frame and the help text it quotes."""
    frame, quoted = ("╭", "╰"), "│" + " " * 8
    lines = [line.strip("│ ") for line in box.splitlines() if not line.startswith((*frame, quoted))]
    return " ".join(takewhile(lambda line: line and not line.startswith("─"), lines)) or box


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())

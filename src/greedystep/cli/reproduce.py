"""`greedystep reproduce` runs experiments of the paper; `greedystep report` draws them again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from greedystep import __version__, experiments
from greedystep.cli.words import NAMES, BadInputError, MaybePath, answering_bad_input, check_place, note
from greedystep.record import config_hash, provenance, write_json


@dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper and compare what they measure with what it claims."""

    # Which experiments to run: table1, fig1, fig2, fig3, fig4, fig5, horizon, or all.
    names: Annotated[Positional[tuple[Literal[experiments.Name, "all"], ...]], NAMES]

    # quick takes minutes on two cores; paper has the paper's sizes.
    scale: experiments.Scale = "quick"

    # Folder to write to (default: results/SCALE). It gets NAME.json, figures (PNG, SVG) and tables (Markdown, LaTeX) of
    # each experiment, and one page of them all, report.html. An experiment's JSON is written as soon as it is finished:
    # an interrupted run keeps what it has. Finished trainings of networks are kept in its folder parts and are never
    # run again.
    out: MaybePath = None

    # Run only what the folder lacks; results made by the same version with the same settings stay.
    resume: bool = False

    # Train on these tasks only (breakout, mountaincar, ...), for experiments that train networks. What other tasks have
    # in the folder already is drawn, the rest is reported as missing.
    only: Annotated[tuple[str, ...], arg(metavar="TASK [TASK ...]", help_behavior_hint="(default: all)")] = ()

    def run(self) -> int:
        names = self._names()
        self._check_only(names)
        from greedystep.report import results

        out = self.out or Path("results", self.scale)
        with answering_bad_input():
            check_place(out)
            present = {result["name"]: result for result in results.collect([out])} if _has_results(out) else {}
        try:
            for name in names:
                settings = {"experiment": name, "scale": self.scale}
                if self.resume and name in present and _is_whole(settings, present[name]):
                    note(f"{name}: already in {out}")
                    continue
                self._run_one(name, settings, out)
        except KeyboardInterrupt:
            note(f"Finished experiments are in {out}; add --resume to run only the others.")
            raise
        return conclude(results.collect([out]), out)

    def _names(self) -> list[str]:
        if not self.names:
            raise BadInputError(f"names: give at least one of {', '.join(experiments.NAMES)}, or all")
        return [name for name in experiments.NAMES if name in self.names or "all" in self.names]

    def _check_only(self, names: list[str]) -> None:
        if not self.only:
            return
        from greedystep.experiments.deep.tasks import TASKS

        for name in names:
            if not experiments.is_in_parts(experiments.load(name)):
                raise BadInputError(f"only: {name} trains no networks, so it has no tasks to choose from")
        for task in self.only:
            if task not in TASKS:
                raise BadInputError(f"only: {task!r} is not a task; there are {', '.join(TASKS)}")

    def _run_one(self, name: str, settings: dict[str, Any], out: Path) -> None:
        from rich.console import Console

        from greedystep.report.terminal import progress

        experiment = experiments.load(name)
        more = {"parts": out / "parts", "only": self.only} if experiments.is_in_parts(experiment) else {}
        with progress(Console(stderr=True), name) as report:
            result = experiment.run(self.scale, report, **more)
        for sentence in (*result["numbers"].get("problems", ()), *result["numbers"].get("missing", ())):
            note(f"{name}: {sentence}")
        # Asked after the run: only then is it known which device was used.
        write_json(out / f"{name}.json", {"name": name, **result, "provenance": provenance(settings)})


@dataclass(frozen=True)
class Report:
    """Compare training runs, or draw the results of `reproduce` again, without running anything."""

    # Folders that `greedystep train` wrote, to compare their learning curves; or folders that `greedystep reproduce`
    # wrote, or single JSON files of them, to draw figures, tables and the page again.
    paths: Annotated[Positional[tuple[Path, ...]], arg(metavar="PATH [PATH ...]", help_behavior_hint="(required)")]

    # Folder to write to; the JSON of results is copied there too.
    out: Path

    def run(self) -> int:
        from greedystep.report import results, runs

        if not self.paths:
            raise BadInputError("paths: give at least one results folder, JSON file or run")
        if any(map(runs.is_run, self.paths)):
            return self._compare_runs()
        with answering_bad_input():
            check_place(self.out)
            found = results.collect(self.paths)
        for result in found:
            write_json(self.out / f"{result['name']}.json", result)
        return conclude(found, self.out)

    def _compare_runs(self) -> int:
        from rich.console import Console

        from greedystep.report import run_curves, runs
        from greedystep.report.terminal import say

        with answering_bad_input():
            check_place(self.out)
            methods = runs.gather(map(runs.read, dict.fromkeys(self.paths)))
        page = run_curves.write(methods, self.out)
        say(Console(), (self.out / "runs.md").read_text(encoding="utf-8"))
        say(Console(), f"Written: {page}")
        return 0


def _has_results(folder: Path) -> bool:
    return any((folder / f"{name}.json").exists() for name in experiments.NAMES)


def _is_whole(settings: dict[str, Any], result: dict[str, Any]) -> bool:
    """Made by the same version with the same settings, and nothing is missing."""
    made = result["provenance"]
    is_same = made["config_hash"] == config_hash(settings) and made["versions"]["greedystep"] == __version__
    return is_same and not result["numbers"].get("missing")


def conclude(found: list[dict[str, Any]], out: Path) -> int:
    from rich.console import Console

    from greedystep.report import results
    from greedystep.report.terminal import print_claims, say

    page = results.write(found, out)
    console = Console()
    print_claims(console, found)
    say(console, f"Written: {page}")
    return 0

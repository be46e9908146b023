"""`greedystep reproduce` runs experiments of the paper."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from greedystep import __version__, experiments, signals
from greedystep.cli.args import (
    NAMES,
    BadInputError,
    MaybePath,
    answering_bad_input,
    check_writable,
    one_or_more,
    print_note,
    warnings_as_notes,
)
from greedystep.cli.ray_options import RayOptions
from greedystep.cli.report import conclude, has_results, read_kept
from greedystep.io import write_json
from greedystep.provenance import config_hash, provenance
from greedystep.runs.lock import lock_folder
from greedystep.runs.part_store import PartStore

if TYPE_CHECKING:
    from greedystep.report.results import Found


@dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper and compare what they measure with what it claims."""

    # Which experiments to run: table1, fig1, fig2, fig3, fig4, fig5, horizon, luck, presets, protocol, evaluation,
    # released, settings, auto, offline, or all.
    names: Annotated[Positional[tuple[Literal[experiments.Name, "all"], ...]], NAMES]

    # quick takes minutes on two cores; paper has the paper's sizes.
    scale: experiments.Scale = "quick"

    # Folder to write to (default: results/SCALE). It gets NAME.json, figures (PNG, SVG) and tables (Markdown, LaTeX) of
    # each experiment, and one page of them all, report.html. An experiment's JSON is written as soon as it is finished:
    # an interrupted run keeps what it has. Finished trainings of networks and trials of fig2 are kept in its folder
    # parts and are never run again; once an experiment has all of them, they are packed into parts/NAME.jsonl.gz.
    out: MaybePath = None

    # Run only what the folder lacks; results made by the same version with the same settings stay.
    resume: bool = False

    # Run these tasks only: breakout, mountaincar, ... where networks are trained; choice, trace-back, grid-world in
    # fig2. What other tasks have in the folder already is drawn, the rest is reported as missing.
    only: Annotated[tuple[str, ...], one_or_more("TASK"), arg(help_behavior_hint="(default: all)")] = ()

    # Run nothing: judge and draw what the folder has so far, say after an interruption, and pack what it has in parts.
    # For all but table1, fig1 and released.
    gather: bool = False

    # Folder with results of the full size, for scale quick: the page shows them, with their verdicts, as soon as the
    # command starts, and what is run checks them: consistent with the full run or not (default: results/paper, if
    # there).
    kept: MaybePath = None

    # With --on ray, what is trained or tried in parts (all but table1, fig1 and released) is made by the workers of the
    # cluster.
    ray: OmitArgPrefixes[RayOptions] = field(default_factory=RayOptions)

    def run(self) -> int:
        names = self._names()
        for name in names:
            experiments.load(name)  # what is not installed is said now, not after hours
        self._check_parts(names)
        with answering_bad_input():
            self.ray.check()
        if self.ray.on is not None and self.gather:
            raise BadInputError("on: --gather runs nothing, here or elsewhere")
        from greedystep.report import results

        out = self.out or Path("results", self.scale)
        with ExitStack() as locks:
            with answering_bad_input():
                kept = self._kept()
                check_writable(out)
                locks.enter_context(lock_folder(out))
                present = _present(out)
            workers = None
            if self.ray.on is not None:
                workers = locks.enter_context(self.ray.workers(out / "parts"))
            parts, drawn = PartStore(out / "parts", workers), results.Drawn()

            def found() -> results.Found:
                own = results.collect([out]) if has_results(out) else results.Found([], [])
                return results.beside(own, kept, names)

            if found().kept:
                print_note(f"{results.write(found(), out, drawn)} shows the kept results; what is run is added to it.")
            try:
                for name in names:
                    settings = {"experiment": name, "scale": self.scale}
                    if self.resume and name in present and _is_whole(settings, present[name]):
                        print_note(f"{name}: already in {out}")
                        continue
                    with warnings_as_notes():
                        self._run_one(name, settings, out, parts)
                    if kept.results:
                        results.write(found(), out, drawn)
            except KeyboardInterrupt:
                print_note(
                    f"What is finished is in {out} and is not run again; --gather judges and draws what is there."
                )
                raise
            return conclude(found(), out, drawn)

    def _names(self) -> list[str]:
        if not self.names:
            raise BadInputError(f"names: give at least one of {', '.join(experiments.NAMES)}, or all")
        return [name for name in experiments.NAMES if name in self.names or "all" in self.names]

    def _check_parts(self, names: list[str]) -> None:
        if not self.only and not self.gather:
            return
        if self.only and self.gather:
            raise BadInputError("only: --gather runs no task at all")
        known: dict[str, None] = {}
        for name in names:
            experiment = experiments.load(name)
            if not experiments.is_in_parts(experiment):
                asked = "only" if self.only else "gather"
                raise BadInputError(f"{asked}: {name} is short and made in one piece, it has no tasks or parts")
            known |= dict.fromkeys(experiments.tasks_of(experiment, self.scale))
        for task in self.only:
            if task not in known:
                raise BadInputError(f"only: expected a task at scale {self.scale} ({', '.join(known)}), got {task!r}")

    def _kept(self) -> Found:
        """Return the full-size results that quick ones check."""
        if self.scale == "paper" and self.kept is not None:
            raise BadInputError("kept: results of --scale quick are checked against them, not those of --scale paper")
        from greedystep.report import results

        return results.Found([], []) if self.scale == "paper" else read_kept(self.kept)

    def _run_one(self, name: str, settings: dict[str, Any], out: Path, parts: PartStore) -> None:
        from rich.console import Console

        from greedystep.runs.progress import progress_line

        experiment = experiments.load(name)
        more = (
            {"parts": parts, "only": experiments.NOTHING if self.gather else self.only}
            if experiments.is_in_parts(experiment)
            else {}
        )
        with progress_line(Console(stderr=True), name) as report:
            result = experiment.run(self.scale, report, **more)
        for sentence in (*result["numbers"].get("problems", ()), *result["numbers"].get("missing", ())):
            print_note(f"{name}: {sentence}")
        # Asked after the run: only then is it known which device was used.
        write_json(out / f"{name}.json", {"name": name, **result, "provenance": provenance(settings)})
        if self.gather or not result["numbers"].get("missing"):
            with signals.deferred():
                parts.pack(name)


def _present(folder: Path) -> dict[str, dict[str, Any]]:
    """Return {name: result} of the results in the folder; ValueError if one cannot be read."""
    from greedystep.report import results

    if not has_results(folder):
        return {}
    found = results.collect([folder])
    if found.problems:
        raise ValueError(found.problems[0])
    return {result["name"]: result for result in found.results}


def _is_whole(settings: dict[str, Any], result: dict[str, Any]) -> bool:
    """Whether a result is complete and was made by this version with the same settings: it need not run again."""
    made = result["provenance"]
    versions = made.get("versions")
    is_same = made.get("config_hash") == config_hash(settings) and isinstance(versions, dict)
    return is_same and versions.get("greedystep") == __version__ and not result["numbers"].get("missing")

"""`greedystep report`: compare training runs, or draw the results of `reproduce` again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from greedystep import experiments
from greedystep.cli.args import BadInputError, MaybePath, PathArg, answering_bad_input, check_writable, print_note
from greedystep.io import write_json

if TYPE_CHECKING:
    from greedystep.report.results import Drawn, Found


@dataclass(frozen=True)
class Report:
    """Compare training runs, or draw the results of `reproduce` again, without running anything."""

    # Folders that `greedystep train` wrote, to compare their learning curves; or folders that `greedystep reproduce`
    # wrote, or single JSON files of them, to draw figures, tables and the page again. A result in a folder that cannot
    # be read is named on the page, and the others are drawn.
    paths: Annotated[Positional[tuple[PathArg, ...]], arg(metavar="PATH [PATH ...]", help_behavior_hint="(required)")]

    # Folder to write to; the JSON of results is copied there too (default: the folder of results, if one is given).
    out: MaybePath = None

    # Folder with results of the full size: the page shows them in place of quick results, which check their verdicts
    # (default: results/paper, if there and a result is quick).
    kept: MaybePath = None

    def run(self) -> int:
        from greedystep.runs.progress import working

        if not self.paths:
            raise BadInputError("paths: give at least one results folder, JSON file or run")
        with working("reading"):
            from greedystep.report import results, run_report
        are_runs = any(map(run_report.is_run, self.paths))
        out = self.out
        if out is None:
            out, *others = self.paths
            if are_runs or others or out.is_file():
                raise BadInputError("out: name a folder to write to")
        if are_runs:
            if self.kept is not None:
                raise BadInputError("kept: training runs are compared with each other, not with kept results")
            return self._compare_runs(out)
        with answering_bad_input():
            found = results.collect(self.paths)
            is_quick = any(result["settings"].get("scale") == "quick" for result in found.results)
            shown = results.beside(found, read_kept(self.kept), ()) if is_quick else found
            check_writable(out)
        if self.kept is not None and not is_quick:
            raise BadInputError("kept: only results of scale quick are checked against full-size ones")
        for result in found.results:
            write_json(out / f"{result['name']}.json", result)
        return conclude(shown, out)

    def _compare_runs(self, out: Path) -> int:
        from rich.console import Console

        from greedystep.report import run_report
        from greedystep.runs.progress import say, working

        with answering_bad_input(), working("reading the runs"):
            check_writable(out)
            groups = run_report.group(map(run_report.read, dict.fromkeys(self.paths)))
        with working("drawing"):
            page = run_report.write(groups, out)
        say(Console(), (out / "runs.md").read_text(encoding="utf-8"))
        say(Console(), f"Written: {page}")
        return 0


KEPT = Path("results", "paper")


def has_results(folder: Path) -> bool:
    """Return whether the folder has a result of any experiment."""
    return any((folder / f"{name}.json").exists() for name in experiments.NAMES)


def read_kept(folder: Path | None) -> Found:
    """Return the full-size results of the folder (None: results/paper; empty if there is none), and note problems."""
    from greedystep.report import results

    if folder is None and not has_results(KEPT):
        return results.Found([], [])
    found = results.collect([folder or KEPT])
    for problem in found.problems:
        print_note(f"kept: {problem}")
    return found._replace(problems=[])


def conclude(found: Found, out: Path, drawn: Drawn | None = None) -> int:
    """Write figures, tables and the page of the results into `out`, and print their claims; return the exit status."""
    from rich.console import Console

    from greedystep.report import results
    from greedystep.report.terminal import print_claims
    from greedystep.runs.progress import say, working

    with working("drawing"):
        page = results.write(found, out, drawn)
    for problem in found.problems:
        print_note(problem)
    console = Console()
    print_claims(console, found.results, found.checks.values())
    say(console, f"Written: {page}")
    return 0

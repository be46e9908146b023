"""`greedystep bench`: time it beside other packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from greedystep import bench
from greedystep.cli.words import NAMES, BadInputError, Count, answering_bad_input, check_place


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
            check_place(self.out)
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

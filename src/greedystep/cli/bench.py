"""`greedystep bench` runs the benchmarks of the checkout that the package was installed from."""

from __future__ import annotations

import sys
from pathlib import Path

from greedystep.cli.args import BadInputError
from greedystep.cli.parser import parse

CHECKOUT = Path(__file__).parents[3]
"""The repository that holds the package, if it is installed from one: CHECKOUT/src/greedystep/cli/bench.py."""


def run(argv: list[str]) -> int:
    """Run `python -m benchmarks` with these arguments, and return the exit status."""
    if "benchmarks" not in sys.modules:  # `python -m benchmarks` has found it
        if not (CHECKOUT / "benchmarks" / "command.py").is_file():
            raise BadInputError(
                "bench: the benchmarks are in the source tree only; install from a checkout with pip -e"
            )
        sys.path.insert(0, str(CHECKOUT))
    from benchmarks.command import Bench

    return parse(Bench, argv, prog="greedystep bench").run()

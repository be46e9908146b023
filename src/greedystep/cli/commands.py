"""All commands: one frozen dataclass each, whose fields are its options and whose comments are its help.

Modules that do the work are imported by the command that needs them: help is quick, and `plan` never imports JAX.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from itertools import takewhile
from typing import Annotated, Any

import tyro
from tyro.conf import subcommand

from greedystep.cli import BAD_INPUT, FAILED
from greedystep.cli.args import BadInputError, FailedError, note, plain_warnings
from greedystep.cli.bench import Bench
from greedystep.cli.envs import Envs
from greedystep.cli.eval import Eval
from greedystep.cli.fit import Fit
from greedystep.cli.plan import Plan
from greedystep.cli.report import Report
from greedystep.cli.reproduce import Reproduce
from greedystep.cli.train import Train
from greedystep.cli.watch import Watch

Command = (
    Annotated[Plan, subcommand("plan")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Fit, subcommand("fit")]
    | Annotated[Eval, subcommand("eval")]
    | Annotated[Reproduce, subcommand("reproduce")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[Envs, subcommand("envs")]
    | Annotated[Watch, subcommand("watch")]
)

ABOUT = """Exact planning with a proven error bound, the greedy-step paper's agents and results, and its games.

  greedystep plan frozenlake-8x8      solve a model, print its values and policy
  greedystep train minatar/breakout   let an agent learn, keep it in runs/
  greedystep fit LOG.npz --env NAME   let one learn from logged trajectories alone
  greedystep eval RUN                 how good it is
  greedystep report RUN RUN --out DIR compare runs by their learning curves
  greedystep reproduce all            run the paper's experiments, write results/quick/report.html
  greedystep envs                     list the environments
  greedystep watch minatar/breakout   watch one being played, or an agent: watch RUN
  greedystep COMMAND --help           every option of a command
  greedystep --version"""


def run(argv: list[str]) -> int:
    """Parse and run one command; returns the exit status: 0 done, 1 failed, 2 bad input."""
    try:
        with plain_warnings():
            return _parse(argv).run()
    except BadInputError as problem:
        note(f"greedystep: {_one_line(str(problem))}")
        return BAD_INPUT
    except (FailedError, OSError) as problem:
        note(f"greedystep: {_one_line(str(problem))}")
        return FAILED


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

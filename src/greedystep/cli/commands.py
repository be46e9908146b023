"""All commands: one frozen dataclass each, whose fields are its options and whose docstrings are its help.

Modules that do the work are imported by the command that needs them: help is quick, and `plan` never imports JAX.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

from tyro.conf import subcommand

from greedystep.cli import BAD_INPUT, FAILED, bench
from greedystep.cli.args import BadInputError, FailedError, one_line_warnings, print_note, sentence
from greedystep.cli.check import Check
from greedystep.cli.envs import Envs
from greedystep.cli.eval import Eval
from greedystep.cli.export import Export
from greedystep.cli.fit import Fit
from greedystep.cli.parser import parse
from greedystep.cli.plan import Plan
from greedystep.cli.report import Report
from greedystep.cli.reproduce import Reproduce
from greedystep.cli.train import Train
from greedystep.cli.tune import Tune
from greedystep.cli.watch import Watch
from greedystep.extras import MissingExtraError, deep_extra

Command = (
    Annotated[Plan, subcommand("plan")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Fit, subcommand("fit")]
    | Annotated[Tune, subcommand("tune")]
    | Annotated[Eval, subcommand("eval")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Reproduce, subcommand("reproduce")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Envs, subcommand("envs")]
    | Annotated[Check, subcommand("check")]
    | Annotated[Watch, subcommand("watch")]
)

ABOUT = """Exact planning with a proven error bound, the greedy-step paper's agents and results, and its games.

  greedystep plan frozenlake-8x8      solve a model, print its values and policy
  greedystep train minatar/breakout   train an agent, keep it in runs/
  greedystep fit LOG.npz --env NAME   train one from logged trajectories alone
  greedystep tune CartPole-v1         search for good settings, and show which of them matter
  greedystep eval RUN                 evaluate a trained agent
  greedystep export RUN --out LOG.npz write what an agent does, or its policy, for other programs
  greedystep report RUN RUN --out DIR compare runs by their learning curves
  greedystep reproduce all            check the kept results by quick runs: results/quick/report.html
  greedystep envs                     list the environments
  greedystep check CartPole-v1        say what is wrong with an environment
  greedystep watch minatar/breakout   watch random play, a trained agent (--pretrained), or yours: watch RUN
  greedystep bench planning           time it beside other packages (in a checkout of the source)
  greedystep COMMAND --help           every option of a command
  greedystep --version"""


def run(argv: list[str]) -> int:
    """Parse and run one command; return the exit status: 0 done, 1 failed, 2 bad input."""
    try:
        with one_line_warnings():
            if argv[:1] == ["bench"]:
                return bench.run(argv[1:])
            with deep_extra():
                return parse(Command, argv or ["--help"], prog="greedystep", description=ABOUT).run()
    except (BadInputError, MissingExtraError) as problem:
        return _explain(problem, BAD_INPUT)
    except BrokenPipeError:  # the reader of a pipe, say `head`, has seen enough: nobody is left to be told
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (FailedError, OSError) as problem:
        return _explain(problem, FAILED)


def _explain(problem: Exception, status: int) -> int:
    print_note(f"greedystep: {' '.join(sentence(problem).split())}")
    return status

"""`greedystep plan` solves a finite MDP."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from greedystep.cli.args import (
    MaybeCount,
    MaybePath,
    MaybeReal,
    Real,
    answering_bad_input,
    check_writable,
    saying_when_compiling,
)
from greedystep.io import atomic_write, write_json
from greedystep.provenance import provenance

if TYPE_CHECKING:
    from greedystep.planning import Solution

Method = Literal[
    "auto", "greedy-step", "value-iteration", "policy-iteration", "modified-policy-iteration", "multi-step"
]


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

    # Stop after this many iterations, with the bound reached by then (default: no limit).
    max_iterations: MaybeCount = None

    # Stop after this many seconds, with the bound reached by then (default: no limit).
    time_limit: MaybeReal = None

    # Also write the solution to this .npz or .json file (default: print only).
    out: MaybePath = None

    def run(self) -> int:
        from rich.console import Console

        from greedystep import models
        from greedystep.planning import solve
        from greedystep.report.terminal import print_solution
        from greedystep.runs.progress import say

        with answering_bad_input():
            if self.out is not None:
                check_writable(self.out.parent)
                if self.out.suffix not in (".npz", ".json") or self.out.is_dir():
                    raise ValueError(f"out: expected a file that ends in .npz or .json, got {str(self.out)!r}")
            model = models.by_name(self.model, self.discount, self.slip)
            with saying_when_compiling():
                solution = solve(
                    model.mdp,
                    self.method,
                    models.policies_by_name(self.policies, model.mdp),
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
        with atomic_write(path) as file:
            np.savez(file, **content, provenance=json.dumps(made_by))

"""`greedystep train`: let an agent learn in a folder that can be resumed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg
from tyro.constructors import PrimitiveConstructorSpec

from greedystep.cli.words import (
    BadInputError,
    MaybeCount,
    MaybePath,
    MaybeReal,
    answering_bad_input,
    check_place,
    note,
    parse_options,
)

if TYPE_CHECKING:
    from greedystep.tabular.run import Run

METHODS = (
    *("greedy-step", "q-learning", "backward-q-learning", "n-step-q", "n-step-sarsa", "sarsa-lambda", "watkins"),
    *("peng", "harutyunyan", "tree-backup", "retrace", "q-sigma", "monte-carlo", "episodic-backward", "model"),
)
"""Those of `greedystep.tabular`, written out so that help needs no compiler."""


def _method(words: list[str]) -> str:
    if words[0] not in METHODS:
        raise ValueError(f"expected one of {', '.join(METHODS)}, got {words[0]!r}")
    return words[0]


MaybeMethod = Annotated[
    str | None,
    PrimitiveConstructorSpec(1, "METHOD", _method, lambda value: True, lambda value: [str(value)]),
    arg(help_behavior_hint=""),
]
Options = Annotated[tuple[str, ...], arg(metavar="NAME=VALUE [NAME=VALUE ...]", help_behavior_hint="")]


@dataclass(frozen=True)
class Train:
    """Train an agent and keep it in a folder; Ctrl-C keeps what was learned, --resume goes on."""

    # A toy task (`greedystep envs` lists them), or the id of a Gymnasium environment with Discrete observations and
    # actions, such as FrozenLake-v1.
    env: Annotated[Positional[str], arg(help_behavior_hint="(required without --resume)")] = ""

    # How it learns: greedy-step (the default), q-learning, backward-q-learning, n-step-q, n-step-sarsa, sarsa-lambda,
    # watkins, peng, harutyunyan, tree-backup, retrace, q-sigma, monte-carlo, episodic-backward, or model.
    method: MaybeMethod = None

    # Episodes in all; more than before lets a finished run go on (default: 1000).
    episodes: MaybeCount = None

    # Share of random actions while learning (default: 0.2).
    epsilon: MaybeReal = None

    # The value that the table begins with (default: 0, or for greedy-step on a toy task the lowest possible return).
    initial: MaybeReal = None

    # Seed of everything random (default: 0).
    seed: MaybeCount = None

    # Options of the environment, such as delay=20; of a Gymnasium environment also discount=0.99 and limit=1000.
    options: Options = ()

    # Options of the method, such as form=expected or alpha=0.5.
    method_options: Options = ()

    # Folder to write config.json, metrics.jsonl and agent.npz to (default: runs/ENV-METHOD-seedSEED).
    out: MaybePath = None

    # Folder of an earlier run to go on with; only --episodes can be given anew.
    resume: MaybePath = None

    def run(self) -> int:
        with answering_bad_input():
            run = self._start() if self.resume is None else self._resume(self.resume)
        if run.finished:
            note(f"{run.folder}: all {run.config.episodes} episodes are done; a higher --episodes lets it go on.")
            return 0
        with _warnings_as_notes():
            try:
                self._train(run)
            except FloatingPointError as problem:
                raise BadInputError(str(problem)) from problem
            except KeyboardInterrupt:
                note(f"Saved after {run.agent.episodes} episodes; go on with: greedystep train --resume {run.folder}")
                raise
        self._conclude(run)
        return 0

    def _start(self) -> Run:
        if not self.env:
            raise ValueError("env: give an environment, or --resume FOLDER")
        _check_family(self.env)
        from greedystep.tabular.run import Run, RunConfig

        given: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("method", "episodes", "epsilon", "initial", "seed")
            if getattr(self, name) is not None
        }
        given["options"] = parse_options(self.options)
        given["method_options"] = parse_options(self.method_options)
        config = RunConfig(env=self.env, **given)
        folder = self.out or Path("runs", f"{config.env.replace('/', '-')}-{config.method}-seed{config.seed}")
        check_place(folder)
        return Run.start(folder, config)

    def _resume(self, folder: Path) -> Run:
        given = {name: value for name, value in asdict(self).items() if value not in (None, (), "")}
        for name in given:
            if name not in ("resume", "episodes"):
                raise ValueError(f"{name}: a resumed run keeps its own; only --episodes can be given anew")
        from greedystep.tabular.run import Run

        check_place(folder)
        return Run.resume(folder, self.episodes)

    def _train(self, run: Run) -> None:
        from rich.console import Console

        from greedystep.report.terminal import progress

        total = run.config.episodes
        with progress(Console(stderr=True), f"{run.config.env}, {run.config.method}") as report:
            pieces = run.train()
            try:
                for done in pieces:
                    what = f"{done.episodes:,} of {total:,} episodes, return {done.episode_return:.4g}"
                    report(done.episodes / total, what)
            finally:
                pieces.close()  # saves, if it was interrupted

    def _conclude(self, run: Run) -> None:
        from rich.console import Console

        from greedystep.report.terminal import say

        console = Console()
        say(console, f"{run.agent.episodes} episodes, {run.agent.steps} steps.")
        say(console, f"The greedy policy's expected return: {run.agent.evaluate():.6g}")
        say(console, f"Written: {run.folder}")


def _check_family(env: str) -> None:
    """Numbered states are for tables; everything else wants a network."""
    from greedystep import envs

    if env in envs.names() and not env.startswith("toy/"):
        raise ValueError(f"env: {env} does not number its states, as a table needs; give a toy task or FrozenLake-v1")


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Whatever the learner warns of is said once the line of progress is gone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for warning in caught:
                note(f"Note: {warning.message}")

"""`greedystep train`: let an agent learn in a folder that can be resumed.

The environment decides what learns: numbered states are for tables, everything else wants a network. What the two have
in common, from starting to Ctrl-C, is here; each kind is a `Job` of its own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

from tyro.conf import OmitArgPrefixes, Positional, arg
from tyro.constructors import PrimitiveConstructorSpec

from greedystep import signals
from greedystep.cli import deep_settings
from greedystep.cli.args import (
    NO_HINT,
    EnvOptions,
    MaybeCount,
    MaybePath,
    MaybeReal,
    answering_bad_input,
    check_writable,
    one_of,
    parse_options,
    print_note,
    warnings_as_notes,
)
from greedystep.cli.deep_settings import DeepSettings

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
    NO_HINT,
]


class Said(NamedTuple):
    """How far a job is."""

    share: float
    """0 to 1."""
    what: str


class Job(Protocol):
    """A run that is started or resumed."""

    folder: Path
    title: str

    @property
    def finished(self) -> str | None:
        """A sentence, if there is nothing left to do."""
        ...

    def train(self) -> Generator[Said, None, None]:
        """Goes on to the end; saves when it is closed or interrupted. FailedError if the values have no bound."""
        ...

    def done(self) -> str:
        """What has been trained so far: "300 steps"."""
        ...

    def conclude(self) -> list[str]:
        """What to say at the end."""
        ...

    def close(self) -> None:
        """Let others write to the folder."""
        ...


@dataclass(frozen=True)
class TableMethod:
    """How a table learns."""

    # How it learns: greedy-step (the default), q-learning, backward-q-learning, n-step-q, n-step-sarsa, sarsa-lambda,
    # watkins, peng, harutyunyan, tree-backup, retrace, q-sigma, monte-carlo, episodic-backward, or model.
    method: MaybeMethod = None

    # Options of the method, such as form=expected or alpha=0.5.
    method_options: EnvOptions = ()

    # The value that the table begins with (default: 0, or for greedy-step on a toy task the lowest possible return).
    initial: MaybeReal = None


@dataclass(frozen=True)
class TableSettings(TableMethod):
    """Of tables, on toy tasks and in Gymnasium environments with Discrete spaces"""

    # Episodes in all; more than before lets a finished run go on (default: 1000).
    episodes: MaybeCount = None

    # Share of random actions while learning (default: 0.2).
    epsilon: MaybeReal = None


@dataclass(frozen=True)
class NetworkRun:
    """Of networks"""

    # Environment steps in all, for each seed; more than before lets a finished run go on (default: 1e6).
    steps: MaybeCount = None

    # So many trainings side by side, with the seeds SEED, SEED + 1, ... (default: 1).
    seeds: MaybeCount = None

    # Where settings that are not given come from: paper (the default; one environment, one update of 32 a step) or
    # fast (many environments, for GPUs).
    preset: Annotated[str | None, one_of("paper", "fast"), NO_HINT] = None

    # Write TensorBoard's event files too (needs the extra `tensorboard`).
    tensorboard: Annotated[bool, NO_HINT] = False

    # Seconds between checkpoints (default: 60).
    save_every: MaybeReal = None


@dataclass(frozen=True)
class Train:
    """Train an agent and keep it in a folder; Ctrl-C keeps what was learned, --resume goes on."""

    # A game or a toy task (`greedystep envs` lists them), or the id of a Gymnasium environment with Discrete
    # observations and actions, such as FrozenLake-v1.
    env: Annotated[Positional[str], arg(help_behavior_hint="(required without --resume)")] = ""

    # What learns: table or network (default: a table where states are numbered, else a network).
    agent: Annotated[str | None, one_of("table", "network"), NO_HINT] = None

    # Seed of everything random (default: 0).
    seed: MaybeCount = None

    # Options of the environment, such as delay=20 or sticky=0; of a Gymnasium environment also discount=0.99 and
    # limit=1000.
    options: EnvOptions = ()

    # Folder to write to (default: one in runs/, named after what is trained).
    out: MaybePath = None

    # Folder of an earlier run to go on with; only --episodes or --steps, and --save-every, can be given anew. Where its
    # environment is "module:id" of Gymnasium, name it again: a module that only a folder names is never imported.
    resume: MaybePath = None

    # With --resume: begin again at step 0, say where checkpoints are damaged. Earlier rows and checkpoints are kept
    # under other names, such as metrics-before-restart-1.jsonl.
    restart: Annotated[bool, NO_HINT] = False

    table: OmitArgPrefixes[TableSettings] = field(default_factory=TableSettings)

    network: OmitArgPrefixes[NetworkRun] = field(default_factory=NetworkRun)

    settings: OmitArgPrefixes[DeepSettings] = field(default_factory=DeepSettings)

    def run(self) -> int:
        with warnings_as_notes(), answering_bad_input():
            job = self._start() if self.resume is None else self._resume(self.resume)
        with closing(job):
            if job.finished:
                print_note(job.finished)
                return 0
            with warnings_as_notes():
                try:
                    self._train(job)
                except KeyboardInterrupt:
                    print_note(f"Saved after {job.done()}; go on with: greedystep train --resume {job.folder}")
                    raise
        self._conclude(job)
        return 0

    # -- which job -----------------------------------------------------------------------------------------------------

    def _start(self) -> Job:
        if not self.env:
            raise ValueError("env: give an environment, or --resume FOLDER")
        if self.restart:
            raise ValueError("restart: only a run that is resumed can begin again; give --resume FOLDER")
        if wants_table(self.env, self.agent):
            self._refuse(self._given_of_network(), "table", "--agent network trains a network")
            from greedystep.cli.train_table import TableJob

            chosen = {**self._given_of_table(), "seed": self.seed or 0}
            return TableJob.start(self.env, parse_options(self.options), chosen, self._folder)
        self._refuse(self._given_of_table(), "network", "that is for tables")
        from greedystep.cli.train_network import NetworkJob

        given = deep_settings.given(self.settings)
        return NetworkJob.start(
            self.env, parse_options(self.options), self.seed or 0, self.network, given, self._folder
        )

    def _resume(self, folder: Path) -> Job:
        everything = {
            **{name: getattr(self, name) for name in ("agent", "seed", "options", "out")},
            **self._given_of_table(),
            **self._given_of_network(),
        }
        for name, value in everything.items():
            if value not in (None, (), "") and name not in ("episodes", "steps", "save_every"):
                raise ValueError(f"{name}: a resumed run keeps its own; only --steps or --episodes can be given anew")
        check_writable(folder)
        if not (folder / "config.json").is_file():
            raise ValueError(f"resume: {folder} holds no run (it has no config.json)")
        if self._kind(folder) == "dqn":
            self._refuse(self._given_of_table(), "network", "it counts steps")
            from greedystep.cli.train_network import NetworkJob

            return NetworkJob.resume(folder, self.network, restart=self.restart, env=self.env or None)
        self._refuse(self._given_of_network(), "table", "it counts episodes")
        from greedystep.cli.train_table import TableJob

        return TableJob.resume(folder, self.table.episodes, restart=self.restart, env=self.env or None)

    def _kind(self, folder: Path) -> Any:
        from greedystep.io import read_json

        content = read_json(folder / "config.json")
        return content.get("kind") if isinstance(content, dict) else None

    def _folder(self, usual: str) -> Path:
        folder = self.out or Path("runs", usual)
        check_writable(folder)
        return folder

    def _given_of_table(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self.table).items() if value not in (None, ())}

    def _given_of_network(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self.network).items() if value not in (None, False)}
        return own | deep_settings.given(self.settings)

    def _refuse(self, given: dict[str, Any], kind: str, hint: str) -> None:
        for name in given:
            where = self.env or self.resume
            raise ValueError(f"{name.strip('_')}: {where} trains a {kind}, which has no such option; {hint}")

    # -- the work ------------------------------------------------------------------------------------------------------

    def _train(self, job: Job) -> None:
        from rich.console import Console

        from greedystep.runs.progress import progress_line

        with progress_line(Console(stderr=True), job.title) as report:
            pieces = job.train()
            try:
                for said in signals.interruptible(pieces):
                    report(*said)
            finally:
                pieces.close()  # saves, if it was interrupted

    def _conclude(self, job: Job) -> None:
        from rich.console import Console

        from greedystep.runs.progress import say

        for line in job.conclude():
            say(Console(), line)
        say(Console(), f"Written: {job.folder}")


def wants_table(env: str, agent: str | None) -> bool:
    """Numbered states are for tables; all our other environments want a network. `agent` is what was asked for."""
    from greedystep import envs

    families = {name.partition("/")[0] for name in envs.names()} - {"toy"}
    is_game = env.partition("/")[0] in families
    if agent == "table" and is_game:
        raise ValueError(f"agent: {env} does not number its states, as a table needs")
    return not is_game if agent is None else agent == "table"

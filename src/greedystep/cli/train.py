"""`greedystep train`: train an agent in a folder that can be resumed.

The environment decides what learns: a table where states are numbered, a network everywhere else. `train_table` and
`train_network` start or resume the run; its progress, Ctrl-C and failures are handled here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg
from tyro.constructors import PrimitiveConstructorSpec

from greedystep import signals
from greedystep.cli import deep_settings
from greedystep.cli.args import (
    NO_HINT,
    EnvOptions,
    FailedError,
    MaybeCount,
    MaybePath,
    MaybeReal,
    answering_bad_input,
    check_writable,
    one_of,
    print_note,
    warnings_as_notes,
)
from greedystep.cli.deep_settings import DeepSettings
from greedystep.cli.ray_options import RayOptions

if TYPE_CHECKING:
    from greedystep.runs.resumable_run import RunFolder, RunProgress

METHODS = (
    *("greedy-step", "q-learning", "backward-q-learning", "n-step-q", "n-step-sarsa", "sarsa-lambda", "watkins"),
    *("peng", "harutyunyan", "tree-backup", "retrace", "q-sigma", "monte-carlo", "episodic-backward", "model", "auto"),
)
"""Names of the methods of `greedystep.tabular`, repeated here so that --help need not import numba."""
NEW_WHEN_RESUMED = ("episodes", "steps", "save_every", "on", "ray_address", "actors")
"""Options that can be given with --resume."""


def _method(words: list[str]) -> str:
    if words[0] not in METHODS:
        raise ValueError(f"expected one of {', '.join(METHODS)}, got {words[0]!r}")
    return words[0]


MaybeMethod = Annotated[
    str | None,
    PrimitiveConstructorSpec(1, "METHOD", _method, lambda value: True, lambda value: [str(value)]),
    NO_HINT,
]


@dataclass(frozen=True)
class TableMethod:
    """How a table learns."""

    # Learning method: greedy-step (the default), q-learning, backward-q-learning, n-step-q, n-step-sarsa, sarsa-lambda,
    # watkins, peng, harutyunyan, tree-backup, retrace, q-sigma, monte-carlo, episodic-backward, model, or auto.
    method: MaybeMethod = None

    # Options of the method, such as form=expected or alpha=0.5.
    method_options: EnvOptions = ()

    # The value that the table begins with (default: 0, or for greedy-step on a toy task the lowest possible return).
    initial: MaybeReal = None


@dataclass(frozen=True)
class TableOptions(TableMethod):
    """Options for tables, on toy tasks and in Gymnasium environments with Discrete spaces"""

    # Episodes in total; more than before extends a finished run (default: 1000).
    episodes: MaybeCount = None

    # Share of random actions while learning (default: 0.2).
    epsilon: MaybeReal = None


@dataclass(frozen=True)
class NetworkOptions:
    """Options for networks"""

    # Environment steps per seed in total; more than before extends a finished run (default: 1e6).
    steps: MaybeCount = None

    # Number of trainings side by side, with the seeds SEED, SEED + 1, ... (default: 1). In compiled environments
    # they are spread over as many of the local devices as divide their number.
    seeds: MaybeCount = None

    # Where settings that are not given come from: paper (the default; one environment, one update of 32 per step) or
    # fast (many environments, for GPUs).
    preset: Annotated[str | None, one_of("paper", "fast"), NO_HINT] = None

    # How several environments of Gymnasium are stepped: sync (the default; one after another) or async (each in its own
    # process, for slow simulators).
    vectorization: Annotated[str | None, one_of("sync", "async"), NO_HINT] = None

    # Play in this number of Ray actors (the extra `ray`), which send whole episodes to the learner here: for simulators
    # that are slower than learning. As many environments as actors, and as many updates per step as with one, unless
    # --num-envs and --updates say otherwise.
    actors: MaybeCount = None

    # Write TensorBoard's event files too (needs the extra `tensorboard`).
    tensorboard: Annotated[bool, NO_HINT] = False

    # Seconds between checkpoints (default: 60).
    save_every: MaybeReal = None


@dataclass(frozen=True)
class Train:
    """Train an agent and keep it in a folder; Ctrl-C keeps what was learned, --resume goes on."""

    # A game or a toy task (`greedystep envs` lists them), or the id of a Gymnasium environment with Discrete actions,
    # such as CartPole-v1 or FrozenLake-v1.
    env: Annotated[Positional[str], arg(help_behavior_hint="(required without --resume)")] = ""

    # What learns: table or network (default: a table where states are numbered, else a network).
    agent: Annotated[str | None, one_of("table", "network"), NO_HINT] = None

    # Seed of all random numbers (default: 0).
    seed: MaybeCount = None

    # Options of the environment, such as delay=20 or sticky=0; of a Gymnasium environment those of gymnasium.make and
    # limit=1000, and for tables discount=0.99.
    options: EnvOptions = ()

    # Folder to write to (default: one in runs/, named after what is trained).
    out: MaybePath = None

    # Folder of an earlier run to continue; only --episodes or --steps, and --save-every, can be given anew. Where its
    # environment is "module:id" of Gymnasium, name it again: a module that only a folder names is never imported.
    resume: MaybePath = None

    # With --resume: begin again at step 0, say where checkpoints are damaged. Earlier rows and checkpoints are kept
    # under other names, such as metrics-before-restart-1.jsonl.
    restart: Annotated[bool, NO_HINT] = False

    table: OmitArgPrefixes[TableOptions] = field(default_factory=TableOptions)

    network: OmitArgPrefixes[NetworkOptions] = field(default_factory=NetworkOptions)

    settings: OmitArgPrefixes[DeepSettings] = field(default_factory=DeepSettings)

    ray: OmitArgPrefixes[RayOptions] = field(default_factory=RayOptions)

    def run(self) -> int:
        from greedystep.runs.progress import working

        with answering_bad_input(), working("starting"):
            self.ray.check(has_actors=self.network.actors is not None)
            if self._is_for_table():
                from greedystep.cli.train_table import train_table as train
            else:
                from greedystep.cli.train_network import train_network as train
        return train(self)

    def _is_for_table(self) -> bool:
        """Whether a table learns, not a network; ValueError names an option that does not apply."""
        if self.resume is None:
            if not self.env:
                raise ValueError("env: give an environment, or --resume FOLDER")
            if self.restart:
                raise ValueError("restart: only a run that is resumed can begin again; give --resume FOLDER")
            is_table = wants_table(self.env, self.agent)
            hint = "--agent network trains a network" if is_table else "that is for tables"
        else:
            self._check_resume(self.resume)
            is_table = (kind := _kind(self.resume)) not in ("dqn", "dqn-seeds")
            if not is_table and (kind == "dqn-seeds") != (self.ray.on is not None):
                what = "several runs, which --on ray goes on with" if self.ray.on is None else "one run: leave out --on"
                raise ValueError(f"on: {self.resume} holds {what}")
            hint = "it counts episodes" if is_table else "it counts steps"
        for name in self.given_of_network() if is_table else self.given_of_table():
            where, kind = self.env or self.resume, "table" if is_table else "network"
            raise ValueError(f"{name.strip('_')}: {where} trains a {kind}, which has no such option; {hint}")
        return is_table

    def _check_resume(self, folder: Path) -> None:
        common = {name: getattr(self, name) for name in ("agent", "seed", "options", "out")}
        for name, value in {**common, **self.given_of_table(), **self.given_of_network()}.items():
            if value not in (None, (), "") and name not in NEW_WHEN_RESUMED:
                raise ValueError(f"{name}: a resumed run keeps its own; only --steps or --episodes can be given anew")
        check_writable(folder)
        if not (folder / "config.json").is_file():
            raise ValueError(f"resume: {folder} holds no run (it has no config.json)")

    def folder(self, usual: str) -> Path:
        """Return the folder of a new run: --out, or runs/ with the name `usual`."""
        folder = self.out or Path("runs", usual)
        check_writable(folder)
        return folder

    def given_of_table(self) -> dict[str, Any]:
        """Return {option: value} of the options for tables that were typed."""
        return {name: value for name, value in vars(self.table).items() if value not in (None, ())}

    def given_of_network(self) -> dict[str, Any]:
        """Return {option: value} of the options for networks that were typed, settings of the agent included."""
        own = {name: value for name, value in vars(self.network).items() if value is not None and value is not False}
        own |= {name: value for name, value in vars(self.ray).items() if value is not None}
        return own | deep_settings.given(self.settings)


def train_to_end(
    run: RunFolder, title: str, describe: Callable[[RunProgress], str], save_every: float | None = None
) -> RunProgress | None:
    """Train a run and show its progress; return the last progress, or None with a note if the run was finished.

    Args:
        describe: returns the text beside the progress bar, such as the return and the speed.
    """
    from rich.console import Console

    from greedystep.runs.progress import progress_line

    last: RunProgress | None = None

    def within(now: RunProgress) -> None:
        now = now._replace(episode_return=math.nan if last is None else last.episode_return)
        report(now.done / run.total, describe(now))

    console = Console(stderr=True)
    stopping = partial(print_note if console.is_terminal else lambda text: None, "Stopping ...")
    with signals.answered(stopping), closing(run), warnings_as_notes():
        if run.finished:
            print_note(f"{run.folder}: all {run.done} {run.UNIT} are done; a higher --{run.UNIT} lets it go on.")
            return None
        try:
            with (
                progress_line(console, title, "compiling") as report,
                closing(run.train(save_every)) as chunks,
            ):
                run.on_progress = within
                for last in signals.interruptible(chunks):
                    report(last.done / run.total, describe(last))
        except run.FAILURES as problem:
            saved = f"; saved {_how_to_go_on(run)}" if isinstance(problem, run.SAVED_FAILURES) else ""
            raise FailedError(f"{run.folder}: {problem}{saved}") from problem
        except KeyboardInterrupt:
            print_note(f"Saved {_how_to_go_on(run)}")
            raise
    return last


def _how_to_go_on(run: RunFolder) -> str:
    """Return how far a run that was broken off is saved, and the command that goes on."""
    env = run.describe()["config"]["env"]
    named = f"{env} " if ":" in env else ""  # a folder alone does not make us import a module
    return f"after {run.done} {run.UNIT}; go on with: greedystep train {named}--resume {run.folder}"


def say_results(run: RunFolder, *lines: str) -> None:
    """Print what was learned, and the run's folder."""
    from rich.console import Console

    from greedystep.runs.progress import say

    for line in (*lines, f"Written: {run.folder}"):
        say(Console(), line)


def _kind(folder: Path) -> Any:
    """Return the "kind" in a run's config.json ("tabular" or "dqn"), unchecked."""
    from greedystep.io import read_json

    content = read_json(folder / "config.json")
    return content.get("kind") if isinstance(content, dict) else None


def wants_table(env: str, agent: str | None) -> bool:
    """Whether a table learns in this environment: what `agent` says, by default where states are numbered."""
    from greedystep import envs

    if agent == "table" and envs.is_own_name(env) and not envs.is_toy(env):
        raise ValueError(f"agent: {env} does not number its states, as a table needs")
    if agent is not None:
        return agent == "table"
    if envs.is_own_name(env):
        return envs.is_toy(env)
    from gymnasium.spaces import Discrete

    from greedystep.envs.gymnasium_ids import make_gymnasium

    made = make_gymnasium(env, disable_env_checker=True)
    made.close()
    return isinstance(getattr(made, "observation_space", None), Discrete)

"""`greedystep fit` trains an agent from logged trajectories alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from greedystep import signals
from greedystep.checks import INT32_MAX, check_int, check_seed
from greedystep.cli import deep_settings
from greedystep.cli.args import (
    NO_HINT,
    BadInputError,
    Count,
    EnvOptions,
    FailedError,
    MaybeCount,
    MaybePath,
    answering_bad_input,
    check_writable,
    one_of,
    parse_options,
    print_note,
    warnings_as_notes,
)
from greedystep.cli.deep_settings import DeepSettings
from greedystep.cli.train import TableMethod, wants_table
from greedystep.runs.lock import lock_file

if TYPE_CHECKING:
    from greedystep import DQN
    from greedystep.trajectory import Trajectory

FROM_MINARI = "minari:"
BATCHES, SWEEPS = 10_000, 10
ACTING_SETTINGS = (
    *("num_envs", "replay_size", "updates", "warmup"),
    *("epsilon_start", "epsilon_end", "epsilon_steps", "log_every"),
)
"""Settings of networks that have no meaning in offline learning."""


@dataclass(frozen=True)
class FitTable(TableMethod):
    """Options of tables, for environments with numbered states"""

    # Passes over all trajectories (default: 10).
    sweeps: MaybeCount = None


@dataclass(frozen=True)
class FitNetwork:
    """Options of networks"""

    # Number of batches to train on (default: 10 000).
    batches: MaybeCount = None

    # Where settings that are not given come from: paper (the default) or fast.
    preset: Annotated[Literal["paper", "fast"] | None, one_of("paper", "fast"), NO_HINT] = None


@dataclass(frozen=True)
class Fit:
    """Learn from logged trajectories alone, without acting, and keep the agent in a file."""

    # Files of trajectories, as `greedystep.trajectory.save` writes them, or minari:ID for a dataset of Minari that is
    # on this machine (the extra `minari`).
    data: Annotated[Positional[tuple[str, ...]], arg(metavar="DATA [DATA ...]", help_behavior_hint="(required)")] = ()

    # The environment that they come from: a game or a toy task (`greedystep envs` lists them), or the id of a Gymnasium
    # environment with Discrete observations and actions.
    env: Annotated[str, arg(help_behavior_hint="(required)")] = ""

    # What learns: table or network (default: a table where states are numbered, else a network).
    agent: Annotated[str | None, one_of("table", "network"), NO_HINT] = None

    # Seed of everything random.
    seed: Count = 0

    # Options of the environment, such as delay=20 or sticky=0; of a Gymnasium environment also discount=0.99 and
    # limit=1000.
    options: EnvOptions = ()

    # File to write (default: one in runs/, named after what is fitted).
    out: MaybePath = None

    table: OmitArgPrefixes[FitTable] = field(default_factory=FitTable)

    network: OmitArgPrefixes[FitNetwork] = field(default_factory=FitNetwork)

    settings: OmitArgPrefixes[DeepSettings] = field(default_factory=DeepSettings)

    def run(self) -> int:
        with answering_bad_input():
            if not self.data:
                raise ValueError("data: give at least one file of trajectories")
            if not self.env:
                raise ValueError("env: name the environment that they come from")
            is_table = wants_table(self.env, self.agent)
            self._refuse(is_table)
            check_seed(self.seed)
            check_int("batches", BATCHES if self.network.batches is None else self.network.batches, 1, INT32_MAX)
            check_int("sweeps", SWEEPS if self.table.sweeps is None else self.table.sweeps)
            if not is_table:
                self._check_settings()
            data = [one for name in self.data for one in _read(name)]
        with warnings_as_notes(), ExitStack() as locks:
            said, out = self._fit_table(data, locks) if is_table else self._fit_network(data, locks)
        from rich.console import Console

        from greedystep.runs.progress import say

        steps = sum(map(len, data))
        say(Console(), f"{len(data)} trajectories, {steps} steps; {said}")
        say(Console(), f"Written: {out}")
        return 0

    def _refuse(self, is_table: bool) -> None:
        """Raise ValueError for options of the other kind of agent."""
        of_table = {name for name, value in vars(self.table).items() if value not in (None, ())}
        of_network = {name for name, value in vars(self.network).items() if value is not None}
        of_network |= set(deep_settings.given(self.settings))
        for name in sorted(of_network if is_table else of_table):
            kind = "table" if is_table else "network"
            raise ValueError(f"{name.strip('_')}: {self.env} is for a {kind}, which has no such option")
        for name in ACTING_SETTINGS:
            if name in of_network:
                raise ValueError(f"{name}: means nothing where all is learned from a log and nobody acts")

    def _check_settings(self) -> None:
        """Check the settings of the network before the data is read, which may take a while."""
        from greedystep.deep.dqn_run import DQNRunConfig

        how = {"options": parse_options(self.options), **deep_settings.given(self.settings)}
        DQNRunConfig.from_preset(self.env, self.network.preset or "paper", **how)

    def _out_file(self, default: str, locks: ExitStack) -> Path:
        """Return the file to write, locked until `locks` is closed."""
        out = self.out or Path("runs", f"fit-{self.env.replace('/', '-')}-{default}")
        check_writable(out.parent)
        locks.enter_context(lock_file(out))
        if out.exists():
            raise ValueError(f"out: {out} exists already; choose another file")
        return out

    # -- both return what was done, and the file -----------------------------------------------------------------------

    def _fit_table(self, data: list[Trajectory], locks: ExitStack) -> tuple[str, Path]:
        from greedystep.tabular.tabular_run import TabularRunConfig

        given = {name: getattr(self.table, name) for name in ("method", "initial")}
        given = {name: value for name, value in given.items() if value is not None}
        sweeps = SWEEPS if self.table.sweeps is None else self.table.sweeps
        with answering_bad_input():
            how = parse_options(self.table.method_options)
            config = TabularRunConfig(
                self.env, options=parse_options(self.options), seed=self.seed, method_options=how, **given
            )
            agent, out = config.agent(), self._out_file(f"{config.method}-seed{self.seed}.npz", locks)
            try:
                agent.fit(data, sweeps=sweeps)
            except FloatingPointError as problem:
                raise FailedError(str(problem)) from problem
        agent.save(out)
        return f"{sweeps} sweeps. The greedy policy's expected return: {agent.expected_return():.6g}", out

    def _fit_network(self, data: list[Trajectory], locks: ExitStack) -> tuple[str, Path]:
        from rich.console import Console

        from greedystep.deep.trainer import DivergedError
        from greedystep.runs.progress import progress_line

        batches = BATCHES if self.network.batches is None else self.network.batches
        with answering_bad_input():
            agent = self._network(data)
            out = self._out_file(f"{agent.config.returns}-seed{self.seed}.agent", locks)
        done, loss = 0, float("nan")

        def pieces() -> Iterator[tuple[float, str]]:
            nonlocal done, loss
            for done, loss in agent.fit_in_pieces(data, batches, seed=self.seed):
                yield done / batches, f"{done:,} of {batches:,} batches, loss {loss:.4g}"

        try:
            with progress_line(Console(stderr=True), self.env) as report:
                for said in signals.interruptible(pieces()):
                    report(*said)
        except DivergedError as problem:
            raise FailedError(str(problem)) from problem
        except MemoryError as problem:
            raise BadInputError(str(problem)) from problem
        except KeyboardInterrupt:
            if done:
                with signals.deferred():
                    agent.save(out)
                print_note(f"Saved after {done} of {batches} batches: {out}")
            raise
        agent.save(out)
        return f"{batches} batches, loss {loss:.4g} at the end. How good it is: greedystep eval {out}", out

    def _network(self, data: list[Trajectory]) -> DQN:
        """Create an agent and check that it can learn from the data."""
        import greedystep
        from greedystep import envs
        from greedystep.deep import offline
        from greedystep.deep.presets import env_options

        env = envs.make(self.env, **(env_options(self.env) | parse_options(self.options)))
        settings = deep_settings.given(self.settings)
        agent = greedystep.DQN(env, preset=self.network.preset or "paper", seed=self.seed, **settings)
        offline.check_dataset(agent.trainer.learner, data)
        return agent


def _read(name: str) -> list[Trajectory]:
    from greedystep import trajectory

    if name.startswith(FROM_MINARI):
        return trajectory.from_minari(name.removeprefix(FROM_MINARI))
    return trajectory.load(name)

"""`greedystep fit` trains an agent from logged trajectories alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
from greedystep.cli.ray_options import RayOptions
from greedystep.cli.train import TableMethod, wants_table
from greedystep.datasets import Dataset
from greedystep.runs.lock import lock_file, lock_folder

if TYPE_CHECKING:
    from greedystep.deep.agent import DQN
    from greedystep.deep.seed_fits import FitConfig

UPDATES, SWEEPS, EVALUATION_EPISODES = 10_000, 10, 100
MOST_SEEDS = 1_000_000
ACTING_SETTINGS = (
    *("num_envs", "replay_size", "warmup", "epsilon_start", "epsilon_end", "epsilon_steps", "log_every"),
)
"""Settings of `DQNConfig` that have no effect in offline learning."""


@dataclass(frozen=True)
class FitTable(TableMethod):
    """Options of tables, for environments with numbered states"""

    # Passes over all trajectories (default: 10).
    sweeps: MaybeCount = None


@dataclass(frozen=True)
class FitNetwork:
    """Options of networks"""

    # Deprecated: the former name of --updates.
    batches: MaybeCount = None

    # Fit that many agents, with the seeds SEED, SEED + 1, ..., to a folder; the same command goes on with what is not
    # finished (default: one agent, to a file).
    seeds: MaybeCount = None

    # Where settings that are not given come from: paper (the default) or fast.
    preset: Annotated[Literal["paper", "fast"] | None, one_of("paper", "fast"), NO_HINT] = None


@dataclass(frozen=True)
class Fit:
    """Learn from logged trajectories alone, without acting, and keep the agent in a file."""

    # Files of logged steps: .npz as `greedystep.trajectory.save` writes it, .npz or .hdf5 of D4RL's flat arrays, or a
    # dataset of Minari that is on this machine (the extra `minari`), as minari:ID, its folder or its main_data.hdf5.
    data: Annotated[Positional[tuple[str, ...]], arg(metavar="DATA [DATA ...]", help_behavior_hint="(required)")] = ()

    # The environment that they come from: a game or a toy task (`greedystep envs` lists them), or the id of a Gymnasium
    # environment (default: none; a network learns, with spaces from the data).
    env: Annotated[str | None, NO_HINT] = None

    # After learning, play 100 episodes in this environment and print their mean return (default: do not).
    eval_env: Annotated[str | None, NO_HINT] = None

    # What learns: table or network (default: a table where states are numbered, else a network).
    agent: Annotated[str | None, one_of("table", "network"), NO_HINT] = None

    # Seed of all random numbers.
    seed: Count = 0

    # Options of the environment, such as delay=20 or sticky=0; of a Gymnasium environment also discount=0.99 and
    # limit=1000.
    options: EnvOptions = ()

    # File to write (default: one in runs/, named after what is fitted).
    out: MaybePath = None

    table: OmitArgPrefixes[FitTable] = field(default_factory=FitTable)

    network: OmitArgPrefixes[FitNetwork] = field(default_factory=FitNetwork)

    settings: OmitArgPrefixes[DeepSettings] = field(default_factory=DeepSettings)

    ray: OmitArgPrefixes[RayOptions] = field(default_factory=RayOptions)

    def run(self) -> int:
        with answering_bad_input():
            self.ray.check()
            if not self.data:
                raise ValueError("data: give at least one file of trajectories")
            if self.env is None and (self.agent == "table" or self.options):
                what = "agent: a table" if self.agent == "table" else "options: they"
                raise ValueError(f"{what} needs the environment that the data come from; give --env")
            is_table = self.env is not None and wants_table(self.env, self.agent)
            if is_table and self.eval_env is not None:
                raise ValueError("eval_env: a table is evaluated exactly, in the environment of its data; leave it out")
            self._refuse(is_table)
            check_seed(self.seed)
            self._check_updates()
            check_int("sweeps", SWEEPS if self.table.sweeps is None else self.table.sweeps)
            if not is_table:
                self._check_settings()
                self._check_seeds()
            data = Dataset.joined([Dataset.of(name) for name in self.data])
        with warnings_as_notes(), ExitStack() as locks:
            if is_table:
                said, out = self._fit_table(data, locks)
            elif self.network.seeds is None:
                said, out = self._fit_network(data, locks)
            else:
                said, out = self._fit_seeds(data, range(self.seed, self.seed + self.network.seeds), locks)
        from rich.console import Console

        from greedystep.runs.progress import say

        say(Console(), f"{len(data)} trajectories, {data.steps} steps; {said}")
        say(Console(), f"Written: {out}")
        return 0

    def _refuse(self, is_table: bool) -> None:
        """Raise ValueError if an option was given that only tables, or only networks, have."""
        of_table = {name for name, value in vars(self.table).items() if value not in (None, ())}
        of_network = {name for name, value in vars(self.network).items() if value is not None}
        of_network |= {name for name, value in vars(self.ray).items() if value is not None}
        of_network |= set(deep_settings.given(self.settings))
        for name in sorted(of_network if is_table else of_table):
            kind = "table" if is_table else "network"
            where = self.env or "this"
            raise ValueError(f"{name.strip('_')}: {where} is for a {kind}, which has no such option")
        for name in ACTING_SETTINGS:
            if name in of_network:
                raise ValueError(f"{name}: means nothing where all is learned from a log and nobody acts")

    @property
    def _num_updates(self) -> int:
        """Number of updates of a network, by either name."""
        typed = deep_settings.given(self.settings).get("updates", self.network.batches)
        return UPDATES if typed is None else typed

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings of the network that were typed. `updates` is none here, where no step is followed by updates."""
        return {name: value for name, value in deep_settings.given(self.settings).items() if name != "updates"}

    def _check_updates(self) -> None:
        is_new_name = "updates" in deep_settings.given(self.settings)
        if is_new_name and self.network.batches is not None:
            raise ValueError("updates: another name of batches; give one of them")
        check_int("updates" if is_new_name else "batches", self._num_updates, 1, INT32_MAX)

    def _check_settings(self) -> None:
        """Check the settings of the network; called before the data is read, which may take a while."""
        from greedystep.deep.env_spec import as_environment, config_for, environment_of
        from greedystep.deep.presets import make_config, offline_settings

        preset, settings = self.network.preset or "paper", offline_settings(self._settings)
        if self.env is None:
            make_config("", preset, **settings)
        else:
            config_for(as_environment(self.env, **parse_options(self.options)), preset, **settings)
        if self.eval_env is not None:
            environment_of("eval_env", self.eval_env)  # a misspelt name is refused before the data are read

    def _check_seeds(self) -> None:
        if self.network.seeds is not None:
            check_seed(self.seed + check_int("seeds", self.network.seeds, 1, MOST_SEEDS) - 1, "the last of the seeds")
        elif self.ray.on is not None:
            raise ValueError("on: Ray fits several agents side by side; give --seeds")

    def _usual_out(self, default: str) -> Path:
        """Return --out, or `default` in runs/ with a name before it that says what is fitted."""
        what = (self.env or Path(self.data[0]).stem).replace("/", "-").replace(":", "-")
        return self.out or Path("runs", f"fit-{what}-{default}")

    def _out_file(self, default: str, locks: ExitStack) -> Path:
        """Return the file to write, --out or `default`, locked until `locks` is closed."""
        out = self._usual_out(default)
        check_writable(out.parent)
        locks.enter_context(lock_file(out))
        if out.exists():
            raise ValueError(f"out: {out} exists already; choose another file")
        return out

    # -- both return what was done, and the file -----------------------------------------------------------------------

    def _fit_table(self, data: Dataset, locks: ExitStack) -> tuple[str, Path]:
        from greedystep.tabular.tabular_run import TabularRunConfig

        given = {name: getattr(self.table, name) for name in ("method", "initial")}
        given = {name: value for name, value in given.items() if value is not None}
        sweeps = SWEEPS if self.table.sweeps is None else self.table.sweeps
        with answering_bad_input():
            how = parse_options(self.table.method_options)
            assert self.env is not None
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

    def _fit_network(self, data: Dataset, locks: ExitStack) -> tuple[str, Path]:
        from rich.console import Console

        from greedystep.deep.divergence import DivergedError
        from greedystep.deep.offline import all_updates
        from greedystep.runs.progress import progress_line

        updates = self._num_updates
        with answering_bad_input():
            agent = self._make_agent(self._config(), data)
            out = self._out_file(f"{agent.config.returns}-seed{self.seed}.agent", locks)
        agent.choose_conservatism()
        done, loss, total = 0, float("nan"), all_updates(agent.config, updates)

        def pieces() -> Iterator[tuple[float, str]]:
            nonlocal done, loss
            for done, loss in agent.fit_in_pieces(data, updates, seed=self.seed):
                yield done / total, f"{done:,} of {total:,} updates, loss {loss:.4g}"

        try:
            with progress_line(Console(stderr=True), self.env or data.name, "compiling") as report:
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
                print_note(f"Saved after {done} of {total} updates: {out}")
            raise
        agent.save(out)
        said = f"{updates} updates, loss {loss:.4g} at the end."
        if self.eval_env is None:
            return f"{said} How good it is: greedystep eval {out}{' --env ID' if self.env is None else ''}", out
        with answering_bad_input():
            played = agent.evaluate(EVALUATION_EPISODES, env=self.eval_env)
        return f"{said} Mean return of {EVALUATION_EPISODES} episodes in {self.eval_env}: {played.mean:.6g}", out

    def _make_agent(self, config: FitConfig, data: Dataset) -> DQN:
        """Make the agent for these data; ValueError, before it learns, if it could not play in --eval-env."""
        from greedystep.deep.env_spec import same_spaces

        agent = config.make_agent(data, self.seed)
        if self.eval_env is not None:
            same_spaces(agent.env, self.eval_env, "eval_env")
        return agent

    def _config(self) -> FitConfig:
        from greedystep.deep.seed_fits import FitConfig

        return FitConfig(
            self.env,
            self._num_updates,
            parse_options(self.options),
            self.network.preset or "paper",
            self._settings,
            self.eval_env,
        )

    def _fit_seeds(self, data: Dataset, seeds: range, locks: ExitStack) -> tuple[str, Path]:
        from rich.console import Console

        from greedystep.deep.divergence import DivergedError
        from greedystep.deep.seed_fits import begin_folder, fit_seeds
        from greedystep.runs.progress import progress_line

        config = self._config()
        with answering_bad_input():
            returns = self._make_agent(config, data).config.returns
            out = self._usual_out(f"{returns}-seeds{seeds[0]}-{seeds[-1]}")
            check_writable(out)
            locks.enter_context(lock_folder(out))
            begin_folder(out, config, data)
        try:
            with ExitStack() as stack:
                workers = None if self.ray.on is None else stack.enter_context(self.ray.workers(out))
                report = stack.enter_context(progress_line(Console(stderr=True), self.env or data.name, "compiling"))
                results = fit_seeds(config, data, seeds, out, workers, report)
        except DivergedError as problem:
            raise FailedError(str(problem)) from problem
        except KeyboardInterrupt:
            print_note(f"What is finished is in {out}; the same command goes on")
            raise
        said = f"{len(results)} of {len(seeds)} agents fitted now, {config.updates} updates each."
        played = [result.mean_return for result in results if result.mean_return is not None]
        if played:
            said += (
                f" Mean return of {EVALUATION_EPISODES} episodes in {self.eval_env}: {sum(played) / len(played):.6g}"
            )
        return said, out

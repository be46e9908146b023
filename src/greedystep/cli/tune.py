"""`greedystep tune` searches for good settings."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

from greedystep.checks import check_int, check_seed
from greedystep.cli import deep_settings
from greedystep.cli.args import (
    NO_HINT,
    Count,
    EnvOptions,
    MaybePath,
    answering_bad_input,
    check_writable,
    one_of,
    one_or_more,
    parse_options,
    print_note,
    warnings_as_notes,
)
from greedystep.cli.deep_settings import DeepSettings
from greedystep.cli.ray_options import RayOptions
from greedystep.runs.lock import lock_folder

MOST_SEEDS = 1_000


@dataclass(frozen=True)
class Tune:
    """Search for settings of a network with Optuna (the extra `tune`); the same command goes on with a study."""

    # A game (`greedystep envs` lists them), or the id of a Gymnasium environment with Discrete actions.
    env: Annotated[Positional[str], arg(help_behavior_hint="(required)")] = ""

    # Number of trials in total; more than before extends a study. Given again, it makes up for trials that failed.
    trials: Count = 20

    # Environment steps per trial and seed.
    steps: Count = 100_000

    # Seeds per trial, trained side by side; the score is the mean over them.
    seeds: Count = 2

    # The first of the seeds.
    seed: Count = 0

    # Settings to search: learning_rate, returns (with n and lambda), ensemble, target_period, batch_size, epsilon_end,
    # discount (default: the first four, without those that are given).
    search: Annotated[tuple[str, ...], one_or_more("SETTING"), NO_HINT] = ()

    # Where settings that are neither given nor searched come from: paper (the default) or fast.
    preset: Annotated[str | None, one_of("paper", "fast"), NO_HINT] = None

    # Options of the environment, such as sticky=0.
    options: EnvOptions = ()

    # Folder of the study (default: runs/tune-ENV). It gets study.journal, a run per trial, tune.json with all trials
    # and the best settings, and tune.png and tune.svg, which show what mattered.
    out: MaybePath = None

    settings: OmitArgPrefixes[DeepSettings] = field(default_factory=DeepSettings)

    ray: OmitArgPrefixes[RayOptions] = field(default_factory=RayOptions)

    def run(self) -> int:
        from rich.console import Console

        from greedystep import figures
        from greedystep.deep.tuning import MOST_TRIALS, Tuning
        from greedystep.deep.tuning_figure import draw
        from greedystep.runs.progress import progress_line, say

        with warnings_as_notes(), ExitStack() as stack:
            with answering_bad_input():
                self.ray.check()
                check_int("trials", self.trials, 1, MOST_TRIALS)
                config = self._config()
                out = self.out or Path("runs", f"tune-{self.env.replace('/', '-').replace(':', '-')}")
                check_writable(out)
                stack.enter_context(lock_folder(out))
                tuning = Tuning(out, config)
            try:
                with ExitStack() as working:
                    workers = None if self.ray.on is None else working.enter_context(self.ray.workers(out))
                    report = working.enter_context(progress_line(Console(stderr=True), f"tune {self.env}", "compiling"))
                    results = tuning.run(self.trials, workers, report)
            except KeyboardInterrupt:
                print_note(f"The study is in {out}; the same command goes on")
                raise
            figures.save(draw(results), out / "tune")
        best, console = results["best"], Console()
        if best is None:
            say(console, "No trial was finished: in all of them the loss was not finite, or no episode ended.")
        else:
            say(console, f"Best of {len(results['trials'])} trials: trial {best['number']}, score {best['score']:.6g}")
            say(console, f"Train with it: {_command(self.env, best['params'])}")
        for name, share in sorted(results["importance"].items(), key=lambda item: -item[1]):
            say(console, f"  {share:4.0%}  {name}")
        say(console, f"Written: {out / 'tune.json'}, {out / 'tune.png'}")
        return 0

    def _config(self) -> Any:
        from greedystep.deep.tuning import DEFAULT_SEARCH, TuneConfig

        if not self.env:
            raise ValueError("env: give an environment")
        settings = deep_settings.given(self.settings)
        search = self.search or tuple(name for name in DEFAULT_SEARCH if name not in settings)
        check_int("seeds", self.seeds, 1, MOST_SEEDS)
        check_seed(check_seed(self.seed) + self.seeds - 1, "the last of the seeds")
        seeds = tuple(range(self.seed, self.seed + self.seeds))
        options = parse_options(self.options)
        return TuneConfig(self.env, options, self.preset or "paper", settings, search, self.steps, seeds)


def _command(env: str, params: dict[str, Any]) -> str:
    """Return the command that trains with the settings of a trial."""
    shown = dict(params)
    if "one_minus_discount" in shown:
        shown["discount"] = 1 - shown.pop("one_minus_discount")
    words = [
        f"--{name.replace('_', '-')} {f'{value:.6g}' if isinstance(value, float) else value}"
        for name, value in shown.items()
    ]
    return " ".join(["greedystep train", env, *words])

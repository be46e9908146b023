"""`greedystep train` where networks learn."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np

from greedystep import envs
from greedystep.checks import check_float, check_int, check_seed
from greedystep.cli import deep_settings
from greedystep.cli.args import (
    BadInputError,
    FailedError,
    answering_bad_input,
    parse_options,
    print_note,
    warnings_as_notes,
)
from greedystep.cli.train import Train, say_results, train_to_end
from greedystep.deep.dqn_run import DQNRun, DQNRunConfig
from greedystep.deep.env_check_gymnasium import check_first_steps
from greedystep.envs.host import HostEnvironment
from greedystep.runs.progress import working
from greedystep.runs.resumable_run import RunProgress

MOST_ACTORS = 10_000
MOST_SEEDS = 1_000_000
"""Largest number of seeds; a run with so many is refused for its memory long before."""


def train_network(command: Train) -> int:
    """Start or resume a run of deep agents, train it, and print its last returns; returns the exit status."""
    save_every = command.network.save_every
    with answering_bad_input():
        if save_every is not None:
            check_float("save_every", save_every, 0)
    if command.ray.on is not None:
        with warnings_as_notes():
            return train_on_ray(command)
    with warnings_as_notes(), answering_bad_input(), working("starting"):
        run = _start(command) if command.resume is None else _resume(command)
    if run.config.vectorization != "actors" and command.network.actors is None:
        return _train_here(command, run, save_every)
    with closing(run):
        with answering_bad_input():
            if run.config.vectorization != "actors" or command.network.actors is None:
                has = "with" if command.network.actors is None else "without"
                raise ValueError(f"actors: {run.folder} was begun {has} actors and goes on so")
        from greedystep.deep.actors import EpisodePool

        with command.ray.cluster() as cluster, EpisodePool(cluster, command.network.actors) as pool:
            env = run.trainer.env
            assert isinstance(env, HostEnvironment)
            env.pool = pool
            return _train_here(command, run, save_every)


def _train_here(command: Train, run: DQNRun, save_every: float | None) -> int:
    """Train a run in this process."""

    def describe(now: RunProgress) -> str:
        far = f"{_short(now.done)}/{_short(run.total)} steps"
        score = "no episode ended" if np.isnan(now.episode_return) else f"return {now.episode_return:.4g}"
        return f"{far}, {score}, {_short(now.steps_per_second)}/s"

    devices = f" on {count} devices" if (count := len(run.trainer.devices)) > 1 else ""
    last = train_to_end(run, run.config.env.rpartition("/")[2] + devices, describe, save_every)
    if last is not None:
        per_seed = " per seed" if len(run.config.seeds) > 1 else ""
        say_results(
            run,
            f"{last.done} steps{per_seed}, {last.steps_per_second:,.0f} per second{devices} at the end.",
            f"Mean return of the episodes of the last row: {last.episode_return:.6g}",
        )
    return 0


def train_on_ray(command: Train) -> int:
    """Train one run per seed in the workers of a Ray cluster, under one folder; returns the exit status."""
    from rich.console import Console

    from greedystep.deep.seed_runs import SeedRuns
    from greedystep.runs.progress import progress_line, say

    with answering_bad_input():
        if command.restart:
            raise ValueError("restart: runs of --on ray begin again one by one, as in --resume FOLDER/seed0 --restart")
        if command.resume is None:
            config = _config(command)
            folder = command.folder(_usual_folder(config))
            runs = SeedRuns.start(folder, config, tensorboard=command.network.tensorboard)
        else:
            runs = SeedRuns.resume(command.resume, command.network.steps, env=command.env or None)
    seeds, goes_on = len(runs.config.seeds), f"greedystep train --resume {runs.folder} --on ray"
    with closing(runs):
        if not runs.unfinished:
            print_note(f"{runs.folder}: all {runs.config.steps} steps of all runs are done; a higher --steps goes on.")
            return 0
        title = f"{runs.config.env.rpartition('/')[2]}, {seeds} {'run' if seeds == 1 else 'runs'}"
        try:
            with (
                command.ray.workers(runs.folder) as workers,
                progress_line(Console(stderr=True), title, "starting workers") as report,
            ):
                results = runs.train(workers, report, command.network.save_every)
        except DQNRun.FAILURES as problem:
            raise FailedError(f"{runs.folder}: {problem}; the other runs are saved: {goes_on}") from problem
        except BadInputError as problem:
            if not (runs.folder / "config.json").exists():
                raise
            raise BadInputError(f"{problem}; go on with: {goes_on}") from problem
        except KeyboardInterrupt:
            print_note(f"Saved; go on with: {goes_on}")
            raise
    mean = float(np.nanmean([result.episode_return for result in results]))
    say(Console(), f"{len(results)} of {seeds} runs trained now, {runs.config.steps} steps each.")
    say(Console(), f"Mean return of the episodes of their last rows: {mean:.6g}")
    say(Console(), f"Written: {runs.folder}")
    return 0


def _start(command: Train) -> DQNRun:
    config = _config(command)
    return DQNRun.start(command.folder(_usual_folder(config)), config, tensorboard=command.network.tensorboard)


def _config(command: Train) -> DQNRunConfig:
    how, seed = command.network, command.seed or 0
    options = parse_options(command.options)
    if not envs.is_own_name(command.env):
        check_first_steps(command.env, **options)
    count = 1 if how.seeds is None else check_int("seeds", how.seeds, 1, MOST_SEEDS)
    check_seed(check_seed(seed) + count - 1, "the last of the seeds")
    seeds, length = tuple(range(seed, seed + count)), {} if how.steps is None else {"steps": how.steps}
    settings: dict[str, Any] = deep_settings.given(command.settings)
    if how.vectorization is not None:
        settings["vectorization"] = how.vectorization
    if how.actors is not None:
        if how.vectorization is not None:
            raise ValueError("vectorization: with --actors the environments are those of the actors")
        check_int("actors", how.actors, 1, MOST_ACTORS)
        settings["vectorization"] = "actors"
        if how.preset != "fast":  # which has many environments anyway
            settings = {"num_envs": how.actors, "updates": how.actors} | settings
    return DQNRunConfig.from_preset(
        command.env, how.preset or "paper", options=options, seeds=seeds, **length, **settings
    )


def _resume(command: Train) -> DQNRun:
    assert command.resume is not None
    steps, env = command.network.steps, command.env or None
    return DQNRun.resume(command.resume, steps, restart=command.restart, env=env)


def _usual_folder(config: DQNRunConfig) -> str:
    first, last = config.seeds[0], config.seeds[-1]
    seeds = f"seed{first}" if first == last else f"seeds{first}-{last}"
    ensemble = f"-ensemble{config.agent.ensemble}" if config.agent.ensemble > 1 else ""
    return f"{config.env.replace('/', '-').replace(':', '-')}-{config.agent.returns}{ensemble}-{seeds}"


def _short(number: float) -> str:
    """Format a number with three digits: 870, 38.2k, 5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"

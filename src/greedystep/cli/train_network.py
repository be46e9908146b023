"""`greedystep train` where networks learn."""

from __future__ import annotations

from greedystep.checks import check_float, check_int, check_seed
from greedystep.cli import deep_settings
from greedystep.cli.args import answering_bad_input, parse_options, warnings_as_notes
from greedystep.cli.train import Train, say_results, train_to_end
from greedystep.deep.dqn_run import DQNRun, DQNRunConfig
from greedystep.runs.resumable_run import RunProgress

MOST_SEEDS = 1_000_000
"""Largest number of seeds; a run with so many is refused for its memory long before."""


def train_network(command: Train) -> int:
    """Start or resume a run of deep agents, train it, and print its last returns; returns the exit status."""
    save_every = command.network.save_every
    with warnings_as_notes(), answering_bad_input():
        if save_every is not None:
            check_float("save_every", save_every, 0)
        run = _start(command) if command.resume is None else _resume(command)

    def describe(now: RunProgress) -> str:
        far = f"{_short(now.done)}/{_short(run.total)} steps"
        return f"{far}, return {now.episode_return:.4g}, {_short(now.steps_per_second)}/s"

    last = train_to_end(run, run.config.env.rpartition("/")[2], describe, save_every)
    if last is not None:
        per_seed = " per seed" if len(run.config.seeds) > 1 else ""
        say_results(
            run,
            f"{last.done} steps{per_seed}, {last.steps_per_second:,.0f} per second at the end.",
            f"Mean return of the episodes of the last row: {last.episode_return:.6g}",
        )
    return 0


def _start(command: Train) -> DQNRun:
    how, seed = command.network, command.seed or 0
    options = parse_options(command.options)
    count = 1 if how.seeds is None else check_int("seeds", how.seeds, 1, MOST_SEEDS)
    check_seed(check_seed(seed) + count - 1, "the last of the seeds")
    seeds, length = tuple(range(seed, seed + count)), {} if how.steps is None else {"steps": how.steps}
    settings = deep_settings.given(command.settings)
    if how.vectorization is not None:
        settings["vectorization"] = how.vectorization
    config = DQNRunConfig.from_preset(
        command.env, how.preset or "paper", options=options, seeds=seeds, **length, **settings
    )
    return DQNRun.start(command.folder(_usual_folder(config)), config, tensorboard=how.tensorboard)


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

"""`greedystep train` where a table learns."""

from __future__ import annotations

from greedystep.cli.args import answering_bad_input, parse_options, saying_when_compiling, warnings_as_notes
from greedystep.cli.train import Train, say_results, train_to_end
from greedystep.runs.progress import working
from greedystep.tabular.tabular_run import TabularRun, TabularRunConfig


def train_table(command: Train) -> int:
    """Start or resume a run of a tabular agent, train it, and print its expected return; returns the exit status."""
    with warnings_as_notes(), answering_bad_input(), working("starting"):
        run = _start(command) if command.resume is None else _resume(command)
    title = f"{run.config.env}, {run.config.method}"
    with saying_when_compiling():
        last = train_to_end(
            run, title, lambda now: f"{now.done:,} of {run.total:,} episodes, return {now.episode_return:.4g}"
        )
    if last is not None:
        value = f"The greedy policy's expected return: {run.agent.expected_return():.6g}"
        say_results(run, f"{run.agent.episodes} episodes, {run.agent.steps} steps.", value)
    return 0


def _start(command: Train) -> TabularRun:
    options = parse_options(command.options)
    given = command.given_of_table()
    given["method_options"] = parse_options(given.get("method_options", ()))
    config = TabularRunConfig(env=command.env, options=options, seed=command.seed or 0, **given)
    return TabularRun.start(command.folder(f"{config.env.replace('/', '-')}-{config.method}-seed{config.seed}"), config)


def _resume(command: Train) -> TabularRun:
    assert command.resume is not None
    episodes, env = command.table.episodes, command.env or None
    return TabularRun.resume(command.resume, episodes, restart=command.restart, env=env)

"""The part of `greedystep train` that is about tables."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from greedystep.cli.args import FailedError, parse_options
from greedystep.cli.train import Said
from greedystep.tabular.table_run import Run, RunConfig


class TableJob:
    """A run of a tabular agent."""

    def __init__(self, run: Run) -> None:
        self._run, self.folder = run, run.folder
        self.title = f"{run.config.env}, {run.config.method}"

    @classmethod
    def start(cls, env: str, options: dict[str, Any], given: dict[str, Any], place: Callable[[str], Path]) -> TableJob:
        given["method_options"] = parse_options(given.pop("method_options", ()))
        config = RunConfig(env=env, options=options, **given)
        folder = place(f"{config.env.replace('/', '-')}-{config.method}-seed{config.seed}")
        return cls(Run.start(folder, config))

    @classmethod
    def resume(cls, folder: Path, episodes: int | None, **more: Any) -> TableJob:
        return cls(Run.resume(folder, episodes, **more))

    @property
    def finished(self) -> str | None:
        if not self._run.finished:
            return None
        return f"{self.folder}: all {self._run.config.episodes} episodes are done; a higher --episodes lets it go on."

    def train(self) -> Generator[Said, None, None]:
        total, pieces = self._run.config.episodes, self._run.train()
        try:
            for done in pieces:
                what = f"{done.episodes:,} of {total:,} episodes, return {done.episode_return:.4g}"
                yield Said(done.episodes / total, what)
        except FloatingPointError as problem:
            raise FailedError(f"{self.folder}: {problem}") from problem
        finally:
            pieces.close()

    def close(self) -> None:
        self._run.close()

    def done(self) -> str:
        return f"{self._run.agent.episodes} episodes"

    def conclude(self) -> list[str]:
        agent = self._run.agent
        return [
            f"{agent.episodes} episodes, {agent.steps} steps.",
            f"The greedy policy's expected return: {agent.expected_return():.6g}",
        ]

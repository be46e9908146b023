"""The part of `greedystep train` that is about networks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from greedystep.cli.train import NetworkRun, Said
from greedystep.cli.words import FailedError
from greedystep.deep.run import SAVE_EVERY, Run, RunConfig
from greedystep.deep.train import DivergedError


class NetworkJob:
    """A run of deep agents, one a seed."""

    def __init__(self, run: Run, save_every: float | None) -> None:
        self._run, self.folder = run, run.folder
        self._save_every = SAVE_EVERY if save_every is None else save_every
        self.title = run.config.env.partition("/")[2]
        if self._save_every < 0:
            raise ValueError(f"save_every: expected a number of seconds of at least 0, got {save_every}")

    @classmethod
    def start(
        cls,
        env: str,
        options: dict[str, Any],
        seed: int,
        how: NetworkRun,
        settings: dict[str, Any],
        place: Callable[[str], Path],
    ) -> NetworkJob:
        if how.seeds is not None and how.seeds < 1:
            raise ValueError(f"seeds: expected at least 1, got {how.seeds}")
        seeds = tuple(range(seed, seed + (how.seeds or 1)))
        length = {} if how.steps is None else {"steps": how.steps}
        config = RunConfig.from_preset(env, how.preset or "paper", options=options, seeds=seeds, **length, **settings)
        run = Run.start(place(_usual_folder(config)), config, tensorboard=how.tensorboard)
        return cls(run, how.save_every)

    @classmethod
    def resume(cls, folder: Path, how: NetworkRun, **more: Any) -> NetworkJob:
        return cls(Run.resume(folder, how.steps, **more), how.save_every)

    @property
    def finished(self) -> str | None:
        if not self._run.finished:
            return None
        return f"{self.folder}: all {self._run.step} steps are done; a higher --steps lets it go on."

    def train(self) -> Generator[Said, None, None]:
        total, pieces = self._run.config.steps, self._run.train(self._save_every)
        try:
            for done in pieces:
                self._last = done
                far = f"{_short(done.step)}/{_short(total)} steps"
                what = f"{far}, return {done.episode_return:.4g}, {_short(done.steps_per_second)}/s"
                yield Said(done.step / total, what)
        except DivergedError as problem:
            raise FailedError(f"{self.folder}: {problem}") from problem
        finally:
            pieces.close()

    def close(self) -> None:
        self._run.close()

    def done(self) -> str:
        return f"{self._run.step} steps"

    def conclude(self) -> list[str]:
        last = self._last
        each = " of each seed" if len(self._run.config.seeds) > 1 else ""
        return [
            f"{last.step} steps{each}, at the end {last.steps_per_second:,.0f} a second.",
            f"Mean return of the episodes of the last row: {last.episode_return:.6g}",
        ]


def _usual_folder(config: RunConfig) -> str:
    first, last = config.seeds[0], config.seeds[-1]
    seeds = f"seed{first}" if first == last else f"seeds{first}-{last}"
    ensemble = f"-ensemble{config.agent.ensemble}" if config.agent.ensemble > 1 else ""
    return f"{config.env.replace('/', '-')}-{config.agent.returns}{ensemble}-{seeds}"


def _short(number: float) -> str:
    """Three digits: 870, 38.2k, 5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"

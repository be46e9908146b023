"""The part of `greedystep train` that is about networks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from greedystep.checks import check_float, check_int, check_seed
from greedystep.cli.args import FailedError
from greedystep.cli.train import NetworkRun, Said
from greedystep.deep.run_folder import SAVE_EVERY, Run, RunConfig
from greedystep.deep.trainer import DivergedError

MOST_SEEDS = 1_000_000
"""Trainings side by side; long before, they are refused for the memory that they would need."""


class NetworkJob:
    """A run of deep agents, one a seed."""

    def __init__(self, run: Run, save_every: float) -> None:
        self._run, self.folder, self._save_every = run, run.folder, save_every
        self.title = run.config.env.partition("/")[2]

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
        save_every = _save_every(how)
        count = 1 if how.seeds is None else check_int("seeds", how.seeds, 1, MOST_SEEDS)
        check_seed(check_seed(seed) + count - 1, "the last of the seeds")
        seeds = tuple(range(seed, seed + count))
        length = {} if how.steps is None else {"steps": how.steps}
        config = RunConfig.from_preset(env, how.preset or "paper", options=options, seeds=seeds, **length, **settings)
        run = Run.start(place(_usual_folder(config)), config, tensorboard=how.tensorboard)
        return cls(run, save_every)

    @classmethod
    def resume(cls, folder: Path, how: NetworkRun, **more: Any) -> NetworkJob:
        save_every = _save_every(how)
        return cls(Run.resume(folder, how.steps, **more), save_every)

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
        except (DivergedError, MemoryError) as problem:
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


def _save_every(how: NetworkRun) -> float:
    return SAVE_EVERY if how.save_every is None else check_float("save_every", how.save_every, 0)


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

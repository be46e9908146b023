"""Make the pretrained agents of the package: `python -m benchmarks.pretrained [GAME ...]`.

For each game one run trains several seeds side by side. The greedy policies of all seeds play selection episodes; the
best one is written to a file of at most 300 kB, and the policy in this file plays fresh episodes: its score is biased
neither by the choice nor by how its weights are stored. A game whose card is in the output folder is done; a
run that was stopped goes on. Processes with different games may share both folders.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import Positional

from benchmarks.command import select_games
from greedystep import __version__, pretrained, signals
from greedystep.checks import INT32_MAX, check_int
from greedystep.cli import BAD_INPUT, INTERRUPTED, TERMINATED
from greedystep.cli.args import (
    NO_HINT,
    BadInputError,
    Count,
    MaybeCount,
    PathArg,
    answering_bad_input,
    check_writable,
    one_or_more,
    print_note,
    warnings_as_notes,
)
from greedystep.cli.parser import parse
from greedystep.deep.policy_export import numpy_policy
from greedystep.evaluation import Evaluation
from greedystep.extras import MissingExtraError
from greedystep.numpy_policy import NumpyPolicy

MAX_BYTES = 300_000
"""Size of a policy's file."""
SELECTION_SEED, SCORE_SEED, RANDOM_SEED = 1_000_001, 1_000_002, 1_000_003
"""Seeds of the episodes of the choice, of the score, and of random play."""


@dataclass(frozen=True)
class Recipe:
    """How the agent of a game is trained."""

    steps: int
    seeds: int
    preset: str = "fast"
    settings: dict[str, Any] = field(default_factory=dict)
    """Changes to the preset."""


def _peng(lambda_: float, ensemble: int, learning_rate: float) -> dict[str, Any]:
    return {"returns": "lambda", "lambda_": lambda_, "ensemble": ensemble, "learning_rate": learning_rate}


def _n_step(n: int, ensemble: int, learning_rate: float) -> dict[str, Any]:
    return {"returns": "n-step", "n": n, "ensemble": ensemble, "learning_rate": learning_rate}


RECIPES = {
    "classic/acrobot": Recipe(100_000, 5, "paper"),
    "classic/cartpole": Recipe(100_000, 5, "paper"),
    # docs/settings.md, MountainCar
    "classic/mountaincar": Recipe(
        100_000,
        5,
        "paper",
        {"returns": "greedy-step", "ensemble": 2, "hidden": (64, 64), "replay_size": 50_000, "learning_rate": 3e-3},
    ),
    # The best fixed setting of each of these tasks: results/paper/settings-best.md, fresh seeds in settings-fresh.md
    "minatar/asterix": Recipe(5_000_000, 8, settings=_peng(0.3, 1, 1e-4)),
    "minatar/breakout": Recipe(5_000_000, 8, settings=_peng(0.5, 1, 1e-3)),
    "minatar/freeway": Recipe(5_000_000, 8, settings=_peng(0.3, 2, 1e-4)),
    # four networks of the usual 128 units would not fit into a file
    "minatar/seaquest": Recipe(5_000_000, 8, settings=_peng(0.7, 4, 3e-4) | {"hidden": (72,)}),
    "minatar/space_invaders": Recipe(5_000_000, 8, settings=_peng(0.3, 2, 3e-4)),
    "ple/catcher": Recipe(1_000_000, 4, settings=_peng(0.5, 4, 3e-4)),
    "ple/pixelcopter": Recipe(2_000_000, 4, settings=_n_step(5, 4, 1e-3)),
    "ple/pong": Recipe(5_000_000, 4, settings=_n_step(3, 4, 1e-3)),
}
"""The games. Toy tasks are left out: a table learns them in seconds (`greedystep train toy/choice`)."""


@dataclass(frozen=True)
class Make:
    """Train the pretrained agents of the package and write their policies and cards."""

    # Names of games, or parts of names (default: all games).
    games: Annotated[Positional[tuple[str, ...]], one_or_more("GAME"), NO_HINT] = ()

    # Folder for GAME.npz and GAME.json; a game that has its .json there is done.
    out: PathArg = Path("src/greedystep/pretrained")

    # Folder for the runs, one folder each: they go on after an interruption.
    runs: PathArg = Path("runs/pretrained")

    # Steps per seed (default: depends on the game).
    steps: MaybeCount = None

    # Seeds (default: depends on the game).
    seeds: MaybeCount = None

    # Episodes per seed that decide which seed is kept.
    selection_episodes: Count = 100

    # Fresh episodes that give the score.
    episodes: Count = 1000

    def run(self) -> int:
        from rich.console import Console

        from greedystep.runs.progress import say

        console = Console()
        with answering_bad_input():
            games = select_games(self.games, list(RECIPES))
            for name in ("selection_episodes", "episodes"):
                check_int(name, getattr(self, name), 1, INT32_MAX)
            changes = {name: value for name in ("steps", "seeds") if (value := getattr(self, name)) is not None}
            for name, value in changes.items():
                check_int(name, value)
            check_writable(self.out)
            check_writable(self.runs)
        for game in games:
            card = self.out / pretrained.file_name(game, "json")
            if card.exists():
                say(console, f"{game}: {card} is there already")
                continue
            with answering_bad_input():
                made = self._make(game, dataclasses.replace(RECIPES[game], **changes))
            say(console, pretrained.describe(made))
        return 0

    def _make(self, game: str, recipe: Recipe) -> dict[str, Any]:
        """Train one game, write its policy and its card, and return the card."""
        from greedystep import io
        from greedystep.deep.dqn_run import DQNRunConfig
        from greedystep.deep.evaluator import Evaluator, PolicyEvaluator
        from greedystep.provenance import provenance

        config = DQNRunConfig.from_preset(
            game, recipe.preset, seeds=tuple(range(recipe.seeds)), steps=recipe.steps, **recipe.settings
        )
        trainer = train(self.runs / game.replace("/", "-"), config)
        trial = Evaluator(trainer.learner, trainer.env)(
            trainer.params, SELECTION_SEED, episodes=self.selection_episodes
        )
        means = np.asarray(trial.returns).mean(axis=1)
        lane = int(means.argmax())
        chosen = numpy_policy(trainer.learner, lane_of(trainer.params, lane), env=game)
        file = self.out / pretrained.file_name(game, "npz")
        chosen.save(file, max_bytes=MAX_BYTES)
        play = PolicyEvaluator(NumpyPolicy.load(file), trainer.env)
        settings = {"training": config.as_json(), "selection_episodes": self.selection_episodes}
        card = {
            "env": game,
            "options": config.options,
            "policy": {"file": file.name, "bytes": file.stat().st_size, "sha256": sha256(file)},
            "training": {"preset": recipe.preset, "settings": recipe.settings, "steps": int(trainer.state.step)}
            | {"seeds": list(config.seeds)},
            "selection": {"episodes": self.selection_episodes, "mean_returns": means, "seed": config.seeds[lane]},
            "score": summary(play(SCORE_SEED, episodes=self.episodes)),
            "random": summary(play(RANDOM_SEED, episodes=self.episodes, epsilon=1.0)),
            "version": __version__,
            "provenance": provenance(settings | {"episodes": self.episodes}, command()),
        }
        io.write_json(self.out / pretrained.file_name(game, "json"), card)
        return card


def train(folder: Path, config: Any) -> Any:
    """Train a run in a folder to its end, begun or resumed, and return its trainer."""
    from rich.console import Console

    from greedystep.deep.dqn_run import DQNRun
    from greedystep.runs.progress import progress_line

    if (folder / "config.json").exists():
        run = DQNRun.resume(folder, config.steps)
        if run.config != config:
            run.close()
            raise ValueError(f"runs: {folder} is a run with other settings; choose another folder or delete it")
    else:
        run = DQNRun.start(folder, config)
    with (
        closing(run),
        warnings_as_notes(),
        progress_line(Console(stderr=True), config.env, "compiling") as report,
        closing(run.train()) as chunks,
    ):
        for now in signals.interruptible(chunks):
            report(now.done / run.total, f"{now.done:,} steps, return {now.episode_return:.4g}")
    return run.trainer


def lane_of(params: Any, lane: int) -> Any:
    """Return the arrays of one lane."""
    import jax

    return jax.tree.map(lambda x: x[lane], params)


def summary(played: Evaluation) -> dict[str, Any]:
    """Return the mean return with its 95 % bootstrap interval over the episodes."""
    from greedystep.stats import interval

    mean, low, high = (float(x) for x in interval(np.asarray(played.returns, float), "mean"))
    return {
        "episodes": len(played.returns),
        "mean": mean,
        "low": low,
        "high": high,
        "mean_length": float(played.lengths.mean()),
        "unfinished": int(played.unfinished.sum()),
    }


def sha256(file: Path) -> str:
    """Return the checksum of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def command() -> str:
    """Return the command line of this process."""
    return shlex.join(["python", "-m", "benchmarks.pretrained", *sys.argv[1:]])


def main(argv: list[str]) -> int:
    """Run the command; return the exit status."""
    try:
        with signals.handling():
            return parse(Make, argv, prog="python -m benchmarks.pretrained").run()
    except (BadInputError, MissingExtraError) as problem:
        print_note(f"pretrained: {problem}")
        return BAD_INPUT
    except (KeyboardInterrupt, signals.TerminatedError) as stopped:
        print_note("pretrained: stopped; the same command goes on from here")
        return TERMINATED if isinstance(stopped, signals.TerminatedError) else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`greedystep eval` evaluates a trained agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from greedystep.cli.args import Count, MaybePath, PathArg, Real, answering_bad_input, check_writable

if TYPE_CHECKING:
    from greedystep.evaluation import Evaluation
    from greedystep.tables import Table


@dataclass(frozen=True)
class Eval:
    """Evaluate the agents of a run: play whole episodes without learning and tabulate their returns."""

    # Folder of a run of `greedystep train`, or a file of `greedystep fit` or `agent.save`.
    agent: Annotated[Positional[PathArg], arg(metavar="RUN")]

    # Episodes per seed.
    episodes: Count = 100

    # Share of random actions.
    epsilon: Real = 0.0

    # Seed of the episodes.
    seed: Count = 0

    # Stop an episode after this many steps: a greedy agent may loop forever.
    limit: Count = 10_000

    # JSON file for every return, the table and the provenance.
    out: MaybePath = None

    def run(self) -> int:
        from rich.console import Console

        from greedystep.runs.progress import say
        from greedystep.tables import markdown

        with answering_bad_input():
            if self.out is not None:
                if self.out.suffix != ".json" or self.out.is_dir():
                    raise ValueError(f"out: expected a file that ends in .json, got {str(self.out)!r}")
                check_writable(self.out.parent)
            result, table = self._play()
        if self.out is not None:
            from greedystep.io import write_json
            from greedystep.provenance import provenance

            settings = {"run": str(self.agent), "episodes": self.episodes, "epsilon": self.epsilon}
            settings |= {"seed": self.seed, "limit": self.limit, "trained": result.pop("config")}
            write_json(self.out, {**result, "table": vars(table), "provenance": provenance(settings)})
        say(Console(), markdown(table))
        if self.out is not None:
            say(Console(), f"Written: {self.out}")
        return 0

    def _play(self) -> tuple[dict[str, Any], Table]:
        from greedystep.deep.dqn_run import read_config, trained
        from greedystep.deep.evaluator import Evaluator, check_arguments

        how: Any = {"seed": self.seed, "episodes": self.episodes, "epsilon": self.epsilon, "limit": self.limit}
        check_arguments(**how)  # before the agent is read
        trainer = trained(self.agent)
        evaluate = Evaluator(trainer.learner, trainer.env)
        played = evaluate(trainer.params, **how)
        settings = trainer.about() if self.agent.is_file() else read_config(self.agent)[0].as_json()
        about = {"config": settings, "steps": int(trainer.state.step)}
        result = {**about, "seeds": trainer.seeds, **played._asdict()}
        greedy = "" if self.epsilon == 0 else f", {self.epsilon:g} of the actions at random"
        which = f", {self.agent.name}" if self.agent.is_file() else f" after {about['steps']} steps"
        title = f"{trainer.env.name}{which}: {self.episodes} episodes{greedy}"
        return result, tabulate(title, trainer.seeds, played)


def tabulate(title: str, seeds: list[int], played: Evaluation) -> Table:
    """Return a table of mean returns with 95 % bootstrap intervals: over the episodes of each seed, and over seeds."""
    import numpy as np

    from greedystep.stats import interval
    from greedystep.tables import Table

    def row(name: int | str, scores: np.ndarray, lengths: np.ndarray, unfinished: np.ndarray) -> list[Any]:
        ends = [float(x) if np.isfinite(x) else None for x in interval(scores, "mean")]
        return [name, *ends, float(lengths.mean()), int(unfinished.sum())]

    rows = [row(seed, *lane) for seed, *lane in zip(seeds, *played, strict=True)]
    if len(seeds) > 1:
        rows.append(row("all", played.returns.mean(axis=1), played.lengths, played.unfinished))
    return Table("eval", title, ["seed", "mean return", "from", "to", "mean length", "unfinished"], rows)

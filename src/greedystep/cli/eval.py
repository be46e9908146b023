"""`greedystep eval` evaluates a trained agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from greedystep.cli.args import NO_HINT, Count, MaybePath, PathArg, Real, answering_bad_input, check_writable
from greedystep.evaluation import MAX_STEPS, Evaluation, check_arguments

if TYPE_CHECKING:
    from greedystep.tables import Table


@dataclass(frozen=True)
class Eval:
    """Evaluate the agents of a run: play whole episodes without learning and tabulate their returns."""

    # Folder of a run of `greedystep train`, a file of `greedystep fit` or `agent.save`, networks or a table, or an .npz
    # file of `greedystep export --policy`. With --pretrained the name of an environment.
    agent: Annotated[Positional[PathArg], arg(metavar="RUN")]

    # Evaluate the pretrained agent of an environment; `greedystep envs` shows which have one.
    pretrained: bool = False

    # Episodes per seed.
    episodes: Count = 100

    # Share of random actions.
    epsilon: Real = 0.0

    # Seed of the episodes.
    seed: Count = 0

    # Stop an episode after this many steps: a greedy agent may loop forever.
    limit: Count = MAX_STEPS

    # Play in this environment instead of the agent's own: a name or a Gymnasium id (default: its own). Where its own is
    # "module:id", name it: a module that only a file names is never imported.
    env: Annotated[str | None, NO_HINT] = None

    # JSON file for every return, the table and the provenance.
    out: MaybePath = None

    def run(self) -> int:
        from rich.console import Console

        from greedystep.runs.progress import say, working
        from greedystep.tables import markdown

        with answering_bad_input(), working(f"evaluating {self.agent}"):
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
        from greedystep.agents import is_policy, is_table

        how: Any = {"seed": self.seed, "episodes": self.episodes, "epsilon": self.epsilon, "limit": self.limit}
        check_arguments(**how)  # before the agent is read
        if self.pretrained:
            name, about, seeds, played = self._play_pretrained(how)
        elif is_policy(self.agent):
            name, about, seeds, played = self._play_policy(how)
        elif is_table(self.agent):
            name, about, seeds, played = self._play_table()
        else:
            name, about, seeds, played = self._play_networks(how)
        result = {**about, "seeds": seeds, **{name: x for name, x in played._asdict().items() if x is not None}}
        greedy = "" if self.epsilon == 0 else f", {self.epsilon:g} of the actions at random"
        is_file = not self.pretrained and self.agent.is_file()
        which = f", {self.agent.name}" if is_file else f" after {about['steps']} steps"
        title = f"{name}{which}: {self.episodes} episodes{greedy}"
        return result, tabulate(title, seeds, played)

    def _play_networks(self, how: dict[str, Any]) -> tuple[str, dict[str, Any], list[int], Evaluation]:
        from greedystep.deep.dqn_run import read_config, trained
        from greedystep.deep.env_spec import named_environment
        from greedystep.deep.evaluator import Evaluator

        trainer = trained(self.agent, self.env)
        env = named_environment(trainer.env, self.env)
        played = Evaluator(trainer.learner, env)(trainer.params, **how)
        is_file = self.agent.is_file()
        settings = trainer.about() if is_file else read_config(self.agent, named=self.env)[0].as_json()
        return env.name, {"config": settings, "steps": int(trainer.state.step)}, trainer.seeds, played

    def _play_policy(self, how: dict[str, Any]) -> tuple[str, dict[str, Any], list[int], Evaluation]:
        import numpy as np

        from greedystep.cli.exported_policy import read_policy
        from greedystep.envs.host import HostEnvironment

        policy, env = read_policy(self.agent, self.env)
        if isinstance(env, HostEnvironment):
            from greedystep.envs.host_evaluation import evaluate_policy_on_host

            played = evaluate_policy_on_host(policy, env, **how)
        else:
            from greedystep.deep.evaluator import PolicyEvaluator

            played = PolicyEvaluator(policy, env)(**how)
        return env.name, {"config": {"env": env.name}}, [self.seed], played.map(lambda x: np.asarray(x)[None])

    def _play_pretrained(self, how: dict[str, Any]) -> tuple[str, dict[str, Any], list[int], Evaluation]:
        import numpy as np

        from greedystep import envs, pretrained
        from greedystep.deep.evaluator import PolicyEvaluator

        if self.env is not None:
            raise ValueError("env: a pretrained agent plays in its own environment")
        name = self.agent.as_posix()
        policy, card = pretrained.load_pretrained(name), pretrained.card(name)
        played = PolicyEvaluator(policy, envs.make(name, **card["options"]))(**how)
        about = {"config": card["training"] | {"env": name}, "steps": card["training"]["steps"]}
        return name, about, [card["selection"]["seed"]], played.map(lambda x: np.asarray(x)[None])

    def _play_table(self) -> tuple[str, dict[str, Any], list[int], Evaluation]:
        import numpy as np

        from greedystep.agents import load
        from greedystep.tabular import TabularAgent

        if self.limit != MAX_STEPS:
            raise ValueError("limit: a table's task has a limit of its own")
        agent = load(self.agent, self.env)
        assert isinstance(agent, TabularAgent)
        played = agent.evaluate(self.episodes, self.epsilon, seed=self.seed)
        about = {"config": {"env": agent.task.name, "method": agent.method}, "steps": agent.steps}
        return agent.task.name, about, [self.seed], played.map(lambda x: np.asarray(x)[None])


def tabulate(title: str, seeds: list[int], played: Evaluation) -> Table:
    """Return a table of mean returns with 95 % bootstrap intervals: over the episodes of each seed, and over seeds."""
    import numpy as np

    from greedystep.stats import interval
    from greedystep.tables import Table

    def row(name: int | str, scores: np.ndarray, of: Evaluation) -> list[Any]:
        ends = [float(x) if np.isfinite(x) else None for x in interval(scores, "mean")]
        over = [] if of.overestimation is None else [of.mean_overestimation]
        return [name, *ends, float(of.lengths.mean()), int(of.unfinished.sum()), *over]

    lanes = [played.map(lambda x, lane=lane: x[lane]) for lane in range(len(seeds))]
    rows = [row(seed, lane.returns, lane) for seed, lane in zip(seeds, lanes, strict=True)]
    if len(seeds) > 1:
        rows.append(row("all", played.returns.mean(axis=1), played))
    header = ["seed", "mean return", "from", "to", "mean length", "unfinished"]
    header += [] if played.overestimation is None else ["Q minus return"]
    return Table("eval", title, header, rows)

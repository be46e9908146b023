"""`greedystep export` writes a trained agent's episodes as a dataset, or its policy, for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from greedystep.checks import check_float, check_int, check_seed
from greedystep.cli.args import NO_HINT, Count, MaybePath, PathArg, Real, answering_bad_input, check_writable

if TYPE_CHECKING:
    from greedystep.trajectory import Trajectory


@dataclass(frozen=True)
class Export:
    """Play episodes with an agent and write every step as a dataset, or write its greedy policy alone."""

    # Folder of a run of `greedystep train`, or a file of `greedystep fit` or `agent.save`, networks or a table.
    agent: Annotated[Positional[PathArg], arg(metavar="RUN")]

    # Write the episodes to this .npz file; `greedystep fit` and `gs.trajectory.load` read it.
    out: MaybePath = None

    # Write the episodes as a Minari dataset of this id on this machine, such as cartpole/trained-v0 (the extra
    # `minari`).
    minari: Annotated[str | None, NO_HINT] = None

    # Write the greedy policy of networks to this file: .npz, which `gs.NumpyPolicy.load` reads without JAX, or .onnx,
    # an ONNX model (the extra `onnx`).
    policy: MaybePath = None

    # Episodes to play.
    episodes: Count = 100

    # Share of random actions.
    epsilon: Real = 0.0

    # Seed of the episodes.
    seed: Count = 0

    # For a run with several seeds: which one of them, counted from 0.
    lane: Count = 0

    # Play in this environment instead of the agent's own: a name or a Gymnasium id (default: its own). Where its own is
    # "module:id", name it: a module that only a file names is never imported.
    env: Annotated[str | None, NO_HINT] = None

    def run(self) -> int:
        from rich.console import Console

        from greedystep.runs.progress import say, working

        with answering_bad_input(), working(f"exporting {self.agent}"):
            from greedystep import minari_store
            from greedystep.agents import is_table, refuse_policy

            if self.out is None and self.minari is None and self.policy is None:
                raise ValueError("out: say what to write: --out FILE.npz, --minari ID or --policy FILE")
            for name, path, endings in (("out", self.out, (".npz",)), ("policy", self.policy, (".npz", ".onnx"))):
                if path is not None:
                    if path.suffix not in endings or path.is_dir():
                        expected = " or ".join(endings)
                        raise ValueError(f"{name}: expected a file that ends in {expected}, got {str(path)!r}")
                    check_writable(path.parent)
            if self.minari is not None:
                minari_store.check_new_id(self.minari)
            check_int("episodes", self.episodes)
            check_float("epsilon", self.epsilon, 0, 1)
            check_seed(self.seed)
            if not self.agent.exists():
                raise FileNotFoundError(f"no such agent file: {self.agent}")
            refuse_policy(self.agent)
            if is_table(self.agent):
                written = self._export_table()
            else:
                written = self._export_networks()
        for place in written:
            say(Console(), f"Written: {place}")
        return 0

    # -- both return what was written ----------------------------------------------------------------------------------

    def _export_networks(self) -> list[str]:
        from greedystep.deep.agent import DQN
        from greedystep.deep.collect import collect
        from greedystep.deep.dqn_run import trained
        from greedystep.deep.env_spec import named_environment

        trainer, written = trained(self.agent, self.env), []
        check_int("lane", self.lane, 0, len(trainer.seeds) - 1)
        agent = DQN.from_trainer(trainer.alone(self.lane) if len(trainer.seeds) > 1 else trainer)
        if self.policy is not None:
            agent.export_policy(self.policy)
            written.append(str(self.policy))
        if self.out is not None or self.minari is not None:
            env = named_environment(agent.env, self.env)
            played = collect(agent.trainer, self.episodes, self.epsilon, seed=self.seed, env=env)
            written += self._write_episodes(played, env, "DQN")
        return written

    def _export_table(self) -> list[str]:
        from greedystep.agents import load

        if self.policy is not None:
            raise ValueError(f"policy: {self.agent} is a table, which has no network to write")
        if self.lane:
            raise ValueError(f"lane: {self.agent} is a table, which has one")
        agent: Any = load(self.agent, self.env)
        return self._write_episodes(agent.collect(self.episodes, self.epsilon, seed=self.seed), agent.task, "table")

    def _write_episodes(self, played: list[Trajectory], env: Any, learner: str) -> list[str]:
        """Write episodes that a learner has played; `env` is the environment of networks, or the task of a table."""
        from greedystep import trajectory

        written = []
        if self.out is not None:
            trajectory.save(self.out, played)
            written.append(f"{self.out} ({len(played)} episodes, {sum(map(len, played))} steps)")
        if self.minari is not None:
            spec, spaces = _gymnasium_description(env)
            about = f"{self.episodes} episodes in {env.name}, {self.epsilon:g} of the actions at random"
            how = {"env": spec, "algorithm_name": f"greedystep {learner}", "description": about}
            trajectory.to_minari(self.minari, played, *spaces, **how)
            written.append(f"the Minari dataset {self.minari}")
        return written


def _gymnasium_description(env: Any) -> tuple[Any, tuple[Any, Any]]:
    """Return what Gymnasium makes an environment of, None if nothing, and its spaces, counted from 0.

    Args:
        env: the environment of networks, or the task of a table.
    """
    from gymnasium.spaces import Discrete

    from greedystep.envs.toy_task import ToyTask
    from greedystep.tabular.gymnasium_task import GymnasiumTask

    if isinstance(env, GymnasiumTask):
        return env.env.spec, (Discrete(env.num_states), Discrete(env.num_actions))
    from greedystep.deep.env_spec import gymnasium_spec
    from greedystep.envs.gymnasium import observation_space

    env = env.as_env() if isinstance(env, ToyTask) else env
    return gymnasium_spec(env), (observation_space(env.observation), Discrete(env.num_actions))

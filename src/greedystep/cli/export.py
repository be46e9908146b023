"""`greedystep export` writes a trained agent's episodes as a dataset, or its policy, for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from greedystep.checks import check_float, check_int, check_seed
from greedystep.cli.args import NO_HINT, Count, MaybePath, PathArg, Real, answering_bad_input, check_writable

if TYPE_CHECKING:
    from greedystep.deep.agent import DQN


@dataclass(frozen=True)
class Export:
    """Play episodes with an agent and write every step as a dataset, or write its greedy policy alone."""

    # Folder of a run of `greedystep train`, or a file of `greedystep fit` or `agent.save`; networks only.
    agent: Annotated[Positional[PathArg], arg(metavar="RUN")]

    # Write the episodes to this .npz file; `greedystep fit` and `gs.trajectory.load` read it.
    out: MaybePath = None

    # Write the episodes as a Minari dataset of this id on this machine, such as cartpole/trained-v0 (the extra
    # `minari`).
    minari: Annotated[str | None, NO_HINT] = None

    # Write the greedy policy to this file: .npz, which `gs.NumpyPolicy.load` reads without JAX, or .onnx, an ONNX model
    # (the extra `onnx`).
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
                raise ValueError(f"{self.agent} is a table; expected an agent with networks")
            agent, written = self._agent(), []
            if self.policy is not None:
                agent.export_policy(self.policy)
                written.append(str(self.policy))
            if self.out is not None or self.minari is not None:
                written += self._write_episodes(agent)
        for place in written:
            say(Console(), f"Written: {place}")
        return 0

    def _agent(self) -> DQN:
        from greedystep.deep.agent import DQN
        from greedystep.deep.dqn_run import trained

        trainer = trained(self.agent, self.env)
        check_int("lane", self.lane, 0, len(trainer.seeds) - 1)
        return DQN.from_trainer(trainer.alone(self.lane) if len(trainer.seeds) > 1 else trainer)

    def _write_episodes(self, agent: DQN) -> list[str]:
        from greedystep import trajectory
        from greedystep.deep.collect import collect
        from greedystep.deep.env_spec import named_environment

        env = named_environment(agent.env, self.env)
        played = collect(agent.trainer, self.episodes, self.epsilon, seed=self.seed, env=env)
        written = []
        if self.out is not None:
            trajectory.save(self.out, played)
            written.append(f"{self.out} ({len(played)} episodes, {sum(map(len, played))} steps)")
        if self.minari is not None:
            from gymnasium.spaces import Discrete

            from greedystep.deep.env_spec import gymnasium_spec
            from greedystep.envs.gymnasium import observation_space

            spaces = observation_space(env.observation), Discrete(env.num_actions)
            about = f"{self.episodes} episodes in {env.name}, {self.epsilon:g} of the actions at random"
            how = {"env": gymnasium_spec(env), "algorithm_name": "greedystep DQN", "description": about}
            trajectory.to_minari(self.minari, played, *spaces, **how)
            written.append(f"the Minari dataset {self.minari}")
        return written

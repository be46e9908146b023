"""`greedystep check` plays random actions in an environment and says what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from greedystep.cli.args import Count, EnvOptions, answering_bad_input, parse_options, warnings_as_notes


@dataclass(frozen=True)
class Check:
    """Check that an agent can work with an environment: one sentence says what is wrong with it."""

    # Name of an environment, or a Gymnasium id; "module:id" imports your module first.
    env: Positional[str]
    # Number of random steps.
    steps: Count = 1_000
    # Random seed.
    seed: Count = 0
    # Options of the environment.
    options: EnvOptions = ()

    def run(self) -> int:
        from greedystep.runs.progress import working

        with answering_bad_input(), warnings_as_notes(), working(f"checking {self.env}"):
            from greedystep.deep.env_check import check_env

            check_env(self.env, self.steps, seed=self.seed, **parse_options(self.options))
        print(f"{self.env}: nothing wrong in {self.steps} random steps")
        return 0

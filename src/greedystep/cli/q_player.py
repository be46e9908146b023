"""Let a policy that needs no networks on the device (a table, an exported policy) play through `envs.rollout`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import jax
import numpy as np

from greedystep.envs.core import Environment
from greedystep.envs.host import HostEnvironment
from greedystep.envs.rollout import Policy, PolicyOutput, QAnnotation, RolloutStep
from greedystep.envs.toy_env import ToyState
from greedystep.numpy_policy import NumpyPolicy
from greedystep.tabular.tabular_agent import TabularAgent


class QPlayer(NamedTuple):
    """Plays by action values that are computed on the host."""

    predict: Callable[[Any], int]
    """The greedy action of an observation, counted from 0."""
    values: Callable[[Any], Any]
    """Q(s, ·) of a state of `envs.rollout`."""
    num_actions: int

    @classmethod
    def of_table(cls, agent: TabularAgent) -> QPlayer:
        """Make the player of a tabular agent."""

        def values(state: Any) -> Any:
            return agent.q[int(state.number if isinstance(state, ToyState) else state.observation)]

        return cls(lambda seen: int(agent.predict(int(seen))), values, agent.q.shape[1])

    @classmethod
    def of_policy(cls, policy: NumpyPolicy, env: Environment | HostEnvironment) -> QPlayer:
        """Make the player of an exported policy in an environment of its observations and actions."""
        observe = attrgetter("observation") if isinstance(env, HostEnvironment) else jax.jit(env.observe)

        def values(seen: Any) -> Any:
            return policy.batch_values(np.asarray(seen)[None])[0]

        return cls(
            lambda seen: int(values(seen).argmax()),
            lambda state: values(observe(state)),
            policy.num_actions,
        )

    def policy(self, epsilon: float = 0.0) -> Policy:
        """Return the ε-greedy policy as a policy of `envs.rollout`."""

        def choose(key: jax.Array, state: Any, observation: Any) -> PolicyOutput:
            explore_key, action_key = jax.random.split(key)
            if epsilon and float(jax.random.uniform(explore_key)) < epsilon:
                return PolicyOutput(int(jax.random.randint(action_key, (), 0, self.num_actions)))
            return PolicyOutput(self.predict(observation))

        return choose

    def annotate(self, moments: Iterable[RolloutStep]) -> Iterator[RolloutStep]:
        """Yield the same steps with the action values of their states and the action taken next."""
        before: RolloutStep | None = None
        for moment in moments:
            if before is not None:
                yield self._with_values(before, None if moment.decision is None else moment.decision.action)
            before = moment
        if before is not None:
            yield self._with_values(before, None)

    def _with_values(self, moment: RolloutStep, action: int | None) -> RolloutStep:
        return moment._replace(annotation=QAnnotation(tuple(map(float, self.values(moment.state))), action))

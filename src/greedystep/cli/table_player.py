"""Let a tabular agent play through `envs.rollout`, with its action values shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import jax

from greedystep.envs.rollout import Policy, PolicyOutput, QAnnotation, RolloutStep
from greedystep.envs.toy_env import ToyState
from greedystep.tabular.tabular_agent import TabularAgent


def table_policy(agent: TabularAgent, epsilon: float = 0.0) -> Policy:
    """Return the ε-greedy policy of a tabular agent as a policy of `envs.rollout`."""

    def policy(key: jax.Array, state: Any, observation: Any) -> PolicyOutput:
        explore_key, action_key = jax.random.split(key)
        if epsilon and float(jax.random.uniform(explore_key)) < epsilon:
            return PolicyOutput(int(jax.random.randint(action_key, (), 0, agent.q.shape[1])))
        return PolicyOutput(int(agent.predict(int(observation))))

    return policy


def annotate(agent: TabularAgent, moments: Iterable[RolloutStep]) -> Iterator[RolloutStep]:
    """Yield the same steps with the action values of their states and the action taken next."""
    before: RolloutStep | None = None
    for moment in moments:
        if before is not None:
            follows = None if moment.decision is None else moment.decision.action
            yield _with_values(agent, before, follows)
        before = moment
    if before is not None:
        yield _with_values(agent, before, None)


def _with_values(agent: TabularAgent, moment: RolloutStep, action: int | None) -> RolloutStep:
    state = moment.state.number if isinstance(moment.state, ToyState) else moment.state.observation
    return moment._replace(annotation=QAnnotation(tuple(map(float, agent.q[int(state)])), action))

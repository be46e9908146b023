"""Gymnasium environments with Discrete observations and actions, as tasks of a tabular agent.

Acting is a Python loop over `env.step`; the updates are compiled as elsewhere.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from greedystep.checks import check_float, check_int
from greedystep.envs.gymnasium_ids import make_gymnasium
from greedystep.tabular.acting import epsilon_greedy
from greedystep.tabular.episodes import Episodes


class GymnasiumTask:
    """A Gymnasium environment with Discrete observations and actions, in which a tabular agent learns.

    Args:
        env: an id, or an environment with Discrete observations and actions.
        discount: γ, which Gymnasium leaves to the learner.
        limit: an episode is truncated after this number of steps; needed where the environment has no time limit.
    """

    def __init__(self, env: str | gymnasium.Env, discount: float, limit: int | None):
        self.env = make_gymnasium(env) if isinstance(env, str) else env
        self.name = env if isinstance(env, str) else str(env)
        self.made_with = {} if isinstance(env, str) else None
        """Options of `gymnasium.make`: {} if the environment was made from its id, None if it was given."""
        self._states = _discrete(self.name, "observation", self.env.observation_space)
        self._actions = _discrete(self.name, "action", self.env.action_space)
        self.num_states, self.num_actions = int(self._states.n), int(self._actions.n)
        if limit is None and not _has_limit(self.env):
            raise ValueError(f"limit: {self.name} has no time limit, so an episode may never end; give limit=1000")
        self.limit = None if limit is None else check_int("limit", limit)
        self.discount = check_float("discount", discount, 0, 1, above=True)
        self.next_seed: int | None = 0
        """Seed of the next reset; None to continue the environment's random stream."""

    def epsilon_greedy_episode(self, q: np.ndarray, epsilon: float, random: np.random.Generator) -> Episodes:
        """Play one episode of the ε-greedy policy of the table q, truncated after `limit` steps; return it as a log."""
        observation, _ = self.env.reset(seed=self.next_seed)
        self.next_seed = None
        states, actions, rewards, probabilities = [self._number(observation)], [], [], []
        terminated = truncated = False
        while not (terminated or truncated or len(actions) == self.limit):
            action, probability = epsilon_greedy(q, states[-1], epsilon, random)
            observation, reward, terminated, truncated, _ = self.env.step(int(self._actions.start) + action)
            states.append(self._number(observation))
            actions.append(action)
            rewards.append(float(reward))
            probabilities.append(probability)
        return Episodes.of([(states, actions, rewards, terminated, probabilities)])

    def _number(self, observation: Any) -> int:
        number = int(observation) - int(self._states.start)
        if not 0 <= number < self.num_states:
            raise ValueError(f"env: {self.name} returned observation {observation}, which is not in {self._states}")
        return number

    @property
    def state(self) -> dict[str, Any]:
        """The next seed and the state of the environment's random generator, as JSON, for an exact continuation."""
        return {"seed": self.next_seed, "random": self.env.unwrapped.np_random.bit_generator.state}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self.next_seed = state["seed"]
        self.env.unwrapped.np_random.bit_generator.state = state["random"]


def _discrete(name: str, what: str, space: Any) -> gymnasium.spaces.Discrete:
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise ValueError(f"env: {name} has the {what} space {space}; a table needs a Discrete one")
    return space


def _has_limit(env: Any) -> bool:
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return True
        env = env.env
    return False

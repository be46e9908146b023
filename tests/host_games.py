"""Environments of Gymnasium made for tests of agents that step on the host."""

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

TINY = {
    "returns": "one-step",
    "hidden": (4,),
    "replay_size": 400,
    "batch_size": 4,
    "warmup": 40,
    "target_period": 20,
    "epsilon_steps": 100,
    "log_every": 40,
}


class Counting(gymnasium.Env):
    """Observations [number of the episode, step]; the reward of a step is its number; ends after 3, 4 or 5 steps.

    Episodes terminate and are truncated in turn. `seeds` is what reset was called with.
    """

    observation_space = spaces.Box(0, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(2, start=5)

    def __init__(self):
        self.episode, self.t, self.seeds, self.actions = 0, 0, [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        self.seeds.append(seed)
        return np.array([self.episode, 0.0]), {}

    def step(self, action):
        assert action in self.action_space
        self.actions.append(int(action))
        self.t += 1
        over = self.t == 3 + self.episode % 3
        ends = over and self.episode % 2 == 0
        return np.array([self.episode, float(self.t)]), float(self.t), ends, over and not ends, {}


class Odd(gymnasium.Env):
    """An environment whose spaces, observations and rewards are given."""

    def __init__(self, observation_space=None, seen=(0.0,), reward=1.0, action_space=None, ends=False):
        self.observation_space = spaces.Box(-1, 1, (1,)) if observation_space is None else observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.seen, self.reward, self.ends, self.t = seen, reward, ends, 0

    def _observation(self):
        return self.seen(self.t) if callable(self.seen) else np.array(self.seen, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observation(), {}

    def step(self, action):
        self.t += 1
        return self._observation(), self.reward, self.ends, self.t == 7, {}


class Four(Odd):
    def step(self, action):
        return super().step(action)[:4]


class OldReset(Odd):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


def networks_equal(one, other):
    pairs = zip(jax.tree.leaves(one.networks), jax.tree.leaves(other.networks), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def stored(agent):
    """Return the stored steps: (observation, action, reward, terminated, truncated, next observation) each."""
    buffer, replay = agent.trainer.loop.buffer, jax.tree.map(lambda x: x[0], agent.trainer.state.lanes.replay)
    index = buffer.step_index(replay, np.arange(int(buffer.num_steps(replay).sum())))
    rows, after = buffer.read(replay, index), buffer.ahead(index, 1)
    seen, then = (np.asarray(buffer.observations(replay, at)) for at in (index, after))
    return list(zip(seen, rows.action, rows.reward, rows.terminated, rows.truncated, then, strict=True))

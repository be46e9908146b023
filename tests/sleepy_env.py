"""A simulator that sleeps 2 ms per step, for tests and timings of actors: `sleepy_env:Sleepy-v0`."""

import time

import gymnasium
import numpy as np


class Sleepy(gymnasium.Env):
    """A walk to the right; episodes last 20 to 60 steps, which the seed decides."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, sleep=0.002):
        self._sleep, self._limit, self._at = sleep, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._limit, self._at = int(self.np_random.integers(20, 61)), 0
        return self._seen(), {}

    def step(self, action):
        time.sleep(self._sleep)
        self._at += 1
        return self._seen(), float(action), self._at >= self._limit, False, {}

    def _seen(self):
        return np.array([self._at / 60, self._limit / 60, self.np_random.uniform(-1, 1)], np.float32)


gymnasium.register("Sleepy-v0", Sleepy)

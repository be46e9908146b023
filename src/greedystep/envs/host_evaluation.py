"""Whole episodes in Gymnasium environments, played by any policy. Without JAX, which exported policies do not need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from greedystep.envs.host import HostEnvironment
from greedystep.evaluation import MAX_STEPS, Evaluation, check_arguments
from greedystep.numpy_policy import NumpyPolicy

SIDE_BY_SIDE = 16
"""Largest number of environments that play side by side."""


def evaluate_on_host(
    env: HostEnvironment, act: Callable[[int, np.ndarray], np.ndarray], *, seed: int, episodes: int, limit: int
) -> Evaluation:
    """Play episodes in new environments if they can be made, otherwise in the one that was given.

    Each environment plays its share, so that short episodes do not count more.

    Args:
        act: (time step, observations [N, ...]) -> actions [N], counted from 0.
    """
    envs = env.open(env.fixed_num_envs or min(episodes, SIDE_BY_SIDE))
    n = envs.num_envs
    left = np.array([episodes // n + (i < episodes % n) for i in range(n)])
    total, length, t, done = np.zeros(n), np.zeros(n, int), 0, []
    abandoned = np.zeros(n, bool)  # episodes that were stopped, of environments that only reset themselves
    try:
        seen = envs.reset([(int(seed), i) for i in range(n)])
        while left.any():
            step = envs.step(act(t, seen))
            counts = step.is_step & ~abandoned
            seen, total, length, t = step.observation, total + counts * step.reward, length + counts, t + 1
            over = step.is_step & (step.terminated | step.truncated)
            stopped = ~over & ~abandoned & (length >= limit)
            for i in np.flatnonzero((over & ~abandoned | stopped) & (left > 0)):
                done.append((total[i], length[i], stopped[i]))
                left[i] -= 1
            total[over | stopped], length[over | stopped] = 0, 0
            if not envs.can_restore:
                abandoned = (abandoned | stopped) & ~over
                if left.any() and abandoned[left > 0].all():  # and might never end
                    seen = envs.begin_episodes(np.ones(n, bool))
                    total[:], length[:], abandoned[:] = 0, 0, False
            elif stopped.any():
                seen = np.where(stopped.reshape(-1, *[1] * (seen.ndim - 1)), envs.begin_episodes(stopped), seen)
    finally:
        if env.fixed_num_envs is None:
            envs.close()
    returns, lengths, unfinished = zip(*done, strict=True)
    return Evaluation(np.array(returns, np.float32), np.array(lengths, np.int32), np.array(unfinished))


def evaluate_policy_on_host(
    policy: NumpyPolicy,
    env: HostEnvironment,
    seed: int = 0,
    *,
    episodes: int = 100,
    epsilon: float = 0.0,
    limit: int = MAX_STEPS,
) -> Evaluation:
    """Play episodes with the ε-greedy policy of an exported file; the results are [E]."""
    check_arguments(seed=seed, episodes=episodes, epsilon=epsilon, limit=limit)
    random = np.random.default_rng(seed)

    def act(t: int, observations: np.ndarray) -> np.ndarray:
        actions = policy.batch_values(observations).argmax(axis=-1)
        explores = random.random(len(actions)) < epsilon
        return np.where(explores, random.integers(env.num_actions, size=len(actions)), actions)

    return evaluate_on_host(env, act, seed=seed, episodes=episodes, limit=limit)

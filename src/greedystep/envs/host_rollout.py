"""Episodes of Gymnasium environments, played step by step to be shown or printed."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np

from greedystep.envs.host import HostEnvironment
from greedystep.envs.host_envs import EnvList
from greedystep.envs.rollout import Policy, RolloutStep


def with_images(env: HostEnvironment) -> HostEnvironment:
    """Return the same environment made with render_mode="rgb_array"; itself if it has no id or cannot be rendered."""
    if env.options is None or "render_mode" in env.options:
        return env
    try:
        return HostEnvironment(env.name, **env.options, render_mode="rgb_array")
    except ValueError:
        return env


def play_on_host(
    env: HostEnvironment, policy: Policy, seed: int, *, steps: int | None = None, episodes: int | None = None
) -> Iterator[RolloutStep]:
    """Play episodes of a Gymnasium environment for `steps` steps or `episodes` whole episodes, as `rollout.play` does.

    The states of the yielded steps are `HostView`s.
    """
    envs, key, done = env.open(1), jax.random.key(seed), 0
    assert isinstance(envs, EnvList)
    try:
        envs.reset([(seed, 0)])
        now = RolloutStep(1, 0, envs.view(), None, 0.0, 0.0, "")
        yield now
        while steps is None or done < steps:
            if now.end:
                if now.episode == episodes:
                    return
                envs.begin_episodes(np.ones(1, bool))
                now = RolloutStep(now.episode + 1, 0, envs.view(), None, 0.0, 0.0, "")
                yield now
            key, policy_key = jax.random.split(key)
            decision = policy(policy_key, now.state, now.state.observation)
            step = envs.step(np.array([decision.action]), reset=False)
            end = "terminated" if step.terminated[0] else "truncated" if step.truncated[0] else ""
            reward = float(step.reward[0])
            now = RolloutStep(
                now.episode, now.step + 1, envs.view(), decision, reward, now.episode_return + reward, end
            )
            done += 1
            yield now
    finally:
        envs.close()


def scaled(image: np.ndarray, height: int) -> np.ndarray:
    """Return the image scaled to `height` rows by nearest-neighbour sampling."""
    width = max(1, round(image.shape[1] * height / len(image)))
    rows, columns = np.arange(height) * len(image) // height, np.arange(width) * image.shape[1] // width
    return image[rows][:, columns]

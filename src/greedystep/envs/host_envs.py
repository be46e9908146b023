"""N running Gymnasium environments: one after another in this process, or a vector environment.

Each episode begins with a seed of its own, so that running episodes can be replayed from seeds and actions.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from greedystep.envs.gymnasium_rules import FAILURES, EnvironmentFailedError, failure, wrong_reset, wrong_step
from greedystep.envs.observation_codec import ObservationCodec

MOST_ACTIONS = 100_000
"""Longest episode that can be replayed: an endless one would fill memory and checkpoints with its actions."""


class HostStep(NamedTuple):
    """The result of one step of N environments."""

    reward: np.ndarray
    """float32 [N]."""
    terminated: np.ndarray
    truncated: np.ndarray
    last: np.ndarray
    """[N, ...]: the observations that the step led to; where it ended an episode, the final one."""
    observation: np.ndarray
    """[N, ...]: the observations to act on next; where the step ended an episode, the first one of a new episode."""
    is_step: np.ndarray
    """bool [N]: False where the environment ignored the action and only reset (AutoresetMode.NEXT_STEP)."""


class HostView(NamedTuple):
    """What `greedystep watch` shows of a Gymnasium environment's state."""

    observation: np.ndarray
    image: np.ndarray
    """uint8 [H, W, 3], as the environment renders it; one black pixel where it does not."""


class HostEnvs(ABC):
    """N running environments; each episode begins with a seed of its own.

    The seed of episode k of environment i is drawn from (the seed of its training, i, k). So the running episodes can
    be replayed from their seeds and actions, which is how a training resumes: no simulator is ever pickled.
    """

    can_restore = True
    """Whether running episodes can be replayed, because each begins with a seed that we choose."""

    always_steps = True
    """Whether `HostStep.is_step` is always True."""

    def __init__(self, count: int, codec: ObservationCodec, first_action: np.ndarray):
        self.num_envs, self._codec, self._first_action = count, codec, first_action
        self._all = np.ones(count, bool)
        self._seeds: list[tuple[int, int]] = []
        self._episodes = [0] * count
        self._actions: list[list[np.integer] | None] = [[] for _ in range(count)]
        """Those of the running episodes; None where there are more than MOST_ACTIONS."""

    # -- what a subclass does ------------------------------------------------------------------------------------------

    @abstractmethod
    def _reset(self, seeds: dict[int, int]) -> np.ndarray:
        """Reset some environments, index -> seed, and return the observations of all, [N, ...]."""

    @abstractmethod
    def _step(self, actions: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray, np.ndarray]:
        """Step all environments; return their observations, rewards, terminated and truncated.

        Args:
            actions: [N], as the action space counts them and in its dtype, which Gymnasium checks fastest.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all environments."""

    def abandon(self) -> None:
        """Close all environments after a failure, whatever they raise."""
        with suppress(*FAILURES):
            self.close()

    # -- what a trainer calls ------------------------------------------------------------------------------------------

    def begin_with(self, seed: int) -> np.ndarray:
        """Begin an episode of the only environment with this seed, and return its first observation."""
        self._actions = [[]]
        return self._codec.check(self._reset({0: seed}))[0]

    def reset(self, seeds: Sequence[tuple[int, int]]) -> np.ndarray:
        """Begin the first episode of every environment; `seeds` are (seed of its training, its index therein)."""
        self._seeds, self._episodes = list(seeds), [0] * self.num_envs
        return self.begin_episodes(self._all)

    def begin_after(self, episodes: Sequence[int], seeds: Sequence[tuple[int, int]]) -> np.ndarray:
        """Begin new episodes after those with the numbers `episodes`, which have ended; `seeds` as for `reset`."""
        self._seeds, self._episodes = list(seeds), list(episodes)
        return self.begin_episodes(self._all)

    def begin_episodes(self, mask: np.ndarray) -> np.ndarray:
        """Begin a new episode where `mask`, bool [N], is True; return the observations of all environments."""
        for i in mask.nonzero()[0].tolist():
            self._episodes[i] += 1
            self._actions[i] = []
        return self._codec.check(self._reset(self._episode_seeds(mask)))

    def _episode_seeds(self, mask: np.ndarray) -> dict[int, int]:
        """Return the seeds of the current episodes where `mask` is True, by the index of the environment."""
        return {
            i: int(np.random.SeedSequence([*self._seeds[i], self._episodes[i]]).generate_state(1)[0])
            for i in mask.nonzero()[0].tolist()
        }

    def step(self, actions: np.ndarray, *, reset: bool = True) -> HostStep:
        """Step all environments; with `reset`, those whose episode ends begin a new one."""
        actions = np.add(actions, self._first_action, dtype=self._first_action.dtype, casting="unsafe")
        last, reward, terminated, truncated = self._step(actions)
        for i, taken in enumerate(self._actions):
            if taken is not None:
                taken.append(actions[i])
                if len(taken) > MOST_ACTIONS:
                    self._actions[i] = None
        last, reward = self._codec.check(last), self._codec.check_reward(reward)
        over = terminated | truncated
        observation = self.begin_episodes(over) if reset and over.any() else last
        return HostStep(reward, terminated, truncated & ~terminated, last, observation, self._all)

    # -- exact continuation --------------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The running episodes as JSON, for `restore`: their numbers, and the actions taken in them.

        The actions of an episode that is too long to be replayed are null.
        """
        actions = [None if taken is None else [int(a) for a in taken] for taken in self._actions]
        return {"episodes": list(self._episodes), "actions": actions}

    def restore(self, state: dict[str, Any], seeds: Sequence[tuple[int, int]]) -> np.ndarray | None:
        """Replay the running episodes of `state` and return their observations; None if that is not possible.

        All environments step together, so an episode of t actions begins t steps before the end. Until then its
        environment takes action 0, and is reset whenever that ends an episode.
        """
        if not self.can_restore or None in state["actions"]:
            return None
        self._seeds, self._episodes = list(seeds), list(state["episodes"])
        actions = [list(np.asarray(taken, self._first_action.dtype)) for taken in state["actions"]]
        self._actions = [*actions]
        longest = max(map(len, actions))
        starts = np.array([longest - len(taken) for taken in actions])
        seen, over = np.empty(0), self._all
        for t in range(longest + 1):
            if (begins := over | (starts == t)).any():
                seen = self._reset(self._episode_seeds(begins))
            if t < longest:
                now = [
                    taken[t - start] if t >= start else self._first_action
                    for start, taken in zip(starts, actions, strict=True)
                ]
                seen, _, terminated, truncated = self._step(np.array(now))
                over = terminated | truncated
                if (over & (starts <= t)).any():  # this episode went on before: the environment is not deterministic
                    return None
        return seen


class EnvList(HostEnvs):
    """Environments stepped one after another in this process."""

    def __init__(self, envs: list[gymnasium.Env], codec: ObservationCodec, first_action: np.ndarray):
        super().__init__(len(envs), codec, first_action)
        self._envs, self._cannot_render = envs, False
        self._seen = np.zeros((len(envs), *codec.spec.shape), codec.spec.dtype)

    def _reset(self, seeds: dict[int, int]) -> np.ndarray:
        self._seen = self._seen.copy()  # the observations of the step before have been returned
        for i, seed in seeds.items():
            try:
                result: Any = self._envs[i].reset(seed=seed)
            except FAILURES as problem:
                raise failure(self._codec.name, "reset", problem) from problem
            if not (isinstance(result, tuple) and len(result) == 2):
                raise EnvironmentFailedError(f"env: {self._codec.name}: {wrong_reset(result)}")
            self._seen[i] = self._codec(result[0])
        return self._seen

    def _step(self, actions: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray, np.ndarray]:
        try:
            results: list[Any] = [env.step(action) for env, action in zip(self._envs, actions, strict=True)]
        except FAILURES as problem:
            raise failure(self._codec.name, "step", problem) from problem
        for result in results:
            if not (isinstance(result, tuple) and len(result) == 5):
                raise EnvironmentFailedError(f"env: {self._codec.name}: {wrong_step(result)}")
        seen, reward, terminated, truncated, _ = zip(*results, strict=True)
        self._seen = self._codec.stack(seen)
        return self._seen, reward, *self._codec.check_ends(terminated, truncated)

    def view(self) -> HostView:
        """Return an image and description of the first environment, if made with render_mode="rgb_array"."""
        image: Any = None
        if self._envs[0].render_mode == "rgb_array" and not self._cannot_render:
            try:
                image = self._envs[0].render()
            except gymnasium.error.Error as problem:
                self._cannot_render = True
                warnings.warn(f"this environment cannot be rendered: {problem}", RuntimeWarning, stacklevel=2)
        return HostView(self._seen[0], np.zeros((1, 1, 3), np.uint8) if image is None else np.asarray(image))

    def close(self) -> None:
        for env in self._envs:
            env.close()


class VectorHostEnvs(HostEnvs):
    """A Gymnasium vector environment in any of its three autoreset modes.

    With AutoresetMode.DISABLED we reset, with a seed per episode. In the other modes the environment resets itself: its
    episodes cannot be replayed, so a resumed training begins new ones.
    """

    def __init__(self, vector: VectorEnv, codec: ObservationCodec, first_action: np.ndarray):
        super().__init__(vector.num_envs, codec, first_action)
        self._vector: Any = vector
        self._over = np.zeros(vector.num_envs, bool)
        mode = vector.metadata.get("autoreset_mode")
        if mode is None:
            raise ValueError(
                'env: this vector environment does not say how it resets; set its metadata["autoreset_mode"] to one of '
                "gymnasium.vector.AutoresetMode"
            )
        self._mode = AutoresetMode(mode)
        self._is_ale = type(vector.unwrapped).__module__.startswith("ale_py")
        self._takes_seeds = True
        """Whether it takes a seed per environment, and not only one for all, as some of Gymnasium's own do."""
        self.can_restore = self._mode == AutoresetMode.DISABLED
        self.always_steps = self._mode != AutoresetMode.NEXT_STEP

    def _reset(self, seeds: dict[int, int]) -> np.ndarray:
        which = np.zeros(self.num_envs, bool)
        which[list(seeds)] = True
        self._over = self._over & ~which
        options = None if which.all() else {"reset_mask": which}
        given: Any = [seeds.get(i) for i in range(self.num_envs)]
        if self._is_ale:  # ale_py takes no list, but an array of 31-bit numbers
            given = np.array([seed or 0 for seed in given]) % 2**31
        try:
            seen, _ = self._reset_vector(given, options)
        except FAILURES as problem:
            raise self._failed("reset", problem) from problem
        return self._codec.batch(self._vector.observation_space, seen)

    def _reset_vector(self, seeds: Any, options: Any) -> Any:
        if self._takes_seeds:
            try:
                return self._vector.reset(seed=seeds, options=options)
            except FAILURES:
                if isinstance(self._vector.unwrapped, SyncVectorEnv | AsyncVectorEnv):  # these take them
                    raise
        one = None if options else int(seeds[0]) % 2**31  # its random numbers go on where only some are reset
        result = self._vector.reset(seed=one, options=options)
        self._takes_seeds = False
        return result

    def _step_vector(self, actions: np.ndarray) -> tuple[Any, Any, np.ndarray, np.ndarray, dict[str, Any]]:
        try:
            seen, reward, terminated, truncated, infos = self._vector.step(actions)
        except FAILURES as problem:
            raise self._failed("step", problem) from problem
        return seen, reward, terminated, truncated, infos

    def _failed(self, doing: str, problem: BaseException) -> EnvironmentFailedError:
        """Return the error for a failure; processes that cannot go on after it are ended."""
        if isinstance(self._vector.unwrapped, AsyncVectorEnv):
            self.abandon()
        return failure(self._codec.name, doing, problem)

    def _step(self, actions: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray, np.ndarray]:
        seen, reward, *ends, _ = self._step_vector(actions)
        return self._codec.batch(self._vector.observation_space, seen), reward, *self._codec.check_ends(*ends)

    def step(self, actions: np.ndarray, *, reset: bool = True) -> HostStep:
        if self.can_restore:
            return super().step(actions, reset=reset)
        seen, reward, *ends, infos = self._step_vector(actions + self._first_action)
        terminated, truncated = self._codec.check_ends(*ends)
        observation = self._codec.check(self._codec.batch(self._vector.observation_space, seen))
        reward, was_over, over = self._codec.check_reward(reward), self._over, terminated | truncated
        last = observation
        if self._mode == AutoresetMode.NEXT_STEP:
            self._over = over
        else:
            was_over = np.zeros_like(over)
            if over.any():
                last = observation.copy()
                for i in np.flatnonzero(over):
                    last[i] = self._codec(_final_observation(infos["final_obs"], int(i)))
        return HostStep(reward, terminated, truncated & ~terminated, last, observation, ~was_over)

    def close(self) -> None:
        self._vector.close()

    def abandon(self) -> None:
        vector = self._vector.unwrapped
        if not isinstance(vector, AsyncVectorEnv):
            super().abandon()
            return
        for process in vector.processes:  # one that has failed would not answer `close`
            process.terminate()
            process.join()
        vector.closed = True


def _final_observation(final: Any, i: int) -> Any:
    """Return entry i of infos["final_obs"]: an object array, or a dict or tuple of arrays."""
    if isinstance(final, dict):
        return {name: _final_observation(part, i) for name, part in final.items()}
    return tuple(_final_observation(part, i) for part in final) if isinstance(final, tuple) else final[i]

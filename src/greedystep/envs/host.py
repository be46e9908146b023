"""Gymnasium environments, stepped on the host while networks learn on the device.

`HostEnvironment` describes an environment and makes it: from an id, from a function that makes one, or from an
environment or vector environment that exists already. `HostEnvs` are N running environments. Observations of any space
that Gymnasium can flatten become arrays of one shape and dtype.
"""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate

from greedystep.checks import short_repr
from greedystep.envs.gymnasium_ids import make_gymnasium
from greedystep.envs.gymnasium_rules import (
    EnvironmentFailedError,
    call,
    failure,
    space_of,
    wrong_reset,
    wrong_step,
)
from greedystep.envs.observation_spec import ObservationSpec

Vectorization = Literal["sync", "async", "actors"]
"""Step environments one after another in this process, or each in a process of its own; "actors": training takes whole
episodes from actors elsewhere (see `deep.actors`), everything else steps in this process."""

DTYPES = {"float64": "float32", "float16": "float32", "int64": "int32", "uint64": "int32", "uint32": "int32"}
"""Dtype of an observation space -> the dtype it is stored as, since JAX has 32 bits by default; others are kept."""
SUPPORTED = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
"""Observation spaces that are supported, besides Dict and Tuple of these."""
FAILURES = (Exception, SystemExit)
"""What an environment may raise; an interrupt by the user is none of its failures."""


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


class HostEnvironment:
    """A Gymnasium environment with Discrete actions, of which any number of copies can be opened.

    Args:
        env: an id; a function without arguments that makes a `gymnasium.Env`; an environment; or a vector environment,
            whose reset mode is respected.
        vectorization: how copies are stepped; "async" needs an id or a function.
        options: arguments of `gymnasium.make`, for an id; `limit` is its `max_episode_steps`.
    """

    def __init__(self, env: Any, *, vectorization: Vectorization = "sync", **options: Any):
        if vectorization not in get_args(Vectorization):
            raise ValueError(f"vectorization: expected sync, async or actors, got {vectorization!r}")
        if options and not isinstance(env, str):
            raise ValueError(f"{next(iter(options))}: options go with an id, this environment is made already")
        self.vectorization, self.options = vectorization, options if isinstance(env, str) else None
        self._make: Callable[[], Any] | None = None
        self._made: Any = None
        """The environment that was given, or one that was made to read its spaces and waits for `open`."""
        if isinstance(env, str):
            self._make = partial(make_gymnasium, env, **options)
        elif isinstance(env, gymnasium.Env | VectorEnv):
            self._made = env
        elif callable(env):
            self._make = partial(call, env)
        else:
            raise ValueError(
                f"env: expected an environment, its name or a function that makes one, got {type(env).__name__}"
            )
        if self._make is not None:
            self._made = self._make()
            if not isinstance(self._made, gymnasium.Env):
                raise ValueError(
                    f"env: expected a function that makes a gymnasium.Env, got a {type(self._made).__name__}"
                )
        if vectorization != "sync" and self._make is None:
            raise ValueError("vectorization: processes make their own environments; give an id or a function")
        one: Any = self._made
        self.is_vector = isinstance(one, VectorEnv)
        self.name = env if isinstance(env, str) else _name(one)
        single = "single_" if self.is_vector else ""
        space, actions = (space_of(one, f"{single}{what}_space") for what in ("observation", "action"))
        if not isinstance(actions, spaces.Discrete):
            raise ValueError(f"env: {self.name} has the action space {actions}; only Discrete actions are supported")
        self.num_actions, self._first_action = int(actions.n), np.asarray(actions.start, actions.dtype)
        self.first_action = int(actions.start)
        """The number of the first action in the environment; here and in networks actions are counted from 0."""
        self.action_names = tuple(map(str, range(self.num_actions)))
        self._space, self._codec = space, Codec(self.name, space)
        self.pool: Any = None
        """The actors that play for a training, where `vectorization` is "actors"."""

    @property
    def make(self) -> Callable[[], Any]:
        """The function that makes one more environment; ValueError if only one was given."""
        if self._make is None:
            raise ValueError(f"env: {self.name} is made already; give an id or a function that makes one")
        return self._make

    @property
    def codec(self) -> Codec:
        """How observations become arrays."""
        return self._codec

    @property
    def observation(self) -> ObservationSpec:
        """Shape, dtype and range of the observations that agents see."""
        return self._codec.spec

    @property
    def fixed_num_envs(self) -> int | None:
        """The number of environments if it cannot be chosen (one was given, or a vector of them); else None."""
        return None if self._make is not None else getattr(self._made, "num_envs", 1)

    def encode(self, observations: Any) -> Any:
        """Convert one observation as the environment returns it, or a batch of a vector environment, to an array.

        Dict and Tuple observations are flattened, and Discrete ones counted from 0; others are returned as they are.
        """
        return self._codec.encode(observations)

    def is_from(self, env: Any) -> bool:
        """Whether this is `env`, or was made from it, so that a step of one is a step of the other."""
        return env is self or (env is not None and self._make is None and env is self._made)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in (self.options or {}).items())
        return f"HostEnvironment({self.name!r}{options})"

    def open(self, count: int) -> HostEnvs:
        """Return `count` running environments. Call `close` on them at the end."""
        if self.fixed_num_envs not in (None, count):
            raise ValueError(
                f"num_envs: {self.name} is {self.fixed_num_envs} environment(s), {count} are needed; "
                "give a function that makes one"
            )
        one = self._made
        if self._make is not None:
            self._made = None  # used now; the next call makes another one
            if self.vectorization == "async":
                if one is not None:
                    one.close()
                vector = self._in_processes(self._make, count)
                return VectorHostEnvs(vector, self._codec, self._first_action)
            made = ([] if one is None else [one]) + [self._make() for _ in range(count - (one is not None))]
            return EnvList(made, self._codec, self._first_action)
        if isinstance(one, VectorEnv):
            return VectorHostEnvs(one, self._codec, self._first_action)
        assert one is not None
        return EnvList([one], self._codec, self._first_action)

    def _in_processes(self, make: Callable[[], Any], count: int) -> AsyncVectorEnv:
        # Not forked: JAX has threads by now, which a fork would leave in any state.
        with _main_module_hidden():
            try:
                return AsyncVectorEnv([make] * count, context="spawn", autoreset_mode=AutoresetMode.DISABLED)
            except FAILURES as problem:
                raise failure(self.name, "making a process", problem) from problem


class LoggedEnvironment(HostEnvironment):
    """Spaces of an environment of which only a dataset is known: an agent can be fitted to it, but cannot act."""

    def __init__(self, name: str, observation: ObservationSpec, num_actions: int):
        self.name, self.options, self.vectorization, self._make, self._made = name, None, "sync", None, None
        self.num_actions, self.action_names = num_actions, tuple(map(str, range(num_actions)))
        self.first_action = 0
        self._observation = observation

    def encode(self, observations: Any) -> Any:
        """Return observations as the dataset has them: as they are."""
        return observations

    @property
    def observation(self) -> ObservationSpec:
        return self._observation

    @property
    def fixed_num_envs(self) -> int | None:
        return None

    def open(self, count: int) -> HostEnvs:
        raise ValueError(
            f"env: this agent was made from {self.name} alone and has no environment to play in; give one, as in "
            "evaluate(env=...), or greedystep eval or watch --env ID"
        )


def observation_spec(name: str, space: spaces.Space) -> ObservationSpec:
    """Return the shape, dtype and range that agents see for a Gymnasium space; ValueError if it is not supported."""
    return Codec(name, space).spec


class HostEnvs(ABC):
    """N running environments; each episode begins with a seed of its own.

    The seed of episode k of environment i is drawn from (the seed of its training, i, k). So the running episodes can
    be replayed from their seeds and actions, which is how a training resumes: no simulator is ever pickled.
    """

    can_restore = True
    """Whether running episodes can be replayed, because each begins with a seed that we choose."""

    always_steps = True
    """Whether `HostStep.is_step` is always True."""

    def __init__(self, count: int, codec: Codec, first_action: np.ndarray):
        self.num_envs, self._codec, self._first_action = count, codec, first_action
        self._all = np.ones(count, bool)
        self._seeds: list[tuple[int, int]] = []
        self._episodes = [0] * count
        self._actions: list[list[np.integer]] = [[] for _ in range(count)]

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

    def begin_episodes(self, which: np.ndarray) -> np.ndarray:
        """Begin a new episode where `which`, bool [N], is True; return the observations of all environments."""
        for i in which.nonzero()[0].tolist():
            self._episodes[i] += 1
            self._actions[i] = []
        return self._codec.check(self._reset(self._episode_seeds(which)))

    def _episode_seeds(self, which: np.ndarray) -> dict[int, int]:
        """Return the seeds of the current episodes of the environments `which`, by their index."""
        return {
            i: int(np.random.SeedSequence([*self._seeds[i], self._episodes[i]]).generate_state(1)[0])
            for i in which.nonzero()[0].tolist()
        }

    def step(self, actions: np.ndarray, *, reset: bool = True) -> HostStep:
        """Step all environments; with `reset`, those whose episode ends begin a new one."""
        actions = np.add(actions, self._first_action, dtype=self._first_action.dtype, casting="unsafe")
        last, reward, terminated, truncated = self._step(actions)
        for taken, action in zip(self._actions, actions, strict=True):
            taken.append(action)
        last, reward = self._codec.check(last), self._codec.check_reward(reward)
        over = terminated | truncated
        observation = self.begin_episodes(over) if reset and over.any() else last
        return HostStep(reward, terminated, truncated & ~terminated, last, observation, self._all)

    # -- exact continuation --------------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The running episodes as JSON, for `restore`: their numbers, and the actions taken in them."""
        return {"episodes": list(self._episodes), "actions": [[int(a) for a in taken] for taken in self._actions]}

    def restore(self, state: dict[str, Any], seeds: Sequence[tuple[int, int]]) -> np.ndarray | None:
        """Replay the running episodes of `state` and return their observations; None if that is not possible.

        All environments step together, so an episode of t actions begins t steps before the end. Until then its
        environment takes action 0, and is reset whenever that ends an episode.
        """
        self._seeds, self._episodes = list(seeds), list(state["episodes"])
        self._actions = [list(np.asarray(taken, self._first_action.dtype)) for taken in state["actions"]]
        if not self.can_restore:
            return None
        longest = max(map(len, self._actions))
        starts = np.array([longest - len(taken) for taken in self._actions])
        seen, over = np.empty(0), self._all
        for t in range(longest + 1):
            if (begins := over | (starts == t)).any():
                seen = self._reset(self._episode_seeds(begins))
            if t < longest:
                now = [
                    taken[t - start] if t >= start else self._first_action
                    for start, taken in zip(starts, self._actions, strict=True)
                ]
                seen, _, terminated, truncated = self._step(np.array(now))
                over = terminated | truncated
                if (over & (starts <= t)).any():  # this episode went on before: the environment is not deterministic
                    return None
        return seen


class EnvList(HostEnvs):
    """Environments stepped one after another in this process."""

    def __init__(self, envs: list[gymnasium.Env], codec: Codec, first_action: np.ndarray):
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
        return self._seen, reward, np.array(terminated, bool), np.array(truncated, bool)

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

    def __init__(self, vector: VectorEnv, codec: Codec, first_action: np.ndarray):
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
            seen, _ = self._vector.reset(seed=given, options=options)
        except FAILURES as problem:
            raise failure(self._codec.name, "reset", problem) from problem
        return self._codec.batch(self._vector.observation_space, seen)

    def _step_vector(self, actions: np.ndarray) -> tuple[Any, Any, np.ndarray, np.ndarray, dict[str, Any]]:
        try:
            seen, reward, terminated, truncated, infos = self._vector.step(actions)
        except FAILURES as problem:
            raise failure(self._codec.name, "step", problem) from problem
        return seen, reward, terminated, truncated, infos

    def _step(self, actions: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray, np.ndarray]:
        seen, reward, terminated, truncated, _ = self._step_vector(actions)
        return self._codec.batch(self._vector.observation_space, seen), reward, terminated.copy(), truncated.copy()

    def step(self, actions: np.ndarray, *, reset: bool = True) -> HostStep:
        if self.can_restore:
            return super().step(actions, reset=reset)
        seen, reward, terminated, truncated, infos = self._step_vector(actions + self._first_action)
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
        return HostStep(reward, terminated.copy(), truncated & ~terminated, last, observation, ~was_over)

    def close(self) -> None:
        self._vector.close()

    def abandon(self) -> None:
        if not isinstance(self._vector, AsyncVectorEnv):
            super().abandon()
            return
        for process in self._vector.processes:  # one that has failed would not answer `close`
            process.terminate()
            process.join()
        self._vector.closed = True


class Codec:
    """Converts observations of a Gymnasium space to arrays of one shape and dtype, and checks them."""

    def __init__(self, name: str, space: spaces.Space):
        self.name, self._space = name, space
        self._is_box, self._is_discrete = isinstance(space, spaces.Box), isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.Discrete):
            self._start = int(space.start)
            self.spec = ObservationSpec((), np.dtype(np.int32), 0, int(space.n) - 1)
            return
        box = flatten_space(space) if _is_supported(space) and not self._is_box else space
        if not isinstance(box, spaces.Box):
            raise ValueError(
                f"env: {name} has the observation space {space}; supported are Box, Discrete, MultiBinary, "
                "MultiDiscrete, and Dict and Tuple of these"
            )
        dtype = np.dtype(DTYPES.get(str(box.dtype), box.dtype))
        low, high = (bound.astype(np.float64) for bound in (box.low, box.high))
        self.spec = ObservationSpec(tuple(box.shape), dtype, low, high)

    def __call__(self, observation: Any) -> np.ndarray:
        shape, dtype = self.spec.shape, self.spec.dtype
        if self._is_discrete:
            try:
                number = int(observation) - self._start
            except (TypeError, ValueError):
                number = -1
            if not 0 <= number <= self.spec.high:
                raise self._wrong(observation)
            return np.asarray(number, dtype)
        try:
            found = np.asarray(observation if self._is_box else flatten(self._space, observation), dtype)
        except (TypeError, ValueError, LookupError, AttributeError):
            raise self._wrong(observation) from None
        if found.shape != shape:
            raise EnvironmentFailedError(
                f"env: {self.name} returned an observation of shape {found.shape}, its space says {shape}"
            )
        return found

    def encode(self, observations: Any) -> Any:
        """Convert one observation, or N of them as a vector environment batches them; see `HostEnvironment.encode`."""
        if self._is_discrete:
            return np.asarray(observations) - self._start
        if not isinstance(observations, dict | tuple) or not isinstance(self._space, spaces.Dict | spaces.Tuple):
            return observations
        if self._space.contains(observations):
            return self(observations)
        return self.batch(batch_space(self._space, _batch_size(observations)), observations)

    def _wrong(self, observation: Any) -> EnvironmentFailedError:
        shown = short_repr(observation)
        return EnvironmentFailedError(f"env: {self.name} returned observation {shown}, which is not in {self._space}")

    def batch(self, space: spaces.Space, observations: Any) -> np.ndarray:
        """Convert the N observations of a vector environment, whose batched space is `space`, to one array [N, ...]."""
        if self._is_box:
            return np.array(observations, self.spec.dtype)
        return np.stack([self(one) for one in iterate(space, observations)])

    def stack(self, observations: Sequence[Any]) -> np.ndarray:
        """Convert the observations of N environments to one array [N, ...]."""
        if self._is_box:
            try:
                found = np.array(observations, self.spec.dtype)
            except (TypeError, ValueError):  # their shapes differ, or one is no array at all
                found = np.empty(0)
            if found.shape == (len(observations), *self.spec.shape):
                return found
        return np.stack([self(one) for one in observations])

    def check(self, observations: np.ndarray) -> np.ndarray:
        """Return the observations; ValueError if one is NaN or infinite."""
        if observations.dtype.kind == "f" and not np.isfinite(observations).all():
            shown = short_repr(observations.tolist())
            raise EnvironmentFailedError(f"env: {self.name} returned an observation that is not finite: {shown}")
        return observations

    def check_reward(self, reward: Any) -> np.ndarray:
        """Return the rewards as float32 [N]; ValueError unless they are finite numbers."""
        try:
            found = np.asarray(reward, np.float32)
        except (TypeError, ValueError):
            found = np.array(np.nan, np.float32)
        if found.ndim != 1 or not np.isfinite(found).all():
            raise EnvironmentFailedError(
                f"env: {self.name} returned the reward {reward}; expected one finite number per step"
            )
        return found


def _batch_size(observations: Any) -> int:
    """Return N of a batch of N observations, a dict or tuple of arrays [N, ...] or of more of these."""
    while isinstance(observations, dict | tuple):
        observations = next(iter(observations.values() if isinstance(observations, dict) else observations))
    return len(observations)


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Within the block, worker processes do not import the user's script, so it needs no `if __name__ == "__main__"`.

    Functions defined in the script are sent to the workers by value (cloudpickle, which Gymnasium uses).
    """
    main = sys.modules["__main__"]
    before = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    for name in before:
        setattr(main, name, None)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(main, name, value)


def _is_supported(space: spaces.Space) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return all(map(_is_supported, space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces))
    return isinstance(space, SUPPORTED)


def _name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return spec.id if spec is not None else type(getattr(env, "unwrapped", env)).__name__


def _final_observation(final: Any, i: int) -> Any:
    """Return entry i of infos["final_obs"]: an object array, or a dict or tuple of arrays."""
    if isinstance(final, dict):
        return {name: _final_observation(part, i) for name, part in final.items()}
    return tuple(_final_observation(part, i) for part in final) if isinstance(final, tuple) else final[i]

"""A Gymnasium environment, stepped on the host while networks learn on the device.

`HostEnvironment` describes an environment and opens it: from an id, from a function that makes one, or from an
environment or vector environment that exists already. `host_envs` has the running environments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv

from greedystep.envs.gymnasium_ids import make_gymnasium
from greedystep.envs.gymnasium_rules import FAILURES, call, failure, space_of
from greedystep.envs.host_envs import EnvList, HostEnvs, VectorHostEnvs
from greedystep.envs.observation_codec import ObservationCodec
from greedystep.envs.observation_spec import ObservationSpec

Vectorization = Literal["sync", "async", "actors"]
"""Step environments one after another in this process, or each in a process of its own; "actors": training takes whole
episodes from actors elsewhere (see `deep.actors`), everything else steps in this process."""


class HostEnvironment:
    """A Gymnasium environment with Discrete actions, of which any number of copies can be opened.

    Args:
        env: an id; a function without arguments that makes a `gymnasium.Env`; an environment; or a vector environment,
            whose reset mode is respected.
        vectorization: how copies are stepped; "async" needs an id or a function.
        options: arguments of `gymnasium.make`, for an id; `limit` is its `max_episode_steps`.
    """

    first_state = 0
    """The number of the first state in the environment, where observations are states."""

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
        self.codec = ObservationCodec(self.name, space)
        """How observations become arrays."""
        self.first_state = self.codec.first_state
        self.pool: Any = None
        """The actors that play for a training, where `vectorization` is "actors"."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """The numbers of the actions, from 0, as text."""
        return tuple(map(str, range(self.num_actions)))

    @property
    def make(self) -> Callable[[], Any]:
        """The function that makes one more environment; ValueError if only one was given."""
        if self._make is None:
            raise ValueError(f"env: {self.name} is made already; give an id or a function that makes one")
        return self._make

    @property
    def observation(self) -> ObservationSpec:
        """Shape, dtype and range of the observations that agents see."""
        return self.codec.spec

    @property
    def fixed_num_envs(self) -> int | None:
        """The number of environments if it cannot be chosen (one was given, or a vector of them); else None."""
        return None if self._make is not None else getattr(self._made, "num_envs", 1)

    def encode(self, observations: Any) -> Any:
        """Convert one observation as the environment returns it, or a batch of a vector environment, to an array.

        Dict and Tuple observations are flattened, and Discrete ones counted from 0; others are returned as they are.
        """
        return self.codec.encode(observations)

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
                return VectorHostEnvs(vector, self.codec, self._first_action)
            made = ([] if one is None else [one]) + [self._make() for _ in range(count - (one is not None))]
            return EnvList(made, self.codec, self._first_action)
        if isinstance(one, VectorEnv):
            return VectorHostEnvs(one, self.codec, self._first_action)
        assert one is not None
        return EnvList([one], self.codec, self._first_action)

    def close(self) -> None:
        """Close the environment that was made to read its spaces, if it still waits for `open`, which makes another.

        One that was given is left alone.
        """
        if self._make is not None and self._made is not None:
            self._made.close()
            self._made = None

    def _in_processes(self, make: Callable[[], Any], count: int) -> AsyncVectorEnv:
        # Not forked: JAX has threads by now, which a fork would leave in any state.
        with _main_module_hidden():
            try:
                return AsyncVectorEnv([make] * count, context="spawn", autoreset_mode=AutoresetMode.DISABLED)
            except FAILURES as problem:
                raise failure(self.name, "making a process", problem) from problem


class LoggedEnvironment(HostEnvironment):
    """Spaces of an environment of which only a dataset is known: an agent can be fitted to it, but cannot act.

    Args:
        first_action: the number of the environment's first action; in the dataset actions are counted from 0.
        space: the environment's observation space, if it is known.
    """

    def __init__(
        self,
        name: str,
        observation: ObservationSpec,
        num_actions: int,
        first_action: int = 0,
        space: spaces.Space | None = None,
    ):
        self.name, self.options, self.vectorization, self._make, self._made = name, None, "sync", None, None
        self.num_actions, self.first_action = num_actions, first_action
        self._observation = observation
        self.space = space
        self._encode = None
        if space is not None:
            codec = ObservationCodec(name, space)
            self._encode, self.first_state = codec.encode, codec.first_state

    def encode(self, observations: Any) -> Any:
        """Convert observations as the environment returns them to those of the dataset, where its space is known."""
        return observations if self._encode is None else self._encode(observations)

    @property
    def observation(self) -> ObservationSpec:
        return self._observation

    @property
    def fixed_num_envs(self) -> int | None:
        return None

    def open(self, count: int) -> HostEnvs:
        raise ValueError(
            f"env: this agent was made from {self.name} alone and has no environment to play in; give one, as in "
            "evaluate(env=...), or greedystep eval, watch or export --env ID"
        )


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


def _name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return spec.id if spec is not None else type(getattr(env, "unwrapped", env)).__name__

"""Observations of any Gymnasium space that can be flattened, as arrays of one shape and dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space
from gymnasium.vector.utils import batch_space, iterate

from greedystep.checks import short_repr
from greedystep.envs.gymnasium_rules import EnvironmentFailedError
from greedystep.envs.observation_spec import ObservationSpec

DTYPES = {"float64": "float32", "float16": "float32", "int64": "int32", "uint64": "int32", "uint32": "int32"}
"""Dtype of an observation space -> the dtype it is stored as, since JAX has 32 bits by default; others are kept."""
SUPPORTED = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
"""Observation spaces that are supported, besides Dict and Tuple of these."""


class ObservationCodec:
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
        dtype = stored_dtype(box.dtype)
        low, high = (bound.astype(np.float64) for bound in (box.low, box.high))
        self.spec = ObservationSpec(tuple(box.shape), dtype, low, high, is_quantity=True)

    def __call__(self, observation: Any) -> np.ndarray:
        shape, dtype = self.spec.shape, self.spec.dtype
        if self._is_discrete:
            try:
                number = int(observation) - self._start
            except (TypeError, ValueError):
                number = -1
            if not 0 <= number <= self.spec.high:
                raise self._not_in_space(observation)
            return np.asarray(number, dtype)
        try:
            found = np.asarray(observation if self._is_box else flatten(self._space, observation), dtype)
        except (TypeError, ValueError, LookupError, AttributeError):
            raise self._not_in_space(observation) from None
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

    def _not_in_space(self, observation: Any) -> EnvironmentFailedError:
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


def _is_supported(space: spaces.Space) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return all(map(_is_supported, space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces))
    return isinstance(space, SUPPORTED)


def stored_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype that observations of `dtype` are stored as."""
    return np.dtype(DTYPES.get(str(dtype), dtype))

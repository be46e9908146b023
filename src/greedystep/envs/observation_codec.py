"""Observations of any Gymnasium space that can be flattened, as arrays of one shape and dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space
from gymnasium.vector.utils import batch_space, iterate

from greedystep.checks import short_repr
from greedystep.envs.gymnasium_rules import EnvironmentFailedError
from greedystep.envs.observation_spec import ObservationSpec

DTYPES = {"float64": "float32", "float16": "float32", "int64": "int32", "uint64": "int32", "uint32": "int32"}
"""Dtype of an observation space -> the dtype it is stored as, since JAX has 32 bits by default; others are kept.

Integers are stored as float32 where they may not fit.
"""
SUPPORTED = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
"""Observation spaces that are supported, besides Dict and Tuple of these."""
FLOAT32_MAX, INT32 = np.finfo(np.float32).max, np.iinfo(np.int32)
SMALL_SQUARE = np.float32(1e38)
"""Sum of squares none of which can be beyond float32."""


class ObservationCodec:
    """Converts observations of a Gymnasium space to arrays of one shape and dtype, and checks them."""

    def __init__(self, name: str, space: spaces.Space):
        self.name, self._space = name, space
        self._is_box, self._is_discrete = isinstance(space, spaces.Box), isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.Discrete):
            self._start = int(space.start)
            self.spec = ObservationSpec((), np.dtype(np.int32), 0, int(space.n) - 1)
            return
        if _has_empty_part(space):
            raise self._empty()
        box = flatten_space(space) if _is_supported(space) and not self._is_box else space
        if not isinstance(box, spaces.Box):
            raise ValueError(
                f"env: {name} has the observation space {space}; supported are Box, Discrete, MultiBinary, "
                "MultiDiscrete, and Dict and Tuple of these"
            )
        if 0 in box.shape:
            raise self._empty()
        low, high = (bound.astype(np.float64) for bound in (box.low, box.high))
        dtype = stored_dtype(box.dtype, low.min(), high.max())
        self.spec = ObservationSpec(tuple(box.shape), dtype, low, high, is_quantity=True)

    @property
    def first_state(self) -> int:
        """The number of the first state in the environment, where observations are states; networks count from 0."""
        return self._start if self._is_discrete else 0

    def __call__(self, observation: Any) -> np.ndarray:
        if self._is_discrete:
            try:
                number = int(observation)
            except (TypeError, ValueError, OverflowError):
                raise self._not_in_space(observation) from None
            if not (number == observation and 0 <= number - self._start <= self.spec.high):
                raise self._not_in_space(observation)
            return np.asarray(number - self._start, self.spec.dtype)
        if not self._is_box and not _numbers_fit(self._space, observation):
            raise self._not_in_space(observation)
        try:
            found = np.asarray(observation if self._is_box else flatten(self._space, observation))
        except (TypeError, ValueError, LookupError, AttributeError):
            raise self._not_in_space(observation) from None
        if (stored := self._stored(found)) is None:
            raise self._not_in_space(observation)
        if stored.shape != self.spec.shape:
            raise EnvironmentFailedError(
                f"env: {self.name} returned an observation of shape {stored.shape}, its space says {self.spec.shape}"
            )
        return stored

    def _stored(self, found: np.ndarray) -> np.ndarray | None:
        """Return an array in the dtype that it is stored as; None if that would change whole numbers or is none."""
        dtype = self.spec.dtype
        if found.dtype == dtype:
            return found
        if found.dtype.kind not in "biuf":
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # what does not fit is told below, or by `check`
            stored = found.astype(dtype)
        return None if dtype.kind != "f" and (stored != found).any() else stored

    def encode(self, observations: Any) -> Any:
        """Convert one observation, or N of them as a vector environment batches them; see `HostEnvironment.encode`."""
        if self._is_discrete:
            return np.asarray(observations) - self._start
        if isinstance(self._space, spaces.MultiDiscrete | spaces.MultiBinary):
            return self._encode_several(np.asarray(observations), self._space.shape)
        if not isinstance(observations, dict | tuple) or not isinstance(self._space, spaces.Dict | spaces.Tuple):
            return observations
        if self._space.contains(observations):
            return self(observations)
        return self.batch(batch_space(self._space, _batch_size(observations)), observations)

    def _encode_several(self, observations: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Flatten one or many observations of that shape; others are returned as they are."""
        batch = observations.shape[: observations.ndim - len(shape)]
        if observations.shape[len(batch) :] != shape or not observations.size:
            return observations
        return np.stack([self(one) for one in observations.reshape(-1, *shape)]).reshape(*batch, *self.spec.shape)

    def _empty(self) -> ValueError:
        return ValueError(
            f"env: {self.name} has the observation space {self._space}, parts of which are empty; expected numbers"
        )

    def _not_in_space(self, observation: Any) -> EnvironmentFailedError:
        shown = short_repr(observation)
        return EnvironmentFailedError(f"env: {self.name} returned observation {shown}, which is not in {self._space}")

    def batch(self, space: spaces.Space, observations: Any) -> np.ndarray:
        """Convert the N observations of a vector environment, whose batched space is `space`, to one array [N, ...]."""
        if self._is_box:
            return self.stack(observations)
        return np.stack([self(one) for one in iterate(space, observations)])

    def stack(self, observations: Sequence[Any]) -> np.ndarray:
        """Convert the observations of N environments to one array [N, ...]."""
        if self._is_box:
            try:
                found = np.array(observations)
            except (TypeError, ValueError):  # their shapes differ
                found = np.empty(0)
            stored = self._stored(found) if found.shape == (len(observations), *self.spec.shape) else None
            if stored is not None:
                return stored
        return np.stack([self(one) for one in observations])

    def check(self, observations: np.ndarray) -> np.ndarray:
        """Return the observations; ValueError if one is NaN or infinite."""
        if observations.dtype.kind == "f" and not np.isfinite(observations).all():
            shown = short_repr(observations.tolist())
            raise EnvironmentFailedError(f"env: {self.name} returned an observation that is not finite: {shown}")
        return observations

    def check_reward(self, reward: Any) -> np.ndarray:
        """Return the rewards as float32 [N]; EnvironmentFailedError unless they are numbers that float32 can hold."""
        try:
            found = np.asarray(reward)
        except ValueError:
            found = np.empty(())
        # A sum of squares that is small enough is the fastest proof.
        is_small = found.ndim == 1 and found.dtype.kind == "f" and np.vdot(found, found) < SMALL_SQUARE
        if not is_small and (found.ndim != 1 or found.dtype.kind not in "biuf" or not fits_float32(found)):
            shown = _shown(reward)
            raise EnvironmentFailedError(
                f"env: {self.name} returned the reward {shown}; expected one number per step, finite in float32"
            )
        return found.astype(np.float32, copy=False)

    def check_ends(self, terminated: Any, truncated: Any) -> np.ndarray:
        """Return both of N environments as bool [2, N]; EnvironmentFailedError unless they are bools, 1 or 0."""
        try:
            ends = np.array((terminated, truncated))
        except ValueError:
            ends = np.empty(())
        if ends.dtype.kind == "b" and ends.ndim == 2:
            return ends
        for name, given in (("terminated", terminated), ("truncated", truncated)):
            if not all(isinstance(flag, bool | np.bool_ | int | np.integer) and flag in (0, 1) for flag in given):
                raise EnvironmentFailedError(
                    f"env: {self.name} returned {name} {_shown(given)}; expected one bool per step"
                )
        return ends.astype(bool)


def _batch_size(observations: Any) -> int:
    """Return N of a batch of N observations, a dict or tuple of arrays [N, ...] or of more of these."""
    while isinstance(observations, dict | tuple):
        observations = next(iter(observations.values() if isinstance(observations, dict) else observations))
    return len(observations)


def _is_supported(space: spaces.Space) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return all(map(_is_supported, space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces))
    return isinstance(space, SUPPORTED)


def _shown(values: Any) -> str:
    """Return what N environments returned as text; for one environment its value alone."""
    return short_repr(values[0] if isinstance(values, tuple) and len(values) == 1 else values)


def _has_empty_part(space: spaces.Space) -> bool:
    """Whether a Dict or Tuple, or one in it, has no parts."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return False
    parts = list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)
    return not parts or any(map(_has_empty_part, parts))


def _numbers_fit(space: spaces.Space, seen: Any) -> bool:
    """Whether the numbers of states in an observation are in their spaces; others would be flattened to anything."""
    if isinstance(space, spaces.Dict):
        return isinstance(seen, Mapping) and all(
            name in seen and _numbers_fit(part, seen[name]) for name, part in space.spaces.items()
        )
    if isinstance(space, spaces.Tuple):
        is_whole = isinstance(seen, Sequence | np.ndarray) and len(seen) == len(space.spaces)
        return is_whole and all(map(_numbers_fit, space.spaces, seen))
    return not isinstance(space, spaces.Discrete | spaces.MultiDiscrete) or bool(space.contains(seen))


def fits_float32(numbers: Any) -> bool:
    """Whether all numbers are finite in float32."""
    return bool((np.abs(numbers) <= FLOAT32_MAX).all())


def stored_dtype(dtype: np.dtype, low: float, high: float) -> np.dtype:
    """Return the dtype that observations of `dtype`, from `low` to `high`, are stored as."""
    stored = np.dtype(DTYPES.get(str(dtype), dtype))
    if stored != dtype and stored.kind == "i" and not (INT32.min <= low and high <= INT32.max):
        return np.dtype(np.float32)
    return stored

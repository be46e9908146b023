"""Trajectories of logged steps, their .npz files, and conversion from and to Minari datasets."""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from greedystep import io, minari_store
from greedystep.checks import check_entries

FILE_FORMAT = "greedystep-trajectories-1"

COLUMNS = {"rewards": "iuf", "terminated": "b", "truncated": "b", "behaviour_prob": "iuf"}
"""Array of a trajectory file with one entry per step -> allowed kinds of its dtype."""

ACTION_BITS = 24
"""Bits that a replay buffer has for the number of an action."""

MINARI_KEY = "behaviour_prob"
"""Key of the behaviour probabilities in Minari's infos. Infos have T + 1 entries, of which the first is NaN."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """T steps of one episode, which may stop before the episode ends. Checked when made; arrays are not copied.

    In step t, actions[t] was taken on observations[t], paid rewards[t] and led to observations[t + 1].
    """

    observations: np.ndarray
    """[T + 1, ...], integers for numbered states."""
    actions: np.ndarray
    """[T, ...]."""
    rewards: np.ndarray
    """float64 [T]."""
    terminated: np.ndarray
    """bool [T]: the step ended the episode in a terminal state, of value 0. Only the last step can be true."""
    truncated: np.ndarray
    """bool [T]: the episode was cut off after the step; the last state still has a value. Only the last can be true.

    If the last step is neither, the data end there, which means the same to a learner.
    """
    behaviour_prob: np.ndarray | None = None
    """float64 [T]: the probability with which the behaviour policy chose the action, or None if unknown."""

    def __post_init__(self) -> None:
        if np.ndim(self.rewards) > 1:
            raise ValueError(f"rewards: expected one number per step, got shape {list(np.shape(self.rewards))}")
        T = np.size(self.rewards)
        for name, kind, length in (
            ("observations", None, T + 1),
            ("actions", None, T),
            ("rewards", np.float64, T),
            ("terminated", np.bool_, T),
            ("truncated", np.bool_, T),
            ("behaviour_prob", np.float64, T),
        ):
            value = getattr(self, name)
            if name == "behaviour_prob" and value is None:
                continue
            array = as_array(name, value, kind)
            if array.ndim == 0 or len(array) != length or (kind is not None and array.ndim != 1):
                raise ValueError(
                    f"{name}: expected length {length} beside {T} rewards (T + 1 observations, T of everything else), "
                    f"got shape {list(array.shape)}"
                )
            object.__setattr__(self, name, array)
        if T == 0:
            raise ValueError("rewards: expected at least one step, got none")
        for name in ("observations", "rewards"):
            values = getattr(self, name)
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                at = np.argwhere(~np.isfinite(values))[0]
                raise ValueError(f"{name}: expected finite numbers, got {values[tuple(at)]} in step {at[0]}")
        for name, ends in (("terminated", self.terminated), ("truncated", self.truncated)):
            if ends[:-1].any():
                raise ValueError(f"{name}: step {np.argmax(ends)} of {T} ends the episode; make a trajectory of each")
        behaviour_prob = self.behaviour_prob
        if behaviour_prob is not None and not ((behaviour_prob > 0) & (behaviour_prob <= 1)).all():
            wrong = behaviour_prob[~((behaviour_prob > 0) & (behaviour_prob <= 1))][0]
            raise ValueError(f"behaviour_prob: expected probabilities in (0, 1], got {wrong}")

    def __len__(self) -> int:
        """Return the number of steps, T."""
        return len(self.rewards)


def as_array(name: str, value: Any, kind: Any = None) -> np.ndarray:
    """Convert to an array of numbers, or of the dtype `kind`; ValueError, beginning with `name`, if that cannot be."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name}: expected one array, got entries of different shapes") from None
    if array.dtype == object:
        first = value if isinstance(value, Mapping) or not array.size else array.flat[0]
        raise ValueError(f"{name}: expected one array of numbers, got {type(first).__name__}{_advice(first)}")
    if np.ma.is_masked(value):
        raise ValueError(f"{name}: expected no masked entries, got {np.ma.count_masked(value)} of them")
    if kind is np.bool_ and array.dtype != np.bool_:
        check_flags(name, array)
    elif array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected numbers, got {array.dtype}")
    return array if kind is None else array.astype(kind, copy=False)


def check_flags(name: str, array: np.ndarray) -> None:
    """Raise ValueError unless all entries are true or false, which may be written as 1 and 0."""
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected true or false (1 or 0), got {array.dtype}")
    check_entries(
        (array != 0) & (array != 1),
        lambda *at: f"{name}: expected true or false (1 or 0), got {array[at]} in step {at[0] if at else 0}",
    )


def _advice(entry: Any) -> str:
    if isinstance(entry, Mapping):
        return "; flatten each observation first, with gymnasium.spaces.flatten(env.observation_space, observation)"
    return ""


# -- files ------------------------------------------------------------------------------------------------------------


def save(path: str | os.PathLike, trajectories: Trajectory | Iterable[Trajectory]) -> None:
    """Write trajectories, or a single one, to one .npz file, atomically and without pickle.

    All observations must have one shape and dtype, and so must all actions.
    """
    found = _checked(trajectories)
    columns = {name: [getattr(one, name) for one in found] for name in ("observations", "actions")}
    for name, parts in columns.items():
        for number, part in enumerate(parts):
            if part.shape[1:] != parts[0].shape[1:] or part.dtype != parts[0].dtype:
                raise ValueError(
                    f"trajectories: {name} of number {number} are {part.dtype} {list(part.shape[1:])}, "
                    f"those of number 0 {parts[0].dtype} {list(parts[0].shape[1:])}"
                )
    columns |= {name: [getattr(one, name) for one in found] for name in ("rewards", "terminated", "truncated")}
    columns["behaviour_prob"] = [
        np.full(len(one), np.nan) if one.behaviour_prob is None else one.behaviour_prob for one in found
    ]
    lengths = np.array([len(one) for one in found], np.int64)
    arrays: dict[str, Any] = {name: np.concatenate(parts) for name, parts in columns.items()}
    with io.atomic_write(path) as file:
        np.savez_compressed(file, format=FILE_FORMAT, lengths=lengths, **arrays)


def load(path: str | os.PathLike) -> list[Trajectory]:
    """Read trajectories written by `save`; FileNotFoundError or ValueError say in one sentence what is wrong."""
    arrays = io.load_npz(path, FILE_FORMAT, "trajectory")
    try:
        lengths, columns = io.get_array(arrays, "lengths", "iu", 1).tolist(), dict(arrays)
        for name, kinds in COLUMNS.items():
            columns[name] = io.get_array(arrays, name, kinds, 1)
        for name in ("observations", "actions"):
            if name not in columns or columns[name].ndim == 0 or columns[name].dtype.kind not in "biuf":
                raise ValueError(f"it has no {name} that are numbers")
        steps, most = sum(lengths), len(columns["rewards"])
        if not lengths or min(lengths) < 1 or steps != most or len(columns["observations"]) != steps + len(lengths):
            raise ValueError("its lengths do not fit its arrays")
        ends = np.cumsum(lengths).tolist()
        return [
            _part(columns, number, end - length, end)
            for number, (length, end) in enumerate(zip(lengths, ends, strict=True))
        ]
    except ValueError as problem:
        raise ValueError(f"{path} is damaged: {problem}") from None


def _part(arrays: dict[str, np.ndarray], number: int, low: int, high: int) -> Trajectory:
    behaviour_prob = arrays["behaviour_prob"][low:high]
    return Trajectory(
        arrays["observations"][low + number : high + number + 1],
        **{name: arrays[name][low:high] for name in ("actions", "rewards", "terminated", "truncated")},
        behaviour_prob=None if np.isnan(behaviour_prob).any() else behaviour_prob,
    )


def _checked(trajectories: Trajectory | Iterable[Trajectory]) -> list[Trajectory]:
    found = [trajectories] if isinstance(trajectories, Trajectory) else list(trajectories)
    for number, one in enumerate(found):
        if not isinstance(one, Trajectory):
            raise ValueError(f"trajectories: number {number} is a {type(one).__name__}, not a Trajectory")
    if not found:
        raise ValueError("trajectories: expected at least one")
    return found


# -- Minari -----------------------------------------------------------------------------------------------------------


def from_minari(dataset: Any) -> list[Trajectory]:
    """Return all episodes of a Minari dataset, given as an object or as the id of a local dataset."""
    if isinstance(dataset, str):
        dataset = minari_store.open_id(dataset)
    space = getattr(dataset, "observation_space", None)
    return [from_minari_episode(episode, space) for episode in dataset.iterate_episodes()]


def from_minari_episode(episode: Any, observation_space: Any = None) -> Trajectory:
    """Convert one episode of a Minari dataset; Dict and Tuple observations are flattened as Gymnasium does."""
    observations: Any = episode.observations
    if not isinstance(observations, np.ndarray) and observation_space is not None:
        from gymnasium.spaces.utils import flatten
        from gymnasium.vector.utils import batch_space, iterate

        batched = batch_space(observation_space, len(episode) + 1)
        parts: list[Any] = [flatten(observation_space, one) for one in iterate(batched, observations)]
        observations = np.stack(parts)
    for name, values in (("observations", observations), ("actions", episode.actions)):
        if not isinstance(values, np.ndarray):
            kind = type(values).__name__
            raise ValueError(f"dataset: {name} of episode {episode.id} are a {kind}; expected one array")
    behaviour_prob = (episode.infos or {}).get(MINARI_KEY)
    return Trajectory(
        observations,
        episode.actions,
        episode.rewards,
        episode.terminations,
        episode.truncations,
        None if behaviour_prob is None else np.asarray(behaviour_prob)[1:],
    )


def to_minari(
    dataset_id: str, trajectories: Sequence[Trajectory], observation_space: Any, action_space: Any, **about: Any
) -> Any:
    """Write trajectories as a local Minari dataset and return it.

    Args:
        dataset_id: such as "toy/choice/random-v0".
        observation_space, action_space: Gymnasium spaces.
        about: what else `minari.create_dataset_from_buffers` takes, such as author, description or env.
    """
    minari = minari_store.installed()
    from minari.data_collector import EpisodeBuffer

    found = _checked(trajectories)
    if len({one.behaviour_prob is None for one in found}) > 1:
        raise ValueError("trajectories: some have behaviour_prob and some have not; Minari wants all episodes alike")
    minari_store.check_new_id(dataset_id)
    buffers = []
    for number, one in enumerate(found):
        behaviour_prob = one.behaviour_prob
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=list(one.observations),
                actions=list(one.actions),
                rewards=one.rewards.tolist(),
                terminations=one.terminated.tolist(),
                truncations=one.truncated.tolist(),
                infos={} if behaviour_prob is None else {MINARI_KEY: [np.nan, *behaviour_prob.tolist()]},
            )
        )
    about = {"observation_space": observation_space, "action_space": action_space} | about
    if "jpeg_encoding" in inspect.signature(minari.create_dataset_from_buffers).parameters:
        about.setdefault("jpeg_encoding", False)  # observations are kept as they are
    try:
        with minari_store.without_advice():
            return minari.create_dataset_from_buffers(dataset_id, buffers, **about)
    except BaseException:  # nothing half-written stays
        shutil.rmtree(minari_store.folder_of(dataset_id), ignore_errors=True)
        raise

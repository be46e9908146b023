"""Datasets of logged steps, converted to trajectories from the forms in which users have them.

`Dataset.of` takes

    trajectories        one `Trajectory` or many
    a dict of arrays    D4RL's flat form: observations, actions, rewards, terminals, and if known timeouts,
                        next_observations and behaviour_prob, all episodes one after another
    a tuple of arrays   (observations, actions, rewards, terminals[, timeouts]), the arguments of d3rlpy's MDPDataset
    a list of those     one per episode
    a file              .npz of `trajectory.save` or of flat arrays; .hdf5 of D4RL or Minari (needs h5py)
    a Minari dataset    itself, "minari:ID" of one on this machine, or its folder, in any of Minari's formats
    an object with `episodes`, such as d3rlpy's datasets

Episodes are read one at a time, so that a large dataset need not fit into memory twice. Actions are whole numbers from
0, which may be stored as floats; in Minari's datasets they are counted from the start of their Discrete space.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import io, minari_store, trajectory
from greedystep.checks import INT32_MAX, check_entries
from greedystep.extras import MissingExtraError
from greedystep.minari_store import EPISODE, EpisodeFile
from greedystep.trajectory import Trajectory

MINARI, MINARI_PARTS = "minari:", (".arrow", ".parquet")
"""What is before the id of a Minari dataset, and the endings of files that are a part of one."""
ALIASES = {
    "observations": ("observations", "obs", "states"),
    "actions": ("actions", "action"),
    "rewards": ("rewards", "reward"),
    "terminated": ("terminated", "terminals", "terminations", "dones"),
    "truncated": ("truncated", "timeouts", "truncations"),
    "next_observations": ("next_observations", "next_obs"),
    "behaviour_prob": ("behaviour_prob", "behavior_prob"),
}
"""Our name of an array -> the names that datasets give it."""
REQUIRED = ("observations", "actions", "rewards", "terminated")


class Dataset:
    """Episodes of logged steps; iterating yields a `Trajectory` per episode.

    Args:
        name: the dataset's name in error messages.
        episodes: a function that returns a new iterator over the episodes.
        steps, count: number of steps and of episodes.
        spaces: Gymnasium's observation and action space, if known.
    """

    def __init__(
        self, name: str, episodes: Callable[[], Iterator[Trajectory]], steps: int, count: int, spaces: Any = None
    ):
        self.name, self._episodes, self.steps, self.count, self.spaces = name, episodes, steps, count, spaces
        if not count:
            raise ValueError(f"{name}: expected at least one trajectory, got none")

    def __iter__(self) -> Iterator[Trajectory]:
        return self._episodes()

    def __len__(self) -> int:
        """Return the number of episodes."""
        return self.count

    @classmethod
    def of(cls, dataset: Any, name: str = "dataset") -> Dataset:
        """Convert any of the forms listed in this module; ValueError names the file, episode and step of a fault."""
        if isinstance(dataset, Dataset):
            return dataset
        if isinstance(dataset, str | os.PathLike):
            return cls._read(str(dataset))
        if hasattr(dataset, "iterate_episodes"):
            return cls._of_minari(dataset, name)
        if isinstance(dataset, Trajectory):
            return cls._of_list([dataset], name)
        if isinstance(dataset, Mapping) or _is_arrays(dataset):
            return cls._of_list(split_episodes(_named(dataset, name), name), name)
        if hasattr(dataset, "episodes"):
            dataset = dataset.episodes
        if not isinstance(dataset, Iterable):
            raise ValueError(
                f"{name}: expected trajectories, arrays, a file or a Minari dataset, got {type(dataset).__name__}"
            )
        return cls._of_list([_as_trajectory(one, name, number) for number, one in enumerate(dataset)], name)

    @classmethod
    def joined(cls, parts: Sequence[Dataset]) -> Dataset:
        """Concatenate several datasets."""
        if len(parts) == 1:
            return parts[0]
        name, steps, count = (
            ", ".join(one.name for one in parts),
            sum(one.steps for one in parts),
            sum(map(len, parts)),
        )
        return cls(name, lambda: chain.from_iterable(parts), steps, count, parts[0].spaces)

    def split(self, every: int) -> tuple[Dataset, Dataset]:
        """Return all episodes but every `every`-th, and these; both are the whole dataset if it has fewer."""
        if self.count < every:
            return self, self
        lengths = [len(one) for one in self]

        def part(is_last: bool) -> Dataset:
            def belongs(number: int) -> bool:
                return (number % every == every - 1) == is_last

            own = [length for number, length in enumerate(lengths) if belongs(number)]

            def episodes() -> Iterator[Trajectory]:
                return (one for number, one in enumerate(self) if belongs(number))

            return Dataset(self.name, episodes, sum(own), len(own), self.spaces)

        return part(False), part(True)

    @classmethod
    def _of_list(cls, found: list[Trajectory], name: str) -> Dataset:
        found = [_with_discrete_actions(one, name, number) for number, one in enumerate(found)]
        return cls(name, lambda: iter(found), sum(map(len, found)), len(found))

    @classmethod
    def _of_minari(cls, dataset: Any, name: str) -> Dataset:
        spaces = dataset.observation_space, dataset.action_space
        starts = [int(getattr(space, "start", 0)) if hasattr(space, "n") else 0 for space in spaces]

        def episodes() -> Iterator[Trajectory]:
            source = iter(dataset.iterate_episodes())
            for number in count():
                with minari_store.reading(name):
                    episode = next(source, None)
                if episode is None:
                    return
                with _Naming(name, number):
                    one = trajectory.from_minari_episode(episode, dataset.observation_space)
                    if any(starts):
                        seen, actions = one.observations - starts[0], one.actions - starts[1]
                        one = replace(one, observations=seen, actions=actions)
                yield _with_discrete_actions(one, name, number)

        known = None if None in spaces else spaces
        return cls(name, episodes, int(dataset.total_steps), int(dataset.total_episodes), known)

    @classmethod
    def _read(cls, path: str) -> Dataset:
        if path.startswith(MINARI):
            return cls._of_minari(minari_store.open_id(path.removeprefix(MINARI)), path)
        if (folder := minari_store.data_folder(Path(path))) is not None:
            return cls._of_minari(minari_store.open_folder(folder, path), path)
        if Path(path).is_dir() or Path(path).suffix in MINARI_PARTS:
            kind = "a folder" if Path(path).is_dir() else "a part of a dataset"
            raise ValueError(
                f"{path}: {kind}; expected a file, or the folder of a Minari dataset with its metadata.json"
            )
        if Path(path).suffix in (".h5", ".hdf5"):
            found = _read_hdf5(path)
            if isinstance(found, EpisodeFile):
                return cls._of_minari(found, path)
            return cls._of_list(split_episodes(_named(found, path), path), path)
        try:
            arrays = io.read_npz(path)
        except (ValueError, OSError):  # `load` says what is wrong with the file
            arrays = {}
        if arrays and "format" not in arrays:
            return cls._of_list(split_episodes(_named(arrays, path), path), path)
        return cls._of_list(trajectory.load(path), path)


def _with_discrete_actions(one: Trajectory, name: str, number: int) -> Trajectory:
    """Return the trajectory with actions of an integer dtype; ValueError unless they are whole numbers from 0."""
    actions = one.actions
    with _Naming(name, number):
        if actions.ndim != 1:
            raise ValueError(
                f"actions: expected one whole number per step, got arrays of shape {list(actions.shape[1:])}"
            )
        if actions.dtype.kind == "f":
            check_entries(
                actions != np.floor(actions), lambda t: f"actions: expected whole numbers, got {actions[t]} in step {t}"
            )
        check_entries(
            actions < 0, lambda t: f"actions: expected actions that are numbered from 0, got {actions[t]} in step {t}"
        )
        check_entries(
            actions > INT32_MAX, lambda t: f"actions: expected at most {INT32_MAX}, got {actions[t]} in step {t}"
        )
    return one if actions.dtype.kind in "iu" else replace(one, actions=actions.astype(np.int64))


def split_episodes(arrays: Mapping[str, np.ndarray], name: str) -> list[Trajectory]:
    """Split flat arrays, whose episodes lie one after another, after each terminated or truncated step.

    Without next_observations the state after the last step of an episode is not known. After a terminated step it does
    not matter; a last step that was truncated is dropped, as its value cannot be bootstrapped.
    """
    T = len(arrays["rewards"])
    for key, array in arrays.items():
        if np.ndim(array) == 0 or len(array) != T:
            raise ValueError(f"{name}: expected {T} {key}, as many as rewards, got shape {list(np.shape(array))}")
    if not T:
        raise ValueError(f"{name}: expected at least one step, got none")
    _check_ends(arrays, name)
    terminated = arrays["terminated"].astype(bool)
    truncated = np.asarray(arrays.get("truncated", np.zeros(T))).astype(bool) & ~terminated
    ends = np.flatnonzero(terminated | truncated) + 1
    following = arrays.get("next_observations")
    found: list[Trajectory] = []
    low = 0
    stops: list[int] = ends.tolist()
    if not stops or stops[-1] < T:
        stops.append(T)  # the data stop within an episode
    for number, end in enumerate(stops):
        high = end
        if following is None and not terminated[end - 1]:
            high -= 1
        if high > low:
            last = arrays["observations"][high : high + 1] if high < end else arrays["observations"][high - 1 : high]
            last = last if following is None else following[high - 1 : high]
            behaviour_prob = arrays.get("behaviour_prob")
            with _Naming(name, number, low):
                found.append(
                    Trajectory(
                        np.concatenate([arrays["observations"][low:high], last]),
                        arrays["actions"][low:high],
                        arrays["rewards"][low:high],
                        terminated[low:high],
                        truncated[low:high],
                        None if behaviour_prob is None else behaviour_prob[low:high],
                    )
                )
        low = end
    return found


def _check_ends(arrays: Mapping[str, np.ndarray], name: str) -> None:
    """Raise ValueError, naming episode and step, unless terminated and truncated are true or false."""
    flags = {key: arrays[key] for key in ("terminated", "truncated") if key in arrays}
    wrong = np.any([(flag != 0) & (flag != 1) for flag in flags.values()], axis=0)
    first = int(wrong.argmax()) if wrong.any() else 0
    before = np.flatnonzero(np.any([flag[:first] == 1 for flag in flags.values()], axis=0))
    low = int(before[-1]) + 1 if before.size else 0
    with _Naming(name, before.size, low):
        for key, flag in flags.items():
            trajectory.check_flags(key, flag[low:])


def _named(arrays: Any, name: str) -> dict[str, np.ndarray]:
    """Return {our name: array} of arrays under any of their ALIASES."""
    if not isinstance(arrays, Mapping):
        keys = ("observations", "actions", "rewards", "terminated", "truncated")
        arrays = dict(zip(keys, arrays, strict=False))
    found = {}
    for ours, names in ALIASES.items():
        given = [alias for alias in names if alias in arrays]
        if given:
            try:
                found[ours] = trajectory.as_array(given[0], arrays[given[0]])
            except ValueError as problem:
                raise ValueError(f"{name}: {problem}") from None
        elif ours in REQUIRED:
            there = ", ".join(map(str, arrays)) or "no arrays"
            raise ValueError(f"{name}: expected an array {' or '.join(names)}, got {there}")
    for ours in ("observations", "actions", "rewards"):
        if found[ours].ndim == 0:
            raise ValueError(f"{name}: {ours}: expected one entry per step, got a single {found[ours].dtype}")
    for ours in ("rewards", "terminated", "truncated", "actions"):
        if ours in found and found[ours].ndim == 2 and found[ours].shape[1] == 1:
            found[ours] = found[ours][:, 0]  # d3rlpy keeps columns
    return found


def _is_arrays(dataset: Any) -> bool:
    return isinstance(dataset, tuple) and len(dataset) in (4, 5) and all(map(_is_array, dataset))


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (hasattr(value, "__array__") and not isinstance(value, Trajectory))


def _as_trajectory(one: Any, name: str, number: int) -> Trajectory:
    if isinstance(one, Trajectory):
        return one
    if isinstance(one, Mapping) or _is_arrays(one):
        arrays = _named(one, f"{name}, episode {number}")
    elif hasattr(one, "observations") and hasattr(one, "rewards"):  # an episode of d3rlpy
        arrays = {key: np.asarray(getattr(one, key)) for key in ("observations", "actions", "rewards")}
        T = len(arrays["rewards"])
        arrays["terminated"] = np.arange(T) == (T - 1 if bool(one.terminated) else -1)
        arrays = _named(arrays, name)
    else:
        raise ValueError(
            f"{name}: episode {number} is a {type(one).__name__}; expected a Trajectory, a dict of arrays "
            "(observations, actions, rewards, terminals), or a tuple of these four arrays"
        )
    if len(arrays["observations"]) == len(arrays["rewards"]) + 1:  # T + 1 observations, as we keep them
        arrays["terminated"] = np.broadcast_to(arrays["terminated"], arrays["rewards"].shape)
        with _Naming(name, number):
            truncated = arrays.get("truncated", np.zeros(len(arrays["rewards"]), bool))
            return Trajectory(
                *(arrays[key] for key in REQUIRED), truncated=truncated, behaviour_prob=arrays.get("behaviour_prob")
            )
    parts = split_episodes(arrays, f"{name}, episode {number}")
    if len(parts) != 1:
        raise ValueError(f"{name}: expected one episode as number {number}, got {len(parts)}")
    return parts[0]


def _read_hdf5(path: str) -> dict[str, np.ndarray] | EpisodeFile:
    """Return the arrays of an HDF5 file, or the episodes that it has as Minari keeps them."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("reading .hdf5 needs h5py; `pip install 'greedystep[minari]'` adds it") from None
    try:
        with h5py.File(path, "r") as file:
            if any(map(EPISODE.fullmatch, file)):
                return EpisodeFile(path, file)
            return {key: value[()] for key, value in file.items() if isinstance(value, h5py.Dataset)}
    except FileNotFoundError:
        raise FileNotFoundError(f"no such file: {path}") from None
    except (OSError, RuntimeError, KeyError) as problem:
        raise ValueError(f"{path} is not a readable HDF5 file: {problem}") from None


class _Naming:
    """Context manager that puts the dataset's name and the episode's number in front of a ValueError."""

    def __init__(self, name: str, number: int, step: int | None = None):
        self._where = f"{name}, episode {number}" + (f" (from step {step})" if step else "")

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: Any, at: Any) -> None:
        if isinstance(problem, ValueError):
            raise ValueError(f"{self._where}: {problem}") from None

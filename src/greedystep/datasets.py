"""Datasets of logged steps, converted to trajectories from the forms in which users have them.

`Dataset.of` takes

    trajectories        one `Trajectory` or many
    a dict of arrays    D4RL's flat form: observations, actions, rewards, terminals, and if known timeouts,
                        next_observations and behaviour_prob, all episodes one after another
    a tuple of arrays   (observations, actions, rewards, terminals[, timeouts]), the arguments of d3rlpy's MDPDataset
    one episode         either of these with T + 1 observations, or with one flag as terminals; in a tuple whose fourth
                        part is one flag, the fifth is behaviour_prob, as tables take it
    a list of those     one per episode; also of Minari's episodes
    a file              .npz of `trajectory.save` or of flat arrays; .hdf5 of D4RL or Minari (needs h5py)
    a Minari dataset    itself, "minari:ID" of one on this machine, or its folder, in any of Minari's formats
    an object with `episodes`, such as d3rlpy's datasets

Episodes are read one at a time, so that a large dataset need not fit into memory twice. Actions are whole numbers from
0, which may be stored as floats; in Minari's datasets they are counted from the start of their Discrete space.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import io, minari_store, trajectory
from greedystep.checks import check_entries
from greedystep.extras import MissingExtraError
from greedystep.minari_store import EPISODE, EpisodeFile
from greedystep.trajectory import ACTION_BITS, Trajectory

MINARI, MINARI_PARTS = "minari:", (".arrow", ".parquet")
"""What is before the id of a Minari dataset, and the endings of files that are a part of one."""
ALIASES = {
    "observations": ("observations", "obs", "states"),
    "actions": ("actions",),
    "rewards": ("rewards",),
    "terminated": ("terminated", "terminals", "terminations", "dones", "terminateds"),
    "truncated": ("truncated", "timeouts", "truncations", "truncateds"),
    "next_observations": ("next_observations", "next_obs", "next_states", "new_obs"),
    "behaviour_prob": ("behaviour_prob", "behavior_prob"),
}
"""Our name of an array -> the names that datasets give it, which may also lack their s (done, next_state). Of several
names for the observations the first counts (states beside observations are those of a simulator); others must agree."""
REQUIRED = ("observations", "actions", "rewards", "terminated")
FORMATS = ".npz of gs.trajectory.save or of flat arrays, .hdf5 of D4RL or Minari, or minari:ID"
LARGEST_ACTION = 2**ACTION_BITS - 1
ENTRIES_AT_ONCE = 2**18
"""Entries of observations that are compared at a time, so that only these are copied."""


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
        if isinstance(dataset, Mapping) or is_arrays(dataset):
            return cls._of_arrays(dataset, name)
        if hasattr(dataset, "episodes"):
            dataset = dataset.episodes
        _refuse_frame(dataset, name)
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
    def _of_arrays(cls, given: Any, name: str) -> Dataset:
        arrays = _named(given, name)
        is_whole = _has_last_observation(arrays) and not arrays["terminated"][:-1].any()
        return cls._of_list([_whole(arrays, name, 0)] if is_whole else split_episodes(arrays, name), name)

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
            return cls._of_arrays(found, path)
        try:
            arrays = io.read_npz(path)
        except FileNotFoundError:
            hint = f"; did you mean {MINARI}{path}?" if minari_store.is_local(path) else ""
            raise FileNotFoundError(f"no such trajectory file: {path}{hint}") from None
        except ValueError as problem:
            raise ValueError(f"{path} is no file of logged steps ({problem}); expected {FORMATS}") from None
        return cls._of_list(trajectory.load(path), path) if "format" in arrays else cls._of_arrays(arrays, path)


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
            actions > LARGEST_ACTION,
            lambda t: f"actions: expected at most {LARGEST_ACTION}, got {actions[t]} in step {t}",
        )
    return one if actions.dtype.kind in "iu" else replace(one, actions=actions.astype(np.int64))


def split_episodes(arrays: Mapping[str, np.ndarray], name: str) -> list[Trajectory]:
    """Split flat arrays, whose episodes lie one after another, after each terminated or truncated step.

    A step also counts as truncated where the next one does not begin in its next observation: D4RL's
    `qlearning_dataset` has no timeouts, and shows in no other way where an episode was cut.

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
    following = arrays.get("next_observations")
    if following is not None:
        expected, got = (list(seen.shape[1:]) for seen in (arrays["observations"], following))
        if expected != got:
            raise ValueError(f"{name}: next_observations: expected shape {expected} as observations have, got {got}")
        truncated |= _jumps(arrays["observations"], following) & ~terminated
    ends = np.flatnonzero(terminated | truncated) + 1
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
    if not found:
        raise ValueError(
            f"{name}: no step is left: the last step of an episode that does not terminate is dropped where no "
            "next_observations say where it led"
        )
    return found


def _jumps(observations: np.ndarray, following: np.ndarray) -> np.ndarray:
    """Return bool [T]: whether the step after each one does not begin in the observation that this one led to.

    Observations are compared exactly; if both are floats, in the lower one of their precisions.
    """
    dtypes, T, width = (observations.dtype, following.dtype), len(observations), math.prod(observations.shape[1:])
    are_floats = all(dtype.kind == "f" for dtype in dtypes)
    dtype = min(dtypes, key=lambda one: one.itemsize) if are_floats else np.result_type(*dtypes)
    jumps, rows = np.zeros(T, bool), max(1, ENTRIES_AT_ONCE // max(1, width))
    for low in range(0, T - 1, rows):
        high = min(low + rows, T - 1)
        with np.errstate(over="ignore"):
            parts = (part.astype(dtype, copy=False) for part in (following[low:high], observations[low + 1 : high + 1]))
        ended, began = (part.reshape(high - low, width) for part in parts)
        jumps[low:high] = ((ended != began) & ((ended == ended) | (began == began))).any(axis=1)  # NaN equals NaN
    return jumps


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
        last = "behaviour_prob" if np.ndim(arrays[3]) == 0 else "truncated"
        arrays = dict(zip((*REQUIRED, last), arrays, strict=False))
        if arrays.get(last, 0) is None:
            del arrays[last]
    found = {}
    for ours, names in ALIASES.items():
        given = [key for alias in names for key in dict.fromkeys((alias, alias.removesuffix("s"))) if key in arrays]
        if given:
            try:
                found[ours] = trajectory.as_array(given[0], arrays[given[0]])
            except ValueError as problem:
                raise ValueError(f"{name}: {problem}") from None
            for other in given[1:] if ours != "observations" else ():
                if not np.array_equal(found[ours], arrays[other]):
                    raise ValueError(
                        f"{name}: {given[0]} and {other} both mean {ours} but differ; leave one of them out"
                    )
        elif ours in REQUIRED:
            there = ", ".join(map(str, arrays)) or "no arrays"
            raise ValueError(f"{name}: expected an array {' or '.join(names)}, got {there}")
    for ours in ("observations", "actions", "rewards"):
        if found[ours].ndim == 0:
            raise ValueError(f"{name}: {ours}: expected one entry per step, got a single {found[ours].dtype}")
    for ours in ("rewards", "terminated", "truncated", "actions"):
        if ours in found and found[ours].ndim == 2 and found[ours].shape[1] == 1:
            found[ours] = found[ours][:, 0]  # d3rlpy keeps columns
        if ours in ("terminated", "truncated") and ours in found and found[ours].ndim == 0:  # how all of it ends
            trajectory.check_flags(f"{name}: {ours}", found[ours])
            found[ours] = (np.arange(len(found["rewards"])) == len(found["rewards"]) - 1) & (found[ours] == 1)
    for ours in ("rewards", "terminated", "truncated", "behaviour_prob"):
        if ours in found and found[ours].ndim != 1:
            raise ValueError(f"{name}: {ours}: expected one per step, got shape {list(found[ours].shape)}")
    return found


def is_arrays(dataset: Any) -> bool:
    """Whether this is a tuple of four or five arrays or lists, of which the ends may be one flag."""
    if not isinstance(dataset, tuple) or len(dataset) not in (4, 5) or not all(map(_is_array, dataset[:3])):
        return False
    return all(one is None or isinstance(one, bool | int) or _is_array(one) for one in dataset[3:])


def _is_array(value: Any) -> bool:
    return isinstance(value, list) or (hasattr(value, "__array__") and not isinstance(value, Trajectory))


def _has_last_observation(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether there are T + 1 observations, as a trajectory has."""
    return len(arrays["observations"]) == len(arrays["rewards"]) + 1


def _whole(arrays: Mapping[str, np.ndarray], name: str, number: int) -> Trajectory:
    """Make a trajectory of the arrays of one episode with T + 1 observations."""
    with _Naming(name, number):
        truncated = arrays.get("truncated", np.zeros(len(arrays["rewards"]), bool))
        return Trajectory(
            *(arrays[key] for key in REQUIRED), truncated=truncated, behaviour_prob=arrays.get("behaviour_prob")
        )


def _refuse_frame(data: Any, name: str) -> None:
    """Raise ValueError if this is a DataFrame, whose columns do not say which of them are the observations."""
    if hasattr(data, "columns") and hasattr(data, "to_dict"):
        raise ValueError(
            f"{name}: expected a dict of arrays, got a DataFrame; write dict(observations=df[['x', 'y']], "
            "actions=df['a'], rewards=df['r'], terminals=df['end']) with the names of its columns"
        )


def _as_trajectory(one: Any, name: str, number: int) -> Trajectory:
    if isinstance(one, Trajectory):
        return one
    _refuse_frame(one, f"{name}, episode {number}")
    if isinstance(one, Mapping) or is_arrays(one):
        arrays = _named(one, f"{name}, episode {number}")
    elif hasattr(one, "terminations") and hasattr(one, "observations"):  # an episode of Minari
        if not isinstance(one.observations, np.ndarray):
            raise ValueError(
                f"{name}, episode {number}: observations of several parts; give the dataset of Minari itself, which "
                "says how to flatten them"
            )
        with _Naming(name, number):
            return trajectory.from_minari_episode(one)
    elif all(hasattr(one, key) for key in REQUIRED):  # an episode of d3rlpy
        arrays = {key: np.asarray(getattr(one, key)) for key in ("observations", "actions", "rewards")}
        T = len(arrays["rewards"])
        arrays["terminated"] = np.arange(T) == (T - 1 if bool(one.terminated) else -1)
        arrays = _named(arrays, name)
    else:
        raise ValueError(
            f"{name}: episode {number} is a {type(one).__name__}; expected a Trajectory, a dict of arrays "
            "(observations, actions, rewards, terminals), or a tuple of these four arrays"
        )
    if _has_last_observation(arrays):
        return _whole(arrays, name, number)
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

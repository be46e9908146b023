"""Minari's datasets on this machine: by their id, by their folder, or by their HDF5 file; and the ids of new ones."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from greedystep.checks import short_repr
from greedystep.extras import MissingExtraError

METADATA, MAIN_FILE = "metadata.json", "main_data.hdf5"
EPISODE = re.compile(r"episode_(\d+)")
"""Name of an episode's group in an HDF5 file."""
VERSION = re.compile(r"-v\d+$")
"""The end of an id."""
JPEG = b"\xff\xd8"
"""First bytes of a JPEG image, as which Minari may keep images."""
ADVICE = r"`\w+` is set to None|env_spec is None"
"""What Minari's warnings say about descriptions that a new dataset could have, too."""
ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, AssertionError, RuntimeError)
"""The errors that Minari raises for datasets that are missing or damaged."""


FORMAT_EXTRAS = {"pyarrow": "minari[arrow]", "h5py": "greedystep[minari]"}
"""Module that reads one of Minari's formats -> what to install for it."""


class Episode(NamedTuple):
    """An episode of an HDF5 file, with the names of `minari.EpisodeData`."""

    id: int
    observations: Any
    actions: Any
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    infos: dict[str, Any]


def installed() -> ModuleType:
    """Return Minari; MissingExtraError says how to install it."""
    try:
        import minari
    except ImportError:
        raise MissingExtraError("Minari is not installed; `pip install 'greedystep[minari]'` adds it") from None
    return minari


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Within the block, turn whatever Minari raises for a dataset of that name into one sentence."""
    try:
        yield
    except ImportError as problem:
        needed = next((module for module in FORMAT_EXTRAS if module in str(problem)), None)
        if needed is None:
            raise
        sentence = f'{name} needs {needed}, which is not installed: pip install "{FORMAT_EXTRAS[needed]}"'
        raise MissingExtraError(sentence, name=needed) from None
    except ERRORS as problem:
        raise ValueError(f"dataset: Minari cannot load {name!r}: {problem or type(problem).__name__}") from None


# -- by id ------------------------------------------------------------------------------------------------------------


def check_id(dataset_id: str) -> None:
    """Raise ValueError unless this is an id as Minari wants it."""
    installed()
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError):
        expected = "expected an id such as cartpole/trained-v0: letters, digits, _ and -, with a version at the end"
        raise ValueError(f"minari: {expected}, got {short_repr(dataset_id)}") from None


def folder_of(dataset_id: str) -> Path:
    """Return the folder that a dataset of this id has, or would have."""
    from minari.storage.datasets_root_dir import get_dataset_path

    return get_dataset_path(dataset_id)


def is_local(dataset_id: str) -> bool:
    """Whether a dataset of this id is on this machine."""
    if not VERSION.search(dataset_id):  # no folder is looked for, which Minari might make
        return False
    try:
        return (folder_of(dataset_id) / "data").exists()
    except ImportError:
        return False


def check_new_id(dataset_id: str) -> None:
    """Raise ValueError unless a dataset of this id can be made."""
    check_id(dataset_id)
    if folder_of(dataset_id).exists():
        raise ValueError(f"minari: there is a dataset {dataset_id!r} already; choose another name or version")


def open_id(dataset_id: str) -> Any:
    """Open a dataset that is on this machine; see `open_folder`."""
    installed()
    data = folder_of(dataset_id) / "data"
    if not data.exists():
        check_id(dataset_id)
        raise ValueError(
            f"dataset: Minari cannot load {dataset_id!r}: it is not on this machine; "
            f"`minari download {dataset_id}` gets it"
        )
    return open_folder(data, dataset_id)


# -- by path ----------------------------------------------------------------------------------------------------------


def data_folder(path: Path) -> Path | None:
    """Return the folder with the metadata of the dataset that a path means, itself or its data/; None for others."""
    if path.name == MAIN_FILE:
        path = path.parent
    return next((folder for folder in (path, path / "data") if (folder / METADATA).is_file()), None)


def open_folder(folder: Path, name: str) -> Any:
    """Open a dataset in any of Minari's formats by the folder of its metadata.json.

    ValueError if Minari would have to make the environment that its files name. Minari does so where a dataset does not
    name its spaces, and making it imports whatever module the files say.

    Args:
        name: the dataset's name in errors.
    """
    minari = installed()
    from minari.dataset.minari_storage import MinariStorage

    with reading(name):
        about = MinariStorage.read_raw_metadata(folder).keys()
        if "total_episodes" not in about:
            raise ValueError(f"its {METADATA} is not that of a dataset")
        missing = {"observation_space", "action_space"} - about
        if missing:
            raise ValueError(
                f"it does not tell its {min(missing)}, so that Minari would import the environment it names; "
                "if you trust it, give from_minari what minari.load_dataset returns"
            )
        return minari.MinariDataset(folder)


class EpisodeFile:
    """An HDF5 file of Minari's without the metadata.json that belongs beside it: only spaces are not known then."""

    observation_space = action_space = None

    def __init__(self, path: str, file: Any):
        self._path = path
        self._names = sorted(filter(EPISODE.fullmatch, file), key=lambda name: int(name.partition("_")[2]))
        self.total_episodes = len(self._names)
        with reading(path):
            self.total_steps = sum(len(file[name]["rewards"]) for name in self._names)

    def iterate_episodes(self) -> Iterator[Episode]:
        """Read one episode after another."""
        import h5py

        with h5py.File(self._path, "r") as file:
            for number, name in enumerate(self._names):
                arrays = {key: _read(file[name], key) for key in Episode._fields[1:-1]}
                yield Episode(id=number, infos=_infos(file[name]), **arrays)


def _read(episode: Any, key: str) -> Any:
    """Return an array of an episode's group; ValueError if metadata.json would have to say what it means."""
    if key not in episode:
        raise ValueError(f"{episode.name.lstrip('/')} has no {key}")
    array = episode[key][()] if hasattr(episode[key], "shape") else None
    first = b"" if array is None or not np.size(array) else np.asarray(array[0]).tobytes()
    if array is None or (key == "observations" and array.ndim < 3 and first.startswith(JPEG)):
        what = "several arrays" if array is None else "JPEG images"
        raise ValueError(f"{key} of {episode.name.lstrip('/')} are {what}: {METADATA} is missing beside the file")
    return array


def _infos(episode: Any) -> dict[str, Any]:
    """Return the plain arrays among an episode's infos."""
    return {key: value[()] for key, value in episode.get("infos", {}).items() if hasattr(value, "shape")}


# -- new ones ---------------------------------------------------------------------------------------------------------


@contextmanager
def without_advice() -> Iterator[None]:
    """Within the block, leave out Minari's warnings that a new dataset could be described better."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ADVICE, UserWarning)
        yield

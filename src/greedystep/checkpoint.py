"""Checkpoints: the whole training state in one file, written atomically, checksummed, and without pickle.

A state is any pytree of JAX and NumPy arrays, typed random keys included. Its file is named after the step and holds

    preamble   magic (8 bytes), version (u32), length of the header (u64), CRC-32 of the header (u32), CRC-32 of these
    header     JSON: the step, `about` (config and counters of the caller), and for every leaf its name, dtype, shape,
               bytes and CRC-32
    leaves     their bytes as they lie in memory (C order), one after another

with all numbers little-endian. The preamble stays the same in all versions, so that a file of another version can be
told from a damaged one.
"""

from __future__ import annotations

import os
import re
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import jax
import jax.numpy as jnp
import numpy as np

from greedystep import schema
from greedystep.io import CHECKPOINT_MAGIC as MAGIC
from greedystep.io import LARGEST_JSON, atomic_write, from_json, open_regular_file, os_error_context, to_json

VERSION = 1
PREAMBLE = struct.Struct("<8sIQI")
CHECKSUM = struct.Struct("<I")
FILE_NAME = re.compile(r"step-(\d{12,19})\.ckpt")
CHUNK = 2**22  # bytes that are verified at once

LEAF: dict[str, schema.Schema] = {"name": str, "dtype": str, "shape": [schema.Int()], "key": schema.Nullable(str)}
LEAF |= {"weak": bool, "bytes": schema.Int(), "crc32": schema.Int(0, 2**32 - 1)}
HEADER = {"step": schema.Int(), "about": dict, "leaves": [LEAF]}


class DamagedCheckpointError(ValueError):
    """A checkpoint file is cut short or changed, or is no checkpoint."""


# -- a folder of checkpoints ------------------------------------------------------------------------------------------


def save(folder: str | os.PathLike, step: int, state: Any, about: Mapping[str, Any]) -> Path:
    """Write the state after `step` steps and return the file's path, once it is on the disk.

    `state` may be donated to the next compiled call afterwards. Whatever goes wrong (a full disk, a kill), earlier
    checkpoints stay whole. Older files stay until `prune`.
    """
    if step < 0:
        raise ValueError(f"step must be at least 0, got {step}")
    leaves, buffers = _to_bytes(state)
    header = to_json({"step": step, "about": about, "leaves": leaves}).encode()
    preamble = PREAMBLE.pack(MAGIC, VERSION, len(header), zlib.crc32(header))
    path = Path(folder) / f"step-{step:012d}.ckpt"
    for part in path.parent.glob(".step-*.ckpt.*.part"):  # of killed saves, which would fill the disk
        part.unlink(missing_ok=True)
    with os_error_context(f"cannot save {path}; the checkpoints before it are whole"), atomic_write(path) as file:
        file.write(preamble + CHECKSUM.pack(zlib.crc32(preamble)))
        file.write(header)
        for buffer in buffers:
            file.write(buffer)
    return path


def latest(folder: str | os.PathLike) -> Path | None:
    """Return the newest checkpoint with correct checksums; a warning names each damaged one that is passed over.

    None if the folder has no checkpoint; DamagedCheckpointError if all that it has are damaged.
    """
    problems: list[str] = []
    for path in _newest_first(folder):
        try:
            _verify(path)
        except (DamagedCheckpointError, OSError) as problem:
            problems.append(str(problem))
        else:
            for problem in problems:
                warnings.warn(f"{problem}; it is passed over", RuntimeWarning, stacklevel=2)
            return path
    if problems:
        raise DamagedCheckpointError(f"no checkpoint is whole: {'; '.join(problems)}")
    return None


def prune(folder: str | os.PathLike, keep: int = 2) -> None:
    """Delete all checkpoints older than the newest `keep` complete ones (by their headers and lengths).

    Call it after `save` has returned, so that the new checkpoint is on the disk before an old one is deleted.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")
    complete = 0
    for path in _newest_first(folder):
        if complete >= keep:
            path.unlink(missing_ok=True)
            continue
        try:
            with open_regular_file(path) as file:
                _read_header(file, path)
            complete += 1
        except (DamagedCheckpointError, OSError):
            continue


def _newest_first(folder: str | os.PathLike) -> list[Path]:
    found = [(int(match[1]), path) for path in Path(folder).glob("*") if (match := FILE_NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True)]


# -- one checkpoint ---------------------------------------------------------------------------------------------------


def read_about(path: str | os.PathLike) -> dict[str, Any]:
    """Return the `about` that `save` stored (such as the config), without reading the state."""
    with open_regular_file(path) as file:
        return _read_header(file, path)["about"]


def restore(
    path: str | os.PathLike, like: Any, rename: Callable[[str], str | None] = lambda name: name
) -> tuple[Any, dict[str, Any]]:
    """Read a checkpoint; return (state, about) as they were given to `save`.

    `like` is a state of the same structure, for example a fresh one, or its `jax.eval_shape`. Names, shapes and dtypes
    must agree. Each leaf has the array type of that in `like`: NumPy, or JAX on the same device. `rename` maps the name
    of a stored leaf to its name in `like`, or to None to drop it, for files of earlier versions.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    wanted = [(_name(keys), _array(keys, leaf, jax.ShapeDtypeStruct)) for keys, leaf in paths]
    with open_regular_file(path) as file:
        header = _read_header(file, path)
        start, found = file.tell(), []
        for stored in header["leaves"]:
            if (name := rename(stored["name"])) is not None:
                found.append((start, stored | {"name": name}))
            start += stored["bytes"]
        for one, template in zip_longest(found, wanted):
            in_file = "{name}: {dtype}{shape}".format(**one[1]) if one else "nothing more"
            in_like = f"{template[0]}: {template[1].dtype}{list(template[1].shape)}" if template else "nothing more"
            if in_file != in_like:
                raise ValueError(f"{path} does not fit `like`: the file has {in_file} where `like` has {in_like}")
        leaves = []
        for (start, stored), (_, leaf) in zip(found, wanted, strict=True):
            file.seek(start)
            leaves.append(_read_leaf(file, path, stored, leaf))
    return jax.tree_util.tree_unflatten(structure, leaves), header["about"]


def _read_header(file: BinaryIO, path: str | os.PathLike) -> dict[str, Any]:
    """Read and check the header and the file's length; the file is left at the first leaf."""
    actual = os.fstat(file.fileno()).st_size
    preamble, checksum = file.read(PREAMBLE.size), file.read(CHECKSUM.size)
    if not preamble.startswith(MAGIC):
        raise DamagedCheckpointError(f"{path} is damaged, or no checkpoint of greedystep: it does not begin like one")
    if checksum != CHECKSUM.pack(zlib.crc32(preamble)):
        raise DamagedCheckpointError(f"{path} is damaged: its first bytes have changed")
    _, version, length, header_checksum = PREAMBLE.unpack(preamble)
    if version != VERSION:
        raise ValueError(f"{path} is a checkpoint of version {version}, but this greedystep reads version {VERSION}")
    text = file.read(length) if length <= min(actual, LARGEST_JSON) else b""
    if len(text) != length or zlib.crc32(text) != header_checksum:
        raise DamagedCheckpointError(f"{path} is damaged: its header is cut short or changed")
    try:
        header = schema.check(from_json(text.decode()), HEADER, "its header")
    except ValueError as problem:
        raise DamagedCheckpointError(f"{path} is damaged: {problem}") from None
    expected = file.tell() + sum(leaf["bytes"] for leaf in header["leaves"])
    if actual != expected:
        raise DamagedCheckpointError(f"{path} is damaged: it has {actual} bytes and should have {expected}")
    return header


def _verify(path: Path) -> None:
    """Raise DamagedCheckpointError unless all checksums are right; reads in blocks, since states may be large."""
    with open_regular_file(path) as file:
        for stored in _read_header(file, path)["leaves"]:
            checksum, left = 0, stored["bytes"]
            while left and (part := file.read(min(left, CHUNK))):
                checksum, left = zlib.crc32(part, checksum), left - len(part)
            _check_sum(path, stored, checksum)


def _check_sum(path: str | os.PathLike, stored: dict[str, Any], checksum: int) -> None:
    if checksum != stored["crc32"]:
        raise DamagedCheckpointError(f"{path} is damaged: the bytes of {stored['name']} have changed")


# -- one leaf ---------------------------------------------------------------------------------------------------------


def _name(keys: tuple[Any, ...]) -> str:
    """Return the name of a pytree leaf as Python code: state.params['w'][0]."""
    return "state" + jax.tree_util.keystr(keys)


def _array(keys: tuple[Any, ...], leaf: Any, *or_kinds: type) -> Any:
    """Return the leaf if it is an array of numbers, or one of `or_kinds`; else ValueError."""
    if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, *or_kinds)) or getattr(leaf.dtype, "hasobject", False):
        raise ValueError(f"{_name(keys)} must be an array of numbers, got {type(leaf).__name__}: {leaf!r}")
    return leaf


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _bytes_of(array: np.ndarray) -> memoryview:
    """Return the memory of a C-ordered array as uint8, because a buffer cannot name dtypes like bfloat16."""
    return array.reshape(-1).view(np.uint8).data


def _to_bytes(state: Any) -> tuple[list[dict[str, Any]], list[memoryview]]:
    """Return the header entry and the bytes of each leaf; arrays in host memory are not copied."""
    paths, _ = jax.tree_util.tree_flatten_with_path(state)
    checked = [_array(keys, leaf) for keys, leaf in paths]
    arrays = (jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in checked)
    # Not jax.device_get: with JAX 0.11 a leaf keeps the array that it gave, and then cannot be donated.
    buffers = [_bytes_of(np.ascontiguousarray(array)) for array in arrays]
    leaves = [
        {
            "name": _name(keys),
            "dtype": str(leaf.dtype),
            "shape": list(leaf.shape),
            "key": str(jax.random.key_impl(leaf)) if _is_key(leaf) else None,
            "weak": bool(getattr(leaf, "weak_type", False)),
            "bytes": buffer.nbytes,
            "crc32": zlib.crc32(buffer),
        }
        for (keys, leaf), buffer in zip(paths, buffers, strict=True)
    ]
    return leaves, buffers


def _raw_key(like: Any) -> tuple[Any, str]:
    """Return shape, dtype and algorithm of the numbers of a typed random key; `like` may be a ShapeDtypeStruct."""
    names: list[str] = []

    def raw(key: jax.Array) -> jax.Array:
        names.append(str(jax.random.key_impl(key)))
        return jax.random.key_data(key)

    return jax.eval_shape(raw, like), names[0]


def _read_leaf(file: Any, path: str | os.PathLike, stored: dict[str, Any], like: Any) -> Any:
    raw, key = _raw_key(like) if _is_key(like) else (like, None)
    array = np.empty(raw.shape, raw.dtype)
    if stored["bytes"] != array.nbytes or stored["key"] != key:
        raise DamagedCheckpointError(f"{path} is damaged: what it says of {stored['name']} contradicts itself")
    file.readinto(buffer := _bytes_of(array))
    _check_sum(path, stored, zlib.crc32(buffer))
    if isinstance(like, np.ndarray | np.generic):
        return array if isinstance(like, np.ndarray) else array[()]
    if stored["weak"]:  # a weakly typed array promotes otherwise than a plain one, and JAX makes one from a scalar only
        weak = jnp.full(array.shape, np.zeros((), array.dtype).item())
        if key or weak.dtype != array.dtype:
            raise DamagedCheckpointError(f"{path} is damaged: {stored['name']} cannot be weakly typed")
        array = weak.at[...].set(array)
    if key:
        array = jax.random.wrap_key_data(jnp.asarray(array), impl=key)
    # An uncommitted array must stay so, or the program that takes it would be compiled again.
    return jax.device_put(array, like.sharding if getattr(like, "committed", False) else None)

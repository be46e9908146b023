"""What a result was made with, and files that are either complete or not there.

JSON has no infinity and no NaN. They are written as the strings "Infinity", "-Infinity" and "NaN", so that every file
is strict JSON for other tools, and `read_json` turns these three strings back into floats.
"""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import math
import os
import platform
import re
import shlex
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""How the numbers that JSON lacks are written."""
LARGEST_JSON = 2**30
"""Bytes; far above every JSON of ours. A larger file is something else, and is not read into memory to find out."""
DEEPEST_JSON = 100
"""Levels of lists and objects within one another; far above every JSON of ours."""


# -- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` once it is complete and on the disk.

    Whatever goes wrong before that (an exception, a full disk, a kill), an older file at `path` stays as it was.
    Folders on the way are made.
    """
    target = Path(os.path.realpath(path))  # through a link, not over it
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


@contextmanager
def reading(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """A file, opened to be read as bytes; a folder, and a pipe or a device, which may have no end, is an OSError.

    So is what the system itself refuses: a file that is not there, or a link to itself.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode  # asked of what is open: the path may lead elsewhere by now
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "folder" if stat.S_ISDIR(mode) else "pipe or device"
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, f"it is a {kind}, not a file", str(path))
    with open(descriptor, "rb") as file:
        yield file


@contextmanager
def saying(sentence: str) -> Iterator[None]:
    """Let an OSError (a full disk, a folder that may not be written) say what it stopped, and then its reason."""
    try:
        yield
    except OSError as problem:
        raise OSError(problem.errno, f"{sentence} ({problem.strerror or problem})") from problem


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a UTF-8 file, completely or not at all."""
    with replacing(path) as file:
        file.write(text.encode())


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write strict JSON, completely or not at all; NumPy scalars and arrays become numbers and lists.

    To be read by people too: a line for each entry, but one for a whole list of numbers.
    """
    write_text(path, _in_lines(jsonable(value)) + "\n")


def read_json(path: str | os.PathLike) -> Any:
    """Read what `write_json` wrote; ValueError says in one sentence what is wrong with a file."""
    with reading(path) as file:
        text = file.read(LARGEST_JSON + 1)
    try:
        if len(text) > LARGEST_JSON:
            raise ValueError(f"it is larger than {LARGEST_JSON} bytes")
        return from_json(text.decode())
    except ValueError as problem:
        raise ValueError(f"{path} is not a readable JSON file ({problem})") from None


def to_json(value: Any) -> str:
    """Strict JSON on one line."""
    return _in_one_line(jsonable(value))


def from_json(text: str) -> Any:
    """The value that `to_json` wrote; ValueError says why a text is none.

    Where JSON leaves it to the reader, this one is strict: no entry occurs twice in an object, every number is finite.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_constant=_finite)
        return _with_floats(value)
    except RecursionError:
        raise ValueError("it has too many levels") from None


def _object(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(entries)
    if len(made) < len(entries):
        names = [name for name, _ in entries]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number


def _in_one_line(value: Any, separators: tuple[str, str] = (", ", ": ")) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=separators)


def _in_lines(value: Any, margin: str = "\n") -> str:
    inner = margin + " "
    match value:
        case dict() if value:
            entries = (f"{_in_one_line(name)}: {_in_lines(one, inner)}" for name, one in value.items())
            return "{" + inner + f",{inner}".join(entries) + margin + "}"
        case list() if any(isinstance(one, dict | list) for one in value):
            return "[" + inner + f",{inner}".join(_in_lines(one, inner) for one in value) + margin + "]"
    return _in_one_line(value, separators=(",", ":"))


def jsonable(value: Any) -> Any:
    """The same value in JSON's own types; TypeError names a type that has no place there."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else next(k for k, x in NOT_FINITE.items() if str(x) == str(value))
        case np.generic() | np.ndarray():
            return jsonable(value.tolist())
        case Mapping():
            return {_key(k): jsonable(v) for k, v in value.items()}
        case list() | tuple():
            return [jsonable(v) for v in value]
        case os.PathLike():
            return os.fspath(value)
    raise TypeError(f"cannot write a {type(value).__name__} as JSON: {value!r}")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"JSON objects have text keys, got {key!r}")
    return key


def _with_floats(value: Any, levels: int = DEEPEST_JSON) -> Any:
    """With the three strings as floats; ValueError for what no file of ours can hold."""
    if isinstance(value, str):
        if not value.isascii():
            value.encode()  # half a character (\ud800) could be read, but never written or printed
        return NOT_FINITE.get(value, value)
    if isinstance(value, list | dict) and levels == 0:
        raise ValueError(f"it has more than {DEEPEST_JSON} levels")
    if isinstance(value, list):
        return [_with_floats(v, levels - 1) for v in value]
    if isinstance(value, dict):
        "".join(value).encode()
        return {k: _with_floats(v, levels - 1) for k, v in value.items()}
    return value


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last through a power cut, where the system can (Windows cannot open a folder)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# -- provenance -------------------------------------------------------------------------------------------------------


def provenance(config: Mapping[str, Any], command: str | None = None) -> dict[str, Any]:
    """Where a result comes from, to be stored beside it.

    Args:
        config: every setting that decides the numbers, and nothing else (no output folder, no verbosity): equal hashes
            mean equal settings.
        command: what was typed; this process's own command line by default.
    """
    config = jsonable(config)
    return {
        "command": command or command_line(),
        "config": config,
        "config_hash": config_hash(config),
        "versions": {"greedystep": _version("greedystep"), **{name: _version(name) for name in _dependencies()}},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": f"{_cpu_name()} ({_cores()} logical cores)",
        "device": _device(),
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def command_line() -> str:
    """What was typed to start this process."""
    return shlex.join([*_program(), *sys.argv[1:]])


def _program() -> list[str]:
    """The words by which this process was started, without the folder it is installed in."""
    path = Path(sys.argv[0])
    package = sys.modules["__main__"].__package__ if path.name == "__main__.py" else None
    return ["python", "-m", package] if package else [path.name]


def config_hash(config: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that do not depend on the order of the settings."""
    canonical = json.dumps(jsonable(config), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _dependencies() -> list[str]:
    """The names of the core dependencies, from the package's own metadata."""
    with suppress(metadata.PackageNotFoundError):
        required = metadata.requires("greedystep") or []
        return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in required if "extra ==" not in line]
    return []


def _version(package: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _cores() -> int:
    """How many of the machine's cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_name() -> str:
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if found:
            return found[1]
    return platform.processor() or platform.machine()


def _device() -> str:
    """The accelerator JAX uses, if the work has used JAX at all; asking never imports it."""
    jax = sys.modules.get("jax")
    return "cpu" if jax is None else ", ".join(sorted({device.device_kind for device in jax.devices()}))


def _commit() -> str | None:
    """The commit of the checkout this package runs from, with -dirty after local changes; None when installed.

    `ls-files` comes first because an environment may lie inside a checkout of something else.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], check=True, capture_output=True)
        describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(describe, check=True, capture_output=True, text=True).stdout.strip()
    return None

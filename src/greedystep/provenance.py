"""Provenance of results: command, config and its hash, package versions, device, commit."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from greedystep.io import jsonable


def provenance(config: Mapping[str, Any], command: str | None = None) -> dict[str, Any]:
    """Return the provenance record that is stored beside a result; `command` is by default that of this process.

    `config` holds every setting that decides the numbers, and nothing else (no output folder, no verbosity): equal
    hashes mean equal settings.
    """
    config = jsonable(config)
    return {
        "command": command or command_line(),
        "config": config,
        "config_hash": config_hash(config),
        "versions": {"greedystep": version_of("greedystep"), **{name: version_of(name) for name in _dependencies()}},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": f"{_cpu_name()} ({available_cores()} logical cores)",
        "device": _device(),
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def command_line() -> str:
    """Return the command line of this process."""
    path = Path(sys.argv[0])  # without its folder, which only says where it is installed
    package = sys.modules["__main__"].__package__ if path.name == "__main__.py" else None
    return shlex.join([*(["python", "-m", package] if package else [path.name]), *sys.argv[1:]])


def config_hash(config: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits, a hash of the settings that does not depend on their order."""
    canonical = json.dumps(jsonable(config), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _dependencies() -> list[str]:
    """Return the names of the core dependencies and those of the extra `deep`, from the package's own metadata."""
    with suppress(metadata.PackageNotFoundError):
        required = metadata.requires("greedystep") or []
        extras = ((line, re.search(r"extra == ['\"](\w+)", line)) for line in required)
        return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line, extra in extras if not extra or extra[1] == "deep"]
    return []


def version_of(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_name() -> str:
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if found:
            return found[1]
    return platform.processor() or platform.machine()


def _device() -> str:
    """Return the names of the devices that JAX has, or "cpu" if JAX was never imported; does not import it."""
    jax = sys.modules.get("jax")
    return "cpu" if jax is None else device_names(jax.devices())


def device_names(devices: Iterable[Any]) -> str:
    """Return the kinds of JAX's devices in words, with their number if several are alike: "4 x NVIDIA H200"."""
    kinds = Counter(device.device_kind for device in devices)
    return ", ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in sorted(kinds.items()))


@cache
def _commit() -> str | None:
    """Return the commit of the checkout this package runs from, with -dirty after local changes; None when installed.

    It is asked for once: a command that writes results into its checkout does not run other code from then on.
    `ls-files` comes first because an environment may lie inside a checkout of something else.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], check=True, capture_output=True)
        describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(describe, check=True, capture_output=True, text=True).stdout.strip()
    return None

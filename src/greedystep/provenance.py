"""Where a result comes from: command, settings and their hash, package versions, device, commit."""

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
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from greedystep.io import jsonable


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
        "cpu": f"{_cpu_name()} ({available_cores()} logical cores)",
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


def available_cores() -> int:
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

"""Free memory of this machine, and checks that refuse what would not fit before it is allocated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROCESSES, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
NEVER_REFUSED = 1_000_000
"""Bytes up to which free memory is not looked up, which would slow down loops that check many small arrays."""
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def check_memory(what: str, needed: int, free: int | None = None) -> None:
    """Raise MemoryError with both numbers if `needed` bytes are more than are free.

    Args:
        what: the argument or object that needs the memory; the message begins with it.
        needed: bytes.
        free: bytes; by default what this machine has (`free_memory`).
    """
    if free is None and needed <= NEVER_REFUSED:
        return
    free = free_memory() if free is None else free
    if needed > free:
        raise MemoryError(
            f"{what}: needs about {format_bytes(needed)} of memory, this machine has {format_bytes(free)} free"
        )


def free_memory() -> int:
    """Return the bytes that this process can still allocate, within the limits of its control groups."""
    return min([_machine(), *_control_groups()])


def format_bytes(size: float) -> str:
    """Format a number of bytes with two or three digits: 870 bytes, 4.2 GB, 41 GB."""
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            return f"{size:.0f} {unit}" if 9.95 <= size < 1e6 else f"{size:.2g} {unit}"
        size /= 1000
    raise AssertionError


def _machine() -> int:
    try:
        for line in (PROCESSES / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # not Linux: all of it


def _control_groups() -> Iterator[int]:
    """Yield the bytes left under each limit on this process (cgroup v2 or v1), with page cache counted as free."""
    try:
        lines = (PROCESSES / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = CGROUPS / ("memory" if controllers else "")
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        group = root / path.lstrip("/")
        # Within a container the path may be the host's, which is not there: then the root is the container's own.
        for folder in (group, *group.parents):
            if folder == root.parent:
                break
            limit, used = (_number(folder / name) for name in names)
            if limit is not None and used is not None:
                yield max(0, limit - used + (_reclaimable(folder) or 0))


def _number(file: Path) -> int | None:
    """Return the number in a file; None if the file is missing or says "max"."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _reclaimable(folder: Path) -> int | None:
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), None)

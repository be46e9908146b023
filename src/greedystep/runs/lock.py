"""One writer per folder or file: a lock between processes that ends with the process that holds it.

The lock is `flock` on a small file beside what is written (`msvcrt.locking` on Windows), which the operating system
releases however a process ends: nobody has to delete a file after a kill. The file names the process that holds the
lock. It is removed when the lock is released; where a killed process left one, the next writer takes it over.

Threads: each lock opens its file anew, so that a second one in the same process is refused like any other. Forked
children share the lock of their parent until both have closed it. Network file systems: `flock` holds between the
machines of an NFS mount (Linux maps it to NFS byte-range locks) unless it is mounted with `nolock` or
`local_lock=flock`; where a file system has no locks at all, a warning says so and the work goes on without.
"""

from __future__ import annotations

import datetime
import errno
import os
import socket
import stat
import time
import warnings
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from greedystep.io import from_json, to_json
from greedystep.provenance import command_line

FOLDER_LOCK = ".lock"
"""Name of the lock file within a folder."""
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}
MOST_RETRIES = 100
"""How often a missing folder is made again: some file systems (/proc) say that it is missing whenever it is made."""
TAKEN = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}


class InUseError(ValueError):
    """The folder or file is locked by another process, or by another lock of this one."""


class WriterLock:
    """The right to write to a folder or a file, until `release`; a context manager. See `lock_folder`, `lock_file`.

    Folders on the way to the lock file are made. `release` removes those again that have stayed empty, so that work
    which turned out to be impossible leaves nothing behind.

    Args:
        path: the lock file.
        what: the folder or file that is locked, for error messages.
    """

    def __init__(self, path: Path, what: Path):
        self._path, self._process = path, os.getpid()
        self._descriptor: int | None = None
        self._made = [folder for folder in path.parents if not folder.exists()]
        try:
            attempt = 0
            while self._descriptor is None:
                attempt += 1
                self._descriptor = _try_to_lock(path, what, is_last=attempt == MOST_RETRIES)
        except BaseException:
            self._remove_empty_folders()
            raise
        with suppress(OSError):  # what is written next reports a full disk
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, to_json(_this_process()).encode())

    @property
    def held(self) -> bool:
        """Whether the lock has not been released yet."""
        return self._descriptor is not None

    def release(self) -> None:
        """Release the lock; releasing twice does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if os.getpid() == self._process:  # not in a forked child: its parent goes on
            with suppress(OSError):
                self._path.unlink()  # while the lock is held, so that nobody else's file is removed
        os.close(descriptor)
        self._remove_empty_folders()

    def _remove_empty_folders(self) -> None:
        with suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            self.release()


def lock_folder(folder: str | os.PathLike) -> WriterLock:
    """Lock a folder for writing, and make it if it is missing; InUseError names the process that holds its lock."""
    return WriterLock(Path(folder).absolute() / FOLDER_LOCK, Path(folder))


def lock_file(path: str | os.PathLike) -> WriterLock:
    """Lock a file, which need not exist, for writing; InUseError names the process that holds its lock."""
    target = Path(os.path.realpath(path))
    return WriterLock(target.with_name(f".{target.name}.lock"), Path(path))


def _try_to_lock(path: Path, what: Path, *, is_last: bool = False) -> int | None:
    """Return the descriptor of the locked file; None if another process removed the file in the meantime.

    With `is_last` a folder that cannot be made is an error, not one that another process has just removed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link is not followed: the file is emptied, and a folder that somebody sent may hold anything.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except (FileNotFoundError, FileExistsError):
        if is_last or any(_is_no_folder(folder) for folder in path.parents):
            raise
        return None  # the holder released its lock and removed the empty folder while this process made it
    try:
        _lock(descriptor)
        if _is_at(descriptor, path):
            return descriptor
    except OSError as problem:
        if problem.errno in NO_LOCKS:
            warnings.warn(f"{what}: its file system has no locks; make sure that only one process writes", stacklevel=5)
            return descriptor
        os.close(descriptor)
        if problem.errno in TAKEN:
            raise InUseError(f"{what} is being written to by {_holder(path)}; wait for it or stop it") from None
        raise
    os.close(descriptor)
    return None


def _is_no_folder(path: Path) -> bool:
    try:
        return not stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:
        return path.is_symlink()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


if os.name == "nt":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 2**30, os.SEEK_SET)  # a byte behind the text, which others may read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _this_process() -> dict[str, str | int]:
    began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"process": os.getpid(), "host": socket.gethostname(), "command": command_line(), "since": began}


def _holder(path: Path) -> str:
    """Describe the process that holds the lock, from the lock file, which that process may still be writing."""
    for _ in range(20):
        with suppress(OSError, ValueError, KeyError, TypeError):
            about = from_json(path.read_text(encoding="utf-8"))
            return f"process {about['process']} on {about['host']} ({about['command']}, since {about['since']})"
        time.sleep(0.01)
    return "another process"

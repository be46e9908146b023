"""Ray, a distributed engine (the extra `ray`): connect to a cluster, or start one here, and notice when it is gone.

A cluster that does not answer is noticed by ourselves: Ray waits for minutes, and then ends the process.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from greedystep.extras import importing_extra
from greedystep.provenance import available_cores

ANSWER_WITHIN = 5.0
"""Seconds within which the head of a cluster must accept a connection."""
JOIN_WITHIN = 12.0
"""Seconds within which Ray must have joined a cluster that accepts connections."""
LOST_AFTER = 6.0
"""Seconds without an answer of the head, or without a node to work on, after which a cluster counts as lost."""
LOOK_EVERY = 1.0


class ClusterError(ValueError):
    """A Ray cluster cannot be reached, has nothing left to work on, or its workers die; the message says which."""


def import_ray() -> Any:
    """Return the module `ray`; MissingExtraError names the extra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with importing_extra("ray", ["ray"]):
        import ray
    logging.getLogger("ray").setLevel(logging.ERROR)
    # A thread of Ray prints each death of a worker to standard output, whatever is configured; we say it ourselves.
    from ray._private import worker

    worker.print_to_stdstream = lambda *_, **__: None
    return ray


class Cluster:
    """A connection to a Ray cluster, watched until `close`; a context manager.

    Without an address it is the one that this process is connected to already, that of the environment variable
    RAY_ADDRESS, or one that `ray start` has started on this machine; where there is none, Ray is started here and ended
    by `close`.

    Args:
        address: HOST:PORT of the cluster's head. Ray must run on this machine, too: drivers run on a node.
    """

    def __init__(self, address: str | None = None):
        self.ray = import_ray()
        self._is_ours = not self.ray.is_initialized()
        if self._is_ours:
            address = address or os.environ.get("RAY_ADDRESS") or _running_here()
            start() if address in (None, "local") else _join(self.ray, *_host_and_port(address))
        elif address is not None:
            raise ClusterError("ray-address: this process is connected to a Ray cluster already")
        self.address = str(self.ray.get_runtime_context().gcs_address)
        self.has_gpus = self.ray.cluster_resources().get("GPU", 0) >= 1
        per_node = [node["Resources"].get("GPU" if self.has_gpus else "CPU", 0) for node in self.ray.nodes()]
        self.num_workers, self.workers_per_node = max(1, int(sum(per_node))), max(1, *map(int, per_node))
        self._problem: str | None = None
        self._closed = threading.Event()
        for watch in (self._watch_head, self._watch_nodes):
            threading.Thread(target=watch, daemon=True).start()

    def check(self) -> None:
        """Raise ClusterError if the cluster is gone."""
        if self._problem is not None:
            raise ClusterError(self._problem)

    def close(self) -> None:
        """End the watching; where this object connected to Ray, disconnect, and end a Ray that was started here."""
        self._closed.set()
        if self._is_ours and self._problem is None:
            self.ray.shutdown()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Two threads: the second waits within Ray, for a minute, once the head is gone.

    def _watch_head(self) -> None:
        host, port = _host_and_port(self.address)
        self._watch(lambda: _why_no_answer(host, port) is None, "does not answer any more")

    def _watch_nodes(self) -> None:
        self._watch(self._has_workers, "has no node left that could work (a node needs a free CPU)")

    def _has_workers(self) -> bool:
        return any(node["Alive"] and node["Resources"].get("CPU", 0) >= 1 for node in self.ray.nodes())

    def _watch(self, is_well: Callable[[], bool], otherwise: str) -> None:
        last = time.monotonic()
        while not self._closed.wait(LOOK_EVERY):
            with suppress(Exception):  # of Ray, whose calls fail in many ways once it ends
                if is_well():
                    last = time.monotonic()
            if time.monotonic() - last > LOST_AFTER and not self._closed.is_set():
                self._problem = f"the Ray cluster at {self.address} {otherwise}; what was finished stays"
                return


def start(num_cpus: int | None = None, **how: Any) -> None:
    """Start Ray on this machine, with all its cores by default.

    Not in another thread: Linux would end Ray's processes together with the thread that started them.
    """
    ray = import_ray()
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            # JAX warns of forks, but what Ray forks becomes another program at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(
                address="local",
                num_cpus=available_cores() if num_cpus is None else num_cpus,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                **how,
            )
    except Exception as problem:
        raise ClusterError(f"on: Ray cannot be started on this machine ({_first_line(problem)})") from problem
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, handler)  # Ray installs its own, which ends the process at once


def _join(ray: Any, host: str, port: int) -> None:
    """Connect to a running cluster; ClusterError says why that is not possible."""
    where = f"{host}:{port}"
    if (reason := _why_no_answer(host, port)) is not None:
        raise ClusterError(f"ray-address: nobody answers at {where} ({reason})")
    failures: list[BaseException] = []

    def join() -> None:
        try:
            ray.init(address=where, log_to_driver=False, configure_logging=False)
        except BaseException as problem:
            failures.append(problem)

    # In a thread, because it may take minutes; there it also leaves the handlers of signals alone.
    thread = threading.Thread(target=join, daemon=True)
    with _silent_stderr():
        thread.start()
        thread.join(JOIN_WITHIN)
    if thread.is_alive() or failures:
        reason = _first_line(failures[0]) if failures else f"not within {JOIN_WITHIN:g} s"
        raise ClusterError(
            f"ray-address: no Ray cluster can be joined at {where} ({reason}); this command must run on a node of the "
            "cluster, with the same version of Ray and its token"
        )


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Drop what is written to standard error within the block: Ray's C++ code repeats its complaints every second."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _first_line(problem: BaseException) -> str:
    return str(problem).strip().partition("\n")[0].rstrip(".") or type(problem).__name__


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ClusterError(f"ray-address: expected HOST:PORT of the cluster's head, got {address!r}")
    return host, int(port)


def _why_no_answer(host: str, port: int) -> str | None:
    """Return why nobody accepts a connection at that address; None if somebody does."""
    try:
        socket.create_connection((host, port), timeout=ANSWER_WITHIN).close()
    except OSError as problem:
        return problem.strerror or str(problem)
    return None


def _running_here() -> str | None:
    """Return the address of the cluster that `ray start` has started on this machine, if it still answers."""
    folder = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray"
    try:
        address = (folder / "ray_current_cluster").read_text(encoding="utf-8").strip()
        return address if _why_no_answer(*_host_and_port(address)) is None else None
    except (OSError, ValueError):
        return None

"""A process of its own for each package: it can be stopped when it takes too long, and its memory is its own.

The parent saves the model to a file and starts a `Worker`; every job is a configuration, a tolerance and rewards, every
answer a `Run`. A worker that overruns is ended; the next job starts another.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import re
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from greedystep import models
from greedystep.bench.contestants import CONTESTANTS, OURS, PEERS, Configuration, Contestant
from greedystep.mdp import MDP

LOAD_LIMIT = 300.0
"""Seconds for starting, compiling and taking a model in; generous, since it only guards against hanging."""


SETTLE = 0.05
"""Seconds to wait before a run: threads of other processes may still spin for a while after their work."""


class Job(NamedTuple):
    """What a worker is asked to do."""

    configuration: Configuration
    tolerance: float
    rewards: np.ndarray
    before: np.ndarray | None = None
    """Rewards of a run that is not timed."""
    memory: bool = False
    """Whether the resident bytes at the start are wanted."""


class Run(NamedTuple):
    """One timed solve."""

    solve_seconds: float
    total_seconds: float
    """From arrays in memory to values in an array."""
    values: np.ndarray


class Memory(NamedTuple):
    """Resident bytes of the process."""

    before: int
    """With the model's arrays in memory and everything compiled."""
    peak: int


class OverrunError(Exception):
    """The time was up."""


class FailedError(Exception):
    """The package raised an error or its process died."""


class Worker:
    """One package's process with one model; a context manager."""

    def __init__(self, package: str, model: Path):
        self._package, self._model = package, model
        self._process: Any = None
        self._pipe: Any = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(
        self,
        configuration: Configuration,
        tolerance: float,
        rewards: np.ndarray,
        limit: float,
        before: np.ndarray | None = None,
    ) -> Run:
        """Build and solve; OverrunError if the solve takes more than `limit` seconds.

        Short runs are worth little after a pause: with `before`, other rewards, one goes ahead that is not timed.
        """
        self._ask(Job(configuration, tolerance, rewards, before))
        self._answer(LOAD_LIMIT)  # the model is built
        return self._answer(limit)

    def memory(self, configuration: Configuration, tolerance: float, rewards: np.ndarray, limit: float) -> Memory:
        """The same, for its memory: what it had before and the peak until the end, or until the time is up."""
        before = self._ask(Job(configuration, tolerance, rewards, memory=True))
        with suppress(OverrunError):
            self._answer(LOAD_LIMIT, keep=True)
            self._answer(limit, keep=True)
        peak = _resident(self._process.pid, "VmHWM")
        self._end()
        return Memory(before, peak)

    def _ask(self, job: Job) -> int:
        """Send a job; the resident bytes of the process as it starts on it, if the job is about them."""
        if self._process is None:
            self._start()
        self._pipe.send(job)
        return self._answer(LOAD_LIMIT)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, self._package, self._model), daemon=True)
        self._process.start()
        other.close()
        self._answer(LOAD_LIMIT)

    def _answer(self, limit: float, keep: bool = False) -> Any:
        """The next message; a process that is late (unless `keep`) or has failed is ended."""
        try:
            if not self._pipe.poll(limit):
                if not keep:
                    self._end()
                raise OverrunError
            message = self._pipe.recv()
        except EOFError:
            message = FailedError("its process died")
        if isinstance(message, FailedError):
            self._end()
            raise message
        return message

    def _end(self) -> None:
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._process = None


# -- in the process ---------------------------------------------------------------------------------------------------


def serve(pipe: Connection, package: str, model: Path) -> None:
    """Answer jobs until the parent hangs up."""
    with suppress(EOFError, BrokenPipeError):
        try:
            contestant = CONTESTANTS[package]()
            mdp = MDP.load(model)
            _warm_up(contestant, dense=isinstance(mdp.transitions, np.ndarray))
            given = contestant.given(mdp)
            del mdp
            pipe.send("ready")
            while True:
                _do(pipe, contestant, given, pipe.recv())
        except (Exception, SystemExit) as problem:  # mdpsolver exits where others raise
            if isinstance(problem, (EOFError, BrokenPipeError)):
                raise
            pipe.send(FailedError(f"{type(problem).__name__}: {problem}"))


def _do(pipe: Connection, contestant: Contestant, given: Any, job: Job) -> None:
    rewards = contestant.rewards(given, job.rewards)
    gc.collect()
    time.sleep(SETTLE)
    if job.before is not None:
        model = contestant.build(given, contestant.rewards(given, job.before))
        contestant.values(contestant.solve(model, job.configuration, job.tolerance))
        del model
    pipe.send(_forget_peak() if job.memory else 0)
    began = time.perf_counter()
    model = contestant.build(given, rewards)
    built = time.perf_counter()
    pipe.send("built")
    solving = time.perf_counter()
    answer = contestant.solve(model, job.configuration, job.tolerance)
    solved = time.perf_counter()
    values = contestant.values(answer)
    ended = time.perf_counter()
    pipe.send(Run(solved - solving, built - began + ended - solving, np.asarray(values)))


def _warm_up(contestant: Contestant, dense: bool) -> None:
    """Solve a tiny model of the same form in every way, so that everything is loaded and compiled."""
    mdp = models.garnet(8, 2, 2, discount=0.5)
    if dense:
        mdp = MDP(np.full((8, 2, 8), 1 / 8), mdp.rewards, mdp.discount)
    given = contestant.given(mdp)
    rewards = contestant.rewards(given, mdp.rewards)
    for configuration in (OURS, *PEERS):
        if isinstance(contestant, CONTESTANTS[configuration.package]):
            contestant.values(contestant.solve(contestant.build(given, rewards), configuration, 1e-3))


def _forget_peak() -> int:
    """Give unused memory back and start the peak anew; the resident bytes now, 0 where the system cannot say."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _resident("self", "VmRSS")


def _resident(process: int | str, field: str) -> int:
    with suppress(OSError):
        found = re.search(rf"^{field}:\s*(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
        if found:
            return 1024 * int(found[1])
    return 0

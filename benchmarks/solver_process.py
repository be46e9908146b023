"""A process per planning package, which can be killed when it takes too long and whose memory can be measured.

The parent saves the model to a file and starts a `SolverProcess`; every job is a configuration, a tolerance and
rewards, every answer a `TimedSolve`. A process that runs out of time is killed; the next job starts another.
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

from benchmarks.planning_solvers import OURS, PEERS, SOLVERS, Configuration, Solver
from greedystep import models
from greedystep.mdp import MDP

LOAD_LIMIT = 300.0
"""Seconds for starting, compiling and building a model; generous, since it only guards against hanging."""
SETTLE = 0.05
"""Seconds to wait before a solve: threads of other processes may still spin for a while after their work."""


class Job(NamedTuple):
    """One solve that a process is asked for."""

    configuration: Configuration
    tolerance: float
    rewards: np.ndarray
    warmup_rewards: np.ndarray | None = None
    """Rewards of an untimed solve that goes ahead."""
    measure_memory: bool = False


class TimedSolve(NamedTuple):
    """The times and the values of one solve."""

    solve_seconds: float
    total_seconds: float
    """From arrays in memory to values in an array."""
    values: np.ndarray


class Memory(NamedTuple):
    """Resident bytes of a process before and during a solve."""

    before: int
    """With the model's arrays in memory and everything compiled."""
    peak: int


class OverrunError(Exception):
    """A solve ran out of time."""


class SolverError(Exception):
    """A package raised an error, or its process died."""


class SolverProcess:
    """A process that solves one model with one package; a context manager."""

    def __init__(self, package: str, model: Path):
        self._package, self._model = package, model
        self._process: Any = None
        self._pipe: Any = None

    def __enter__(self) -> SolverProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    def run(
        self,
        configuration: Configuration,
        tolerance: float,
        rewards: np.ndarray,
        limit: float,
        warmup_rewards: np.ndarray | None = None,
    ) -> TimedSolve:
        """Build and solve; OverrunError if the solve takes more than `limit` seconds.

        Short solves are slower after a pause: with `warmup_rewards`, an untimed solve of them goes ahead.
        """
        self._send(Job(configuration, tolerance, rewards, warmup_rewards))
        self._receive(LOAD_LIMIT)  # the model is built
        return self._receive(limit)

    def memory(self, configuration: Configuration, tolerance: float, rewards: np.ndarray, limit: float) -> Memory:
        """Build and solve for at most `limit` seconds, and return the memory before and at the peak."""
        before = self._send(Job(configuration, tolerance, rewards, measure_memory=True))
        with suppress(OverrunError):
            self._receive(LOAD_LIMIT, keep=True)
            self._receive(limit, keep=True)
        peak = resident_bytes(self._process.pid, "VmHWM")
        self._kill()
        return Memory(before, peak)

    def _send(self, job: Job) -> int:
        """Send a job; return the resident bytes of the process as it starts, if the job asks for them."""
        if self._process is None:
            self._start()
        self._pipe.send(job)
        return self._receive(LOAD_LIMIT)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, self._package, self._model), daemon=True)
        self._process.start()
        other.close()
        self._receive(LOAD_LIMIT)

    def _receive(self, limit: float, keep: bool = False) -> Any:
        """Return the next message; kill a process that is late (unless `keep`) or has failed."""
        try:
            if not self._pipe.poll(limit):
                if not keep:
                    self._kill()
                raise OverrunError
            message = self._pipe.recv()
        except EOFError:
            message = SolverError("its process died")
        if isinstance(message, SolverError):
            self._kill()
            raise message
        return message

    def _kill(self) -> None:
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._process = None


# -- in the child process ---------------------------------------------------------------------------------------------


def serve(pipe: Connection, package: str, model: Path) -> None:
    """Answer jobs until the parent closes the pipe."""
    with suppress(EOFError, BrokenPipeError):
        try:
            solver = SOLVERS[package]()
            mdp = MDP.load(model)
            _warm_up(solver, dense=isinstance(mdp.transitions, np.ndarray))
            arrays = solver.arrays(mdp)
            del mdp
            pipe.send("ready")
            while True:
                _run_job(pipe, solver, arrays, pipe.recv())
        except (Exception, SystemExit) as problem:  # mdpsolver exits where others raise
            if isinstance(problem, (EOFError, BrokenPipeError)):
                raise
            pipe.send(SolverError(f"{type(problem).__name__}: {problem}"))


def _run_job(pipe: Connection, solver: Solver, arrays: Any, job: Job) -> None:
    rewards = solver.rewards(arrays, job.rewards)
    gc.collect()
    time.sleep(SETTLE)
    if job.warmup_rewards is not None:
        model = solver.build(arrays, solver.rewards(arrays, job.warmup_rewards))
        solver.values(solver.solve(model, job.configuration, job.tolerance))
        del model
    pipe.send(reset_peak() if job.measure_memory else 0)
    began = time.perf_counter()
    model = solver.build(arrays, rewards)
    built = time.perf_counter()
    pipe.send("built")
    solving = time.perf_counter()
    answer = solver.solve(model, job.configuration, job.tolerance)
    solved = time.perf_counter()
    values = solver.values(answer)
    ended = time.perf_counter()
    pipe.send(TimedSolve(solved - solving, built - began + ended - solving, np.asarray(values)))


def _warm_up(solver: Solver, dense: bool) -> None:
    """Solve a tiny model of the same form with every algorithm, so that everything is loaded and compiled."""
    mdp = models.garnet(8, 2, 2, discount=0.5)
    if dense:
        mdp = MDP(np.full((8, 2, 8), 1 / 8), mdp.rewards, mdp.discount)
    arrays = solver.arrays(mdp)
    rewards = solver.rewards(arrays, mdp.rewards)
    for configuration in (OURS, *PEERS):
        if isinstance(solver, SOLVERS[configuration.package]):
            solver.values(solver.solve(solver.build(arrays, rewards), configuration, 1e-3))


def reset_peak() -> int:
    """Free unused memory, reset the peak and return the resident bytes; 0 where the system does not tell."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return resident_bytes("self", "VmRSS")


def resident_bytes(process: int | str, field: str) -> int:
    with suppress(OSError):
        found = re.search(rf"^{field}:\s*(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
        if found:
            return 1024 * int(found[1])
    return 0

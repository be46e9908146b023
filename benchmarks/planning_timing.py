"""Times all solvers on one problem: trials that find each peer's tolerance, timed rounds, and memory.

Stopping rules differ, so each configuration of a peer gets the loosest tolerance of `TOLERANCES` with which its true
error stays within `TARGET_ERROR`; greedystep proves that bound itself. Every round has new rewards, the same for all
solvers, and the solvers take turns, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import planning_solvers
from benchmarks.planning_problems import Problem, fresh_rewards
from benchmarks.planning_solvers import OURS, PEERS, SOLVERS, Configuration
from benchmarks.solver_process import OverrunError, SolverError, SolverProcess
from greedystep.mdp import MDP
from greedystep.planning import solve

TARGET_ERROR = 1e-6
"""Largest true error, in any state, of a solved model."""
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
"""Tolerances that peers are tried with, loosest first."""
REFERENCE_TOLERANCE, REFERENCE_BACKUPS = 1e-9, 50
"""Error bound that the reference values aim at, and the most backups that are added to reach it."""
REFERENCE_LIMIT = 1e-8
"""Error bound above which reference values are refused."""

TIME_LIMIT = 120.0
"""Seconds for one solve."""
TIMED_OUT = f"over {TIME_LIMIT:g} s"
SLOWER_FACTOR, SLOWER_SECONDS = 2.0, 0.005
"""A configuration slower than the best peer by more than this factor plus these seconds is excluded."""
MIN_TIME_LIMIT = 0.5
"""Seconds that every solve may take, however fast the best peer is; a shorter trial is run twice."""
STUCK_FACTOR = 10.0
"""A round that takes this many times as long as the trial is stopped: policy iteration may cycle on some rewards."""
SLOW, SLOW_REPEATS = 2.0, 3
"""If the best peer takes longer than 2 seconds, at most 3 rounds are run."""
QUICK, QUICK_FACTOR = 0.05, 3
"""If the best peer takes less than 0.05 seconds, 3 times as many rounds are run, and an untimed solve precedes each."""

MEMORY_MIN_BYTES = 8e6
"""Smallest model, in bytes of its transitions, whose memory is measured; below it, other allocations dominate."""
MEMORY_TIME_LIMIT = 30.0
"""Seconds of solving within which the peak is measured."""

TIMES = ("solve_seconds", "total_seconds")
Times = Mapping[str, float]


class Round(NamedTuple):
    """The rewards of one round and the reference values under them."""

    rewards: np.ndarray
    values: np.ndarray
    error: float
    """Proven bound on the error of the values."""


class ConfigurationTimer:
    """The timings of one configuration on one problem."""

    def __init__(self, configuration: Configuration, process: SolverProcess):
        self.configuration, self._process = configuration, process
        self._tolerances = [TARGET_ERROR] if configuration is OURS else list(TOLERANCES)
        self.excluded = ""
        """Why it is not timed any more; empty while it is."""
        self.trial: dict[str, float] | None = None
        """The first solve, in a round of its own."""
        self.rounds: list[dict[str, float]] = []

    def run_trial(self, task: Round, best: Times) -> None:
        """Find the loosest sufficient tolerance, unless it is far slower than the `best` trials so far."""
        limit = min(TIME_LIMIT, max(MIN_TIME_LIMIT, SLOWER_FACTOR * best["solve_seconds"]))
        while not self.excluded:
            self.trial = self._once(task, limit)
            if self.trial is not None and self.trial["solve_seconds"] < MIN_TIME_LIMIT:
                again = self._once(task, limit)  # the first solve of a configuration may be slow by accident
                if again is not None:
                    self.trial |= {key: min(self.trial[key], again[key]) for key in TIMES}
            self.exclude_if_slow(best)
            if self.trial is None or self.trial["error"] <= TARGET_ERROR:
                return
            self._tighten()

    def exclude_if_slow(self, best: Times) -> None:
        """Exclude it if its trial was much slower than the best ones, solve-only and end-to-end."""
        if self._is_slow(best):
            self.excluded = self.excluded or f"more than {SLOWER_FACTOR:g} times slower than the best peer when tried"

    def _is_slow(self, best: Times) -> bool:
        return self.trial is not None and all(
            self.trial[key] > SLOWER_FACTOR * best[key] + SLOWER_SECONDS for key in TIMES
        )

    def time(self, task: Round, before: Round) -> None:
        """Time one round; if the tolerance turns out too loose for these rewards, again with a tighter one."""
        usual = TIME_LIMIT if self.trial is None else self.trial["solve_seconds"]
        while not self.excluded:
            measured = self._once(task, min(TIME_LIMIT, STUCK_FACTOR * usual + MIN_TIME_LIMIT), before)
            if measured is not None:
                if measured["error"] <= TARGET_ERROR:
                    self.rounds.append(measured)
                    return
                self._tighten()

    def _once(self, task: Round, limit: float, before: Round | None = None) -> dict[str, float] | None:
        tolerance = self._tolerances[0]
        quick = before is not None and self.trial is not None and self.trial["total_seconds"] < QUICK
        try:
            run = self._process.run(
                self.configuration, tolerance, task.rewards, limit, before.rewards if before and quick else None
            )
        except OverrunError:
            self.excluded = TIMED_OUT if limit == TIME_LIMIT else f"over {limit:.2g} s, far slower than the best peer"
            return None
        except SolverError as problem:
            self.excluded = f"failed: {problem}"
            return None
        error = float(np.abs(run.values[: task.values.size] - task.values).max())
        return {
            "tolerance": tolerance,
            "solve_seconds": run.solve_seconds,
            "total_seconds": run.total_seconds,
            "error": error,
        }

    def _tighten(self) -> None:
        if len(self._tolerances) > 1:
            self._tolerances.pop(0)
        else:
            self.excluded = f"its error stays above {TARGET_ERROR:g}"

    def record(self) -> dict[str, Any]:
        """Return the JSON record; it has medians only if every round was solved."""
        timed = bool(self.rounds) and not self.excluded
        return {
            "package": self.configuration.package,
            "configuration": str(self.configuration),
            "options": dict(self.configuration.options),
            "excluded": self.excluded,
            "trial": self.trial,
            "rounds": self.rounds,
            "solve_seconds": _median(self.rounds, "solve_seconds") if timed else None,
            "total_seconds": _median(self.rounds, "total_seconds") if timed else None,
            "largest_error": max((measured["error"] for measured in self.rounds), default=None) if timed else None,
        }


def _median(rounds: list[dict[str, float]], key: str) -> float:
    return statistics.median(measured[key] for measured in rounds)


def measure(problem: Problem, repeats: int) -> dict[str, Any]:
    """Time all solvers on one problem and return its JSON row."""
    mdp = problem.build()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder, "model.npz")
        mdp.save(path)
        present = [package for package in SOLVERS if planning_solvers.installed(package)]
        processes = {package: stack.enter_context(SolverProcess(package, path)) for package in present}
        timers = [
            ConfigurationTimer(configuration, processes[configuration.package])
            for configuration in (OURS, *PEERS)
            if configuration.package in present and mdp.num_states <= configuration.max_states
        ]
        references = run_rounds(mdp, timers, repeats)
        memory = _memory(mdp, path, timers) if _bytes(mdp) >= MEMORY_MIN_BYTES else None
    return {
        "name": problem.name,
        "kind": problem.kind,
        "states": mdp.num_states,
        "actions": mdp.num_actions,
        "entries": _entries(mdp),
        "discount": mdp.discount,
        "bytes": _bytes(mdp),
        "reference_error": max(references),
        "solvers": [timer.record() for timer in timers],
        "memory": memory,
    }


def run_rounds(mdp: MDP, timers: Sequence[ConfigurationTimer], repeats: int) -> list[float]:
    """Run a trial and then the timed rounds; return the error bounds of the reference values."""
    task = make_round(mdp, 0)
    references = [task.error]
    best: Times = dict.fromkeys(TIMES, np.inf)
    peers = [timer for timer in timers if timer.configuration is not OURS]
    for timer in timers:
        timer.run_trial(task, best)
        if timer in peers and timer.trial is not None and not timer.excluded:
            best = {key: min(best[key], timer.trial[key]) for key in TIMES}
    for timer in peers:
        timer.exclude_if_slow(best)  # the early trials did not know the best yet
    for draw in range(1, _num_rounds(repeats, best["solve_seconds"]) + 1):
        before, task = task, make_round(mdp, draw)
        references.append(task.error)
        turn = draw % len(timers)
        for timer in [*timers[turn:], *timers[:turn]]:
            timer.time(task, before)
    return references


def _num_rounds(repeats: int, seconds: float) -> int:
    """Return the number of rounds, given the best peer's seconds."""
    if seconds < QUICK:
        return QUICK_FACTOR * repeats
    return min(repeats, SLOW_REPEATS) if SLOW < seconds < np.inf else repeats


def make_round(mdp: MDP, draw: int) -> Round:
    """Draw fresh rewards and compute reference values for them, with a bound that does not rely on the solver's code.

    The bound is v + min(Bv - v)/(1-γ) <= v* <= v + max(Bv - v)/(1-γ), in extended precision, since float64 cannot
    always prove 1e-9. The range includes 0 if steps may terminate; if not, the middle of the bounds is the better
    answer. Where the values themselves need more digits, a few backups are added.
    """
    rewards = fresh_rewards(mdp, draw)
    fresh = mdp.with_rewards(rewards)
    v = solve(fresh, tolerance=REFERENCE_TOLERANCE).v.astype(np.longdouble)
    error, left = np.inf, REFERENCE_BACKUPS
    while error > REFERENCE_TOLERANCE and left:
        change = _backup(fresh, v) - v
        low, high = change.min(), change.max()
        shift = 0.5 * (low + high) if mdp.termination is None else 0.0
        error = float(max(high - shift, shift - low) / (1 - mdp.discount))
        answer = np.asarray(v + shift / (1 - mdp.discount), np.float64)
        v, left = v + change, left - 1
    if not error <= REFERENCE_LIMIT:
        raise RuntimeError(f"the reference for {mdp} is only known to within {error:.2g}")
    return Round(rewards, answer, error)


def _backup(mdp: MDP, v: np.ndarray) -> np.ndarray:
    """Compute Bv [S] in the precision of v."""
    if isinstance(mdp.transitions, np.ndarray):
        expected = mdp.transitions @ v
    else:
        table = mdp.transitions
        filled = np.flatnonzero(np.diff(table.indptr))
        expected = np.zeros(mdp.rewards.size, np.longdouble)
        if filled.size:
            terms = table.data * v[table.indices]
            expected[filled] = np.add.reduceat(terms, table.indptr[filled])
    return (mdp.rewards + mdp.discount * expected.reshape(mdp.rewards.shape)).max(axis=1)


def _memory(mdp: MDP, path: Path, timers: Sequence[ConfigurationTimer]) -> dict[str, Any]:
    """Measure each package's peak memory on top of the model, in a new process, with its best configuration."""
    rewards, found = fresh_rewards(mdp, 0), {}
    for package in dict.fromkeys(timer.configuration.package for timer in timers):
        own = [timer for timer in timers if timer.configuration.package == package]
        best = min(own, key=lambda timer: timer.record()["solve_seconds"] or np.inf)
        with SolverProcess(package, path) as process:
            try:
                before, peak = process.memory(best.configuration, TARGET_ERROR, rewards, MEMORY_TIME_LIMIT)
            except SolverError:
                continue
        if before and peak:
            found[package] = {
                "configuration": str(best.configuration),
                "before_bytes": before,
                "peak_bytes": peak,
                "times_model": (peak - before) / _bytes(mdp),
            }
    return found


def _entries(mdp: MDP) -> int:
    return mdp.transitions.size if isinstance(mdp.transitions, np.ndarray) else int(mdp.transitions.nnz)


def _bytes(mdp: MDP) -> int:
    """Return the bytes of the transitions: CSR arrays, or the matrix of a dense model."""
    table = mdp.transitions
    parts = [table] if isinstance(table, np.ndarray) else [table.data, table.indices, table.indptr]
    return sum(part.nbytes for part in parts)

"""One problem, everybody in turn: trials that find each peer's tolerance, timed rounds, and memory.

A peer's own stopping rule may promise more or less than it keeps, so each of its configurations gets the loosest
tolerance of a ladder with which it ends within the target; greedystep proves the target itself. Rewards are drawn anew
for every round, the same for all. All take turns, round after round, so that a busy machine slows all alike.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from greedystep.bench import contestants
from greedystep.bench.contestants import CONTESTANTS, OURS, PEERS, Configuration
from greedystep.bench.problems import Problem, fresh_rewards
from greedystep.bench.worker import FailedError, OverrunError, Worker
from greedystep.mdp import MDP
from greedystep.planning import solve

TARGET = 1e-6
"""The largest true error, in any state, that counts as solved."""
LADDER = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
"""The tolerances that peers are tried with, loosest first."""
REFERENCE_TOLERANCE, POLISHING = 1e-9, 50
REFERENCE_LIMIT = 1e-8
"""What the error of the reference may be, where float64 values cannot come nearer."""

TIME_LIMIT = 120.0
"""Seconds for one solve."""
TIME_IS_UP = f"over {TIME_LIMIT:g} s"
HOPELESS, NOISE = 2.0, 0.005
"""A configuration more than so many times (and so many seconds) slower than the best peer is not timed further."""
TRIAL_LEAST = 0.5
"""Seconds that every run gets, however fast the best peer is; a trial that takes less is made twice."""
ENDLESS = 10.0
"""A round that takes so many times as long as the trial will not end: policy iteration may cycle, on some rewards."""
SLOW, SLOW_REPEATS = 2.0, 3
"""Where the best peer takes longer than so many seconds, at most so many rounds are run."""
QUICK, QUICK_TIMES = 0.05, 3
"""Where it takes less than that, so many times as many; and each timing follows one that does not count."""

MEMORY_FROM = 8e6
"""Bytes of a model's arrays from which on memory is measured; below, a process's own comings and goings prevail."""
MEMORY_TIME = 30.0
"""Seconds of solving within which the peak is looked for."""

TIMES = ("solve_seconds", "total_seconds")
Times = Mapping[str, float]


class Task(NamedTuple):
    """A model's rewards of one round, and its values under them."""

    rewards: np.ndarray
    values: np.ndarray
    error: float
    """Proven bound on the error of these values."""


class Entrant:
    """A configuration in the race, and what has been measured of it."""

    def __init__(self, configuration: Configuration, worker: Worker):
        self.configuration, self._worker = configuration, worker
        self._ladder = [TARGET] if configuration is OURS else list(LADDER)
        self.out = ""
        """Why it is not timed any more; empty while it is."""
        self.trial: dict[str, float] | None = None
        """Its first try, on a round of its own."""
        self.rounds: list[dict[str, float]] = []

    def try_out(self, task: Task, best: Times) -> None:
        """Find the loosest tolerance that does, unless that is hopeless beside the `best` trials so far."""
        limit = min(TIME_LIMIT, max(TRIAL_LEAST, HOPELESS * best["solve_seconds"]))
        while not self.out:
            self.trial = self._once(task, limit)
            if self.trial is not None and self.trial["solve_seconds"] < TRIAL_LEAST:
                again = self._once(task, limit)  # the first run of a configuration may be an accident
                if again is not None:
                    self.trial |= {key: min(self.trial[key], again[key]) for key in TIMES}
            self.drop_if_hopeless(best)
            if self.trial is None or self.trial["error"] <= TARGET:
                return
            self._tighten()

    def drop_if_hopeless(self, best: Times) -> None:
        """Out, if the trial was many times slower than the best ones both ways."""
        if self._is_hopeless(best):
            self.out = self.out or f"more than {HOPELESS:g} times slower than the best peer when tried"

    def _is_hopeless(self, best: Times) -> bool:
        return self.trial is not None and all(self.trial[key] > HOPELESS * best[key] + NOISE for key in TIMES)

    def time(self, task: Task, before: Task) -> None:
        """One round; if the tolerance turns out too loose for these rewards, once more with a tighter one."""
        usual = TIME_LIMIT if self.trial is None else self.trial["solve_seconds"]
        while not self.out:
            measured = self._once(task, min(TIME_LIMIT, ENDLESS * usual + TRIAL_LEAST), before)
            if measured is not None:
                if measured["error"] <= TARGET:
                    self.rounds.append(measured)
                    return
                self._tighten()

    def _once(self, task: Task, limit: float, before: Task | None = None) -> dict[str, float] | None:
        tolerance = self._ladder[0]
        quick = before is not None and self.trial is not None and self.trial["total_seconds"] < QUICK
        try:
            run = self._worker.run(
                self.configuration, tolerance, task.rewards, limit, before.rewards if before and quick else None
            )
        except OverrunError:
            self.out = TIME_IS_UP if limit == TIME_LIMIT else f"over {limit:.2g} s, which is hopeless"
            return None
        except FailedError as problem:
            self.out = f"failed: {problem}"
            return None
        error = float(np.abs(run.values[: task.values.size] - task.values).max())
        return {
            "tolerance": tolerance,
            "solve_seconds": run.solve_seconds,
            "total_seconds": run.total_seconds,
            "error": error,
        }

    def _tighten(self) -> None:
        if len(self._ladder) > 1:
            self._ladder.pop(0)
        else:
            self.out = f"its error stays above {TARGET:g}"

    def record(self) -> dict[str, Any]:
        """What is known of it, for the file; medians only if it went all the way."""
        timed = bool(self.rounds) and not self.out
        return {
            "package": self.configuration.package,
            "configuration": str(self.configuration),
            "options": dict(self.configuration.options),
            "out": self.out,
            "trial": self.trial,
            "rounds": self.rounds,
            "solve_seconds": _median(self.rounds, "solve_seconds") if timed else None,
            "total_seconds": _median(self.rounds, "total_seconds") if timed else None,
            "largest_error": max((measured["error"] for measured in self.rounds), default=None) if timed else None,
        }


def _median(rounds: list[dict[str, float]], key: str) -> float:
    return statistics.median(measured[key] for measured in rounds)


def measure(problem: Problem, repeats: int) -> dict[str, Any]:
    """Time everybody on one problem."""
    mdp = problem.build()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder, "model.npz")
        mdp.save(path)
        present = [package for package in CONTESTANTS if contestants.installed(package)]
        workers = {package: stack.enter_context(Worker(package, path)) for package in present}
        entrants = [
            Entrant(configuration, workers[configuration.package])
            for configuration in (OURS, *PEERS)
            if configuration.package in present and mdp.num_states <= configuration.most_states
        ]
        references = race(mdp, entrants, repeats)
        memory = _memory(mdp, path, entrants) if _bytes(mdp) >= MEMORY_FROM else None
    return {
        "name": problem.name,
        "kind": problem.kind,
        "states": mdp.num_states,
        "actions": mdp.num_actions,
        "entries": _entries(mdp),
        "discount": mdp.discount,
        "bytes": _bytes(mdp),
        "reference_error": max(references),
        "contestants": [entrant.record() for entrant in entrants],
        "memory": memory,
    }


def race(mdp: MDP, entrants: Sequence[Entrant], repeats: int) -> list[float]:
    """A trial, and then the rounds; returns the errors of the references."""
    task = make_task(mdp, 0)
    references = [task.error]
    best: Times = dict.fromkeys(TIMES, np.inf)
    peers = [entrant for entrant in entrants if entrant.configuration is not OURS]
    for entrant in entrants:
        entrant.try_out(task, best)
        if entrant in peers and entrant.trial is not None and not entrant.out:
            best = {key: min(best[key], entrant.trial[key]) for key in TIMES}
    for entrant in peers:
        entrant.drop_if_hopeless(best)  # those tried early did not know the best yet
    for draw in range(1, _rounds(repeats, best["solve_seconds"]) + 1):
        before, task = task, make_task(mdp, draw)
        references.append(task.error)
        turn = draw % len(entrants)
        for entrant in [*entrants[turn:], *entrants[:turn]]:
            entrant.time(task, before)
    return references


def _rounds(repeats: int, seconds: float) -> int:
    """How many rounds, given the best peer's time."""
    if seconds < QUICK:
        return QUICK_TIMES * repeats
    return min(repeats, SLOW_REPEATS) if SLOW < seconds < np.inf else repeats


def make_task(mdp: MDP, draw: int) -> Task:
    """Fresh rewards and the values they make: solved with a certificate, and proved again without the solver's code.

    The second proof is the one that counts: v + min(Bv - v)/(1-γ) <= v* <= v + max(Bv - v)/(1-γ), by a plain product in
    extended precision, for float64 cannot always prove 1e-9. The range includes 0 if steps may end; if not, the middle
    of the bounds is the better answer. Where even the values need more digits, a few backups are added.
    """
    rewards = fresh_rewards(mdp, draw)
    fresh = mdp.with_rewards(rewards)
    v = solve(fresh, tolerance=REFERENCE_TOLERANCE).v.astype(np.longdouble)
    error, left = np.inf, POLISHING
    while error > REFERENCE_TOLERANCE and left:
        change = _backup(fresh, v) - v
        low, high = change.min(), change.max()
        shift = 0.5 * (low + high) if mdp.termination is None else 0.0
        error = float(max(high - shift, shift - low) / (1 - mdp.discount))
        answer = np.asarray(v + shift / (1 - mdp.discount), np.float64)
        v, left = v + change, left - 1
    if not error <= REFERENCE_LIMIT:
        raise RuntimeError(f"the reference for {mdp} is only known to within {error:.2g}")
    return Task(rewards, answer, error)


def _backup(mdp: MDP, v: np.ndarray) -> np.ndarray:
    """Bv [S], in the precision of v."""
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


def _memory(mdp: MDP, path: Path, entrants: Sequence[Entrant]) -> dict[str, Any]:
    """Each package's peak on top of the model, in a process of its own, with its best configuration."""
    rewards, found = fresh_rewards(mdp, 0), {}
    for package in dict.fromkeys(entrant.configuration.package for entrant in entrants):
        own = [entrant for entrant in entrants if entrant.configuration.package == package]
        best = min(own, key=lambda entrant: entrant.record()["solve_seconds"] or np.inf)
        with Worker(package, path) as worker:
            try:
                before, peak = worker.memory(best.configuration, TARGET, rewards, MEMORY_TIME)
            except FailedError:
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
    """Of the transitions: CSR arrays, or the matrix of a dense model."""
    table = mdp.transitions
    parts = [table] if isinstance(table, np.ndarray) else [table.data, table.indices, table.indptr]
    return sum(part.nbytes for part in parts)

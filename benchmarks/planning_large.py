"""Benchmark of planning on large models: time and memory on 10 million states, and on 100 million without a matrix.

Every solve has a process of its own, one after the other. Memory is the peak of resident bytes minus what the process
had before the model was made (for "in all"), or with the model's arrays in memory (for "on top").

    grid       slippery, with an absorbing goal; values flow from it
    garnet     random successors: mixes fast, and every look-up misses the caches

Both packages get the same arrays and are asked for an error of at most 1e-6. quantecon is the peer: mdpsolver takes
nested Python lists, and is measured on a smaller model to tell how much memory they would need.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from rich.console import Console

import greedystep as gs
from benchmarks import planning_solvers
from benchmarks.planning import version
from benchmarks.planning_solvers import PEERS, SOLVERS
from benchmarks.solver_process import reset_peak, resident_bytes
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance
from greedystep.runs.progress import progress_line

TOLERANCE, DISCOUNT, SLIP, ACTIONS = 1e-6, 0.99, 0.2, 4
STATES, FREE_STATES, LIST_STATES = 10_000_000, 100_000_000, 100_000
"""States of the models with a matrix, of the one without, and of the one that mdpsolver's memory is measured on."""
CHUNK = 200_000  # states whose rows are made at once
PEER_LIMIT = 1500.0  # seconds after which a peer is stopped
SPEED_TARGET, MEMORY_TARGET, FREE_MEMORY_TARGET = 25.0, 1.5, 8e9
QUANTECON = next(one for one in PEERS if str(one) == "quantecon MPI k=20")
MDPSOLVER = next(one for one in PEERS if one.package == "mdpsolver")


# -- models -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrays:
    """A model as arrays: a CSR matrix [S*A, S] and rewards [S, A]."""

    transitions: Any
    rewards: np.ndarray

    @property
    def nbytes(self) -> int:
        table = self.transitions
        return sum(part.nbytes for part in (table.data, table.indices, table.indptr, self.rewards))


def grid_row(s: int, a: int, side: int) -> tuple[tuple[int, int, int], tuple[float, float, float], float]:
    """The row of a slippery grid of side x side cells, in which every step costs 1 until the last cell is reached."""
    if s == side * side - 1:
        return (s, s, s), (1.0, 0.0, 0.0), 0.0
    row, column = s // side, s % side
    up, right = max(row - 1, 0) * side + column, row * side + min(column + 1, side - 1)
    down, left = min(row + 1, side - 1) * side + column, row * side + max(column - 1, 0)
    sides = SLIP / 2
    if a == 0:
        return (up, right, left), (1 - SLIP, sides, sides), -1.0
    if a == 1:
        return (right, down, up), (1 - SLIP, sides, sides), -1.0
    if a == 2:
        return (down, left, right), (1 - SLIP, sides, sides), -1.0
    return (left, up, down), (1 - SLIP, sides, sides), -1.0


_grid_row = njit(grid_row)


@njit
def _fill_grid(side, begin, end, successors, probabilities, rewards):
    for s in range(begin, end):
        for a in range(ACTIONS):
            to, p, rewards[s, a] = _grid_row(s, a, side)
            for k in range(3):
                successors[s, a, k] = to[k]
                probabilities[s, a, k] = p[k]


def grid(states: int) -> Arrays:
    """The grid with about this number of states, as arrays."""
    side = round(states**0.5)
    successors, probabilities, rewards = _empty(side * side, 3)
    _fill_grid(side, 0, side * side, successors, probabilities, rewards)
    return _arrays(successors, probabilities, rewards)


def garnet(states: int) -> Arrays:
    """A Garnet with three successors per pair, as arrays."""
    random = np.random.default_rng(0)
    successors, probabilities, rewards = _empty(states, 3)
    for begin in range(0, states, CHUNK):
        part = slice(begin, min(states, begin + CHUNK))
        shape = successors[part].shape
        successors[part] = random.integers(0, states, shape)
        shares = random.random(shape)
        probabilities[part] = shares / shares.sum(axis=2, keepdims=True)
        rewards[part] = random.normal(size=shape[:2])
    return _arrays(successors, probabilities, rewards)


def _empty(states: int, branching: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = (states, ACTIONS, branching)
    return np.empty(shape, np.int32), np.empty(shape), np.empty(shape[:2])


def _arrays(successors: np.ndarray, probabilities: np.ndarray, rewards: np.ndarray) -> Arrays:
    pairs, branching = rewards.size, successors.shape[2]
    start = np.arange(0, pairs * branching + 1, branching, dtype=np.int32)
    entries = (probabilities.ravel(), successors.ravel(), start)
    return Arrays(sp.csr_array(entries, shape=(pairs, len(rewards))), rewards)


MODELS: dict[str, Callable[[int], Arrays]] = {"grid": grid, "garnet": garnet}


# -- solves, each in a process of its own -----------------------------------------------------------------------------


def solve_with(package: str, model: str, states: int, values: Path) -> Iterator[Any]:
    """Solve a model with a matrix; yields a sentence when it begins, and then the record. Saves v to `values`."""
    warm = MODELS[model](100)
    _solve_arrays(package, warm)
    arrays = MODELS[model](states)
    before = reset_peak()
    yield "solving"
    record, v = _solve_arrays(package, arrays)
    peak = resident_bytes("self", "VmHWM")
    np.save(values, v[: len(arrays.rewards)])
    yield {
        **record,
        "states": len(arrays.rewards),
        "model_bytes": arrays.nbytes,
        "memory_bytes": peak - before,
        "times_model": (arrays.nbytes + peak - before) / arrays.nbytes,
    }


def _solve_arrays(package: str, arrays: Arrays) -> tuple[dict[str, Any], np.ndarray]:
    clock = Clock()
    if package == "greedystep":
        mdp = gs.MDP(arrays.transitions, arrays.rewards, DISCOUNT)
        built = clock.read()
        solution = gs.solve(mdp, tolerance=TOLERANCE)
        found = {"error_bound": solution.error_bound, "sweeps": solution.sweeps, "converged": solution.converged}
        return {**clock.record(built), **found}, solution.v
    solver = SOLVERS[package]()
    configuration = QUANTECON if package == "quantecon" else MDPSOLVER
    S, A = arrays.rewards.shape
    pairs = planning_solvers.Pairs(
        sp.csr_matrix(arrays.transitions), np.repeat(np.arange(S), A), np.tile(np.arange(A), S), False, DISCOUNT
    )
    clock = Clock()  # the lists of states and actions are input, as the matrix is
    model = solver.build(pairs, arrays.rewards.ravel())
    built = clock.read()
    answer = solver.solve(model, configuration, TOLERANCE)
    return {**clock.record(built), "configuration": str(configuration)}, np.asarray(solver.values(answer))


def solve_without_matrix(states: int) -> Iterator[Any]:
    """Solve the grid without a matrix; yields a sentence when it begins, and then the record."""
    gs.solve(gs.MatrixFreeMDP(_grid_row, 100, ACTIONS, DISCOUNT, args=(10,)))
    before, side, clock = reset_peak(), round(states**0.5), Clock()
    yield "solving"
    mdp = gs.MatrixFreeMDP(_grid_row, side * side, ACTIONS, DISCOUNT, args=(side,))
    built = clock.read()
    solution = gs.solve(mdp, tolerance=TOLERANCE)
    yield {
        **clock.record(built),
        "states": side * side,
        "error_bound": solution.error_bound,
        "converged": solution.converged,
        "sweeps": solution.sweeps,
        "memory_bytes": resident_bytes("self", "VmHWM") - before,
        "process_bytes": resident_bytes("self", "VmHWM"),
        "matrix_bytes": side * side * ACTIONS * (3 * 12 + 4 + 8),
    }


class Clock:
    """Wall-clock and CPU seconds since it was made."""

    def __init__(self) -> None:
        gc.collect()
        self._began = self._now()

    def _now(self) -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return time.perf_counter(), used.ru_utime + used.ru_stime

    def read(self) -> tuple[float, float]:
        """Return (seconds, CPU seconds) so far."""
        return tuple(now - began for now, began in zip(self._now(), self._began, strict=True))  # type: ignore[return-value]

    def record(self, built: tuple[float, float]) -> dict[str, float]:
        """Return the times of making the model object and of solving it."""
        seconds, cpu = self.read()
        return {
            "build_seconds": built[0],
            "solve_seconds": seconds - built[0],
            "total_seconds": seconds,
            "total_cpu_seconds": cpu,
        }


def _serve(pipe: Any, function: Callable[..., Iterator[Any]], arguments: tuple[Any, ...]) -> None:
    try:
        for message in function(*arguments):
            pipe.send(message)
    except (Exception, SystemExit) as problem:  # mdpsolver exits where others raise
        pipe.send({"excluded": f"{type(problem).__name__}: {problem}"})


def in_process(function: Callable[..., Iterator[Any]], *arguments: Any, limit: float = PEER_LIMIT) -> dict[str, Any]:
    """Return the record of the function, run in a new process and stopped `limit` seconds after it began to solve."""
    context = multiprocessing.get_context("spawn")
    pipe, other = context.Pipe()
    process = context.Process(target=_serve, args=(other, function, arguments), daemon=True)
    process.start()
    other.close()
    try:
        with suppress(EOFError):
            first = pipe.recv()
            if isinstance(first, dict):
                return first
            if not pipe.poll(limit):
                cpu = _cpu_seconds(process.pid)
                return {
                    "excluded": f"over {limit:g} s",
                    "stopped": True,
                    "total_seconds": limit,
                    "total_cpu_seconds": cpu,
                }
            return pipe.recv()
        return {"excluded": "its process died"}
    finally:
        process.kill()
        process.join()


def _cpu_seconds(process: int | None) -> float:
    """Return the CPU seconds that a process has used since it began; 0 where the system does not tell."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


# -- the run ----------------------------------------------------------------------------------------------------------


def run(
    out: Path, repeats: int = 1, states: int = STATES, free_states: int = FREE_STATES, list_states: int = LIST_STATES
) -> dict[str, Any]:
    """Solve everything once, write `planning-large.json` and `.md` to `out`, and return the content of the JSON file.

    `repeats` is not used: a solve takes minutes, so that start-up hardly counts. An interrupted run writes the models
    that it finished.
    """
    packages = [one for one in ("greedystep", "quantecon") if planning_solvers.installed(one)]
    settings = {"states": states, "free_states": free_states, "tolerance": TOLERANCE, "peer_limit": PEER_LIMIT}
    result: dict[str, Any] = {
        "packages": {one: version(one) for one in SOLVERS},
        "models": {},
        "without_matrix": {"excluded": "not run"},
        "mdpsolver": None,
        "provenance": provenance(settings),
    }
    try:
        with progress_line(Console(stderr=True), "planning-large") as report, tempfile.TemporaryDirectory() as folder:
            steps = 2 + len(MODELS) * len(packages)
            report(0.0, "without a matrix")
            result["without_matrix"] = in_process(solve_without_matrix, free_states)
            for i, model in enumerate(MODELS):
                records = {}
                for j, package in enumerate(packages):
                    report((1 + i * len(packages) + j) / steps, f"{model}, {package}")
                    records[package] = in_process(solve_with, package, model, states, Path(folder) / f"{package}.npy")
                result["models"][model] = {"packages": records, **compare(records, Path(folder))}
            report(1.0 - 1.0 / steps, "mdpsolver's memory")
            result["mdpsolver"] = _mdpsolver(list_states, states, Path(folder) / "mdpsolver.npy")
    finally:
        write_json(out / "planning-large.json", result)
        write_text(out / "planning-large.md", markdown(result))
    return result


def _mdpsolver(list_states: int, states: int, values: Path) -> dict[str, Any] | None:
    """Return mdpsolver's memory on a small grid and, in proportion, on the large one; None if it is not installed."""
    if not planning_solvers.installed("mdpsolver"):
        return None
    record = in_process(solve_with, "mdpsolver", "grid", list_states, values)
    if "memory_bytes" in record:
        record["needed_bytes"] = record["memory_bytes"] * states / record["states"]
    return record


def compare(records: dict[str, dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return the speedup over quantecon and the largest difference of the values; `at_least` if it was stopped."""
    ours, peer = records["greedystep"], records.get("quantecon", {})
    compared: dict[str, Any] = {"at_least": bool(peer.get("stopped"))}
    if "total_seconds" in ours and "total_seconds" in peer:
        for name, key in (("ratio", "total_seconds"), ("cpu_ratio", "total_cpu_seconds")):
            compared[name] = peer[key] / ours[key]
        if not peer.get("stopped"):
            values = [np.load(folder / f"{package}.npy") for package in ("greedystep", "quantecon")]
            compared["difference"] = float(np.abs(values[0] - values[1]).max())
    return compared


def markdown(result: dict[str, Any]) -> str:
    """Return the tables of a result in Markdown."""
    lines = [
        f"One solve each, to an error of {TOLERANCE:g}, γ = {DISCOUNT:g}, on {result['provenance']['cpu']}. Times are "
        "from arrays in memory to values. Memory is the peak with the model, over the model's own bytes (CSR and "
        "rewards).",
        "",
        "| model | states | model, GB | package | seconds | CPU seconds | sweeps | memory | error bound |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for name, model in result["models"].items():
        for package, record in model["packages"].items():
            if "excluded" in record:
                lines.append(f"| {name} | | | {package} | {record['excluded']} | | | | |")
                continue
            proved = f"{record['error_bound']:.1e}" if "error_bound" in record else "none"
            sweeps = f"{record['sweeps']:.0f}" if "sweeps" in record else ""
            lines.append(
                f"| {name} | {record['states']:,} | {record['model_bytes'] / 1e9:.2f} | "
                f"{record.get('configuration', package)} | {record['total_seconds']:.1f} | "
                f"{record['total_cpu_seconds']:.1f} | {sweeps} | {record['times_model']:.2f} | {proved} |"
            )
    lines.append("")
    for name, model in result["models"].items():
        if "ratio" in model:
            sign = "at least " if model["at_least"] else ""
            cpu = f"{sign}{model['cpu_ratio']:.1f} in CPU time"
            lines.append(f"{name}: {sign}{model['ratio']:.1f} times as fast as quantecon, {cpu}.")
    free = result["without_matrix"]
    lines.append("")
    if "excluded" in free:
        lines.append(f"Without a matrix: {free['excluded']}.")
    else:
        lines.append(
            f"Without a matrix: {free['states']:,} states in {free['total_seconds']:.0f} s "
            f"({free['total_cpu_seconds']:.0f} CPU seconds, {free['sweeps']:.1f} sweeps), "
            f"{free['process_bytes'] / 1e9:.2f} GB in all, error bound {free['error_bound']:.1e}. "
            f"Its matrix and rewards would take {free['matrix_bytes'] / 1e9:.1f} GB."
        )
    if result["mdpsolver"] and "needed_bytes" in result["mdpsolver"]:
        small = result["mdpsolver"]
        lines += [
            "",
            f"mdpsolver takes {small['memory_bytes'] / 1e9:.2f} GB on top of the arrays of {small['states']:,} states, "
            f"which is {small['needed_bytes'] / 1e9:.0f} GB for the large grid.",
        ]
    return "\n".join(lines) + "\n"

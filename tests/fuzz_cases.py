"""Fuzz cases by seed and index."""

from __future__ import annotations

import json
import zlib
from functools import partial
from pathlib import Path
from random import Random

import fuzz_commands
import fuzz_files
from fuzz_runner import Case, Outcome


def command_case(seed: str, index: int, *, networks: bool = True) -> Case:
    """A command line."""
    argv = fuzz_commands.command(Random(f"command-{seed}-{index}"), networks=networks)
    return Case(f"command {seed}:{index}", argv, is_long=fuzz_commands.is_long(argv))


def file_case(seed: str, index: int, examples: Path, *, networks: bool = True) -> Case:
    """A damaged file, and what reads it."""
    random = Random(f"file-{seed}-{index}")
    weights = (
        fuzz_files.WEIGHTS
        if networks
        else {name: weight for name, weight in fuzz_files.WEIGHTS.items() if name not in fuzz_files.NEEDS_NETWORK}
    )
    example = random.choices(list(weights), list(weights.values()))[0]
    argv = random.choice(fuzz_files.KINDS[example])
    prepare = partial(fuzz_files.damage, example=example, random=random)
    case = Case(f"file {seed}:{index}", prepare=prepare, verify=partial(verify_run, argv=argv, examples=examples))
    if argv[0] == "load":
        case.call, case.args = "fuzz_files:load", argv[1:]
    else:
        case.argv = argv
    return case


def verify_run(folder: Path, recipe: str, outcome: Outcome, *, argv: list[str], examples: Path) -> list[str]:
    """A run that was resumed without complaint keeps its rows up to the oldest checkpoint, and goes on behind them."""
    if outcome.status != 0 or argv[:2] != ["train", "--resume"] or "metrics.jsonl" in recipe:
        return []
    rows, before = (_lines(place / argv[2]) for place in (folder, examples))
    problems = []
    if rows[: len(before) // 2] != before[: len(before) // 2]:
        problems.append("the resumed run has lost its first rows")
    lanes: dict[int, list[int]] = {}
    for row in map(json.loads, rows):
        lanes.setdefault(row["lane"], []).append(row["step"])
    for lane, steps in lanes.items():
        if steps != sorted(set(steps)):
            problems.append(f"lane {lane} of the resumed run has the steps {steps}")
    return problems


def _lines(run: Path) -> list[str]:
    return (run / "metrics.jsonl").read_text().splitlines()


def call_case(seed: str, index: int, *, networks: bool = True) -> Case:
    """A call of the library."""
    network = networks and index % 4 == 0
    return Case(f"call {seed}:{index}", call="fuzz_calls:call", args=[f"call-{seed}-{index}", network])


def proof_case(seed: str, index: int) -> Case:
    """A model that is solved, and the exact truth about it."""
    return Case(f"proof {seed}:{index}", call="fuzz_proofs:prove", args=[zlib.crc32(seed.encode()), index])


CASES = {"command": command_case, "file": file_case, "call": call_case, "proof": proof_case}

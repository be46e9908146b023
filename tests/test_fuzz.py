"""Random command lines, damaged files, calls and models: no traceback, no abort, no wrong proof, no spoiled folder.

A short slice runs with the other tests; `pytest -m long tests/test_fuzz.py` runs thousands. Cases come from a seed and
an index, and a failure names both:

    GREEDYSTEP_FUZZ_SEED    the seed of the long runs (default: 0); a nightly run takes the date
    GREEDYSTEP_FUZZ_COUNT   cases of each kind in the long runs (default: 5000, of models 20000)
    GREEDYSTEP_FUZZ_FIRST   the first index (default: 0): with a count of 1 it replays a single case
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import fuzz_cases
import pytest
from fuzz_runner import Case, Finding, Runner

SEED = os.environ.get("GREEDYSTEP_FUZZ_SEED", "0")
FIRST = int(os.environ.get("GREEDYSTEP_FUZZ_FIRST", "0"))
SHOWN = 30
"""Findings of a failing run that are printed."""


def count(usual: int) -> int:
    return int(os.environ.get("GREEDYSTEP_FUZZ_COUNT", str(usual)))


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a valid file of every kind."""
    return make_examples(tmp_path_factory.mktemp("fuzz"))


def make_examples(folder: Path, *, networks: bool = True) -> Path:
    with Runner(folder) as runner:
        making = Case(
            "examples", call="fuzz_files:make_examples", args=[str(folder / "examples"), networks], seconds=300
        )
        finding = runner.run_one(making)
    if finding is not None:
        pytest.fail(str(finding), pytrace=False)
    return folder / "examples"


def fuzz(folder: Path, examples: Path, cases: Iterable[Case]) -> None:
    """Run them; a failure tells what was found, and where the folders of the faulty cases are kept."""
    kept = folder / "kept"

    def keep(finding: Finding) -> None:
        shutil.copytree(runner.scratch, kept / finding.case.name.replace(" ", "-"), symlinks=True, ignore=_pipes)

    with Runner(folder, examples) as runner:
        findings = runner.run(cases, keep)
    if findings:
        told = "\n\n".join(map(str, findings[:SHOWN]))
        pytest.fail(f"{len(findings)} findings; their folders are in {kept}\n\n{told}", pytrace=False)


def _pipes(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_fifo()]


def some(make: Callable[..., Case], number: int, *arguments: object, **options: object) -> Iterator[Case]:
    return (make(SEED, index, *arguments, **options) for index in range(FIRST, FIRST + number))


# -- a slice for every day --------------------------------------------------------------------------------------------


def test_a_slice(tmp_path):
    """Of all kinds, without networks, which take long to compile."""
    examples = make_examples(tmp_path / "made", networks=False)
    cases = chain(
        some(fuzz_cases.command_case, 30, networks=False),
        some(fuzz_cases.file_case, 40, examples, networks=False),
        some(fuzz_cases.call_case, 100, networks=False),
        some(fuzz_cases.proof_case, 100),
    )
    fuzz(tmp_path, examples, cases)


# -- thousands --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_many_command_lines(examples, tmp_path):
    fuzz(tmp_path, examples, some(fuzz_cases.command_case, count(5000)))


@pytest.mark.long
def test_many_damaged_files(examples, tmp_path):
    fuzz(tmp_path, examples, some(fuzz_cases.file_case, count(5000), examples))


@pytest.mark.long
def test_many_calls(examples, tmp_path):
    fuzz(tmp_path, examples, some(fuzz_cases.call_case, count(5000)))


@pytest.mark.long
def test_many_proofs(examples, tmp_path):
    fuzz(tmp_path, examples, some(fuzz_cases.proof_case, count(20_000)))

"""Verdicts on the sentences of the paper: from the results of experiments and the recorded outcomes of tests.

`pytest --record-evidence` writes the outcomes to test_outcomes.json; every other run of the tests compares its own
outcomes with the recorded ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from greedystep.experiments import NAMES
from greedystep.experiments.claims import Verdict, together
from greedystep.experiments.sentences import SENTENCES, CheckedBy
from greedystep.io import read_json

OUTCOMES = Path(__file__).with_name("test_outcomes.json")


@dataclass(frozen=True)
class Evidence:
    """A claim or test with its verdict on one sentence of the paper."""

    claim: str | None
    """The claim's id; None for a test."""
    link: str
    """The experiment's name, or the test's node id."""
    verdict: Verdict
    measured: Any


@dataclass(frozen=True)
class Row:
    """A sentence of the paper with its verdict and evidence."""

    id: str
    sentence: str
    where: str
    measured: str
    verdict: Verdict
    evidence: tuple[Evidence, ...]


@cache
def recorded_outcomes() -> dict[str, str]:
    """Return {test: passed, failed or skipped} of every test that is evidence for a sentence of the paper."""
    return read_json(OUTCOMES)["outcomes"]


def rows(results: Iterable[Mapping[str, Any]], outcomes: Mapping[str, str] | None = None) -> list[Row]:
    """Return one row per sentence of the paper, in its order.

    Args:
        results: of `greedystep reproduce` (a dictionary each, with "claims"); claims of missing ones are untested.
        outcomes: of tests, by node id; default: the recorded ones.
    """
    claims = {claim["id"]: claim for result in results for claim in result["claims"]}
    known = recorded_outcomes() if outcomes is None else outcomes
    found = []
    for sentence in SENTENCES:
        evidence = tuple(
            _of_claim(one, claims.get(one)) if isinstance(one, str) else _of_test(one, known.get(one.test))
            for one in sentence.evidence
        )
        verdict, measured = verdict_of(evidence), "; ".join(dict.fromkeys(str(one.measured) for one in evidence))
        found.append(Row(sentence.id, sentence.says, sentence.where, measured, verdict, evidence))
    return found


def experiment_of(claim: str) -> str:
    """Return the experiment that judges a claim: its name begins the claim's id; if none does, it is table1."""
    return next((name for name in NAMES if claim.startswith(f"{name}-")), "table1")


def verdict_of_test(evidence: CheckedBy, outcome: str | None) -> Verdict:
    """Return the verdict of a test: it supports or refutes the sentence if it passed.

    A failing test refutes a sentence that it asserts; a failing counterexample says nothing.
    """
    if outcome == "passed":
        return "confirmed" if evidence.supports else "refuted"
    return "refuted" if outcome == "failed" and evidence.supports else "untested"


def verdict_of(evidence: Iterable[Evidence]) -> Verdict:
    """Return the verdict on a sentence: that of its evidence together (`claims.together`).

    With untested evidence it is untested if the rest is confirmed, and otherwise at best partly; but a counterexample
    refutes the sentence if nothing speaks for it.
    """
    evidence = tuple(evidence)
    verdicts: set[Verdict] = {one.verdict for one in evidence}
    known = verdicts - {"untested"}
    is_countered = any(one.claim is None and one.verdict == "refuted" for one in evidence)
    if is_countered and not known & {"confirmed", "partly"}:
        return "refuted"
    if known == verdicts:
        return together(known)
    if known <= {"confirmed"}:
        return "untested"
    return "undecided" if known == {"undecided"} else "partly"


def _of_claim(name: str, claim: Mapping[str, Any] | None) -> Evidence:
    experiment = experiment_of(name)
    if claim is None:
        return Evidence(name, experiment, "untested", f"not run: greedystep reproduce {experiment}")
    return Evidence(name, experiment, claim["verdict"], claim["measured"])


def _of_test(evidence: CheckedBy, outcome: str | None) -> Evidence:
    verdict = verdict_of_test(evidence, outcome)
    says = evidence.says if outcome == "passed" else f"{outcome or 'not run'}: {evidence.says}"
    return Evidence(None, evidence.test, verdict, says)

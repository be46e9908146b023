"""The paper sentence by sentence: what results of experiments and what tests say of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from greedystep.experiments import NAMES
from greedystep.experiments.claims import FAILED, NOT_KNOWN, Verdict
from greedystep.experiments.sentences import SENTENCES, Sentence, Shown


@dataclass(frozen=True)
class Evidence:
    """What checks a sentence: a claim of an experiment, or a test."""

    claim: str | None
    """The claim's id; None for a test."""
    link: str
    """The experiment's name, or pytest's name of the test."""
    verdict: Verdict
    measured: Any
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """A sentence and its verdict, for a page or a table."""

    id: str
    sentence: str
    where: str
    claimed: str
    measured: str
    verdict: Verdict
    reason: str
    """Why it fails, most likely; empty where it does not."""
    evidence: tuple[Evidence, ...]


def rows(results: Iterable[Mapping[str, Any]]) -> list[Row]:
    """One row for each sentence of the paper, in its order.

    Args:
        results: of `greedystep reproduce` (a dictionary each, with "claims"); those that are missing leave what they
            would check untested.
    """
    claims = {claim["id"]: claim for result in results for claim in result["claims"]}
    return [_row(sentence, claims) for sentence in SENTENCES]


def experiment_of(claim: str) -> str:
    """The experiment that makes a claim: its name begins the claim's, but for those of table1."""
    return next((name for name in NAMES if claim.startswith(f"{name}-")), "table1")


def verdict_of(evidence: Iterable[Evidence]) -> Verdict:
    """Of a sentence all of whose checks must hold: the verdict of all, or partly where they differ.

    Where some were not run: untested if the others are confirmed, and at best partly if not. But a counterexample is
    enough to refute, if nothing else is known.
    """
    evidence = tuple(evidence)
    verdicts: set[Verdict] = {one.verdict for one in evidence}
    known: set[Verdict] = {verdict for verdict in verdicts if verdict != "untested"}
    if known <= {"confirmed"} and "untested" in verdicts:
        return "untested"
    counterexample = known == {"refuted"} and any(one.claim is None for one in evidence)
    alike = len(known) == 1 and ("untested" not in verdicts or counterexample)
    return known.pop() if alike else "partly"


def _row(sentence: Sentence, claims: Mapping[str, Mapping[str, Any]]) -> Row:
    evidence = tuple(
        _of_claim(check, claims.get(check)) if isinstance(check, str) else _of_test(check) for check in sentence.checks
    )
    verdict = verdict_of(evidence)
    return Row(
        sentence.id,
        sentence.says,
        sentence.where,
        sentence.claimed,
        "; ".join(dict.fromkeys(str(one.measured) for one in evidence)),
        verdict,
        _reason(evidence) if verdict in FAILED else "",
        evidence,
    )


def _of_claim(name: str, claim: Mapping[str, Any] | None) -> Evidence:
    experiment = experiment_of(name)
    if claim is None:
        return Evidence(name, experiment, "untested", f"not run: greedystep reproduce {experiment}")
    reason = (claim.get("reason") or NOT_KNOWN) if claim["verdict"] in FAILED else ""
    return Evidence(name, experiment, claim["verdict"], claim["measured"], reason)


def _of_test(shown: Shown) -> Evidence:
    return Evidence(None, shown.test, shown.verdict, shown.says, shown.says if shown.verdict in FAILED else "")


def _reason(evidence: tuple[Evidence, ...]) -> str:
    """What the failing claims say; where only tests fail, what they show. "Not known" only if nothing else is said."""
    failing = [one for one in evidence if one.reason]
    said = [f"{one.reason} ({one.link})" if one.claim is None else one.reason for one in failing]
    known = dict.fromkeys(reason for reason in said if reason != NOT_KNOWN)
    return "; ".join(known) or NOT_KNOWN

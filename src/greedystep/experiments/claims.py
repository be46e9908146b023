"""Claims of the paper, each with what was measured and a verdict."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, NamedTuple, get_args

Verdict = Literal["confirmed", "partly", "undecided", "refuted", "untested"]
"""confirmed, refuted: the measurement lies on one side of the rule's threshold. undecided: its 95 % CI contains the
threshold. partly: confirmed in part, and not in the rest. untested: not run, or too short to judge."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

WITH_REASON: tuple[Verdict, ...] = ("partly", "undecided", "refuted")
"""Verdicts that come with a reason."""
NOT_KNOWN = "not known"
"""Reason given where no measurement explains why a claim fails."""
UNDECIDED = "the 95 % CI over seeds contains the threshold"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper with its measurement and verdict."""

    id: str
    """A short name, unique over all experiments, such as "fig1-two-iterations"."""
    claim: str
    """The statement, in a sentence."""
    where: str
    """Where the paper makes it: section, table, figure, theorem."""
    claimed: Any
    """The number or word that the paper gives."""
    measured: Any
    """The number or words that we measured."""
    verdict: Verdict
    """What the rule says of the measurement."""
    reason: str = ""
    """One sentence: why the claim fails or is undecided, and the experiment, claim or test that shows it; empty if it
    holds."""
    brief: str = ""
    """The measurement in a few words and numbers, for the first page; empty: `measured`."""
    rule: str = ""
    """How the verdict follows from the measurement, written before the run; a rule that was changed after it says so,
    and what it was before."""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict: expected one of {', '.join(VERDICTS)}, got {self.verdict!r}")
        for name in ("id", "claim", "where"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"{name}: expected some text, got {text!r}")
        if not isinstance(self.reason, str) or (self.reason and self.verdict not in WITH_REASON):
            raise ValueError(f"reason: only a claim that is {' or '.join(WITH_REASON)} has one, got {self.reason!r}")
        for name in ("brief", "rule"):
            if not isinstance(text := getattr(self, name), str):
                raise ValueError(f"{name}: expected text, got {text!r}")


class Outcome(NamedTuple):
    """Result of a rule that judges a claim: verdict, measurement, why the claim fails if it does, `Claim.brief`."""

    verdict: Verdict
    measured: str
    why: str = ""
    brief: str = ""

    @property
    def reason(self) -> str:
        """Why the claim fails, NOT_KNOWN if that is not known; empty if it does not fail."""
        if self.verdict == "undecided":  # the reasons of several tasks may say which of them are
            return self.why if UNDECIDED in self.why else UNDECIDED
        return because(self.verdict, self.why or NOT_KNOWN)

    def claim(self, id: str, claim: str, claimed: Any, where: str, rule: Callable[..., Any]) -> Claim:
        """Return the claim with this outcome; the docstring of `rule` says how it was judged."""
        about = (id, claim, where, claimed, self.measured, self.verdict, self.reason, self.brief)
        return Claim(*about, rule_text(rule))


def rule_text(rule: Callable[..., Any]) -> str:
    """Return the docstring of a rule on one line, without its arguments: what the page shows as the claim's rule."""
    text = inspect.getdoc(rule) or ""
    return " ".join(text.split("\n\nArgs:")[0].split())


def judges(id: str, claim: str, claimed: Any, where: str) -> Callable[[Callable[..., Outcome]], Callable[..., Claim]]:
    """Decorate a rule that returns an `Outcome`, so that it returns the `Claim` with that outcome."""

    def decorate(rule: Callable[..., Outcome]) -> Callable[..., Claim]:
        @wraps(rule)
        def judge(*args: Any) -> Claim:
            return rule(*args).claim(id, claim, claimed, where, rule)

        return judge

    return decorate


def because(verdict: Verdict, why: str = NOT_KNOWN) -> str:
    """Return `why` if the verdict comes with a reason, otherwise an empty string."""
    return why if verdict in WITH_REASON else ""


def judged(
    id: str,
    claim: str,
    where: str,
    claimed: Any,
    measured: Any,
    verdict: Verdict,
    why: str = NOT_KNOWN,
    brief: str = "",
    rule: str = "",
) -> Claim:
    """Make a claim with this verdict; its reason is `why` if the verdict comes with one."""
    return Claim(id, claim, where, claimed, measured, verdict, because(verdict, why), brief, rule)


def verdict_if(holds: bool) -> Verdict:
    """Return "confirmed" if the statement holds, "refuted" if not."""
    return "confirmed" if holds else "refuted"


def verdict_of_parts(holds: Iterable[bool]) -> Verdict:
    """Return confirmed if all parts of a claim hold, partly if some do, refuted if none does."""
    parts = list(holds)
    return "confirmed" if all(parts) else "partly" if any(parts) else "refuted"


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Return one verdict for several tasks or pieces of evidence, none of them untested: theirs if all agree.

    Otherwise partly if any of it is confirmed, wholly or in part, and undecided if not (some refuted, some undecided).
    This rule was changed after the full-length runs, which called everything partly that is undecided now.
    """
    found = set(verdicts)
    if len(found) == 1:
        return found.pop()
    return "partly" if found & {"confirmed", "partly"} else "undecided"


Check = Literal["consistent", "not consistent", "not checked"]
"""What a quick run says of the full run's verdict."""


def check(full: Verdict, quick: Verdict) -> Check:
    """Return whether the verdict of a quick run is consistent with that of the full run; it never replaces it.

    Only opposite verdicts (confirmed, refuted) are not: a quick run trains on fewer tasks and for fewer steps, so that
    it may confirm in part, or leave undecided, what the full run decides. Untested on either side: not checked.
    """
    if "untested" in (full, quick):
        return "not checked"
    return "not consistent" if {full, quick} == {"confirmed", "refuted"} else "consistent"

"""Claims of the paper, each with what was measured and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, NamedTuple, get_args

Verdict = Literal["confirmed", "partly", "refuted", "untested"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

FAILED: tuple[Verdict, ...] = ("partly", "refuted")
NOT_KNOWN = "not known"
"""Reason given where no measurement explains why a claim fails."""
UNDECIDED = "undecided: the 95 % CI over seeds contains the threshold"


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
    """The outcome of a rule that was written before the run."""
    reason: str = ""
    """The most likely reason why the claim fails, and the experiment or test that shows it; empty if it holds."""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict: expected one of {', '.join(VERDICTS)}, got {self.verdict!r}")
        for name in ("id", "claim", "where"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"{name}: expected some text, got {text!r}")
        if not isinstance(self.reason, str) or (self.reason and self.verdict not in FAILED):
            raise ValueError(f"reason: only a claim that is partly right or refuted has one, got {self.reason!r}")


class Outcome(NamedTuple):
    """Result of a rule that judges a claim: verdict, measurement as text, and why the claim fails if it does."""

    verdict: Verdict
    measured: str
    why: str = ""

    @property
    def reason(self) -> str:
        """Why the claim fails, NOT_KNOWN if that is not known; empty if it does not fail."""
        return because(self.verdict, self.why or (UNDECIDED if self.verdict == "partly" else NOT_KNOWN))

    def claim(self, id: str, claim: str, claimed: Any, where: str) -> Claim:
        """Return the claim with this outcome."""
        return Claim(id, claim, where, claimed, self.measured, self.verdict, self.reason)


def judges(id: str, claim: str, claimed: Any, where: str) -> Callable[[Callable[..., Outcome]], Callable[..., Claim]]:
    """Decorate a rule that returns an `Outcome`, so that it returns the `Claim` with that outcome."""

    def decorate(rule: Callable[..., Outcome]) -> Callable[..., Claim]:
        @wraps(rule)
        def judge(*args: Any) -> Claim:
            return rule(*args).claim(id, claim, claimed, where)

        return judge

    return decorate


def because(verdict: Verdict, why: str = NOT_KNOWN) -> str:
    """Return `why` if the verdict is a failure, otherwise an empty string."""
    return why if verdict in FAILED else ""


def judged(
    id: str, claim: str, where: str, claimed: Any, measured: Any, verdict: Verdict, why: str = NOT_KNOWN
) -> Claim:
    """Make a claim with this verdict; its reason is `why` if the verdict is a failure."""
    return Claim(id, claim, where, claimed, measured, verdict, because(verdict, why))


def verdict_if(holds: bool) -> Verdict:
    """Return "confirmed" if the statement holds, "refuted" if not."""
    return "confirmed" if holds else "refuted"


def verdict_of_parts(holds: Iterable[bool]) -> Verdict:
    """Return confirmed if all parts of a claim hold, partly if some do, refuted if none does."""
    parts = list(holds)
    return "confirmed" if all(parts) else "partly" if any(parts) else "refuted"

"""A claim of the paper, what was measured, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

Verdict = Literal["confirmed", "partly", "refuted", "untested"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

FAILED: tuple[Verdict, ...] = ("partly", "refuted")
NOT_KNOWN = "not known"
"""The reason of a failure that no measurement explains."""


@dataclass(frozen=True)
class Claim:
    """One statement of the paper beside its measurement."""

    id: str
    """A short name, unique over all experiments, such as "fig1-two-iterations"."""
    claim: str
    """The statement, in a sentence."""
    where: str
    """Where the paper makes it: section, table, figure, theorem."""
    claimed: Any
    """The paper's number or word."""
    measured: Any
    """Our number or words."""
    verdict: Verdict
    """The outcome of a rule that was written before the run."""
    reason: str = ""
    """Why the claim fails, most likely, and which experiment or test shows it; only where it is refuted or partly."""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict: expected one of {', '.join(VERDICTS)}, got {self.verdict!r}")
        for name in ("id", "claim", "where"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"{name}: expected some text, got {text!r}")
        if not isinstance(self.reason, str) or (self.reason and self.verdict not in FAILED):
            raise ValueError(f"reason: only a claim that is partly right or refuted has one, got {self.reason!r}")


def because(verdict: Verdict, why: str = NOT_KNOWN) -> str:
    """Return the reason of a claim: `why` if the verdict is a failure, otherwise nothing."""
    return why if verdict in FAILED else ""


def judged(
    id: str, claim: str, where: str, claimed: Any, measured: Any, verdict: Verdict, why: str = NOT_KNOWN
) -> Claim:
    """Make a claim whose reason is `why` if the verdict is a failure."""
    return Claim(id, claim, where, claimed, measured, verdict, because(verdict, why))


def verdict_if(holds: bool) -> Verdict:
    """Return confirmed or refuted."""
    return "confirmed" if holds else "refuted"


def verdict_of_parts(holds: Iterable[bool]) -> Verdict:
    """Return confirmed if all parts of a claim hold, partly if some do, refuted if none does."""
    parts = list(holds)
    return "confirmed" if all(parts) else "partly" if any(parts) else "refuted"

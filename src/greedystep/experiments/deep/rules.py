"""From intervals to verdicts. These rules were written before the runs that they judge.

`Judged.why` and the missing-data sentences were added after the first quick runs; they change no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from greedystep.experiments.claims import FAILED, NOT_KNOWN, Claim, Verdict
from greedystep.experiments.deep.evidence import Evidence
from greedystep.experiments.deep.methods import BASELINES, GREEDY, METHODS
from greedystep.experiments.deep.tasks import TASKS
from greedystep.stats import Interval, difference

Found = Mapping[tuple[str, str], Evidence]
"""By task and method; what was not trained is not there."""

UNDECIDED = "undecided: the interval over seeds holds the bar"


class Judged(NamedTuple):
    """A verdict, the measurement in words, and why it fails where it does."""

    verdict: Verdict
    said: str
    why: str = ""

    @property
    def reason(self) -> str:
        """For a claim: what is known, or that nothing is; empty where nothing failed."""
        if self.verdict not in FAILED:
            return ""
        return self.why or (UNDECIDED if self.verdict == "partly" else NOT_KNOWN)

    def claim(self, id: str, claim: str, where: str, claimed: str) -> Claim:
        """The paper's statement with this judgement."""
        return Claim(id, claim, where, claimed, self.said, self.verdict, self.reason)


# -- one interval -----------------------------------------------------------------------------------------------------


def above(interval: Any, bar: float) -> Verdict:
    """Confirmed: the whole interval lies above the bar; refuted: below; partly: the bar is within it.

    Untested where there is no interval, as with a single seed.
    """
    if np.isnan(interval.low) or np.isnan(interval.high):
        return "untested"
    return "confirmed" if interval.low > bar else "refuted" if interval.high < bar else "partly"


def below(interval: Any, bar: float) -> Verdict:
    """The same with the sides exchanged."""
    opposite: dict[Verdict, Verdict] = {"confirmed": "refuted", "refuted": "confirmed"}
    verdict = above(interval, bar)
    return opposite.get(verdict, verdict)


def lead(ours: Sequence[float] | np.ndarray, theirs: Sequence[float] | np.ndarray) -> Interval:
    """How much higher the mean of one's seeds is than the mean of the other's."""
    return difference(np.asarray(ours), np.asarray(theirs), "mean")


def words(interval: Any, digits: str = ".2f") -> str:
    """1.23 (1.01 to 1.45)."""
    numbers = [f"{float(x):{digits}}".replace("inf", "∞") for x in (interval.estimate, interval.low, interval.high)]
    return f"{numbers[0]} ({numbers[1]} to {numbers[2]})"


# -- several verdicts -------------------------------------------------------------------------------------------------


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several tasks: all alike, or partly. Untested ones do not count, unless all are."""
    known: set[Verdict] = {verdict for verdict in verdicts if verdict != "untested"}
    if not known:
        return "untested"
    return known.pop() if len(known) == 1 else "partly"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several conditions that must all hold: one refuted refutes, one untested leaves all untested."""
    order: tuple[Verdict, ...] = ("refuted", "untested", "partly", "confirmed")
    given = set(verdicts)
    return next(verdict for verdict in order if verdict in given)


def on_each_task(found: Found, names: Iterable[str], judge: Callable[[str], Judged]) -> Judged:
    """All tasks that have everything named, together."""
    names = tuple(names)
    judged = {task: judge(task) for task in TASKS if all((task, name) in found for name in names)}
    said = "; ".join(f"{TASKS[task].title}: {one.said}" for task, one in judged.items())
    return Judged(
        together(one.verdict for one in judged.values()),
        said or f"not trained: {'; '.join(names)}",
        reasons({task: one.reason for task, one in judged.items()}),
    )


def reasons(by_task: Mapping[str, str]) -> str:
    """The reasons on several tasks in one sentence; equal ones once, with the names of their tasks."""
    tasks: dict[str, list[str]] = {}
    for task, reason in by_task.items():
        if reason:
            tasks.setdefault(reason, []).append(TASKS[task].title)
    return "; ".join(f"{', '.join(titles)}: {reason}" for reason, titles in tasks.items())


# -- what there is ----------------------------------------------------------------------------------------------------


def missing(found: Found, task: str, methods: Sequence[str] = (*BASELINES, GREEDY)) -> str | None:
    """What is needed to judge a task and is not there, in words; None if nothing is."""
    least = TASKS[task].judged_from
    absent = [METHODS[method].label for method in methods if (task, method) not in found]
    if absent:
        return f"not trained: {', '.join(absent)}"
    alone = [METHODS[method].label for method in methods if len(found[task, method].returns) < 2]
    if alone:
        return f"a single seed: {', '.join(alone)}"
    shortest = min(found[task, method].steps[-1] for method in methods)
    return f"trained for {shortest:,} steps, judged from {least:,}" if shortest < least else None


def where_trained(found: Found, task: str, judge: Callable[[], Judged]) -> Judged:
    """The judgement on one task, if Greedy-Step and all baselines were trained long enough there."""
    lacking = missing(found, task)
    return Judged("untested", lacking) if lacking else judge()


def best_of(found: Found, task: str, methods: Sequence[str], steps: int | None = None) -> str:
    """The one of some methods with the highest mean return at the end, or after so many steps."""
    return max(methods, key=lambda method: np.nan_to_num(level_at(found[task, method], steps).mean(), nan=-np.inf))


def best_baseline(found: Found, task: str) -> str:
    return best_of(found, task, BASELINES)


def level_at(one: Evidence, steps: int | None) -> np.ndarray:
    """[seeds] the return after so many steps; None: at the end."""
    return one.final if steps is None else one.level(steps)


def first_level(one: Evidence) -> np.ndarray:
    """[seeds] the return at the first point that all seeds have; NaN where there is none."""
    known = np.isfinite(one.returns).all(axis=0)
    return one.returns[:, known.argmax()] if known.any() else np.full(len(one.returns), np.nan)


def learned(one: Evidence) -> bool:
    """Whether the final return is higher than the first one for certain."""
    return above(lead(one.final, first_level(one)), 0) == "confirmed"

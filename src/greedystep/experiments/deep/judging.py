"""From 95 % confidence intervals over seeds to verdicts. These rules were fixed before the full-length runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from greedystep.experiments.claims import Claim, Outcome, Verdict, together
from greedystep.experiments.deep.method_runs import MethodRuns
from greedystep.experiments.deep.suite import BASELINES, GREEDY, LARGEST_GAINS, METHODS, PAPER, TASKS
from greedystep.stats import difference, interval

AllRuns = Mapping[tuple[str, str], MethodRuns]
"""{task: {method or variant: its trainings}}; what was not trained is absent."""


# -- one estimate -----------------------------------------------------------------------------------------------------


class Estimate(NamedTuple):
    """An estimate with its 95 % CI over seeds, formatted as 1.23 (1.01 to 1.45)."""

    estimate: Any
    low: Any
    high: Any

    def above(self, threshold: float = 0.0) -> Verdict:
        """Confirmed if the CI lies above the threshold, refuted if below, undecided around it; untested without CI."""
        if np.isnan(self.low) or np.isnan(self.high):
            return "untested"
        return "confirmed" if self.low > threshold else "refuted" if self.high < threshold else "undecided"

    def below(self, threshold: float = 0.0) -> Verdict:
        """Confirmed if the CI lies below the threshold, refuted if above, undecided around it; untested without CI."""
        return Estimate(-self.estimate, -self.high, -self.low).above(-threshold)

    def is_above(self, threshold: float = 0.0) -> bool:
        """Whether the whole CI lies above the threshold."""
        return self.above(threshold) == "confirmed"

    def is_below(self, threshold: float = 0.0) -> bool:
        """Whether the whole CI lies below the threshold."""
        return self.below(threshold) == "confirmed"

    def contains(self, threshold: float = 0.0) -> bool:
        """Whether the CI contains the threshold; True without a CI."""
        return self.above(threshold) in ("undecided", "untested")

    def __format__(self, digits: str) -> str:
        numbers = [_decimal(f"{float(x):{digits or '.2f'}}").replace("inf", "∞") for x in self]
        return f"{numbers[0]} ({numbers[1]} to {numbers[2]})"


def _decimal(number: str) -> str:
    """Write a number without an exponent: -1e+03 as -1000."""
    return f"{float(number):g}" if "e" in number else number


def mean(seeds: np.ndarray) -> Estimate:
    """Return the mean of one number per seed, with its CI."""
    return Estimate(*interval(seeds, "mean"))


def mean_difference(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """Return the mean over our seeds minus the mean over theirs, with its CI."""
    return Estimate(*difference(ours, theirs, "mean"))


# -- several verdicts -------------------------------------------------------------------------------------------------


def over_tasks(verdicts: Iterable[Verdict]) -> Verdict:
    """Return one verdict for several tasks (`together`). Untested ones count only if all are."""
    known: set[Verdict] = {verdict for verdict in verdicts if verdict != "untested"}
    return together(known) if known else "untested"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return one verdict for conditions that must all hold: the first of `order` that is among them."""
    order: tuple[Verdict, ...] = ("refuted", "untested", "undecided", "partly", "confirmed")
    given = set(verdicts)
    return next(verdict for verdict in order if verdict in given)


def combine(outcomes: Mapping[str, Outcome]) -> Outcome:
    """Return one outcome for the outcomes of several tasks."""
    return Outcome(
        over_tasks(one.verdict for one in outcomes.values()),
        "; ".join(f"{TASKS[task].title}: {one.measured}" for task, one in outcomes.items()),
        join_reasons({task: one.reason for task, one in outcomes.items()}),
        ", ".join(f"{TASKS[task].title} {one.brief}" for task, one in outcomes.items() if one.brief),
    )


def join_reasons(by_task: Mapping[str, str]) -> str:
    """Return the reasons of several tasks in one sentence; a shared reason appears once, after the tasks' names."""
    tasks: dict[str, list[str]] = {}
    for task, reason in by_task.items():
        if reason:
            tasks.setdefault(reason, []).append(TASKS[task].title)
    return "; ".join(f"{', '.join(titles)}: {reason}" for reason, titles in tasks.items())


# -- the trainings that a claim needs ---------------------------------------------------------------------------------


def missing_runs(runs: AllRuns, task: str, methods: Sequence[str] = (*BASELINES, GREEDY)) -> str | None:
    """Return a sentence on the trainings that are missing to judge a task; None if nothing is missing."""
    least = TASKS[task].judged_from
    absent = [METHODS[method].label for method in methods if (task, method) not in runs]
    if absent:
        return f"not trained: {', '.join(absent)}"
    alone = [METHODS[method].label for method in methods if len(runs[task, method].returns) < 2]
    if alone:
        return f"a single seed: {', '.join(alone)}"
    shortest = min(runs[task, method].steps[-1] for method in methods)
    return f"trained for {shortest:,} steps, judged from {least:,}" if shortest < least else None


def on_largest_gains(
    runs: AllRuns,
    judge: Callable[[Mapping[str, MethodRuns]], Outcome],
    needed: Callable[[MethodRuns], np.ndarray | None],
) -> Outcome:
    """Judge each game of the paper's largest gains by the runs of its methods, {method: runs}.

    A game is untested where a method was not trained long enough, or `needed` is None: greedy play not evaluated. The
    claim names all the games, so that it is untested while one of them is, with the numbers of the others.
    """
    outcomes = {}
    for task in LARGEST_GAINS:
        own = {method: runs[task, method] for method in PAPER if (task, method) in runs}
        if (lacks := missing_runs(runs, task)) or any(needed(one) is None for one in own.values()):
            outcomes[task] = Outcome("untested", lacks or "greedy play was not evaluated")
        else:
            outcomes[task] = judge(own)
    outcome = combine(outcomes)
    complete = all(one.verdict != "untested" for one in outcomes.values())
    return outcome if complete else outcome._replace(verdict="untested")


Rule = Callable[[AllRuns, str], Outcome]
"""A rule that judges a claim on one task."""


def judges_task(id: str, claim: str, claimed: Any, where: str) -> Callable[[Rule], Callable[[AllRuns, str], Claim]]:
    """Decorate a rule to return a claim about one task, untested unless all baselines are trained long enough.

    A {} in the claim's id stands for the name of the task, in its text for the title.
    """

    def decorate(rule: Rule) -> Callable[[AllRuns, str], Claim]:
        @wraps(rule)
        def judge(runs: AllRuns, task: str) -> Claim:
            missing = missing_runs(runs, task)
            outcome = Outcome("untested", missing) if missing else rule(runs, task)
            return outcome.claim(id.format(task), claim.format(TASKS[task].title), claimed, where, rule)

        return judge

    return decorate


def judges_tasks(
    id: str, claim: str, claimed: Any, needs: Iterable[str], where: str
) -> Callable[[Rule], Callable[[AllRuns], Claim]]:
    """Decorate a rule to return one claim about all tasks on which the methods `needs` were trained."""
    names = tuple(needs)

    def decorate(rule: Rule) -> Callable[[AllRuns], Claim]:
        @wraps(rule)
        def judge(runs: AllRuns) -> Claim:
            outcomes = {task: rule(runs, task) for task in TASKS if all((task, name) in runs for name in names)}
            outcome = combine(outcomes) if outcomes else Outcome("untested", f"not trained: {'; '.join(names)}")
            return outcome.claim(id, claim, claimed, where, rule)

        return judge

    return decorate


def best_method(runs: AllRuns, task: str, methods: Sequence[str] = BASELINES, steps: int | None = None) -> str:
    """Return the method (default: among the baselines) with the highest mean return after `steps` (None: all) steps."""

    def score(method: str) -> float:
        one = runs[task, method]
        seeds = one.final_return if steps is None else one.return_at(steps)
        return float(np.nan_to_num(seeds.mean(), nan=-np.inf))

    return max(methods, key=score)


LEAST_GAIN = 0.1
"""Smallest gain that counts as learning, as a share of the largest mean gain of any method on the task."""


def least_gain(runs: AllRuns, task: str) -> float:
    """Return the smallest difference between final and first return that counts as learning on a task."""
    own = [one for (where, _), one in runs.items() if where == task]
    gains = [float(np.mean(one.final_return - one.first_return)) for one in own]
    return LEAST_GAIN * max([gain for gain in gains if np.isfinite(gain)], default=0.0)


def has_learned(runs: AllRuns, task: str, method: str) -> bool:
    """Whether the final return minus the first one has a 95 % CI above `least_gain`.

    The rule was changed after the runs: the bound was 0, by which a method that went from -16 to -15.9 on Pong had
    learned.
    """
    one = runs[task, method]
    return mean_difference(one.final_return, one.first_return).is_above(max(least_gain(runs, task), 0.0))


def pessimism(one: MethodRuns) -> str:
    """Return a sentence if the minimum Q over networks lies below the behaviour return (95 % CI); else empty."""
    gap = mean(one.final_overestimation)
    return f"too pessimistic: Q minus the behaviour return is {gap}" if gap.is_below() else ""

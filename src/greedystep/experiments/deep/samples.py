"""The paper's claims about the samples that Greedy-Step DQN needs, and the rules that judge them.

Written before any run. Changed after the first quick runs, without a look at their numbers and before any run of the
full length: where nobody has learned, steps to a level mean nothing and are untested; `same_level` is new.
"""

from __future__ import annotations

import numpy as np

from greedystep.experiments.claims import Claim
from greedystep.experiments.deep import reasons
from greedystep.experiments.deep.evidence import Evidence
from greedystep.experiments.deep.methods import BASELINES, GREEDY, METHODS
from greedystep.experiments.deep.rules import (
    Found,
    Judged,
    above,
    best_baseline,
    first_level,
    lead,
    learned,
    on_each_task,
    where_trained,
    words,
    worst,
)
from greedystep.experiments.deep.tasks import TASKS
from greedystep.learning_curves import times_faster
from greedystep.stats import Interval, interval

TASKS_NAMED = ("pong", "mountaincar", "freeway")
WHERE = "Section 6.1, Figure 3"

HALF_THE_SAMPLES = 2.0
LEARNED = 0.9
"""A method has converged when it has made this share of the way from the first returns to the final level."""
SEVERAL = 2


def claims(found: Found) -> list[Claim]:
    return [
        *(same_level(found, task) for task in TASKS_NAMED),
        *(half_the_samples(found, task) for task in TASKS_NAMED),
        sooner_at_first(found),
    ]


# -- samples ----------------------------------------------------------------------------------------------------------


def same_level(found: Found, task: str) -> Claim:
    """Confirmed: two baselines or more converge to Greedy-Step's level for certain; partly: two may; refuted: fewer.

    Refuted too where Greedy-Step itself has not learned: then there is no level to speak of.
    """

    def judge() -> Judged:
        ours, finals = (
            found[task, GREEDY],
            {method: interval(found[task, method].final, "mean") for method in BASELINES},
        )
        level = _converged(ours)
        reached = [above(final, level) for final in finals.values()]
        said = f"to a return of {level:.3g} ({_began(ours)}): " + ", ".join(
            f"{METHODS[method].label} {words(final, '.3g')}" for method, final in finals.items()
        )
        if "untested" in reached:
            return Judged("untested", said)
        if not learned(ours):
            return Judged("refuted", said, "Greedy-Step DQN itself has not learned here")
        if reached.count("confirmed") >= SEVERAL:
            return Judged("confirmed", said)
        if len(reached) - reached.count("refuted") >= SEVERAL:
            return Judged("partly", said)
        return Judged("refuted", said, "most of them end lower")

    judged = where_trained(found, task, judge)
    return judged.claim(
        f"fig3-same-level-{task}",
        f"On {TASKS[task].title} several of the compared methods converge to the level of Greedy-Step DQN.",
        WHERE,
        "several",
    )


def half_the_samples(found: Found, task: str) -> Claim:
    """Confirmed: every baseline needs more than twice the steps to converge to Greedy-Step's level, for certain.

    Refuted: one needs less than twice for certain, or ends above Greedy-Step for certain. A baseline that never gets
    there counts with the steps it had (`curves.times_faster`). Untested where nobody has learned.
    """

    def judge() -> Judged:
        nobody = reasons.nobody_learned(found, task, (GREEDY, *BASELINES))
        if nobody:
            return Judged("untested", nobody)
        ours = found[task, GREEDY]
        level, best = _converged(ours), best_baseline(found, task)
        times = {method: sooner(ours, found[task, method], level) for method in BASELINES}
        ends_above = above(lead(found[task, best].final, ours.final), 0) == "confirmed"
        fastest = best if ends_above else min(times, key=lambda method: float(times[method].estimate))
        said = f"steps to a return of {level:.3g} ({_began(ours)}): {_steps(ours, level)}; " + ", ".join(
            f"{METHODS[method].label} {words(one, '.2g')} times as many" for method, one in times.items()
        )
        if not learned(ours):  # then its level is where it began, and steps to it tell nothing
            said = f"{METHODS[best].label} ends {words(lead(found[task, best].final, ours.final))} above it"
        return Judged(
            "refuted" if ends_above else worst(above(one, HALF_THE_SAMPLES) for one in times.values()),
            said,
            "it has not learned here" if not learned(ours) else reasons.behind(found, task, fastest),
        )

    judged = where_trained(found, task, judge)
    return judged.claim(
        f"fig3-half-the-samples-{task}",
        f"On {TASKS[task].title} the compared methods need more than twice the samples of Greedy-Step DQN to converge "
        "to its level.",
        WHERE,
        "more than 2 times",
    )


def sooner(ours: Evidence, theirs: Evidence, level: float) -> Interval:
    """How many times the steps of Greedy-Step the other needs; at least, where it never gets there."""
    times = times_faster(ours.steps, ours.returns, theirs.steps, theirs.returns, level, "mean", resamples=2_000)
    return Interval(*map(np.asarray, (times.at_least, times.low, times.high)))


def _converged(ours: Evidence) -> float:
    first = first_level(ours).mean()
    return float(first + LEARNED * (ours.final.mean() - first))


def _began(ours: Evidence) -> str:
    """A level close to it is no achievement."""
    return f"it began at {first_level(ours).mean():.3g}"


def _steps(ours: Evidence, level: float) -> str:
    reached = ours.steps[ours.returns.mean(axis=0) >= level]
    return f"{reached[0]:,}" if len(reached) else "never"


def sooner_at_first(found: Found) -> Claim:
    """On every task there is, however short: the mean height of the whole curve against DQN's, its interval above 0."""

    def judge(task: str) -> Judged:
        gap = lead(found[task, GREEDY].height(), found[task, "dqn"].height())
        said = f"{words(gap)} over {found[task, GREEDY].steps[-1]:,} steps"
        return Judged(above(gap, 0), said, reasons.behind(found, task, "dqn"))

    judged = on_each_task(found, (GREEDY, "dqn"), judge)
    return judged.claim(
        "fig3-sooner-than-dqn",
        "Greedy-Step DQN learns from fewer samples than DQN (measured: how much higher its mean return is over the "
        "steps of the training).",
        WHERE,
        "more than 0",
    )

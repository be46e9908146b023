"""The paper's claims about Figure 3, and the rules that judge them.

A final level is the mean return of the last 100 training episodes; intervals are 95 % bootstrap intervals over seeds.
"The best of the compared methods" is the one of the paper's four baselines with the highest mean final level.
"""

from __future__ import annotations

import numpy as np

from greedystep.curves import times_faster
from greedystep.experiments.claims import Claim, Verdict
from greedystep.experiments.deep.evidence import Evidence
from greedystep.experiments.deep.methods import BASELINES, GREEDY, METHODS
from greedystep.experiments.deep.rules import Found, above, below, lead, together, words, worst
from greedystep.experiments.deep.tasks import TASKS
from greedystep.stats import Interval, ratio

TWICE = ("breakout", "seaquest", "space-invaders")
SOONER = ("pong", "mountaincar", "freeway")
WORSE = "pixelcopter"
WHERE = "Section 6.1, Figure 3"

ALMOST_TWICE = 1.5
HALF_THE_SAMPLES = 2.0
LEARNED = 0.9
"""A method has converged when it has made this share of the way from the first returns to the final level."""
ALMOST_ALL, HALF = 0.8, 0.5
ALMOST_EQUAL = 1.25


def claims(found: Found) -> list[Claim]:
    return [
        outperforms(found),
        *(twice(found, task) for task in TWICE),
        *(half_the_samples(found, task) for task in SOONER),
        worse(found),
        sooner_at_first(found),
        equal_time(found),
    ]


def missing(found: Found, task: str, methods: tuple[str, ...] = (*BASELINES, GREEDY)) -> str | None:
    """What is needed to judge a task and is not there, in words; None if nothing is."""
    least = TASKS[task].judged_from
    absent = [METHODS[method].label for method in methods if (task, method) not in found]
    if absent:
        return f"not trained: {', '.join(absent)}"
    shortest = min(found[task, method].steps[-1] for method in methods)
    return f"trained for {shortest:,} steps, judged from {least:,}" if shortest < least else None


def best_baseline(found: Found, task: str) -> str:
    return max(BASELINES, key=lambda method: np.nan_to_num(found[task, method].final.mean(), nan=-np.inf))


# -- reward -----------------------------------------------------------------------------------------------------------


def twice(found: Found, task: str) -> Claim:
    """Almost twice: the interval of the ratio lies above 1.5; refuted: below."""
    verdict: Verdict = "untested"
    said = missing(found, task)
    if said is None:
        best = best_baseline(found, task)
        times = ratio(found[task, GREEDY].final, found[task, best].final, "mean")
        verdict, said = above(times, ALMOST_TWICE), f"{words(times)} times the reward of {METHODS[best].label}"
    title = TASKS[task].title
    return Claim(
        f"fig3-twice-{task}",
        f"On {title} Greedy-Step DQN gets almost twice the reward of the best of the compared methods.",
        WHERE,
        "almost 2 times",
        said,
        verdict,
    )


def worse(found: Found) -> Claim:
    """Confirmed: the difference to the best baseline lies below 0; refuted: above."""
    verdict: Verdict = "untested"
    said = missing(found, WORSE)
    if said is None:
        best = best_baseline(found, WORSE)
        gap = lead(found[WORSE, GREEDY].final, found[WORSE, best].final)
        verdict, said = below(gap, 0), f"{words(gap)} more reward than {METHODS[best].label}"
    return Claim(
        "fig3-not-pixelcopter",
        "On Pixelcopter Greedy-Step DQN does not outperform the compared methods.",
        WHERE,
        "lower than the best of them",
        said,
        verdict,
    )


def outperforms(found: Found) -> Claim:
    """Of all pairs of a task and a baseline, the share won, if all named tasks but Pixelcopter are there.

    A pair is won where the mean height of the learning curve is higher for certain (its interval lies above 0) and the
    final level is not lower for certain. Confirmed from 80 %, refuted below 50 %.
    """
    named = (*TWICE, *SOONER)
    lacking = [TASKS[task].title for task in named if missing(found, task)]
    won = {
        (task, method): _wins(found[task, GREEDY], found[task, method])
        for task in named
        if missing(found, task) is None
        for method in BASELINES
    }
    said = f"ahead in {sum(won.values())} of {len(won)} comparisons"
    verdict: Verdict = "untested"
    if lacking:
        said += f"; not judged without {', '.join(lacking)}"
    else:
        share = sum(won.values()) / len(won)
        verdict = "confirmed" if share >= ALMOST_ALL else "partly" if share >= HALF else "refuted"
    return Claim(
        "fig3-outperforms",
        "Greedy-Step DQN outperforms almost all compared methods in reward and sample efficiency on almost all tasks "
        "except Pixelcopter.",
        WHERE,
        "almost all",
        said,
        verdict,
    )


def _wins(ours: Evidence, theirs: Evidence) -> bool:
    return above(lead(ours.height(), theirs.height()), 0) == "confirmed" and (
        above(lead(ours.final, theirs.final), 0) != "refuted"
    )


# -- samples ----------------------------------------------------------------------------------------------------------


def half_the_samples(found: Found, task: str) -> Claim:
    """Confirmed: every baseline needs more than twice the steps to converge to Greedy-Step's level, for certain.

    Refuted: one needs less than twice for certain, or ends above Greedy-Step for certain. A baseline that never gets
    there counts with the steps it had (`curves.times_faster`).
    """
    verdict: Verdict = "untested"
    said = missing(found, task)
    if said is None:
        ours = found[task, GREEDY]
        level = _converged(ours)
        times = {method: sooner(ours, found[task, method], level) for method in BASELINES}
        not_lower = below(lead(found[task, best_baseline(found, task)].final, ours.final), 0)
        verdicts: list[Verdict] = [above(one, HALF_THE_SAMPLES) for one in times.values()]
        verdict = "refuted" if not_lower == "refuted" else worst(verdicts)
        said = f"steps to a return of {level:.3g}: {_steps(ours, level)}; " + ", ".join(
            f"{METHODS[method].label} {words(one, '.2g')} times as many" for method, one in times.items()
        )
    return Claim(
        f"fig3-half-the-samples-{task}",
        f"On {TASKS[task].title} the compared methods need more than twice the samples of Greedy-Step DQN to converge "
        "to its level.",
        WHERE,
        "more than 2 times",
        said,
        verdict,
    )


def sooner(ours: Evidence, theirs: Evidence, level: float) -> Interval:
    """How many times the steps of Greedy-Step the other needs; at least, where it never gets there."""
    times = times_faster(ours.steps, ours.returns, theirs.steps, theirs.returns, level, "mean", resamples=2_000)
    return Interval(*map(np.asarray, (times.at_least, times.low, times.high)))


def _converged(ours: Evidence) -> float:
    first = ours.returns[:, np.isfinite(ours.returns).all(axis=0)][:, 0].mean()
    return float(first + LEARNED * (ours.final.mean() - first))


def _steps(ours: Evidence, level: float) -> str:
    reached = ours.steps[ours.returns.mean(axis=0) >= level]
    return f"{reached[0]:,}" if len(reached) else "never"


def sooner_at_first(found: Found) -> Claim:
    """On every task there is, however short: the mean height of the whole curve against DQN's, its interval above 0."""
    gaps = {
        task: lead(found[task, GREEDY].height(), found[task, "dqn"].height())
        for task in TASKS
        if (task, GREEDY) in found and (task, "dqn") in found
    }
    said = "; ".join(
        f"{TASKS[task].title} over {found[task, GREEDY].steps[-1]:,} steps: {words(gap)}" for task, gap in gaps.items()
    )
    return Claim(
        "fig3-sooner-than-dqn",
        "Greedy-Step DQN learns from fewer samples than DQN (measured: how much higher its mean return is over the "
        "steps of the training).",
        WHERE,
        "more than 0",
        said or "not trained",
        together(above(gap, 0) for gap in gaps.values()),
    )


# -- time -------------------------------------------------------------------------------------------------------------


def equal_time(found: Found) -> Claim:
    """Confirmed: at most 1.25 times DQN's time on every task; refuted: more on every task.

    Trainings that shared a processor with others are told, but judge nothing: their times are chance.
    """
    pairs = {
        task: (found[task, "dqn"], found[task, GREEDY])
        for task in TASKS
        if (task, GREEDY) in found and (task, "dqn") in found
    }
    times = {
        task: theirs.speed / ours.speed
        for task, (theirs, ours) in pairs.items()
        if max(one.about.get("side_by_side", 1) for one in (theirs, ours)) == 1
    }
    said = [
        f"{TASKS[task].title}: {one:.2f} times with {_networks(found[task, GREEDY])} networks"
        for task, one in times.items()
    ]
    said += [f"{TASKS[task].title}: trained beside others, so not timed" for task in pairs if task not in times]
    verdicts: list[Verdict] = ["confirmed" if one <= ALMOST_EQUAL else "refuted" for one in times.values()]
    return Claim(
        "fig3-equal-time",
        "Greedy-Step DQN needs almost the same training time as DQN.",
        "Section 4.1, computation complexity",
        "almost 1 times",
        "; ".join(said) or "not trained",
        together(verdicts),
    )


def _networks(ours: Evidence) -> int:
    return ours.about.get("setting", {}).get("ensemble", 1)

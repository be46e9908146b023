"""The paper's claims about the rewards of Figure 3, and the rules that judge them.

A final level is the mean return of the last 100 training episodes; intervals are 95 % bootstrap intervals over seeds.
"The best of the compared methods" is the one of the paper's four baselines with the highest mean final level.

Written before any run. Changed after the first quick runs, none of which was long enough for them, and before any run
of the full length: where nobody has learned, "times" mean nothing and are untested.
"""

from __future__ import annotations

from greedystep.experiments.claims import NOT_KNOWN, Claim, Verdict
from greedystep.experiments.deep import published, reasons, samples, standing
from greedystep.experiments.deep.evidence import Evidence
from greedystep.experiments.deep.methods import BASELINES, GREEDY, METHODS
from greedystep.experiments.deep.rules import (
    Found,
    Judged,
    above,
    below,
    best_baseline,
    lead,
    missing,
    where_trained,
    words,
)
from greedystep.experiments.deep.rules import reasons as by_task
from greedystep.experiments.deep.samples import WHERE
from greedystep.experiments.deep.tasks import TASKS
from greedystep.stats import ratio

TWICE = ("breakout", "seaquest", "space-invaders")
SOONER = samples.TASKS_NAMED
WORSE = "pixelcopter"

ALMOST_TWICE = 1.5
ALMOST_ALL, HALF = 0.8, 0.5


def claims(found: Found) -> list[Claim]:
    return [
        outperforms(found),
        *(twice(found, task) for task in TWICE),
        worse(found),
        *samples.claims(found),
        *standing.claims(found),
        *published.claims(found),
    ]


# -- reward -----------------------------------------------------------------------------------------------------------


def twice(found: Found, task: str) -> Claim:
    """Almost twice: the interval of the ratio lies above 1.5; refuted: below.

    "Times" needs a score that is not chance: untested where neither Greedy-Step nor the best baseline ends higher than
    it began. Where the baseline's mean may be zero or less, the interval is open (`stats.ratio`).
    """

    def judge() -> Judged:
        best = best_baseline(found, task)
        times = ratio(found[task, GREEDY].final, found[task, best].final, "mean")
        said = f"{words(times)} times the reward of {METHODS[best].label}"
        nobody = reasons.nobody_learned(found, task, (GREEDY, best))
        if nobody:
            return Judged("untested", f"{said}, but {nobody}")
        return Judged(above(times, ALMOST_TWICE), said, reasons.behind(found, task, best))

    judged = where_trained(found, task, judge)
    return judged.claim(
        f"fig3-twice-{task}",
        f"On {TASKS[task].title} Greedy-Step DQN gets almost twice the reward of the best of the compared methods.",
        WHERE,
        "almost 2 times",
    )


def worse(found: Found) -> Claim:
    """Confirmed: the difference to the best baseline lies below 0; refuted: above."""

    def judge() -> Judged:
        best = best_baseline(found, WORSE)
        gap = lead(found[WORSE, GREEDY].final, found[WORSE, best].final)
        return Judged(below(gap, 0), f"{words(gap)} more reward than {METHODS[best].label}")

    judged = where_trained(found, WORSE, judge)
    return judged.claim(
        "fig3-not-pixelcopter",
        "On Pixelcopter Greedy-Step DQN does not outperform the compared methods.",
        WHERE,
        "lower than the best of them",
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
    lost = {task: method for (task, method), ahead in reversed(won.items()) if not ahead}
    why = by_task({task: reasons.behind(found, task, rival) for task, rival in lost.items()})
    judged = Judged(verdict, said, why or NOT_KNOWN)
    return judged.claim(
        "fig3-outperforms",
        "Greedy-Step DQN outperforms almost all compared methods in reward and sample efficiency on almost all tasks "
        "except Pixelcopter.",
        WHERE,
        "almost all",
    )


def _wins(ours: Evidence, theirs: Evidence) -> bool:
    return above(lead(ours.height(), theirs.height()), 0) == "confirmed" and (
        above(lead(ours.final, theirs.final), 0) != "refuted"
    )

"""The paper's claims about its toy tasks: what is claimed, the rule that judges it, and why it failed.

A rule's docstring says when the claim is confirmed, partly confirmed or refuted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata

from greedystep.experiments.claims import NOT_KNOWN, Claim, Outcome, Verdict, judges, together, verdict_of_parts
from greedystep.experiments.fig2.delayed import EPSILON, METHODS, PAPER_BASELINES, PUBLISHED, published
from greedystep.experiments.fig2.grid_world import OFFLINE_METHODS, Q_LEARNING

Row = dict[str, Any]
Numbers = dict[str, list[Row]]
TASKS = ("choice", "trace-back")
rule = partial(judges, where="Section 6.1, Figure 2")

TWENTY = (10, 40)
"""Range of medians that counts as "about 20" episodes: within a factor of two."""
FLAT = 0.5
"""Largest exponent of episodes ~ delay^exponent that counts as no visible growth."""
EXPLAINED = 1.1
"""Exploration explains a median if it is at most this many times the episodes until the best return is first seen."""
TWICE = 2.0
NOTHING_LEARNED = 0.25
"""Quality (1 is optimal) below which next to nothing was learned."""
MONOTONE, WIDER = 0.8, 0.1
"""A gap grows with the size if their rank correlation is at least the first, and its increase at least the second."""
RESAMPLES = 1000
"""Number of bootstrap resamples for the interval of the growth exponent."""


def claims(numbers: Numbers) -> list[Claim]:
    """Judge every claim whose numbers are complete; return the claims."""
    rules: dict[Callable[[Numbers], Claim], tuple[str, ...]] = {
        about_twenty: ("trace-back", "exploration"),
        no_growth: TASKS,
        steep_growth: ("trace-back",),
        more_than_thousand: ("trace-back",),
        outperforms: TASKS,
        looking_ahead: TASKS,
        wider_gap: ("offline",),
        like_published: ("trace-back",),
    }
    return [judge(numbers) for judge, needed in rules.items() if all(numbers[part] for part in needed)]


def rows_of(numbers: Numbers, task: str, method: str) -> list[Row]:
    """Return the rows of a method, one per delay."""
    return [row for row in numbers[task] if row["method"] == method]


def medians(rows: Iterable[Row], what: str = "solved") -> list[float | None]:
    """Return the median episodes to solve, one per delay, or until the best return is first seen ("seen")."""
    return [row[what]["median"] for row in rows]


def by_exploration_alone(row: Row) -> bool | None:
    """Return whether exploration alone explains the median episodes to solve (EXPLAINED); None if unknown."""
    solved, seen = row["solved"]["median"], row["seen"]["median"]
    return None if solved is None or seen is None else solved <= EXPLAINED * seen


# -- episodes ---------------------------------------------------------------------------------------------------------


@rule("fig2-twenty-episodes", "Greedy-Step Q-learning solves Trace Back in about 20 episodes, whatever the delay.", 20)
def about_twenty(numbers: Numbers) -> Outcome:
    """Confirmed: a median of 10 to 40 episodes at every delay with the common exploration; partly: with another ε."""
    rows = [*rows_of(numbers, "trace-back", "greedy-step"), *numbers["exploration"]]
    by_epsilon = {
        epsilon: medians(row for row in rows if row["epsilon"] == epsilon)
        for epsilon in sorted({EPSILON, *(row["epsilon"] for row in rows)}, reverse=True)
    }
    near = {
        epsilon: all(median is not None and TWENTY[0] <= median <= TWENTY[1] for median in found)
        for epsilon, found in by_epsilon.items()
    }
    said, why = "; ".join(f"{_range(found)} with ε = {epsilon:g}" for epsilon, found in by_epsilon.items()), NOT_KNOWN
    if all(by_exploration_alone(row) for row in rows):
        said += "; exploration alone explains all of these: it is solved when the best return is first seen"
        why = "how soon the best return is seen depends on the share of random actions (fig2)"
    brief = f"{_range([median for found in by_epsilon.values() for median in found])} episodes"
    return Outcome("confirmed" if near[EPSILON] else "partly" if any(near.values()) else "refuted", said, why, brief)


@rule("fig2-no-growth", "The episodes Greedy-Step Q-learning needs do not visibly grow with the delay.", "no growth")
def no_growth(numbers: Numbers) -> Outcome:
    """Confirmed: on both tasks the 95 % CI of the exponent of episodes ~ delay^exponent lies below 0.5.

    Refuted where it lies above, undecided where it contains 0.5.
    """
    found = {task: growth(rows_of(numbers, task, "greedy-step")) for task in TASKS}
    verdicts: set[Verdict] = {
        "untested"
        if one is None
        else "undecided"
        if one.low <= FLAT <= one.high
        else "confirmed"
        if one.high < FLAT
        else "refuted"
        for one in found.values()
    }
    verdict = "untested" if "untested" in verdicts else together(verdicts)
    return Outcome(verdict, "; ".join(f"{task}: {_power(one)}" for task, one in found.items()), NOT_KNOWN)


@rule(
    "fig2-q-lambda-exponential",
    "Methods such as Q(λ) need exponentially more episodes as the delay grows (measured: Watkins', Trace Back).",
    "exponential",
)
def steep_growth(numbers: Numbers) -> Outcome:
    """Confirmed: episodes grow more than linearly with the delay, and rather exponentially than by a power law.

    Partly: only more than linearly; undecided: the 95 % CI of the power contains 1.
    """
    found = growth(rows_of(numbers, "trace-back", "watkins"))
    if found is None or found.low <= 1 < found.high:
        verdict: Verdict = "untested" if found is None else "undecided"
    else:
        verdict = "refuted" if found.high <= 1 else "confirmed" if found.exponential else "partly"
    theirs = growth(
        [
            {"delay": delay, "limit": median, "solved": {"median": median, "trials": [median]}}
            for delay, median in zip(PUBLISHED["delays"], PUBLISHED["watkins"], strict=True)
            if median is not None
        ]
    )
    assert theirs is not None
    return Outcome(
        verdict,
        f"{_power(found)}, {_shape(found)}; the medians published for RUDDER's Task III: {theirs.exponent:.2f}, "
        f"{_shape(theirs)}",
        NOT_KNOWN if theirs.exponential else "the published medians grow like a power too",
    )


@rule(
    "fig2-rudder-thousand",
    "RUDDER, the best of the other methods, needs more than 1000 episodes on Trace Back.",
    "more than 1000",
)
def more_than_thousand(numbers: Numbers) -> Outcome:
    """Confirmed: more than 1000 episodes at every delay; partly: at some; refuted: at none."""
    rows = rows_of(numbers, "trace-back", "rudder")
    ours, theirs = medians(rows), [published("rudder", row["delay"]) for row in rows]
    fewer = any(median is not None and median <= 1000 for median in theirs)
    return Outcome(
        verdict_of_parts(median is None or median > 1000 for median in ours),
        f"{_range(ours)} (our reconstruction); RUDDER's authors published {_range(theirs)} at these delays",
        "RUDDER's authors published fewer at short delays" if fewer else NOT_KNOWN,
    )


# -- growth with the delay --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """Fit of episodes ~ delay^exponent."""

    exponent: float
    low: float
    high: float
    """Ends of the 95 % bootstrap interval of the exponent, trials resampled within each delay."""
    exponential: bool
    """Whether log(episodes) is closer to linear in the delay than in its logarithm."""


def growth(rows: Sequence[Row]) -> Growth | None:
    """Fit the medians of a method's rows, one per delay; None for fewer than three delays or an unknown median."""
    delays, found = np.array([row["delay"] for row in rows], float), medians(rows)
    if len(delays) < 3 or None in found:
        return None
    random = np.random.default_rng(0)
    drawn = []
    for row in rows:
        trials = np.array([row["limit"] if one is None else one for one in row["solved"]["trials"]], float)
        drawn.append(np.median(random.choice(trials, (RESAMPLES, len(trials))), axis=1))
    logs = np.log(np.array(found, float))
    power, power_left = _line(np.log(delays), logs)
    _, exponential_left = _line(delays, logs)
    resampled, _ = _line(np.log(delays), np.log(np.array(drawn)))
    low, high = np.quantile(resampled, (0.025, 0.975))
    return Growth(float(power), float(low), float(high), bool(exponential_left < power_left))


def _line(x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Return slope and sum of squared residuals of the least-squares line through y [points] or [points, many]."""
    centred, about = x - x.mean(), y - y.mean(axis=0)
    slope = centred @ about / (centred @ centred)
    return slope, ((about - np.multiply.outer(centred, slope)) ** 2).sum(axis=0)


# -- comparisons ------------------------------------------------------------------------------------------------------


@rule(
    "fig2-outperforms",
    "On Choice and Trace Back Greedy-Step outperforms RUDDER and the eligibility-trace methods.",
    "all of them, on both tasks",
)
def outperforms(numbers: Numbers) -> Outcome:
    """Confirmed if on both tasks, partly if on one, Greedy-Step has a smaller median at every delay than every method
    that the paper names."""
    wins, said, at_once = [], [], []
    for task in TASKS:
        rows = rows_of(numbers, task, "greedy-step")
        ours = medians(rows)
        not_beaten = [
            METHODS[method].label
            for method in PAPER_BASELINES
            if not all(map(_less, ours, medians(rows_of(numbers, task, method))))
        ]
        wins.append(not not_beaten)
        if not_beaten and ours == medians(rows, "seen"):
            at_once.append(task)
        said.append(
            f"{task}: {_range(ours)} episodes, "
            + (f"not fewer than {', '.join(not_beaten)} at every delay" if not_beaten else "fewer than all of them")
        )
    why = NOT_KNOWN
    if at_once:
        why = f"{' and '.join(at_once)}: it is solved when the best return is first seen; nobody can be sooner (fig2)"
    return Outcome(verdict_of_parts(wins), "; ".join(said), why)


@rule(
    "fig2-because-of-looking-ahead",
    "The speed comes from looking ahead to the end of the game.",
    "the multi-step operator",
)
def looking_ahead(numbers: Numbers) -> Outcome:
    """Refuted: one-step backups from the end of each episode need no more episodes (1.1 times); confirmed: twice as
    many."""
    both = [
        (ours["solved"], theirs["solved"])
        for task in TASKS
        for ours, theirs in zip(*(rows_of(numbers, task, name) for name in ("greedy-step", "backward")), strict=True)
    ]
    ratios = [
        np.inf if theirs["median"] is None else theirs["median"] / ours["median"]
        for ours, theirs in both
        if ours["median"] is not None
    ]
    same = [a == b for ours, theirs in both for a, b in zip(ours["trials"], theirs["trials"], strict=True)]
    if not ratios:
        verdict: Verdict = "untested"
    else:
        verdict = "refuted" if max(ratios) <= EXPLAINED else "confirmed" if min(ratios) >= TWICE else "partly"
    return Outcome(
        verdict,
        f"one-step Q-learning that replays each episode backwards needs {_range(ratios, '.2g')} times the episodes; "
        f"{sum(same)} of {len(same)} trials with the same seed end in the same episode",
        "one pass from the end of an episode carries its reward as far as the operator does (fig2)",
        "as many episodes" if set(ratios) == {1.0} else f"{_range(ratios, '.2g')} times the episodes",
    )


@rule(
    "fig2-grid-gap",
    "Offline on Grid World the gap between Greedy-Step and Q-learning grows with the size of the grid.",
    "grows",
    where="Section 6.1, offline setting, Figure 2 (c)",
)
def wider_gap(numbers: Numbers) -> Outcome:
    """Confirmed if for every kind of Q-learning, partly if for some, its gap to Greedy-Step in mean quality after one
    pass grows with the size: a rank correlation of 0.8 or more, and a gap wider by more than 0.1."""
    sizes = sorted({row["size"] for row in numbers["offline"]})
    mean = {(row["size"], row["method"]): row["mean_quality"] for row in numbers["offline"]}
    wins, said, nothing, later = [], [], [], sizes[1:]
    for rival in (*Q_LEARNING, "backward"):
        gaps = [mean[size, "greedy-step"] - mean[size, rival] for size in sizes]
        if rival in Q_LEARNING:
            wins.append(_rises(sizes, gaps))
            if not wins[-1] and later and max(mean[size, rival] for size in later) < NOTHING_LEARNED:
                nothing.append(OFFLINE_METHODS[rival].label)
        first, last, widest = (f"{round(gap, 2) + 0.0:.2f}" for gap in (gaps[0], gaps[-1], max(gaps)))
        said.append(f"{OFFLINE_METHODS[rival].label}: {first} to {last}, widest {widest}")
    why = NOT_KNOWN
    if nothing:
        why = f"{' and '.join(nothing)}: next to nothing is learned from size {later[0]} on, so no gap can grow (fig2)"
    measured = f"gap in quality at size {sizes[0]} and {sizes[-1]} after one pass: " + "; ".join(said)
    return Outcome(verdict_of_parts(wins), measured, why)


def _rises(sizes: list[int], gaps: list[float]) -> bool:
    if len(sizes) < 3 or np.ptp(gaps) == 0:
        return False
    correlation = np.corrcoef(rankdata(sizes), rankdata(gaps))[0, 1]
    return bool(correlation >= MONOTONE and gaps[-1] - gaps[0] > WIDER)


@rule(
    "fig2-like-published",
    "Our RUDDER, Q(λ) and SARSA(λ) need about as many episodes on Trace Back as published for RUDDER's Task III.",
    "1 times",
    where="RUDDER's poster (ml-jku/rudder), Task III; a check of our baselines",
)
def like_published(numbers: Numbers) -> Outcome:
    """Confirmed if every method's median is within a factor of two of the published one at two delays or more, partly
    if some are."""
    said, wins = [], []
    for method in ("rudder", "watkins", "sarsa-lambda"):
        ratios = [
            row["solved"]["median"] / theirs
            for row in rows_of(numbers, "trace-back", method)
            if (theirs := published(method, row["delay"])) and row["solved"]["median"] is not None
        ]
        close, times = sum(1 / TWICE <= ratio <= TWICE for ratio in ratios), _range(ratios, ".2g")
        wins.append(close >= 2)
        said.append(f"{METHODS[method].label}: {times} times, within 2 at {close} of {len(ratios)} delays")
    return Outcome(verdict_of_parts(wins), "; ".join(said), NOT_KNOWN)


# -- formatting --------------------------------------------------------------------------------------------------------


def _less(ours: float | None, theirs: float | None) -> bool:
    return ours is not None and (theirs is None or ours < theirs)


def _range(numbers: Sequence[float | None], digits: str = ",.4g") -> str:
    known = [number for number in numbers if number is not None]
    if not known:
        return "unknown"
    low, high = (f"{end:{digits}}" for end in (min(known), max(known)))
    return (low if low == high else f"{low} to {high}") + (" or more" if None in numbers else "")


def _power(found: Growth | None) -> str:
    if found is None:
        return "not known"
    return f"delay to the power {found.exponent:.2f} ({found.low:.2f} to {found.high:.2f})"


def _shape(found: Growth | None) -> str:
    if found is None:
        return "of unknown shape"
    return "nearer to an exponential" if found.exponential else "nearer to a power of the delay"

"""The paper's claims about its toy tasks: what is claimed, the rule that judges it, and why it failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from greedystep.experiments.claims import NOT_KNOWN, Claim, Verdict, judged, verdict_of_parts
from greedystep.experiments.fig2.grid_world import OFFLINE_METHODS, Q_LEARNING
from greedystep.experiments.fig2.toy_methods import EPSILON, METHODS, PAPER_BASELINES, PUBLISHED, published

TASKS = ("choice", "trace-back")
WHERE = "Section 6.1, Figure 2"

TWENTY = (10, 40)
"""Range of medians that counts as about 20: within a factor of two."""
FLAT = 0.5
"""Largest exponent of the delay that counts as no visible growth."""
EXPLAINED = 1.1
"""Largest ratio of episodes to solve over episodes until the best return is first seen that exploration explains."""
TWICE = 2.0
NOTHING_LEARNED = 0.25
"""Quality below which next to nothing was learned; 1 is optimal."""
MONOTONE, WIDER = 0.8, 0.1
"""A gap grows with the size if their rank correlation is at least the first number and it widens by the second."""
RESAMPLES = 1000
"""Bootstrap resamples of the growth exponent."""


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """Judge every claim whose numbers are complete."""
    rules = {
        about_twenty: ("trace-back", "exploration"),
        no_growth: TASKS,
        steep_growth: ("trace-back",),
        more_than_thousand: ("trace-back",),
        outperforms: TASKS,
        looking_ahead: TASKS,
        wider_gap: ("offline",),
        like_published: ("trace-back",),
    }
    return [rule(numbers) for rule, needed in rules.items() if all(numbers[part] for part in needed)]


def rows_of(numbers: dict[str, Any], task: str, method: str) -> list[dict[str, Any]]:
    """Return the rows of a method, one per delay."""
    return [row for row in numbers[task] if row["method"] == method]


def medians_of(numbers: dict[str, Any], task: str, method: str) -> list[float | None]:
    """Return the median episodes to solve, one per delay."""
    return [row["solved"]["median"] for row in rows_of(numbers, task, method)]


def by_exploration_alone(row: dict[str, Any]) -> bool | None:
    """Return whether exploration alone explains the median episodes to solve; None if they are not known."""
    solved, seen = row["solved"]["median"], row["seen"]["median"]
    return None if solved is None or seen is None else solved <= EXPLAINED * seen


# -- episodes ---------------------------------------------------------------------------------------------------------


def about_twenty(numbers: dict[str, Any]) -> Claim:
    """Confirmed: within a factor of two at every delay with the common exploration; partly: with another one."""
    by_epsilon: dict[float, list[dict[str, Any]]] = {EPSILON: rows_of(numbers, "trace-back", "greedy-step")}
    for row in numbers["exploration"]:
        by_epsilon.setdefault(row["epsilon"], []).append(row)
    near = {epsilon: all(_near_twenty(row) for row in rows) for epsilon, rows in by_epsilon.items()}
    said = "; ".join(
        f"{_range([row['solved']['median'] for row in rows])} with ε = {epsilon:g}"
        for epsilon, rows in sorted(by_epsilon.items(), reverse=True)
    )
    rows = [row for rows in by_epsilon.values() for row in rows]
    why = NOT_KNOWN
    if all(by_exploration_alone(row) for row in rows):
        said += "; exploration alone explains all of these: it is solved when the best return is first seen"
        why = "how soon the best return is seen depends on the share of random actions (fig2)"
    verdict: Verdict = "confirmed" if near[EPSILON] else "partly" if any(near.values()) else "refuted"
    return judged(
        "fig2-twenty-episodes",
        "Greedy-Step Q-learning solves Trace Back in about 20 episodes, whatever the delay.",
        WHERE,
        20,
        said,
        verdict,
        why,
    )


def _near_twenty(row: dict[str, Any]) -> bool:
    median = row["solved"]["median"]
    return median is not None and TWENTY[0] <= median <= TWENTY[1]


def no_growth(numbers: dict[str, Any]) -> Claim:
    """Confirmed: on both tasks the 95 % interval of the exponent lies below FLAT; untested where it covers FLAT."""
    found = {task: growth(rows_of(numbers, task, "greedy-step")) for task in TASKS}
    kinds = {_kind(one) for one in found.values()}
    verdict: Verdict
    if kinds == {"flat"}:
        verdict = "confirmed"
    elif kinds == {"grows"}:
        verdict = "refuted"
    else:
        verdict = "untested" if "unclear" in kinds else "partly"
    return judged(
        "fig2-no-growth",
        "The episodes Greedy-Step Q-learning needs do not visibly grow with the delay.",
        WHERE,
        "no growth",
        "; ".join(f"{task}: {_power(one)}" for task, one in found.items()),
        verdict,
    )


def _kind(found: Growth | None) -> str:
    if found is None:
        return "unclear"
    return "flat" if found.high < FLAT else "grows" if found.low > FLAT else "unclear"


def steep_growth(numbers: dict[str, Any]) -> Claim:
    """Confirmed: steeper than linear and nearer to an exponential than to a power; partly: only steeper than linear."""
    found = growth(rows_of(numbers, "trace-back", "watkins"))
    verdict: Verdict
    if found is None or found.low <= 1 < found.high:
        verdict = "untested"
    elif found.high <= 1:
        verdict = "refuted"
    else:
        verdict = "confirmed" if found.exponential else "partly"
    theirs = growth(
        [
            {"delay": delay, "limit": median, "solved": {"median": median, "trials": [median]}}
            for delay, median in zip(PUBLISHED["delays"], PUBLISHED["watkins"], strict=True)
            if median is not None
        ]
    )
    return judged(
        "fig2-q-lambda-exponential",
        "Methods such as Q(λ) need exponentially more episodes as the delay grows (measured: Watkins', Trace Back).",
        WHERE,
        "exponential",
        f"{_power(found)}, {_shape(found)}; the medians published for RUDDER's Task III: "
        + ("unknown" if theirs is None else f"{theirs.exponent:.2f}, {_shape(theirs)}"),
        verdict,
        "the published medians grow like a power too" if theirs and not theirs.exponential else NOT_KNOWN,
    )


def _shape(found: Growth | None) -> str:
    if found is None:
        return "of unknown shape"
    return "nearer to an exponential" if found.exponential else "nearer to a power of the delay"


def more_than_thousand(numbers: dict[str, Any]) -> Claim:
    """Confirmed: at every delay; partly: at some; refuted: at none."""
    rows = rows_of(numbers, "trace-back", "rudder")
    medians = [row["solved"]["median"] for row in rows]
    above = [median is None or median > 1000 for median in medians]
    theirs = [published("rudder", row["delay"]) for row in rows]
    verdict = verdict_of_parts(above)
    fewer = any(median is not None and median <= 1000 for median in theirs)
    return judged(
        "fig2-rudder-thousand",
        "RUDDER, the best of the other methods, needs more than 1000 episodes on Trace Back.",
        WHERE,
        "more than 1000",
        f"{_range(medians)} (our reconstruction); RUDDER's authors published {_range(theirs)} at these delays",
        verdict,
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


def growth(rows: Sequence[dict[str, Any]]) -> Growth | None:
    """Fit the medians of these rows, one per delay; None for fewer than three delays or an unknown median."""
    delays = np.array([row["delay"] for row in rows], float)
    medians = [row["solved"]["median"] for row in rows]
    if len(delays) < 3 or any(median is None for median in medians):
        return None
    random = np.random.default_rng(0)
    drawn = []
    for row in rows:
        trials = np.array([row["limit"] if one is None else one for one in row["solved"]["trials"]], float)
        drawn.append(np.median(random.choice(trials, (RESAMPLES, len(trials))), axis=1))
    logs = np.log(np.array(medians, float))
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


def outperforms(numbers: dict[str, Any]) -> Claim:
    """One part per task: at every delay a smaller median than every method that the paper names."""
    wins, said, at_once = [], [], []
    for task in TASKS:
        ours = medians_of(numbers, task, "greedy-step")
        rivals = {method: medians_of(numbers, task, method) for method in PAPER_BASELINES}
        not_beaten = [
            METHODS[method].label
            for method, theirs in rivals.items()
            if not all(_less(a, b) for a, b in zip(ours, theirs, strict=True))
        ]
        wins.append(not not_beaten)
        if not_beaten and ours == [row["seen"]["median"] for row in rows_of(numbers, task, "greedy-step")]:
            at_once.append(task)
        said.append(
            f"{task}: {_range(ours)} episodes, "
            + (f"not fewer than {', '.join(not_beaten)} at every delay" if not_beaten else "fewer than all of them")
        )
    why = NOT_KNOWN
    if at_once:
        why = f"{' and '.join(at_once)}: it is solved when the best return is first seen; nobody can be sooner (fig2)"
    return judged(
        "fig2-outperforms",
        "On Choice and Trace Back Greedy-Step outperforms RUDDER and the eligibility-trace methods.",
        WHERE,
        "all of them, on both tasks",
        "; ".join(said),
        verdict_of_parts(wins),
        why,
    )


def looking_ahead(numbers: dict[str, Any]) -> Claim:
    """Refuted: one-step backups from the end of each episode need no more; confirmed: at least twice as many."""
    ratios = [
        np.inf if theirs is None else theirs / ours
        for task in TASKS
        for ours, theirs in zip(
            medians_of(numbers, task, "greedy-step"), medians_of(numbers, task, "backward"), strict=True
        )
        if ours is not None
    ]
    pairs = [
        (a, b)
        for task in TASKS
        for ours, theirs in zip(rows_of(numbers, task, "greedy-step"), rows_of(numbers, task, "backward"), strict=True)
        for a, b in zip(ours["solved"]["trials"], theirs["solved"]["trials"], strict=True)
    ]
    verdict: Verdict
    if not ratios:
        verdict = "untested"
    elif max(ratios) <= EXPLAINED:
        verdict = "refuted"
    else:
        verdict = "confirmed" if min(ratios) >= TWICE else "partly"
    return judged(
        "fig2-because-of-looking-ahead",
        "The speed comes from looking ahead to the end of the game.",
        WHERE,
        "the multi-step operator",
        f"one-step Q-learning that replays each episode backwards needs {_factor(ratios)} times the episodes; "
        f"{sum(a == b for a, b in pairs)} of {len(pairs)} trials with the same seed end in the same episode",
        verdict,
        "one pass from the end of an episode carries its reward as far as the operator does (fig2)",
    )


def wider_gap(numbers: dict[str, Any]) -> Claim:
    """One part per kind of Q-learning: its gap to Greedy-Step in mean quality after one pass grows with the size."""
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
    return judged(
        "fig2-grid-gap",
        "Offline on Grid World the gap between Greedy-Step and Q-learning grows with the size of the grid.",
        "Section 6.1, offline setting, Figure 2 (c)",
        "grows",
        f"gap in quality at size {sizes[0]} and {sizes[-1]} after one pass: " + "; ".join(said),
        verdict_of_parts(wins),
        why,
    )


def _rises(sizes: list[int], gaps: list[float]) -> bool:
    if len(sizes) < 3 or np.ptp(gaps) == 0:
        return False
    correlation = np.corrcoef(rankdata(sizes), rankdata(gaps))[0, 1]
    return bool(correlation >= MONOTONE and gaps[-1] - gaps[0] > WIDER)


def like_published(numbers: dict[str, Any]) -> Claim:
    """One part per method: within a factor of two of the published median at two delays or more."""
    said, wins = [], []
    for method in ("rudder", "watkins", "sarsa-lambda"):
        ratios = [
            row["solved"]["median"] / theirs
            for row in rows_of(numbers, "trace-back", method)
            if (theirs := published(method, row["delay"])) and row["solved"]["median"] is not None
        ]
        close = sum(1 / TWICE <= ratio <= TWICE for ratio in ratios)
        wins.append(close >= 2)
        said.append(f"{METHODS[method].label}: {_factor(ratios)} times, within 2 at {close} of {len(ratios)} delays")
    return judged(
        "fig2-like-published",
        "Our RUDDER, Q(λ) and SARSA(λ) need about as many episodes on Trace Back as published for RUDDER's Task III.",
        "RUDDER's poster (ml-jku/rudder), Task III; a check of our baselines",
        "1 times",
        "; ".join(said),
        verdict_of_parts(wins),
    )


# -- formatting --------------------------------------------------------------------------------------------------------


def _less(ours: float | None, theirs: float | None) -> bool:
    return ours is not None and (theirs is None or ours < theirs)


def _range(numbers: list[Any]) -> str:
    known = [number for number in numbers if number is not None]
    if not known:
        return "unknown"
    low, high = f"{min(known):,.4g}", f"{max(known):,.4g}"
    return (low if low == high else f"{low} to {high}") + (" or more" if None in numbers else "")


def _factor(ratios: list[float]) -> str:
    if not ratios:
        return "unknown"
    low, high = f"{min(ratios):.2g}", f"{max(ratios):.2g}"
    return low if low == high else f"{low} to {high}"


def _power(found: Growth | None) -> str:
    if found is None:
        return "not known"
    return f"delay to the power {found.exponent:.2f} ({found.low:.2f} to {found.high:.2f})"

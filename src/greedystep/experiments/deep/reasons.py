"""Why Greedy-Step DQN may fail to lead: only what the same trainings measured, with the experiment that shows it alone.

Each function answers with sentences; no sentence means that what was measured does not explain it.
"""

from __future__ import annotations

from greedystep.experiments.deep.evidence import Evidence
from greedystep.experiments.deep.methods import GREEDY, METHODS
from greedystep.experiments.deep.rules import Found, above, below, lead, learned, words
from greedystep.stats import interval


def behind(found: Found, task: str, rival: str) -> str:
    """Why it does not lead a rival on a task by as much as claimed; empty if nothing measured tells."""
    ours, theirs = found[task, GREEDY], found[task, rival]
    return "; ".join([*diverged(ours), *too_high(ours, theirs, rival), *too_low(ours), *any_steps(found, task, rival)])


def diverged(ours: Evidence) -> list[str]:
    seeds = ours.about.get("diverged", [])
    return [f"the loss of {len(seeds)} of its {len(ours.returns)} seeds was not finite (fig3)"] if seeds else []


def too_high(ours: Evidence, theirs: Evidence, rival: str) -> list[str]:
    """It over-estimates for certain, and more than the rival for certain."""
    mine, other = (one.at_end(one.overestimation) for one in (ours, theirs))
    if above(interval(mine, "mean"), 0) != "confirmed" or above(lead(mine, other), 0) != "confirmed":
        return []
    return [
        f"its Q exceeds the returns that followed by {words(interval(mine, 'mean'))}, that of {METHODS[rival].label} "
        f"by {words(interval(other, 'mean'))} (over-estimation: "
        "horizon-overestimation; how much of it is luck: luck-for-skill)"
    ]


def too_low(ours: Evidence) -> list[str]:
    """Several networks, whose minimum lies below the returns for certain."""
    mine, number = interval(ours.at_end(ours.overestimation), "mean"), ours.about.get("setting", {}).get("ensemble", 1)
    if number == 1 or below(mine, 0) != "confirmed":
        return []
    return [f"with {number} networks Q minus the returns that followed is {words(mine)}: too pessimistic (fig4-better)"]


def any_steps(found: Found, task: str, rival: str) -> list[str]:
    """The rival looks several steps ahead without choosing how many, and that alone beats DQN for certain."""
    if rival not in ("multi-step", "sarsa") or (task, "dqn") not in found:
        return []
    gap = lead(found[task, rival].height(), found[task, "dqn"].height())
    if above(gap, 0) != "confirmed":
        return []
    return [
        f"{METHODS[rival].label} looks ahead too, without choosing how far, and its mean return is already "
        f"{words(gap)} above DQN's (fig3): several steps gain much without the choice"
    ]


def nobody_learned(found: Found, task: str, methods: tuple[str, ...]) -> str | None:
    """A sentence if no method ends higher than it began for certain."""
    return None if any(learned(found[task, method]) for method in methods) else "no method has learned here"

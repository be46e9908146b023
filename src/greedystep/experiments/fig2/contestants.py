"""Who takes part: every method with its settings, and what was published about some of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NAMES = {"trace-back": "Trace Back", "choice": "Choice"}

EPSILON = 0.2
"""One rule of exploration for all: this share of actions is random, the others are greedy, ties broken at random."""

STEP, TRACE = 0.1, 0.9
"""α and λ of every method that has them, where nothing else is said. Tables begin at 0 in Choice and Trace Back."""


@dataclass(frozen=True)
class Contestant:
    """A method as it takes part."""

    label: str
    target: str
    """What a step's value is moved to."""
    order: str
    """In what order the steps of an episode learn."""
    step: str
    """The step size, or that the value is assigned."""
    method: str | None = None
    """Its name in `tabular.METHODS`; RUDDER has none."""
    options: dict[str, Any] = field(default_factory=dict)
    pace: str = "slow"
    """How many trials can be afforded: "fast" needs a hundred episodes or so, "medium" about a thousand."""


CONTESTANTS = {
    "greedy-step": Contestant("Greedy-Step", "best n-step return", "all at once", "max", "greedy-step", pace="fast"),
    "rudder": Contestant("RUDDER", "redistributed return", "all at once", "0.1", pace="medium"),
    "watkins": Contestant("Watkins' Q(λ)", "λ-return, cut", "all at once", "0.1", "watkins"),
    "peng": Contestant("Peng's Q(λ)", "λ-return", "all at once", "0.1", "peng"),
    "sarsa-lambda": Contestant("SARSA(λ)", "λ-return, on-policy", "all at once", "0.1", "sarsa-lambda"),
    "monte-carlo": Contestant("Monte Carlo", "return", "all at once", "0.1", "monte-carlo", pace="medium"),
    "q-learning": Contestant("Q-learning", "one step", "forward", "0.1", "q-learning"),
    "forward": Contestant("Q-learning, α = 1", "one step", "forward", "1", "q-learning", {"alpha": 1.0}),
    "one-step-max": Contestant("Greedy-Step, N = 1", "one step", "all at once", "max", "greedy-step", {"horizon": 1}),
    "backward-slow": Contestant(
        "backward Q-learning, α = 0.1", "one step", "backward", "0.1", "backward-q-learning", {"alpha": STEP}
    ),
    "backward": Contestant("backward Q-learning", "one step", "backward", "1", "backward-q-learning", pace="fast"),
    "episodic-backward": Contestant(
        "Episodic Backward Update", "one step, half mixed", "backward", "1", "episodic-backward", {"alpha": 1.0}
    ),
    "model": Contestant("value iteration on the model", "one step", "until nothing changes", "1", "model", pace="fast"),
}
"""The method of the paper, those it is compared with there, and those that separate the operator from the order."""

NAMED = ("rudder", "watkins", "peng", "sarsa-lambda")
"""What the paper compares with: "traditional eligibility trace methods and RUDDER"."""

PUBLISHED = {
    "delays": [6, 8, 10, 12, 15, 17, 20, 22, 25],
    "rudder": [838, 844, 846, 840, 1140, 748, 699, 698, 628],
    "watkins": [14661, 28292, 42856, 67485, 107113, 134957, 184685, 229052, None],
    "sarsa-lambda": [8818, 23733, 47565, 78535, 137729, 186423, 270999, 339529, 455089],
}
"""Median episodes of 100 trials on Trace Back, read off the vector graphics of RUDDER's poster (ml-jku/rudder)."""


def published(method: str, delay: int) -> int | None:
    """The published median, where there is one."""
    if method not in PUBLISHED or delay not in PUBLISHED["delays"]:
        return None
    return PUBLISHED[method][PUBLISHED["delays"].index(delay)]

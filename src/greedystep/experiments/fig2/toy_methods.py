"""The methods that are compared on Choice and Trace Back, their settings, and published numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TASK_TITLES = {"trace-back": "Trace Back", "choice": "Choice"}

EPSILON = 0.2
"""Share of random actions, the same for all methods; other actions are greedy, ties broken at random."""

STEP, TRACE = 0.1, 0.9
"""Default α and λ of every method that has them. Tables begin at 0 in Choice and Trace Back."""


@dataclass(frozen=True)
class ToyMethod:
    """A method with its settings."""

    label: str
    target: str
    """The update's target."""
    order: str
    """The order in which the steps of an episode are updated."""
    step: str
    """The step size; "max" where the value becomes the maximum of itself and the target."""
    method: str | None = None
    """Its name in `tabular.METHODS`; None for RUDDER."""
    options: dict[str, Any] = field(default_factory=dict)
    pace: str = "slow"
    """Typical episodes to solve, which decide the number of trials: fast, about 100; medium, about 1000; slow, more."""


METHODS = {
    "greedy-step": ToyMethod("Greedy-Step", "best n-step return", "all at once", "max", "greedy-step", pace="fast"),
    "rudder": ToyMethod("RUDDER", "redistributed return", "all at once", "0.1", pace="medium"),
    "watkins": ToyMethod("Watkins' Q(λ)", "λ-return, cut", "all at once", "0.1", "watkins"),
    "peng": ToyMethod("Peng's Q(λ)", "λ-return", "all at once", "0.1", "peng"),
    "sarsa-lambda": ToyMethod("SARSA(λ)", "λ-return, on-policy", "all at once", "0.1", "sarsa-lambda"),
    "monte-carlo": ToyMethod("Monte Carlo", "return", "all at once", "0.1", "monte-carlo", pace="medium"),
    "q-learning": ToyMethod("Q-learning", "one step", "forward", "0.1", "q-learning"),
    "forward": ToyMethod("Q-learning, α = 1", "one step", "forward", "1", "q-learning", {"alpha": 1.0}),
    "one-step-max": ToyMethod("Greedy-Step, N = 1", "one step", "all at once", "max", "greedy-step", {"horizon": 1}),
    "backward-slow": ToyMethod(
        "backward Q-learning, α = 0.1", "one step", "backward", "0.1", "backward-q-learning", {"alpha": STEP}
    ),
    "backward": ToyMethod("backward Q-learning", "one step", "backward", "1", "backward-q-learning", pace="fast"),
    "episodic-backward": ToyMethod(
        "Episodic Backward Update", "one step, half mixed", "backward", "1", "episodic-backward", {"alpha": 1.0}
    ),
    "model": ToyMethod("value iteration on the model", "one step", "until nothing changes", "1", "model", pace="fast"),
}
"""The paper's method, those it is compared with there, and those that separate the operator from the update order."""

PAPER_BASELINES = ("rudder", "watkins", "peng", "sarsa-lambda")
"""What the paper compares with: "traditional eligibility trace methods and RUDDER"."""

NOISE_METHODS = ("greedy-step", "backward", "model", "monte-carlo", "watkins", "rudder")
"""Methods that are run on Choice with noise."""

PUBLISHED = {
    "delays": [6, 8, 10, 12, 15, 17, 20, 22, 25],
    "rudder": [838, 844, 846, 840, 1140, 748, 699, 698, 628],
    "watkins": [14661, 28292, 42856, 67485, 107113, 134957, 184685, 229052, None],
    "sarsa-lambda": [8818, 23733, 47565, 78535, 137729, 186423, 270999, 339529, 455089],
}
"""Median episodes of 100 trials on Trace Back, read off the vector graphics of RUDDER's poster (ml-jku/rudder)."""


def published(method: str, delay: int) -> int | None:
    """Return the published median; None if there is none."""
    if method not in PUBLISHED or delay not in PUBLISHED["delays"]:
        return None
    return PUBLISHED[method][PUBLISHED["delays"].index(delay)]

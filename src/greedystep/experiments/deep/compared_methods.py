"""The ten methods of Figure 3, each with four settings to choose from, so that none is tuned more than the others.

(The paper tried 5 learning rates x 4 ensemble sizes for its own method, 5 x 8 for Maxmin DQN, and 5 rates for DQN.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Rates = tuple[float, float, float, float]
Setting = dict[str, Any]
"""Options of `presets.make_config` that differ from the preset's."""


@dataclass(frozen=True)
class Method:
    """A learning method with its four candidate settings."""

    label: str
    settings: Callable[[Rates], list[Setting]]
    """Learning rates of a task -> four settings; without a choice of settings the first one is used."""
    in_paper: bool = False


def _rates(**fixed: Any) -> Callable[[Rates], list[Setting]]:
    """Try all four learning rates, the second one first."""
    return lambda rates: [fixed | {"learning_rate": rates[i]} for i in (1, 0, 2, 3)]


def _two_by_two(name: str, values: tuple[Any, Any], **fixed: Any) -> Callable[[Rates], list[Setting]]:
    """Try two values of an option, each with the two learning rates in the middle."""
    return lambda rates: [fixed | {name: value, "learning_rate": rate} for value in values for rate in rates[1:3]]


def _lengths(**fixed: Any) -> Callable[[Rates], list[Setting]]:
    """Try n of 3, 5 and 10 with one learning rate, and 3 with another."""
    choices = ((3, 1), (5, 1), (10, 1), (3, 2))
    return lambda rates: [fixed | {"n": n, "learning_rate": rates[i]} for n, i in choices]


METHODS = {
    "dqn": Method("DQN", _rates(returns="one-step"), True),
    "maxmin": Method("Maxmin DQN", _two_by_two("ensemble", (2, 6), returns="one-step"), True),
    "multi-step": Method("Multi-Step DQN", _lengths(returns="n-step"), True),
    "sarsa": Method("Multi-Step SARSA", _lengths(returns="sarsa"), True),
    "greedy-step": Method("Greedy-Step DQN", _two_by_two("ensemble", (6, 2), returns="greedy-step"), True),
    "double": Method("Double DQN", _rates(returns="one-step", double=True)),
    "peng": Method("Peng's Q(λ)", _two_by_two("lambda_", (0.7, 0.5), returns="lambda")),
    "watkins": Method("Watkins' Q(λ)", _two_by_two("lambda_", (1.0, 0.7), returns="watkins")),
    "soft": Method("soft Greedy-Step", _two_by_two("gate", (2.0, 8.0), returns="soft-greedy-step", ensemble=2)),
    "twin": Method("twin Greedy-Step", _two_by_two("ensemble", (2, 6), returns="greedy-step-twin")),
}
PAPER = tuple(name for name, method in METHODS.items() if method.in_paper)
BEYOND = tuple(name for name, method in METHODS.items() if not method.in_paper)
GREEDY = "greedy-step"
BASELINES = tuple(name for name in PAPER if name != GREEDY)
"""The four methods that the paper compares with."""

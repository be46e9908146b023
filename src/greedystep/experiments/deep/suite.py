"""The nine tasks and ten methods of Figure 3: environments, lengths of trainings, and the settings to choose from.

Every method chooses among four settings, so that none is tuned more than the others. (The paper tried 5 learning rates
x 4 ensemble sizes for its own method, 5 x 8 for Maxmin DQN, and 5 rates for DQN.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from greedystep.deep.presets import env_options

Rates = tuple[float, float, float, float]
Setting = dict[str, Any]
"""Options of `presets.make_config` that replace the preset's."""


# -- tasks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A task of Figure 3: environment and options, length of trainings, learning rates to choose from."""

    title: str
    env: str
    steps: int
    """Environment steps of a full training."""
    judged_from: int
    """Trainings with fewer steps are shown, but do not judge claims about final returns."""
    rates: Rates
    """Learning rates, largest first. Methods that also tune an option of their own try the two in the middle."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options for `envs.make` in addition to the preset's."""

    @property
    def env_options(self) -> dict[str, Any]:
        """Return all options for `envs.make`."""
        return env_options(self.env) | self.options


_MINATAR: dict[str, Any] = {"steps": 5_000_000, "judged_from": 1_000_000, "rates": (1e-3, 3e-4, 1e-4, 3e-5)}
_PLE: dict[str, Any] = {"judged_from": 500_000, "rates": (1e-3, 3e-4, 1e-4, 3e-5)}
# Lengths are those of Lan et al. (2020) where they have one (qlan3/Explorer, configs/{minatar,catcher,copter}.json and
# MERL_mc_dqn.json). None is published for Pong, where most methods have not begun to learn after 2M steps. They try
# five learning rates, 3e-3 to 3e-5 on MinAtar, 1e-3 to 1e-5 on PLE.

TASKS = {
    "breakout": Task("Breakout", "minatar/breakout", **_MINATAR),
    # The version before its oxygen gauge was fixed in 1.0.11, which the paper may have used.
    "seaquest": Task("Seaquest", "minatar/seaquest", **_MINATAR, options={"version": "1.0.10"}),
    "space-invaders": Task("Space Invaders", "minatar/space_invaders", **_MINATAR),
    "freeway": Task("Freeway", "minatar/freeway", **_MINATAR),
    "asterix": Task("Asterix", "minatar/asterix", **_MINATAR),
    "pixelcopter": Task("Pixelcopter", "ple/pixelcopter", 2_000_000, **_PLE),
    "pong": Task("Pong", "ple/pong", 5_000_000, **_PLE),
    "catcher": Task("Catcher", "ple/catcher", 3_500_000, **_PLE),
    "mountaincar": Task("MountainCar", "classic/mountaincar", 100_000, 50_000, (3e-3, 1e-3, 3e-4, 1e-4)),
}
FIGURE_3 = tuple(TASKS)
LARGEST_GAINS = ("breakout", "seaquest", "space-invaders")
"""Tasks on which the paper reports the largest gains (almost twice the reward)."""


def steady(task: str) -> str:
    """Return the name of the same task without sticky actions."""
    return f"{task}-steady"


# Both are then deterministic, except for the side on which Breakout's first ball starts.
TASKS |= {
    steady(name): replace(TASKS[name], title=f"{TASKS[name].title} without sticky actions", options={"sticky": 0.0})
    for name in ("breakout", "space-invaders")
}


# -- methods ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """A learning method with its four candidate settings."""

    label: str
    fixed: Setting
    tried: list[tuple[Setting, int]]
    """Candidates: (options, index of a learning rate); the first is used where no setting is chosen."""
    in_paper: bool = False

    def settings(self, rates: Rates) -> list[Setting]:
        """Return the four candidate settings, given the learning rates of a task."""
        return [self.fixed | options | {"learning_rate": rates[i]} for options, i in self.tried]


def _two_by_two(name: str, *values: Any) -> list[tuple[Setting, int]]:
    """Return two values of an option, each with the two learning rates in the middle, as four candidates."""
    return [({name: value}, i) for value in values for i in (1, 2)]


_RATES: list[tuple[Setting, int]] = [({}, i) for i in (1, 0, 2, 3)]
_STEPS: list[tuple[Setting, int]] = [({"n": n}, i) for n, i in ((3, 1), (5, 1), (10, 1), (3, 2))]

METHODS = {
    "dqn": Method("DQN", {"returns": "one-step"}, _RATES, True),
    "maxmin": Method("Maxmin DQN", {"returns": "one-step"}, _two_by_two("ensemble", 2, 6), True),
    "multi-step": Method("Multi-Step DQN", {"returns": "n-step"}, _STEPS, True),
    "sarsa": Method("Multi-Step SARSA", {"returns": "sarsa"}, _STEPS, True),
    "greedy-step": Method("Greedy-Step DQN", {"returns": "greedy-step"}, _two_by_two("ensemble", 6, 2), True),
    "double": Method("Double DQN", {"returns": "one-step", "double": True}, _RATES),
    "peng": Method("Peng's Q(λ)", {"returns": "lambda"}, _two_by_two("lambda_", 0.7, 0.5)),
    "watkins": Method("Watkins' Q(λ)", {"returns": "watkins"}, _two_by_two("lambda_", 1.0, 0.7)),
    "soft": Method("soft Greedy-Step", {"returns": "soft-greedy-step", "ensemble": 2}, _two_by_two("gate", 2.0, 8.0)),
    "twin": Method("twin Greedy-Step", {"returns": "greedy-step-twin"}, _two_by_two("ensemble", 2, 6)),
}
PAPER = tuple(name for name, method in METHODS.items() if method.in_paper)
BEYOND = tuple(name for name in METHODS if name not in PAPER)
GREEDY = "greedy-step"
BASELINES = tuple(name for name in PAPER if name != GREEDY)
"""The four methods that the paper compares with."""


def networks(number: int) -> str:
    """Return "1 network", "2 networks", and so on."""
    return "1 network" if number == 1 else f"{number} networks"

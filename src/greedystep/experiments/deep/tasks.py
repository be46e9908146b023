"""The nine tasks of Figure 3, and two of them without sticky actions: environment, steps, learning rates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from greedystep.deep.presets import env_options


@dataclass(frozen=True)
class Task:
    """An environment with its options, the length of its trainings and the learning rates to choose from."""

    title: str
    env: str
    steps: int
    """Environment steps of a full training."""
    judged_from: int
    """Steps below which a training is shown, but judges no claim about final returns."""
    rates: tuple[float, float, float, float]
    """Learning rates, largest first. Methods with an option of their own try the two in the middle."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options for `envs.make` in addition to the preset's."""

    @property
    def env_options(self) -> dict[str, Any]:
        """All options for `envs.make`."""
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
"""Tasks on which the paper reports the largest gains: almost twice the reward."""


def steady(task: str) -> str:
    """The name of the same task without sticky actions."""
    return f"{task}-steady"


# Both are then deterministic, except for the side on which Breakout's first ball starts.
TASKS |= {
    steady(name): replace(TASKS[name], title=f"{TASKS[name].title} without sticky actions", options={"sticky": 0.0})
    for name in ("breakout", "space-invaders")
}

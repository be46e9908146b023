"""The nine tasks of Figure 3, and two of them without chance: environment, options, lengths, learning rates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from greedystep.deep.presets import env_options


@dataclass(frozen=True)
class Task:
    """A task as all methods meet it."""

    title: str
    env: str
    steps: int
    """The full length of a training."""
    judged_from: int
    """A training of fewer steps is shown, but no claim about final levels is judged by it."""
    rates: tuple[float, float, float, float]
    """Learning rates to choose from, largest first. Methods with an option of their own try the two in the middle."""
    options: dict[str, Any] = field(default_factory=dict)
    """For `envs.make`, beside the presets'."""

    @property
    def env_options(self) -> dict[str, Any]:
        return env_options(self.env) | self.options


_MINATAR: dict[str, Any] = {"steps": 5_000_000, "judged_from": 1_000_000, "rates": (1e-3, 3e-4, 1e-4, 3e-5)}
_PLE: dict[str, Any] = {"judged_from": 500_000, "rates": (1e-3, 3e-4, 1e-4, 3e-5)}
# Lengths are those of Lan et al. (2020) where they have one (qlan3/Explorer, configs/{minatar,catcher,copter}.json and
# MERL_mc_dqn.json); nothing is published for Pong, where most methods have not begun to learn after 2M steps. Their
# rates are five, 3e-3 to 3e-5 on MinAtar, 1e-3 to 1e-5 on PLE.

TASKS = {
    "breakout": Task("Breakout", "minatar/breakout", **_MINATAR),
    # The original that the paper could use, before its bar of oxygen was mended in 1.0.11.
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


def steady(task: str) -> str:
    """The name of the same game when no action ever sticks."""
    return f"{task}-steady"


# Both are then deterministic, but for the side on which the first ball of Breakout starts.
TASKS |= {
    steady(name): replace(TASKS[name], title=f"{TASKS[name].title} without sticky actions", options={"sticky": 0.0})
    for name in ("breakout", "space-invaders")
}

"""Our baselines compared with published ones: if these differ, so may everything that is compared with them.

These rules check our implementation, not the paper; they were written after the full-length runs that they judge.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from greedystep.experiments.claims import Claim
from greedystep.experiments.deep.compared_methods import METHODS
from greedystep.experiments.deep.judging import AllRuns, Outcome, mean
from greedystep.experiments.deep.tasks import TASKS

MINATAR = {
    ("breakout", "dqn"): 10.3,
    ("seaquest", "dqn"): 19.5,
    ("space-invaders", "dqn"): 45.5,
    ("freeway", "dqn"): 50.0,
    ("asterix", "dqn"): 16.8,
}
"""Young & Tian's DQN: mean return of the last 100 training episodes after 5M steps with the best of their step sizes,
over 30 runs; read from the learning curves in MinAtar's README. Its Seaquest is that of our version 1.0.10."""
SMALL = {
    ("catcher", "dqn"): 54.0,
    ("catcher", "maxmin"): 55.0,
    ("pixelcopter", "dqn"): 40.0,
    ("pixelcopter", "maxmin"): 45.0,
    ("mountaincar", "dqn"): -125.0,
    ("mountaincar", "maxmin"): -154.0,
}
"""DQN and Maxmin DQN with two networks of Lan's Jaxplorer (results/performance.md): mean return of the last 10 training
episodes, 5 runs, after 2M steps (MountainCar: 100k). It trains all networks at each step; we train one, as Lan et al.
(2020) do. No table of Maxmin DQN on MinAtar is published."""
NEAR = 1.25
"""Largest factor between two returns that count as equal."""


def claims(runs: AllRuns) -> list[Claim]:
    """All claims of this module."""
    return [
        _compare(runs, MINATAR).claim(
            "fig3-like-published",
            "Our DQN learns as much in 5M steps as the published DQN on the five games of MinAtar.",
            "Young & Tian (2019); not in the paper",
            f"the same within a factor of {NEAR:g}",
        ),
        _compare(runs, SMALL).claim(
            "fig3-like-published-small",
            "Our DQN and Maxmin DQN learn as much as published ones on Catcher, Pixelcopter and MountainCar.",
            "Lan, Jaxplorer; not in the paper",
            f"the same within a factor of {NEAR:g}",
        ),
    ]


def _compare(runs: AllRuns, published: Mapping[tuple[str, str], float]) -> Outcome:
    """Confirmed if all our means are within a factor of 1.25 of the published ones, refuted if fewer than half are."""
    ours = {key: runs[key] for key in published if key in runs}
    finals = {key: one.final_return for key, one in ours.items() if one.steps[-1] >= 0.99 * TASKS[key[0]].steps}
    near = {key: 1 / NEAR <= final.mean() / published[key] <= NEAR for key, final in finals.items()}
    measured = "; ".join(
        f"{_name(key)} {mean(final):.3g}, published {published[key]:g}" for key, final in finals.items()
    )
    if len(near) < len(published):
        return Outcome("untested", measured or "not trained in full")
    if all(near.values()):
        return Outcome("confirmed", measured)
    # If a few seeds have learned nothing at all, their mean says little of the others.
    far = (
        f"{_name(key)}: a median of {np.median(final):.4g}, the worst of {len(final)} seeds at {final.min():.4g}"
        for key, final in finals.items()
        if not near[key]
    )
    verdict = "partly" if sum(near.values()) * 2 >= len(near) else "refuted"
    return Outcome(verdict, measured, f"{'; '.join(far)} (docs/deep.md, MountainCar)")


def _name(key: tuple[str, str]) -> str:
    return f"{TASKS[key[0]].title}, {METHODS[key[1]].label}"

"""Our baselines beside published ones: if they differ, so may everything that is compared with them.

The rule was written after the first full runs of DQN, and that for Maxmin DQN and the small tasks after theirs, which
they judge: they check our implementation, not the paper.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from greedystep.experiments.claims import Claim
from greedystep.experiments.deep.methods import METHODS
from greedystep.experiments.deep.rules import Found, Judged, words
from greedystep.experiments.deep.tasks import TASKS
from greedystep.stats import interval

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
"""Times as much or as little."""


def claims(found: Found) -> list[Claim]:
    return [
        _beside(found, MINATAR).claim(
            "fig3-like-published",
            "Our DQN learns as much in 5M steps as the published DQN on the five games of MinAtar.",
            "Young & Tian (2019); not in the paper",
            f"the same within a factor of {NEAR:g}",
        ),
        _beside(found, SMALL).claim(
            "fig3-like-published-small",
            "Our DQN and Maxmin DQN learn as much as published ones on Catcher, Pixelcopter and MountainCar.",
            "Lan, Jaxplorer; not in the paper",
            f"the same within a factor of {NEAR:g}",
        ),
    ]


def _beside(found: Found, published: Mapping[tuple[str, str], float]) -> Judged:
    """Confirmed: each of our means is within a factor of 1.25 of the published one; refuted: fewer than half are."""
    ours = {one: found[one] for one in published if one in found}
    finals = {one: got.final for one, got in ours.items() if got.steps[-1] >= 0.99 * TASKS[one[0]].steps}
    near = {one: 1 / NEAR <= final.mean() / published[one] <= NEAR for one, final in finals.items()}
    said = "; ".join(
        f"{_name(one)} {words(interval(final, 'mean'), '.3g')} for {published[one]:g}" for one, final in finals.items()
    )
    if len(near) < len(published):
        return Judged("untested", said or "not trained in full")
    if all(near.values()):
        return Judged("confirmed", said)
    verdict = "partly" if sum(near.values()) * 2 >= len(near) else "refuted"
    # Where a few seeds have learned nothing at all, their mean says little of the others.
    far = (
        f"{_name(one)}: a median of {np.median(final):.4g}, the worst of {len(final)} seeds at {final.min():.4g}"
        for one, final in finals.items()
        if not near[one]
    )
    return Judged(verdict, said, f"{'; '.join(far)} (docs/deep.md, MountainCar)")


def _name(one: tuple[str, str]) -> str:
    return f"{TASKS[one[0]].title}, {METHODS[one[1]].label}"

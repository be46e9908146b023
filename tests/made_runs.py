"""Made-up trainings as the rules meet them: five seeds as arrays."""

import numpy as np

from greedystep.experiments.deep.method_runs import MethodRuns
from greedystep.experiments.deep.suite import BASELINES, GREEDY

SPREAD = np.array([-0.1, -0.05, 0.0, 0.05, 0.1])[:, None]


def made(final, *, reached=0.5, steps=2_000_000, q=1.0, n=1.0, over=0.0, spread=1.0, first=0.0, **info):
    """Five seeds whose return rises in a straight line to `final` within a share of the steps."""
    grid = np.linspace(steps / 100, steps, 100).astype(int)
    rise = np.minimum(grid / (reached * steps), 1.0)
    noise = SPREAD * spread
    return MethodRuns(
        steps=grid,
        returns=first + rise * (final - first) + noise,
        q=np.full((5, 100), q) + noise,
        n=np.broadcast_to(n, (5, 100)) + noise,
        overestimation=np.full((5, 100), over) + noise,
        info={"setting": {"ensemble": 6}} | info,
    )


def against(task, ours, *theirs):
    """Greedy-Step and the four baselines on one task; the last of `theirs` stands for all that follow."""
    rivals = [*theirs, *[theirs[-1]] * (len(BASELINES) - len(theirs))]
    return {(task, GREEDY): ours} | {(task, name): rival for name, rival in zip(BASELINES, rivals, strict=True)}


def verdicts(claims):
    return {claim.id: claim.verdict for claim in claims}

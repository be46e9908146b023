"""Our DQN beside the published one: if they differ, so may everything that is compared with it.

The rule was written after the first full runs of DQN, which it judges: it checks our implementation, not the paper.
"""

from __future__ import annotations

from greedystep.experiments.claims import Claim
from greedystep.experiments.deep.rules import Found, Judged, words
from greedystep.experiments.deep.tasks import TASKS
from greedystep.stats import interval

DQN_AFTER_5M = {"breakout": 10.3, "seaquest": 19.5, "space-invaders": 45.5, "freeway": 50.0, "asterix": 16.8}
"""Young & Tian's DQN: mean return of the last 100 training episodes after 5M steps with the best of their step sizes,
over 30 runs; read from the learning curves in MinAtar's README. Its Seaquest is that of our version 1.0.10."""
NEAR = 1.25
"""Times as much or as little."""


def claim(found: Found) -> Claim:
    """Confirmed: our mean is within a factor of 1.25 of the published one on each game; refuted: on less than half."""
    ours = {task: found[task, "dqn"].final for task in DQN_AFTER_5M if (task, "dqn") in found}
    ours = {task: final for task, final in ours.items() if found[task, "dqn"].steps[-1] >= 0.99 * TASKS[task].steps}
    near = {task: 1 / NEAR <= final.mean() / DQN_AFTER_5M[task] <= NEAR for task, final in ours.items()}
    said = "; ".join(
        f"{TASKS[task].title} {words(interval(final, 'mean'), '.3g')} for {DQN_AFTER_5M[task]:g}"
        for task, final in ours.items()
    )
    if len(near) < len(DQN_AFTER_5M):
        judged = Judged("untested", said or "not trained in full")
    elif all(near.values()):
        judged = Judged("confirmed", said)
    else:
        judged = Judged("partly" if sum(near.values()) * 2 >= len(near) else "refuted", said)
    return judged.claim(
        "fig3-like-published",
        "Our DQN learns as much in 5M steps as the published DQN on the five games of MinAtar.",
        "Young & Tian (2019); not in the paper",
        f"the same within a factor of {NEAR:g}",
    )

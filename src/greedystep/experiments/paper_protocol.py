"""Beyond Figure 3: the protocol of the paper in full, on the games of MinAtar.

Figure 3 here has 64 environments and batches of 512, and four settings for each method. The paper has one environment
and batches of 32, and tries five learning rates with each number of networks. So a sceptic may ask whether its own
protocol shows its gain. Here every method chooses from the whole grid, on two seeds of 2M steps, and is then trained on
five others for 5M steps, with evaluations at ε = 0 along the way. The claims are about the three games of the paper's
largest gains. The rules were written before the trainings.
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from greedystep.experiments import fig3
from greedystep.experiments.claims import Claim, Outcome, judges
from greedystep.experiments.deep import method_runs, protocol
from greedystep.experiments.deep.judging import AllRuns
from greedystep.experiments.deep.method_runs import final_table, tried_table
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.suite import GREEDY, LARGEST_GAINS, METHODS, PAPER, Setting
from greedystep.experiments.deep.training import Budget
from greedystep.experiments.fig3 import greedy_play
from greedystep.experiments.fig3.greedy_play import beside_training
from greedystep.experiments.fig3.performance_claims import almost_twice_on_largest_gains
from greedystep.tables import Table

NAME, IN_PARTS = "protocol", True
TITLE = "The paper's own protocol: one environment, batches of 32, Greedy-Step's whole grid of settings"
STYLES = fig3.STYLES
SHOWN_QUANTITIES = ("returns", "greedy_returns")

RATES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
"""The learning rates of the paper, which are those of Maxmin DQN (Lan et al. 2020)."""
OPTIONS: dict[str, list[Setting]] = {
    "dqn": [{}],
    "maxmin": [{"ensemble": networks} for networks in (2, 4, 6, 8)],
    "multi-step": [{"n": n} for n in (3, 5, 10)],
    "sarsa": [{"n": n} for n in (3, 5, 10)],
    GREEDY: [{"ensemble": networks} for networks in (1, 2, 4, 6)],
}
"""Method -> the values of its own option. The numbers of networks of Greedy-Step DQN are the paper's."""
GRIDS: dict[str, list[Setting]] = {
    method: [METHODS[method].fixed | option | {"learning_rate": rate} for option in options for rate in RATES]
    for method, options in OPTIONS.items()
}
SCALES: dict[str, list[TaskProtocol]] = {
    "quick": [
        TaskProtocol(
            "mountaincar",
            "paper",
            Budget(10_000, points=20, episodes=5, greedy_points=2),
            seeds=2,
            methods=("dqn", GREEDY),
            grids={method: grid[:1] for method, grid in GRIDS.items()},
        )
    ],
    "paper": [
        TaskProtocol(
            task, "paper", Budget(5_000_000, greedy_points=25), seeds=5, selection=2_000_000, methods=PAPER, grids=GRIDS
        )
        for task in (*LARGEST_GAINS, "freeway", "asterix")
    ],
}


def claims(runs: AllRuns) -> list[Claim]:
    """Return the claims of this experiment, judged."""
    return [in_training(runs), in_greedy_play(runs), mixed(runs), baseline_alone(runs), like_the_published_dqn(runs)]


@judges(
    "protocol-twice",
    "With the paper's own protocol Greedy-Step DQN gets almost twice the return of the best of the compared methods on "
    "Breakout, Seaquest and Space Invaders.",
    "almost 2 times",
    "not in the paper",
)
def in_training(runs: AllRuns) -> Outcome:
    """Confirmed if the 95 % CI of the ratio of final returns lies above 1.5 on all games, refuted if below on all."""
    return almost_twice_on_largest_gains(runs, lambda one: one.final_return)


@judges(
    "protocol-twice-greedy-play",
    "With the paper's own protocol greedy play of Greedy-Step DQN gets almost twice the return of the best greedy play "
    "of the compared methods on Breakout, Seaquest and Space Invaders.",
    "almost 2 times",
    "not in the paper",
)
def in_greedy_play(runs: AllRuns) -> Outcome:
    """Confirmed if the 95 % CI of the ratio lies above 1.5 on all games, refuted if below on all."""
    return almost_twice_on_largest_gains(runs, lambda one: one.greedy_play, in_greedy_play=True)


@judges(
    "protocol-mixed-comparison",
    "With the paper's own protocol greedy play of Greedy-Step DQN is almost twice the training return of the best "
    "baseline on Breakout, Seaquest and Space Invaders.",
    "almost 2 times",
    "not in the paper",
)
def mixed(runs: AllRuns) -> Outcome:
    """By the mean of the evaluations in the last tenth of the training, as in evaluation-twice.

    Confirmed if the 95 % CI of the ratio lies above 1.5 on all three games, refuted if below on all of them.

    The rule was written after the trainings, when its ratios were known; that of fig3-mixed-comparison is older.
    """
    return beside_training(runs, lambda one: one.final_greedy_return)


@judges(
    "protocol-greedy-beside-training",
    "With the paper's own protocol greedy play of the best baseline is almost twice its own training return on "
    "Breakout, Seaquest and Space Invaders.",
    "almost 2 times",
    "not in the paper",
)
def baseline_alone(runs: AllRuns) -> Outcome:
    """By the mean of the evaluations in the last tenth of the training.

    Confirmed if the 95 % CI of the ratio lies above 1.5 on all three games, refuted if below on all of them.

    The rule was written after the trainings, when its ratios were known; that of fig3-greedy-beside-training is older.
    """
    return beside_training(runs, lambda one: one.final_greedy_return, of_baseline=True)


def like_the_published_dqn(runs: AllRuns) -> Claim:
    """Return the claim that DQN learns as much with this protocol as the published one, judged as in Figure 3."""
    published = {key: value for key, value in fig3.MINATAR.items() if key[0] in LARGEST_GAINS}
    claim = "With the paper's own protocol our DQN learns as much as the published one on Breakout, Seaquest and Space "
    claimed, where = f"the same within a factor of {fig3.NEAR:g}", "Young & Tian (2019); not in the paper"
    outcome = fig3.like_published(runs, published)
    return outcome.claim("protocol-like-published", f"{claim}Invaders.", claimed, where, fig3.like_published)


LEFT_OUT = (
    "Settings are chosen after 2,000,000 of 5,000,000 steps",
    "Maxmin DQN chooses among four numbers of networks (2, 4, 6, 8), in the paper among eight",
)
run = protocol.make_run(TITLE, SCALES, claims, LEFT_OUT)
draw_curves = method_runs.make_draw(NAME, STYLES, SHOWN_QUANTITIES)
PLAYED = "greedy_return"
"""Greedy play by the evaluations of the last tenth of the training."""


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw learning curves, and the ratios of returns by what is compared."""
    drawn = draw_curves(result)
    if (played := greedy_play.draw(result["numbers"]["tasks"], PLAYED)) is not None:
        drawn["greedy-play"] = played
    return drawn


def tables(result: dict[str, Any]) -> list[Table]:
    """Return the final returns, ratios by what is compared, and what every setting got on the seeds of the choice."""
    tasks = result["numbers"]["tasks"]
    compared = greedy_play.table(f"{NAME}-greedy-play", tasks, PLAYED)
    tried = tried_table(f"{NAME}-settings", tasks)
    return [final_table(NAME, TITLE, tasks), *(one for one in (compared, tried) if one.rows)]

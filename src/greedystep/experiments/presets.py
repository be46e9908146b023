"""Beyond the paper: do the presets "paper" (1 environment, batches of 32) and "fast" (64, batches of 512) agree?

Figure 3 uses "fast", which a GPU runs many times as fast. Here the paper's methods are also trained with "paper", with
the options chosen with "fast" and the preset's own learning rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from greedystep.charts import DOTTED, SOLID, Style
from greedystep.experiments import fig3
from greedystep.experiments.claims import Outcome, judges
from greedystep.experiments.deep import method_runs, protocol
from greedystep.experiments.deep.judging import mean_difference
from greedystep.experiments.deep.method_runs import MethodRuns
from greedystep.experiments.deep.protocol import TaskProtocol
from greedystep.experiments.deep.suite import GREEDY, METHODS, PAPER
from greedystep.experiments.deep.training import Budget

NAME, IN_PARTS = "presets", True
TITLE = "The presets paper and fast side by side"

FAST = {
    # On MountainCar hardly an episode would have ended by then.
    "quick": TaskProtocol(
        "catcher", "fast", Budget(100_000, points=100, episodes=20), methods=("dqn", GREEDY), suffix=", fast"
    ),
    "paper": replace(fig3.SCALES["paper"][0], budget=Budget(1_000_000), more_seeds=0, suffix=", fast"),
}
SCALES: dict[str, list[TaskProtocol]] = {
    scale: [replace(fast, preset="paper", selection=0, settings_from=fast, suffix=", paper"), fast]
    for scale, fast in FAST.items()
}


def name(method: str, preset: str) -> str:
    """Return the name of a method with a preset."""
    return f"{method}, {preset}"


@judges(
    "presets-agree",
    "Many environments and large batches put the methods in the same order as one environment and batches of 32.",
    "the same order",
    "not in the paper",
)
def agree(runs: Mapping[str, MethodRuns]) -> Outcome:
    """Count, among the pairs of methods that differ with both presets (95 % CIs), those with the same method ahead.

    Confirmed if all have, refuted if none has, untested without such a pair.
    """
    methods = [method for method in METHODS if all(name(method, preset) in runs for preset in ("paper", "fast"))]
    alike, unlike = [], []
    for pair in combinations(methods, 2):
        ahead = {
            mean_difference(*(runs[name(method, preset)].final_return for method in pair)).above()
            for preset in ("paper", "fast")
        }
        if not ahead & {"undecided", "untested"}:
            (alike if len(ahead) == 1 else unlike).append(" and ".join(METHODS[method].label for method in pair))
    differ = len(alike) + len(unlike)
    measured = f"{differ} pairs of methods differ with both presets (95 % CIs exclude 0), {len(alike)} in the same way"
    verdict = "untested" if not differ else "confirmed" if not unlike else "partly" if alike else "refuted"
    return Outcome(verdict, measured, f"not the same: {', '.join(unlike)}")


# -- the experiment ---------------------------------------------------------------------------------------------------

STYLES: dict[str, Style] = {
    name(method, preset): (fig3.STYLES[method][0], dash)
    for method in PAPER
    for preset, dash in (("fast", SOLID), ("paper", DOTTED))
}
run = protocol.make_run(TITLE, SCALES, lambda runs: [agree({name: one for (_, name), one in runs.items()})])
draw = method_runs.make_draw(NAME, STYLES, ("returns", "q", "overestimation"), bands=False)
tables = method_runs.make_tables(NAME, "Methods by preset after equal steps")

"""Tabular learning on toy tasks, in compiled loops over their tables.

`learn` acts and learns, `collect` only acts, and `replay` only learns, from logged episodes. All methods share one
exploration policy and differ in their update alone (`methods`). `episodes_to_solve` counts the episodes that a method
needs, and `until_solved` those of any learner, such as `Rudder`. `TabularAgent` is the agent that does all of this,
with files.
"""

from greedystep.envs import toy_task
from greedystep.numba_cache import cached_by_sources

with cached_by_sources(__file__, toy_task.__file__):
    from greedystep.tabular.empirical_model import EmpiricalModel
    from greedystep.tabular.episodes import Episodes, StoredEpisodes
    from greedystep.tabular.horizon_means import HorizonMeans
    from greedystep.tabular.learning import LearnResult, collect, learn, replay
    from greedystep.tabular.methods import METHODS
    from greedystep.tabular.rudder import Rudder, rudder_episodes_to_solve
    from greedystep.tabular.stochasticity_warning import StochasticityWarning
    from greedystep.tabular.tabular_agent import TabularAgent
    from greedystep.tabular.time_to_solve import episodes_to_solve, greedy_policy, until_solved

__all__ = [
    "METHODS",
    "EmpiricalModel",
    "Episodes",
    "HorizonMeans",
    "LearnResult",
    "Rudder",
    "StochasticityWarning",
    "StoredEpisodes",
    "TabularAgent",
    "collect",
    "episodes_to_solve",
    "greedy_policy",
    "learn",
    "replay",
    "rudder_episodes_to_solve",
    "until_solved",
]

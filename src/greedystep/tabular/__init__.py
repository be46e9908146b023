"""Tabular learning as compiled loops over the tables of a toy task.

`learn` lets a method act and learn; `collect` only acts; `replay` only learns, from logged episodes. All methods share
one rule of exploration and differ in their update alone, which stands in `updates`. `episodes_to_solve` is the measure
of the delayed-reward tasks, and `until_solved` takes it of any learner, such as `Rudder`. `TabularAgent` keeps a table
between all of these, and on disk.
"""

from greedystep.envs import toy
from greedystep.numba_cache import cached_by_sources

with cached_by_sources(__file__, toy.__file__):
    from greedystep.tabular.branching import BranchingWarning
    from greedystep.tabular.empirical import EmpiricalModel
    from greedystep.tabular.episodes import Episodes
    from greedystep.tabular.loops import Learned, collect, learn, replay
    from greedystep.tabular.methods import METHODS
    from greedystep.tabular.rudder import Rudder, rudder_episodes_to_solve
    from greedystep.tabular.solving import episodes_to_solve, greedy_policy, until_solved
    from greedystep.tabular.stored import StoredEpisodes
    from greedystep.tabular.tabular_agent import TabularAgent

__all__ = [
    "METHODS",
    "BranchingWarning",
    "EmpiricalModel",
    "Episodes",
    "Learned",
    "Rudder",
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

"""Tabular learning as compiled loops over the tables of a toy task.

`learn` lets a method act and learn; `collect` only acts; `replay` only learns, from logged episodes. All methods share
one rule of exploration and differ in their update alone, which stands in `updates`.
"""

from greedystep.tabular.episodes import Episodes
from greedystep.tabular.learn import Learned, collect, learn, replay
from greedystep.tabular.methods import METHODS

__all__ = ["METHODS", "Episodes", "Learned", "collect", "learn", "replay"]

"""Exact planning: solve a finite MDP, with a proof of how far the answer can be off."""

from greedystep.numba_cache import cached_by_sources

with cached_by_sources(__file__):
    from greedystep.planning.solve import METHODS, Progress, Solution, solve

__all__ = ["METHODS", "Progress", "Solution", "solve"]

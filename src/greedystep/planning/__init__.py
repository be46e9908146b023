"""Exact planning: solve a finite MDP, with a proved bound on the error of the result."""

from greedystep.numba_cache import cached_by_sources

with cached_by_sources(__file__):
    from greedystep.planning.solution import Solution, SolveProgress
    from greedystep.planning.solve import METHODS, SolveMethod, solve

__all__ = ["METHODS", "Solution", "SolveMethod", "SolveProgress", "solve"]

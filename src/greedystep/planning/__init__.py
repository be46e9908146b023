"""Exact planning: solve a finite MDP, with a proved bound on the error of the result."""

from greedystep.numba_cache import cached_by_sources

with cached_by_sources(__file__):
    from greedystep.planning.convergence import SolveProgress
    from greedystep.planning.solve import METHODS, Solution, SolveMethod, solve

__all__ = ["METHODS", "Solution", "SolveMethod", "SolveProgress", "solve"]

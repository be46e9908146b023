"""Exact planning: solve a finite MDP, with a proof of how far the answer can be off."""

from greedystep.planning.solve import METHODS, Progress, Solution, solve

__all__ = ["METHODS", "Progress", "Solution", "solve"]

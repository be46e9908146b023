"""Shared code of the experiments with networks:

suite           the nine tasks and ten methods, each method with four settings to choose from
protocol        which runs an experiment needs, and its result from them
runner          finished runs, and the training of those that are missing
training        runs that share a compiled program, trained side by side
method_runs     the runs of one method on one task as arrays, as JSON and as a table
judging         from confidence intervals to verdicts
"""

"""What the experiments with networks share (Figures 3 to 5, `horizon`, `luck`, `presets`, `settings`).

tasks               environments, lengths of trainings, learning rates
compared_methods    the ten methods, each with four settings to choose from
protocol            which trainings an experiment needs, and its result from them
training            lanes that share a compiled program, trained side by side
store               finished trainings, so that nothing is trained twice
session             trains what the store lacks, and reports progress
method_runs         the trainings of one method on one task as arrays, as JSON and as a table
judging             from confidence intervals to verdicts
plots               panels of learning curves
reference_results   full-size results shown beside quick ones
"""

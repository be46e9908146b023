"""What the experiments with networks share (Figures 3 to 5, and `horizon`).

tasks      the nine tasks: environment, options, settings, lengths
methods    the ten methods, each with four settings to choose from
evidence   trainings of one method on one task as arrays: what figures show and rules judge
rules      intervals -> verdicts
"""

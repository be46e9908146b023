"""What the experiments with networks share (Figures 3 to 5, and `horizon`).

tasks          the nine tasks: environment, options, settings, lengths
methods        the ten methods, each with four settings to choose from
training       lanes that share a program, trained side by side
store          finished trainings, one part per group of lanes, so that nothing is trained twice
session        trains what the store lacks, in threads, with progress
sweep          the choice of settings on seeds of their own, then the trainings that count
evidence       trainings of one method on one task as arrays: what figures show and rules judge
rules          intervals -> verdicts
performance    the claims about Figure 3
behaviour      the claims about Figures 4 and 5 and about the horizon
output         curves with intervals, and tables
"""

"""Greedy-step returns of logged episodes: no behaviour probabilities, and the data choose the look-ahead.

Two episodes are stored one after the other: the first reaches its end and is paid there, the second blunders and is
cut off by a time limit. `values[t]` is what is believed of the state after step t.
"""

import numpy as np

import greedystep as gs

rewards = np.array([0.0, 0.0, 0.0, 10.0, 0.0, -5.0, 0.0])
terminated = np.array([False, False, False, True, False, False, False])
truncated = np.array([False, False, False, False, False, False, True])
values = np.array([1.0, 1.0, 1.0, 0.0, 2.0, 1.0, 4.0])

discounts = 0.9 * (1 - terminated)  # 0 ends the look-ahead
cuts = truncated  # there the return bootstraps and goes no further

greedy = gs.returns.greedy_step(rewards, discounts, values, cuts=cuts)
one_step = gs.returns.n_step(rewards, discounts, values, 1, cuts=cuts)
monte_carlo = gs.returns.monte_carlo(rewards, discounts, values, cuts=cuts)

print("step  one-step  Monte Carlo  greedy-step  chosen n")
for t, row in enumerate(zip(one_step, monte_carlo, greedy.returns, greedy.steps, strict=True)):
    print("{:4d} {:9.3f} {:12.3f} {:12.3f} {:9d}".format(t, *row))

assert (greedy.returns >= one_step - 1e-12).all(), "one step is among the choices"

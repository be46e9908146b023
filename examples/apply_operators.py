"""Why a long look-ahead helps: one application of each operator on the paper's N-horizon problem, again and again.

The reward lies at the end of a chain; one behaviour policy knows the first half of the way, the other the second half.
"""

import numpy as np

import greedystep as gs

N = 32
mdp, policies = gs.models.n_horizon(N)
optimum = gs.solve(mdp, tolerance=1e-10).q

operators = {
    "Bellman": lambda q: gs.operators.bellman(mdp, q),
    "Greedy-Step": lambda q: gs.operators.greedy_step(mdp, policies, q, horizon=N),
}
for name, operator in operators.items():
    q, iterations = np.zeros_like(optimum), 0
    while gs.operators.distance(mdp, q, optimum) > 1e-8:
        q, iterations = operator(q), iterations + 1
    print(f"{name:12s} reaches q* after {iterations} iterations")

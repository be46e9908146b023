"""Solve FrozenLake exactly and check the promise: the values are as close to the optimal ones as the bound says."""

import numpy as np

import greedystep as gs

mdp = gs.MDP.from_gymnasium("FrozenLake-v1", discount=0.99, map_name="8x8")
solution = gs.solve(mdp, tolerance=1e-8)

print(mdp)
print(f"{solution.method}: {solution.iterations} iterations, {solution.seconds:.4f} s")
print(f"The start is worth {solution.v[0]:.6f}; every value is within {solution.error_bound:.1e} of the optimal one.")

# Policy iteration ends at the exact optimum; the difference must stay below both bounds together.
exact = gs.solve(mdp, method="policy-iteration", tolerance=1e-10)
difference = np.abs(solution.v - exact.v).max()
print(f"Largest difference to policy iteration: {difference:.1e}")
assert difference <= solution.error_bound + exact.error_bound

arrows = np.array(list("←↓→↑"))[solution.policy]
print("\n".join(" ".join(row) for row in arrows.reshape(8, 8)))

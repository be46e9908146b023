"""A policy from logged episodes, and what chance does to it.

Episodes of a random walker on slippery ice are kept in a file, as yours may be. Greedy-step's expected form takes the
average over what the ice did; its sampled form takes the best that ever happened, believes it, and warns. The method
"auto" averages the returns of several horizons, and takes the best average.
"""

import warnings

import gymnasium
import numpy as np

import greedystep as gs

env = gymnasium.make("FrozenLake-v1")
random = np.random.default_rng(0)


def walk(seed: int) -> gs.Trajectory:
    """One episode of a random policy; nobody notes with which probabilities it acted."""
    states, actions, rewards = [env.reset(seed=seed)[0]], [], []
    terminated = truncated = False
    while not (terminated or truncated):
        action = int(random.integers(4))
        state, reward, terminated, truncated, _ = env.step(action)
        states.append(state)
        actions.append(action)
        rewards.append(float(reward))
    last = np.arange(len(actions)) == len(actions) - 1
    return gs.Trajectory(np.array(states), np.array(actions), np.array(rewards), last & terminated, last & truncated)


gs.trajectory.save("walks.npz", [walk(seed) for seed in range(5000)])
log = gs.trajectory.load("walks.npz")

truth = gs.solve(gs.MDP.from_gymnasium("FrozenLake-v1")).v[0]
print(f"the true value of the start is {truth:.3f}")
expected, sampled = ({"method": "greedy-step", "form": form} for form in ("expected", "running"))
for name, how in {"expected": expected, "running": sampled, "auto": {"method": "auto"}}.items():
    agent = gs.TabularAgent("FrozenLake-v1", **how)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent.fit(log, sweeps=300)
    success = agent.evaluate(episodes=1000).mean
    print(f"{name}: believes {agent.q[0].max():.3f}, reaches the goal in {success:.0%} of 1000 episodes")
    for warning in caught:
        print(f"  {warning.category.__name__}: {warning.message}")

"""Slow, obvious references for learning from counted experience."""

import numpy as np

END = None


def outcomes(episodes):
    """{(s, a): [(reward, successor or END), ...]} of tuples (states, actions, rewards, chances, terminated)."""
    seen = {}
    for states, actions, rewards, _, terminated in episodes:
        for t, (a, r) in enumerate(zip(actions, rewards, strict=True)):
            over = terminated and t == len(actions) - 1
            seen.setdefault((int(states[t]), int(a)), []).append((float(r), END if over else int(states[t + 1])))
    return seen


def backed_up(seen, q, gamma):
    """One synchronous sweep of value iteration over the pairs that were seen; all others stay."""
    v, new = q.max(axis=1), q.copy()
    for pair, happened in seen.items():
        new[pair] = np.mean([r + (0.0 if s is END else gamma * v[s]) for r, s in happened])
    return new


def optimum(episodes, q, gamma):
    """The limit of such sweeps from q; pairs that were seen begin at 0 where q has -inf."""
    seen, q = outcomes(episodes), q.copy()
    for pair in seen:
        q[pair] = 0.0 if q[pair] == -np.inf else q[pair]
    for _ in range(100_000):
        new = backed_up(seen, q, gamma)
        if np.array_equal(new, q):
            break
        q = new
    return q

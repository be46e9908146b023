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


def greedy_return(states, rewards, terminated, t, q, gamma, horizon):
    """The largest n-step return from step t of one episode, n <= horizon."""
    T = len(rewards)
    candidates = []
    for n in range(1, min(horizon or T, T - t) + 1):
        over = terminated and t + n == T
        after = 0.0 if over else q[states[t + n]].max()
        if after > -np.inf:
            candidates.append(sum(gamma**i * rewards[t + i] for i in range(n)) + gamma**n * after)
    return max(candidates, default=-np.inf)


def revalued(episodes, q, gamma, horizon):
    """The paper's rule: every stored pair gets the largest greedy return of all that start with it, under q."""
    new, returns = q.copy(), {}
    for states, actions, rewards, _, terminated in episodes:
        for t, a in enumerate(actions):
            y = greedy_return(states, rewards, terminated, t, q, gamma, horizon)
            returns.setdefault((int(states[t]), int(a)), []).append(y)
    for pair, candidates in returns.items():
        new[pair] = max(candidates)
    return new


def expected_return(seen, episode, t, q, gamma, steps):
    """The model's mean reward, and then on average over the successors: their value, or at the episode's own next
    state whatever is more, that or going on with the episode for up to `steps` - 1 more steps."""
    states, actions, *_ = episode
    goes_on = t + 1 < len(actions) and steps > 1
    ahead = expected_return(seen, episode, t + 1, q, gamma, steps - 1) if goes_on else -np.inf
    values = []
    for r, s in seen[int(states[t]), int(actions[t])]:
        value = 0.0 if s is END else q[s].max()
        values.append(r + gamma * (max(value, ahead) if s is not END and s == states[t + 1] else value))
    return np.mean(values)


def expected_update(seen, episode, q, gamma, horizon):
    """Every pair of the episode gets the largest of its expected returns under q."""
    states, actions, *_ = episode
    new, returns = q.copy(), {}
    for t, a in enumerate(actions):
        y = expected_return(seen, episode, t, q, gamma, horizon or len(actions))
        returns.setdefault((int(states[t]), int(a)), []).append(y)
    for pair, candidates in returns.items():
        new[pair] = max(candidates)
    return new

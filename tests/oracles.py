"""Slow, obvious references: each result straight from its definition, in plain Python."""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from greedystep.mdp import MDP

# ---------------------------------------------------------------------------------------------------------------------
# returns: lists of one stretch; `cuts` is a list of booleans. Each function gives the return from step t.
# ---------------------------------------------------------------------------------------------------------------------


def steps_left(discounts, cuts, t):
    """How many steps can be taken from t before a termination, a cut or the end of the list."""
    left = 1
    while t + left < len(discounts) and discounts[t + left - 1] != 0 and not cuts[t + left - 1]:
        left += 1
    return left


def n_step(rewards, discounts, values, cuts, t, n, ratios=None):
    """n rewards, or as many as are left, then the value; `ratios[t]` weighs everything from step t+1 on."""
    total, weight = 0.0, 1.0
    last = t + min(n, steps_left(discounts, cuts, t)) - 1
    for k in range(t, last + 1):
        total += weight * rewards[k]
        if k < last:
            weight *= discounts[k] * (1.0 if ratios is None else ratios[k])
    return total if discounts[last] == 0 else total + weight * discounts[last] * values[last]


def greedy_step(rewards, discounts, values, cuts, t, horizon=math.inf):
    """The largest n-step return, and the smallest n that attains it."""
    longest = min(horizon, steps_left(discounts, cuts, t))
    candidates = [n_step(rewards, discounts, values, cuts, t, n) for n in range(1, longest + 1)]
    return max(candidates), candidates.index(max(candidates)) + 1


def greedy_step_twin(rewards, discounts, values, other_values, cuts, t):
    n = greedy_step(rewards, discounts, values, cuts, t)[1]
    return n_step(rewards, discounts, other_values, cuts, t, n)


def soft_greedy_step(rewards, discounts, values, alpha, cuts, t):
    if discounts[t] == 0:
        return rewards[t]
    if steps_left(discounts, cuts, t) == 1:
        return rewards[t] + discounts[t] * values[t]
    v, y = values[t], soft_greedy_step(rewards, discounts, values, alpha, cuts, t + 1)
    top = max(alpha * v, alpha * y)
    weight_v, weight_y = math.exp(alpha * v - top), math.exp(alpha * y - top)
    return rewards[t] + discounts[t] * (v * weight_v + y * weight_y) / (weight_v + weight_y)


def weighted(rewards, discounts, values, weights, cuts, t):
    return sum(w * n_step(rewards, discounts, values, cuts, t, n) for n, w in enumerate(weights, start=1))


def lambda_return(rewards, discounts, values, lambda_, cuts, t):
    """(1-λ) Σ λ^(n-1) of the n-step returns; the longest takes the rest of the weight."""
    left = steps_left(discounts, cuts, t)
    weights = [(1 - lambda_) * lambda_ ** (n - 1) for n in range(1, left)] + [lambda_ ** (left - 1)]
    return weighted(rewards, discounts, values, weights, cuts, t)


def off_policy(rewards, discounts, values, taken, traces, cuts, t):
    """The forward view: one-step return plus the later one-step errors, weighed by the product of the traces."""
    total, weight = 0.0, 1.0
    for k in range(t, t + steps_left(discounts, cuts, t)):
        target = rewards[k] + (0.0 if discounts[k] == 0 else discounts[k] * values[k])
        total += weight * (target if k == t else target - taken[k - 1])
        weight *= discounts[k] * traces[k]
    return total


# ---------------------------------------------------------------------------------------------------------------------
# operators: a small MDP whose every trajectory is written out, with its probability.
# ---------------------------------------------------------------------------------------------------------------------


def random_mdp(random: np.random.Generator, deterministic: bool = False, discount: float | None = None) -> MDP:
    """A small MDP: some with terminating steps, missing actions or a terminal state, some dense, some sparse."""
    S, A = int(random.integers(2, 6)), int(random.integers(1, 4))
    if deterministic:
        transitions = np.eye(S)[random.integers(0, S, (S, A))]
    else:
        transitions = random.dirichlet(np.full(S, random.choice([0.2, 1.0])), (S, A))
        transitions = np.where(transitions > 0.05, transitions, 0.0) + 1e-3 * np.eye(S)[random.integers(0, S, (S, A))]
        transitions /= transitions.sum(axis=2, keepdims=True)
    ends = np.zeros((S, A))
    if random.random() < 0.5:
        ends = np.where(random.random((S, A)) < 0.3, 1.0 if deterministic else random.random((S, A)), 0.0)
    transitions *= 1 - ends[:, :, None]
    available = random.random((S, A)) < 0.8
    available[np.arange(S), random.integers(0, A, S)] = True
    return MDP(
        transitions if random.random() < 0.5 else sp.csr_array(transitions.reshape(S * A, S)),
        random.normal(size=(S, A)),
        random.choice([0.5, 0.9, 0.99]) if discount is None else discount,
        terminal=np.arange(S) < random.integers(0, 2),
        available=available,
        termination=ends,
    )


def random_policies(random: np.random.Generator, mdp: MDP, count: int) -> list[np.ndarray]:
    """Deterministic and stochastic policies, some of which leave actions out."""
    return [random_policy(random, mdp, stochastic=random.random() < 0.5) for _ in range(count)]


def random_policy(random: np.random.Generator, mdp: MDP, stochastic: bool) -> np.ndarray:
    weights = np.where(mdp.available, random.random(mdp.rewards.shape) + 0.01, 0.0)
    if not stochastic:
        return weights.argmax(axis=1)
    weights = np.where(random.random(weights.shape) < 0.3, 0.0, weights)
    empty = weights.sum(axis=1) == 0
    weights[empty] = mdp.available[empty]
    return weights / weights.sum(axis=1, keepdims=True)


def random_q(random: np.random.Generator, mdp: MDP, scale: float = 3.0) -> np.ndarray:
    return np.where(mdp.available, random.normal(0, scale, mdp.rewards.shape), -np.inf)


def probability(policy: np.ndarray, state: int, action: int) -> float:
    return float(policy[state] == action) if policy.ndim == 1 else float(policy[state, action])


def paths(mdp: MDP, policy: np.ndarray, state: int, action: int, steps: int):
    """Every way to go `steps` steps, the first by `action` and the others by `policy`.

    Yields (probability, [(s_0, a_0), (s_1, a_1), ...], the state after the last step or None if the episode is over).
    A trajectory that ends earlier is shorter.
    """
    row = dense(mdp)[state, action]
    over = 1 - row.sum()
    if over > 1e-12:
        yield over, [(state, action)], None
    for successor in np.flatnonzero(row):
        if steps == 1:
            yield row[successor], [(state, action)], successor
            continue
        for following in range(mdp.num_actions):
            chance = probability(policy, successor, following)
            if chance > 0:
                for p, rest, last in paths(mdp, policy, successor, following, steps - 1):
                    yield row[successor] * chance * p, [(state, action), *rest], last


def dense(mdp: MDP) -> np.ndarray:
    matrix = mdp.transitions if isinstance(mdp.transitions, np.ndarray) else mdp.transitions.toarray()
    return matrix.reshape(mdp.num_states, mdp.num_actions, mdp.num_states)


def discounted_rewards(mdp: MDP, steps: list[tuple[int, int]]) -> float:
    return sum(mdp.discount**t * mdp.rewards[s, a] for t, (s, a) in enumerate(steps))


def greedy_return(mdp: MDP, q: np.ndarray, steps: list[tuple[int, int]], last: int | None) -> float:
    """Rewards along the way, then the best action's value."""
    bootstrap = 0.0 if last is None else mdp.discount ** len(steps) * max(q[last])
    return discounted_rewards(mdp, steps) + bootstrap


def per_action(mdp: MDP, value_of: Callable[[int, int], float]) -> np.ndarray:
    """A table [S, A] from a function of state and action."""
    table = np.full(mdp.rewards.shape, -np.inf)
    for s, a in np.argwhere(mdp.available):
        table[s, a] = value_of(s, a)
    return table


def expected_greedy_return(mdp: MDP, policy: np.ndarray, q: np.ndarray, s: int, a: int, n: int) -> float:
    """E over n-step trajectories of the policy from (s, a), then greedy: ((B^π)^(n-1) B q)(s, a)."""
    return sum(p * greedy_return(mdp, q, steps, last) for p, steps, last in paths(mdp, policy, s, a, n))


def greedy_step_inside(mdp: MDP, policies: list[np.ndarray], q: np.ndarray, horizon: int) -> np.ndarray:
    """The definition: for each successor the best policy and the best number of steps."""

    def from_state(policy: np.ndarray, state: int, n: int) -> float:
        """What n - 1 steps of the policy and then greed are worth in `state`."""
        if n == 1:
            return max(q[state])
        actions = [a for a in range(mdp.num_actions) if probability(policy, state, a) > 0]
        return sum(
            probability(policy, state, a) * expected_greedy_return(mdp, policy, q, state, a, n - 1) for a in actions
        )

    def value(s: int, a: int) -> float:
        successors = np.flatnonzero(dense(mdp)[s, a])
        best = {
            s1: max(from_state(policy, s1, n) for policy in policies for n in range(1, horizon + 1))
            for s1 in successors
        }
        return mdp.rewards[s, a] + mdp.discount * sum(dense(mdp)[s, a, s1] * best[s1] for s1 in successors)

    return per_action(mdp, value)


def greedy_step_outside(mdp: MDP, policies: list[np.ndarray], q: np.ndarray, horizon: int) -> np.ndarray:
    """The proofs' form: one policy and one number of steps for all successors."""
    ways = [(policy, n) for policy in policies for n in range(1, horizon + 1)]
    return per_action(mdp, lambda s, a: max(expected_greedy_return(mdp, policy, q, s, a, n) for policy, n in ways))


def multi_step_optimality(mdp: MDP, policies: list[np.ndarray], q: np.ndarray, horizon: int) -> np.ndarray:
    return per_action(mdp, lambda s, a: max(expected_greedy_return(mdp, p, q, s, a, horizon) for p in policies))


def multi_step_off_policy(
    mdp: MDP, target: np.ndarray, behaviours: list[np.ndarray], q: np.ndarray, horizon: int, selection: list[float]
) -> np.ndarray:
    """Every trajectory of every behaviour, each reward multiplied by the ratios of the actions up to it.

    With behaviours = [target] every ratio is one: the on-policy operator.
    """

    def corrected_return(behaviour: np.ndarray, steps: list[tuple[int, int]], last: int | None) -> float:
        ratio, total = 1.0, 0.0
        for t, (s, a) in enumerate(steps):
            if t > 0:
                ratio *= probability(target, s, a) / probability(behaviour, s, a)
            total += mdp.discount**t * ratio * mdp.rewards[s, a]
        if last is None:
            return total
        for a in range(mdp.num_actions):
            chance = probability(behaviour, last, a)
            if chance > 0 and probability(target, last, a) > 0:
                last_ratio = ratio * probability(target, last, a) / chance
                total += chance * mdp.discount ** len(steps) * last_ratio * q[last, a]
        return total

    def value(s: int, a: int) -> float:
        return sum(
            chance * p * corrected_return(behaviour, steps, last)
            for chance, behaviour in zip(selection, behaviours, strict=True)
            for p, steps, last in paths(mdp, behaviour, s, a, horizon)
        )

    return per_action(mdp, value)


def sampled_limit(mdp: MDP, policies: list[np.ndarray], q: np.ndarray, horizon: int) -> np.ndarray:
    """The luckiest of all trajectories: probabilities do not matter."""
    ways = [(policy, n) for policy in policies for n in range(1, horizon + 1)]
    return per_action(
        mdp,
        lambda s, a: max(
            greedy_return(mdp, q, steps, last) for policy, n in ways for _, steps, last in paths(mdp, policy, s, a, n)
        ),
    )


def sampled(trajectories: list, q: np.ndarray, discount: float, horizon: int) -> np.ndarray:
    """Every stretch of every trajectory, every number of steps."""
    result = {}
    for states, actions, rewards, terminated in trajectories:
        T = len(actions)
        for t in range(T):
            for n in range(1, min(horizon, T - t) + 1):
                value = sum(discount**i * rewards[t + i] for i in range(n))
                if not (terminated and t + n == T):
                    value += discount**n * max(q[states[t + n]])
                key = states[t], actions[t]
                result[key] = max(value, result.get(key, -np.inf))
    table = q.copy()
    for key, value in result.items():
        table[key] = value
    return table


def matrix_form(mdp: MDP, policies: list[np.ndarray], v: np.ndarray, horizon: int, as_printed: bool) -> np.ndarray:
    """The V-update of the paper's Section 4 with its matrices, as printed or with the missing T^a in the reward sum.

    V' = max_a max_π max_n [ R^a + γ T^a Σ_{i=0}^{n-2} (γ T^π)^i R^π + γ T^a (γ T^π)^(n-1) V ];   printed: γ Σ ... R^π
    """
    T, gamma = dense(mdp), mdp.discount
    best = np.full(mdp.num_states, -np.inf)
    for policy in policies:
        pi = np.eye(mdp.num_actions)[policy] if policy.ndim == 1 else policy
        T_pi = np.einsum("sa,sat->st", pi, T)
        R_pi = np.array([sum(p * r for p, r in zip(pi[s], mdp.rewards[s], strict=True) if p) for s in range(len(v))])
        power = np.linalg.matrix_power
        for n in range(1, horizon + 1):
            rewards = sum((power(gamma * T_pi, i) @ R_pi for i in range(n - 1)), np.zeros(len(v)))
            for a in range(mdp.num_actions):
                on_the_way = gamma * (rewards if as_printed else T[:, a] @ rewards)
                update = mdp.rewards[:, a] + on_the_way + gamma * T[:, a] @ power(gamma * T_pi, n - 1) @ v
                best = np.maximum(best, update)
    return best


def optimal_q(mdp: MDP) -> np.ndarray:
    """Q*: policy iteration with exact evaluation."""
    q = np.where(mdp.available, 0.0, -np.inf)
    policy = q.argmax(axis=1)
    while True:
        q = policy_q(mdp, policy)
        here = np.arange(mdp.num_states)
        better = q.max(axis=1) > q[here, policy] + 1e-10
        if not better.any():
            return q
        policy = np.where(better, q.argmax(axis=1), policy)


def policy_q(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """Q^π: the linear system of the policy's chain."""
    pi = np.eye(mdp.num_actions)[policy] if policy.ndim == 1 else policy
    chain = np.einsum("sa,sat->st", pi, dense(mdp))
    reward = np.where(pi > 0, pi * np.where(pi > 0, mdp.rewards, 0.0), 0.0).sum(axis=1)
    value = np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * chain, reward)
    return mdp.rewards + mdp.discount * dense(mdp) @ value


# ---------------------------------------------------------------------------------------------------------------------
# planning: the truth in extended precision, so that its own error is far below any bound proved in float64
# ---------------------------------------------------------------------------------------------------------------------

LONG = np.longdouble


def probabilities(mdp: MDP) -> np.ndarray:
    """longdouble [S, A, S]; with discount 1 a row and its termination are weights, to be divided by their sum."""
    p = dense(mdp).astype(LONG)
    if mdp.discount < 1:
        return p
    total = p.sum(axis=2) + (0 if mdp.termination is None else mdp.termination)
    return p / np.where(mdp.available, total, 1)[:, :, None]


def exact_policy_value(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """v^π, longdouble [S]: the linear system in float64, refined with residuals in extended precision."""
    here = np.arange(mdp.num_states)
    chain = LONG(mdp.discount) * probabilities(mdp)[here, policy]
    reward = mdp.rewards[here, policy].astype(LONG)
    inverse = np.linalg.inv(np.eye(here.size) - chain.astype(float)).astype(LONG)
    v = inverse @ reward
    for _ in range(4):
        v += inverse @ (reward + chain @ v - v)
    return v


def exact_optimum(mdp: MDP) -> np.ndarray:
    """v*, longdouble [S]: policy iteration in extended precision, to a Bellman residual that proves it."""
    return _improve(mdp, np.where(mdp.available, 0.0, -np.inf).argmax(axis=1))


def _improve(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    transitions, here = probabilities(mdp), np.arange(mdp.num_states)
    for _ in range(1000):
        v = exact_policy_value(mdp, policy)
        q = mdp.rewards.astype(LONG) + LONG(mdp.discount) * (transitions @ v)
        size = np.abs(v).max() + np.abs(np.where(mdp.available, mdp.rewards, 0)).max()
        better = q.max(axis=1) > q[here, policy] + 64 * np.finfo(LONG).eps * size
        if not better.any():
            return v
        policy = np.where(better, q.argmax(axis=1), policy)
    raise AssertionError("policy iteration goes round in circles")


def value_iteration(mdp: MDP, sweeps: int) -> list[float]:
    """v after so many sweeps from zero, in plain Python."""
    p = dense(mdp)
    v = [0.0] * mdp.num_states
    for _ in range(sweeps):
        v = [
            max(
                float(mdp.rewards[s, a]) + mdp.discount * sum(float(p[s, a, t]) * v[t] for t in range(mdp.num_states))
                for a in range(mdp.num_actions)
                if mdp.rewards[s, a] > -math.inf
            )
            for s in range(mdp.num_states)
        ]
    return v


def exact_optimum_of_proper_start(mdp: MDP) -> np.ndarray:
    """v* for discount 1 where some policies never end: policy iteration from one that does (steps to an end, breadth
    first), which stays among those that end when every step costs something."""
    p, policy = dense(mdp), np.zeros(mdp.num_states, int)
    known = mdp.terminal.copy()
    while not known.all():
        towards = (p[:, :, known] > 0).any(axis=2) & ~known[:, None]
        policy = np.where(towards.any(axis=1), towards.argmax(axis=1), policy)
        known = known | towards.any(axis=1)
    return _improve(mdp, policy)


# ---------------------------------------------------------------------------------------------------------------------
# tabular: an episode is (states [T + 1], actions, rewards, chances, terminated); each function gives the new table
# ---------------------------------------------------------------------------------------------------------------------


def tabular_update(method: str, options: dict, q: np.ndarray, episode: tuple, gamma: float) -> np.ndarray:
    """One update from one episode, every return written out forwards."""
    states, actions, rewards, _, terminated = episode
    q, T = q.copy(), len(actions)
    if method in ("q-learning", "backward-q-learning"):
        for t in range(T) if method == "q-learning" else reversed(range(T)):
            ahead = 0.0 if terminated and t == T - 1 else max(q[states[t + 1]])
            q[states[t], actions[t]] += options["alpha"] * (rewards[t] + gamma * ahead - q[states[t], actions[t]])
        return q
    targets = tabular_targets(method, options, q, episode, gamma)
    for s, a, y in zip(states[:-1], actions, targets, strict=True):
        q[s, a] = max(q[s, a], y) if method == "greedy-step" else q[s, a] + options["alpha"] * (y - q[s, a])
    return q


def tabular_targets(method: str, options: dict, q: np.ndarray, episode: tuple, gamma: float) -> list[float]:
    """The targets of the methods that compute all of them before they change the table."""
    states, actions, rewards, chances, terminated = episode
    T = len(actions)
    if method == "episodic-backward":
        return episodic_backward_targets(q, episode, gamma, options["beta"])
    discounts = [gamma] * (T - 1) + [0.0 if terminated else gamma]
    cuts = [False] * T
    best = [max(q[s]) for s in states[1:]]
    policies = [epsilon_greedy(q[s], options.get("target_epsilon", 0.0)) for s in states[1:]]
    expected = [
        sum(pi[a] * q[s, a] for a in range(len(pi)) if pi[a]) for pi, s in zip(policies, states[1:], strict=True)
    ]
    inner = range(T - 1)  # the steps after which another action was taken
    taken = [q[states[t + 1], actions[t + 1]] for t in inner] + [expected[-1]]
    pi = [policies[t][actions[t + 1]] for t in inner] + [0.0]
    mu = [chances[t + 1] for t in inner] + [1.0]
    lambda_ = options.get("lambda_")
    steps = range(T)
    if method == "greedy-step":
        horizon = options["horizon"] or T
        return [greedy_step(rewards, discounts, best, cuts, t, horizon)[0] for t in steps]
    if method in ("n-step-q", "n-step-sarsa"):
        values: Any = best if method == "n-step-q" else taken
        return [n_step(rewards, discounts, values, cuts, t, options["n"]) for t in steps]
    if method in ("peng", "sarsa-lambda"):
        values = best if method == "peng" else taken
        return [lambda_return(rewards, discounts, values, lambda_, cuts, t) for t in steps]
    if method == "monte-carlo":
        return [n_step(rewards, discounts, best, cuts, t, T) for t in steps]
    if method == "watkins":
        expected, traces = best, [lambda_ * (taken[t] == best[t]) for t in steps]
    elif method == "harutyunyan":
        traces = [lambda_] * T
    elif method == "tree-backup":
        traces = [lambda_ * p for p in pi]
    elif method == "retrace":
        traces = [lambda_ * min(1.0, p / m) for p, m in zip(pi, mu, strict=True)]
    else:
        assert method == "q-sigma"
        sigma = options["sigma"]
        traces = [sigma * p / m + (1 - sigma) * p for p, m in zip(pi, mu, strict=True)]
    return [off_policy(rewards, discounts, expected, taken, traces, cuts, t) for t in steps]


def episodic_backward_targets(q: np.ndarray, episode: tuple, gamma: float, beta: float) -> list[float]:
    """With the temporary table of the published algorithm: a column of action values for every next state."""
    states, actions, rewards, _, terminated = episode
    T = len(actions)
    table = [q[s].copy() for s in states[1:]]
    if terminated:
        table[-1][:] = 0.0
    y = [0.0] * T
    y[-1] = rewards[-1] + gamma * max(table[-1])
    for k in reversed(range(T - 1)):
        table[k][actions[k + 1]] = beta * y[k + 1] + (1 - beta) * table[k][actions[k + 1]]
        y[k] = rewards[k] + gamma * max(table[k])
    return y


def epsilon_greedy(values, epsilon: float) -> list[float]:
    """Action probabilities; ties share, and actions at -inf do not exist."""
    available = [a for a in range(len(values)) if values[a] > -math.inf]
    ties = [a for a in available if values[a] == max(values)]
    return [
        (epsilon / len(available) if a in available else 0.0) + ((1 - epsilon) / len(ties) if a in ties else 0.0)
        for a in range(len(values))
    ]


def eligibility(method: str, q: np.ndarray, episode: tuple, gamma: float, alpha: float, lambda_: float) -> np.ndarray:
    """SARSA(λ), Watkins' and Harutyunyan's Q(λ) as the textbooks run them: traces e(s, a), an update at every step."""
    states, actions, rewards, _, terminated = episode
    q, e = q.copy(), np.zeros(q.shape)
    for t, (s, a, r) in enumerate(zip(states[:-1], actions, rewards, strict=True)):
        follows = t + 1 < len(actions)
        ahead = max(q[states[t + 1]])
        if method == "sarsa-lambda" and follows:
            ahead = q[states[t + 1], actions[t + 1]]
        delta = r + gamma * (0.0 if terminated and not follows else ahead) - q[s, a]
        e[s, a] += 1
        q = np.where(e > 0, q + alpha * delta * e, q)
        greedy = follows and q[states[t + 1], actions[t + 1]] == max(q[states[t + 1]])
        e *= 0.0 if method == "watkins" and not greedy else gamma * lambda_
    return q


def best_horizon(episodes: list[tuple], q: np.ndarray, gamma: float) -> np.ndarray:
    """The table of the method "auto" after these episodes: all returns are kept, and averaged with weights written out.

    With step sizes α_1 = 1, α_2, ... the i-th of c returns has the weight α_i (1 - α_{i+1}) ... (1 - α_c).
    """

    def weights(count: int) -> np.ndarray:
        alphas = np.arange(1, count + 1) ** -0.6
        return np.array([alphas[i] * np.prod(1 - alphas[i + 1 :]) for i in range(count)])

    q, seen, spreads = q.copy(), defaultdict(list), []
    for states, actions, rewards, _, terminated in episodes:
        before, T = q.copy(), len(rewards)
        for t, pair in enumerate(zip(states[:-1], actions, strict=True)):
            returns = []
            for n in (1, 2, 4, 8, 16, T):
                m = min(n, T - t)
                after = 0.0 if terminated and t + m == T else before[states[t + m]].max()
                returns.append(sum(gamma**k * rewards[t + k] for k in range(m)) + gamma**m * after)
            old, alpha = np.array(seen[pair]), (len(seen[pair]) + 1) ** -0.6
            if len(old):
                spreads.append((1 - alpha) * (np.array(returns) - weights(len(old)) @ old) ** 2)
            seen[pair].append(returns)
            all_returns, count = np.array(seen[pair]), len(seen[pair])
            mean = weights(count) @ all_returns
            variance = count * (weights(count) @ (all_returns - mean) ** 2)
            if spreads:
                variance = variance + weights(len(spreads)) @ np.array(spreads)
            deviation = np.sqrt(variance / (count + 1) * alpha / (2 - alpha))
            q[pair] = max(mean[0], (mean - 2 * deviation)[1:].max())
    return q


def empirical_model(episodes: list[tuple]) -> dict:
    """What was seen of every pair: (s, a) -> list of (reward, next state, or None where the episode ended)."""
    seen: dict = {}
    for states, actions, rewards, _, terminated in episodes:
        for t, (s, a) in enumerate(zip(states[:-1], actions, strict=True)):
            ended = terminated and t == len(actions) - 1
            seen.setdefault((int(s), int(a)), []).append((float(rewards[t]), None if ended else int(states[t + 1])))
    return seen


def empirical_optimum(episodes: list[tuple], shape: tuple[int, int], gamma: float) -> np.ndarray:
    """Q* of the model of sample means; pairs that were not seen do not exist, nor does a state without any."""
    seen = empirical_model(episodes)
    q = np.full(shape, -np.inf)
    for _ in range(4000):
        v = q.max(axis=1)
        new = q.copy()
        for pair, outcomes in seen.items():
            new[pair] = np.mean([r + (0.0 if s is None else gamma * v[s]) for r, s in outcomes])
        if np.array_equal(new, q):
            break
        q = new
    return q

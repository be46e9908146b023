"""The certificate is never violated: random models of every kind, every method, stopped anywhere, against the truth.

The truth is solved in extended precision (oracles.exact_optimum); its error is some thousand times smaller than what
rounding alone adds to a bound.
"""

import numpy as np
import oracles
import pytest
import scipy.sparse as sp

from greedystep.mdp import MDP
from greedystep.planning import METHODS, solve
from greedystep.planning.certificate import Certificate, longest_episode
from greedystep.planning.undiscounted import UndiscountedModel
from greedystep.signals import Deadline

DISCOUNTS = [0.1, 0.5, 0.9, 0.97, 0.99, 0.999, 0.9999]
FAST = ("auto", "policy-iteration")


def random_model(random: np.random.Generator, discount: float | None = None) -> MDP:
    """One of all kinds of small models."""
    S, A = int(random.integers(1, 9)), int(random.integers(1, 4))
    kind = random.choice(["mixing", "sparse", "deterministic", "cycle", "clusters", "loops"])
    if kind == "mixing":
        p = random.dirichlet(np.ones(S), (S, A))
    elif kind == "sparse":
        p = random.dirichlet(np.full(S, 0.1), (S, A))
    elif kind == "deterministic":
        p = np.eye(S)[random.integers(0, S, (S, A))]
    elif kind == "cycle":  # nearly periodic
        leak = random.choice([0.0, 1e-6, 1e-2])
        p = (1 - leak) * np.eye(S)[(np.arange(S)[:, None] + 1 + np.arange(A) % 2) % S] + leak / S
    elif kind == "clusters":  # two halves that seldom meet
        side = np.arange(S) < S // 2
        weight = np.where(side[:, None, None] == side, 1.0, random.choice([1e-8, 1e-3]))
        p = weight * random.random((S, A, S)) + 1e-12
    else:
        stay = random.choice([0.5, 0.99, 1 - 1e-7])
        p = (1 - stay) * random.dirichlet(np.ones(S), (S, A)) + stay * np.eye(S)[:, None]
    p = p / p.sum(axis=2, keepdims=True)
    ends = np.zeros((S, A))
    if random.random() < 0.4:
        ends = np.where(random.random((S, A)) < 0.3, random.choice([1.0, 0.5, 1e-3], (S, A)), 0.0)
        p *= 1 - ends[:, :, None]
    if random.random() < 0.3:  # float32 tables: sums off by up to 1e-7
        p *= 1 + random.uniform(-1e-7, 1e-7, (S, A, 1))
    rewards = random.choice([1e-12, 1e-3, 1.0, 1e6, 1e12]) * random.choice(
        [random.normal(size=(S, A)), random.integers(-1, 2, (S, A)).astype(float), np.ones((S, A)), np.zeros((S, A))],
        p=[0.6, 0.25, 0.1, 0.05],
    )
    available = random.random((S, A)) < random.choice([1.0, 0.7])
    available[np.arange(S), random.integers(0, A, S)] = True
    return MDP(
        p if random.random() < 0.4 else sp.csr_array(p.reshape(S * A, S)),
        rewards,
        float(random.choice(DISCOUNTS)) if discount is None else discount,
        terminal=random.random(S) < random.choice([0.0, 0.3]),
        available=available,
        termination=ends if ends.any() else None,
    )


def random_start(random, mdp, truth):
    kind = random.integers(4)
    if kind == 0:
        return None
    size = float(np.abs(truth).max()) + 1e-300
    noise = random.choice([0.0, 1e-15, 1e-9, 1.0])
    start = truth.astype(float) + noise * size * random.normal(size=truth.size)
    return start if kind < 3 else mdp.backup(start)


def options(random, mdp, method, truth):
    chosen = {"tolerance": float(random.choice([1e-300, 1e-12, 1e-6, 1e-2])) * (1 + float(np.abs(truth).max()))}
    if method in ("greedy-step", "multi-step", "modified-policy-iteration"):
        chosen["horizon"] = int(random.integers(1, 7))
    if method == "multi-step" or (method == "greedy-step" and random.random() < 0.5):
        chosen["policies"] = oracles.random_policies(random, mdp, 2)
    chosen["initial"] = random_start(random, mdp, truth)
    if method not in FAST or random.random() < 0.5:
        chosen["max_iterations"] = int(random.choice([1, 2, 3, 5, 10, 30]))
    return chosen


def assert_bounds_hold(mdp, solution, truth, what=""):
    """|v - v*| <= error_bound, v* - v^policy <= policy_loss_bound, and q within error_bound of q*."""
    assert np.isfinite(solution.v).all(), what
    error = np.abs(solution.v.astype(oracles.LONG) - truth).max()
    assert error <= solution.error_bound, f"v is off by {error}, bound {solution.error_bound}: {what}"
    loss = (truth - oracles.exact_policy_value(mdp, mdp.check_policy(solution.policy))).max()
    assert loss <= solution.policy_loss_bound, f"policy loses {loss}, bound {solution.policy_loss_bound}: {what}"
    exact_q = oracles.probabilities(mdp) @ truth * oracles.LONG(mdp.discount) + np.where(
        mdp.available, mdp.rewards, 0.0
    )
    scale = np.abs(truth).max() + np.abs(np.where(mdp.available, mdp.rewards, 0.0)).max()
    q_error = np.abs(np.where(mdp.available, solution.q, exact_q) - exact_q).max()
    assert q_error <= solution.error_bound + 1e-14 * scale, what
    assert (solution.q[~mdp.available] == -np.inf).all(), what


def fuzz(seed: int, cases: int, discount: float | None = None) -> None:
    for case in range(cases):
        random = np.random.default_rng([seed, case])
        mdp = random_model(random, discount)
        truth = oracles.exact_optimum(mdp)
        for method in METHODS:
            chosen = options(random, mdp, method, truth)
            what = f"seed {seed}, case {case}, {method}, {mdp}, {chosen}"
            solution = solve(mdp, method, **chosen)
            assert_bounds_hold(mdp, solution, truth, what)
            assert solution.converged == (solution.error_bound <= chosen["tolerance"]), what
            assert np.isfinite(solution.error_bound), what


@pytest.mark.parametrize("seed", range(10))
def test_bounds_hold_on_random_models(seed):
    fuzz(seed, 200)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_bounds_hold_on_many_random_models(seed):
    fuzz(seed, 500)


def proper_model(random: np.random.Generator) -> MDP:
    """Discount 1, and every step may end."""
    S, A = int(random.integers(1, 7)), int(random.integers(1, 4))
    ends = random.choice([0.05, 0.3, 1.0], (S, A))
    p = random.dirichlet(np.full(S, random.choice([0.2, 1.0])), (S, A)) * (1 - ends[:, :, None])
    rewards = random.choice([1e-9, 1.0, 1e9]) * random.normal(size=(S, A))
    transitions = p if random.random() < 0.5 else sp.csr_array(p.reshape(S * A, S))
    return MDP(transitions, rewards, 1.0, termination=ends, terminal=np.arange(S) < random.integers(0, 2))


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_without_discount_where_everything_ends(seed):
    for case in range(50):
        random = np.random.default_rng([seed, case])
        mdp = proper_model(random)
        truth = oracles.exact_optimum(mdp)
        for method in METHODS:
            chosen = options(random, mdp, method, truth)
            solution = solve(mdp, method, **chosen)
            assert np.isfinite(solution.error_bound)
            assert_bounds_hold(mdp, solution, truth, f"seed {seed}, case {case}, {method}, {mdp}, {chosen}")


def test_bounds_hold_for_any_values_and_are_attained():
    """The certificate alone, for values that no solver would stop at; with equal rows it is tight."""
    for case in range(300):
        random = np.random.default_rng(case)
        mdp = random_model(random)
        truth = oracles.exact_optimum(mdp)
        v = truth.astype(float) + random.choice([0, 1e-8, 1, 100]) * random.normal(size=truth.size)
        out = mdp.backup(v).max(axis=1)
        widest = mdp.num_states
        lower, upper = Certificate(mdp, widest).bounds(float((out - v).min()), float((out - v).max()), np.abs(v).max())
        assert (out + oracles.LONG(lower) <= truth).all()
        assert (truth <= out + oracles.LONG(upper)).all()
    mdp = MDP(np.full((3, 1, 3), 1 / 3), np.ones((3, 1)), 0.9)
    lower, upper = Certificate(mdp, 3).bounds(1.0, 1.0, 0.0)
    assert lower == pytest.approx(9.0)
    assert upper == pytest.approx(9.0)


def test_an_end_makes_positive_lower_bounds_worthless():
    """low > 0 may not be carried on where a row ends: β is 0 there."""
    mdp = MDP([[[0.0, 0.0]], [[0.0, 1.0]]], np.ones((2, 1)), 0.9, termination=[[1.0], [0.0]])
    lower, upper = Certificate(mdp, 1).bounds(1.0, 1.0, 0.0)
    assert lower == pytest.approx(0.0, abs=1e-15)
    assert upper == pytest.approx(9.0)


def test_rows_that_sum_to_more_than_one_cost_their_share():
    mdp = MDP([[[1 + 5e-7]]], [[1.0]], 0.999)
    solution = solve(mdp, "value-iteration", tolerance=1e-6)
    assert_bounds_hold(mdp, solution, oracles.exact_optimum(mdp))
    hopeless = MDP([[[1 + 9e-7]]], [[1.0]], 1 - 1e-7)
    solution = solve(hopeless, "value-iteration", max_iterations=3)
    assert solution.error_bound == np.inf
    assert solution.message.endswith("rows that sum to more than 1 / discount leave no bound on the error")


def test_the_longest_episode_is_no_shorter_than_the_truth():
    """Against the optimum of the same model with a reward of 1 for each change of state."""
    for case in range(100):
        mdp = proper_model(np.random.default_rng(case))
        stay = oracles.dense(mdp)[np.arange(mdp.num_states), :, np.arange(mdp.num_states)]
        jumps = mdp.with_rewards(1 - stay)
        truth = float(oracles.exact_optimum(jumps).max())
        # A terminal state takes no step here, but one in the table: at most one more.
        assert (
            truth * (1 - 1e-12)
            <= longest_episode(mdp, UndiscountedModel(mdp, Deadline()), Deadline()).jumps
            <= 2 * truth + 2
        )


def test_the_longest_episode_is_infinite_where_a_policy_can_stay():
    p = np.zeros((2, 2, 2))
    p[0, 0, 1] = p[0, 1, 0] = p[1, 0, 0] = 1.0  # action 1 stays in state 0
    ends = np.array([[0.0, 0.0], [0.0, 1.0]])
    loops = MDP(sp.csr_array(p.reshape(4, 2)), -np.ones((2, 2)), 1.0, termination=ends)
    walk = longest_episode(loops, UndiscountedModel(loops, Deadline()), Deadline())
    assert walk.jumps == np.inf
    assert "never ends (action 0 in state 0" in walk.obstacle
    assert Certificate(loops, 1).bounds(-1.0, 1.0, 0.0) == (-np.inf, np.inf)  # before the length is known


def test_a_discount_within_rounding_of_one_is_not_blamed_on_the_rows():
    transitions = np.full((2, 1, 2), 0.5)
    discount = float(np.nextafter(1.0, 0.0))
    solution = solve(MDP(transitions, np.ones((2, 1)), discount), max_iterations=10)
    assert solution.error_bound == np.inf
    assert "a discount closer to 1 than the rounding of a row leaves no bound" in solution.message

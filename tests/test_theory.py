"""The paper's theorems as properties, each under the conditions in which it holds, and counterexamples elsewhere.

docs/theory.md tells the story and refers to these tests by name.

‖·‖ is the largest absolute entry over available actions. "Inside" and "outside" are the two forms of the Greedy-Step
operator G: as the paper defines it, and as its proofs and its matrix formula use it.
"""

from itertools import product

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep import models
from greedystep.mdp import MDP
from greedystep.operators import (
    bellman,
    distance,
    expectation,
    greedy_step,
    lambda_operator,
    multi_step_off_policy,
    multi_step_on_policy,
    multi_step_optimality,
    sampled,
    sampled_limit,
    weighted,
)

FORMS = ("inside", "outside")
seeds = st.integers(0, 2**32 - 1)
horizons = st.integers(1, 8)
thorough = settings(max_examples=80, deadline=None)

ROUNDING = 1e-9
"""Allowed on top of every inequality; values here are below 1000."""


QUICK = 0.8
"""The discount where a test iterates to a fixed point."""


def problem(seed: int, deterministic: bool | None = None, discount: float | None = None):
    """A random MDP with its Q*, a set of one to three policies, and the generator they came from."""
    random = np.random.default_rng(seed)
    mdp = oracles.random_mdp(random, random.random() < 0.3 if deterministic is None else deterministic, discount)
    return mdp, oracles.optimal_q(mdp), oracles.random_policies(random, mdp, random.integers(1, 4)), random


def below(optimum: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Some q <= Q*: every entry too low by the same amount, which is the hardest case, or each by its own."""
    return optimum - (1.0 if random.random() < 0.5 else random.exponential(3.0, optimum.shape))


def fixed_point(operator, q: np.ndarray) -> np.ndarray:
    """Where repeated application ends."""
    for _ in range(1000):
        previous, q = q, operator(q)
        if np.allclose(q, previous, rtol=0, atol=1e-13):
            return q
    raise AssertionError("no convergence")


def zero(mdp: MDP) -> np.ndarray:
    return np.where(mdp.available, 0.0, -np.inf)


# -- Theorems 1 to 3 and Lemma 1: the fixed point and the contraction -------------------------------------------------


@given(seeds, horizons, st.sampled_from(FORMS))
@thorough
def test_theorem_1_the_optimum_is_a_fixed_point_of_both_forms(seed, horizon, form):
    mdp, optimum, policies, _ = problem(seed)
    assert distance(mdp, greedy_step(mdp, policies, optimum, horizon, form), optimum) <= ROUNDING


@given(seeds, horizons, st.sampled_from(FORMS))
@thorough
def test_lemma_1_both_forms_contract_by_gamma(seed, horizon, form):
    mdp, _, policies, random = problem(seed)
    q, other = oracles.random_q(random, mdp), oracles.random_q(random, mdp)
    images = (greedy_step(mdp, policies, table, horizon, form) for table in (q, other))
    assert distance(mdp, *images) <= mdp.discount * distance(mdp, q, other) + ROUNDING


@given(seeds, horizons, st.sampled_from(FORMS))
@thorough
def test_theorems_2_and_3_iterates_reach_the_optimum_from_anywhere_at_rate_gamma(seed, horizon, form):
    mdp, optimum, policies, random = problem(seed)
    q = oracles.random_q(random, mdp)
    start = distance(mdp, q, optimum)
    for k in range(1, 30):
        q = greedy_step(mdp, policies, q, horizon, form)
        assert distance(mdp, q, optimum) <= mdp.discount**k * start + ROUNDING


@given(seeds, horizons)
@thorough
def test_the_definition_dominates_the_form_of_the_proofs(seed, horizon):
    mdp, _, policies, random = problem(seed)
    q = oracles.random_q(random, mdp)
    inside, outside = (greedy_step(mdp, policies, q, horizon, form) for form in FORMS)
    assert (inside >= outside - ROUNDING)[mdp.available].all()


@given(seeds, horizons)
@thorough
def test_the_two_forms_are_one_where_transitions_are_deterministic(seed, horizon):
    mdp, _, policies, random = problem(seed, deterministic=True)
    q = oracles.random_q(random, mdp)
    inside, outside = (greedy_step(mdp, policies, q, horizon, form) for form in FORMS)
    assert distance(mdp, inside, outside) <= ROUNDING


# -- Lemma 1, first inequality, and Theorem 4: never slower than one step ---------------------------------------------


@given(seeds, horizons)
@thorough
def test_lemma_1_first_inequality_holds_outside(seed, horizon):
    mdp, _, policies, random = problem(seed)
    q, other = oracles.random_q(random, mdp), oracles.random_q(random, mdp)
    images = (greedy_step(mdp, policies, table, horizon, "outside") for table in (q, other))
    assert distance(mdp, *images) <= distance(mdp, bellman(mdp, q), bellman(mdp, other)) + ROUNDING


@given(seeds, horizons)
@thorough
def test_theorem_4_holds_outside_for_every_q(seed, horizon):
    mdp, optimum, policies, random = problem(seed)
    q = oracles.random_q(random, mdp)
    ours = distance(mdp, greedy_step(mdp, policies, q, horizon, "outside"), optimum)
    assert ours <= distance(mdp, bellman(mdp, q), optimum) + ROUNDING


@given(seeds, horizons, st.sampled_from(FORMS))
@thorough
def test_theorem_4_holds_in_both_forms_from_below(seed, horizon, form):
    mdp, optimum, policies, random = problem(seed)
    q = below(optimum, random)
    ours, one_step = greedy_step(mdp, policies, q, horizon, form), bellman(mdp, q)
    ordered = (one_step <= ours + ROUNDING) & (ours <= optimum + ROUNDING)
    assert ordered[mdp.available].all()
    assert distance(mdp, ours, optimum) <= distance(mdp, one_step, optimum) + ROUNDING


def coin() -> tuple[MDP, np.ndarray]:
    """CE1: two states, one action that leads to either with probability 1/2 and pays nothing; γ = 0.9; its policy."""
    return MDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), 0.9), np.array([0, 0])


def test_counterexample_1_the_definition_breaks_theorem_4_and_lemma_1():
    mdp, policy = coin()
    q, optimum = np.array([[1.0], [-1.0]]), np.zeros((2, 1))
    np.testing.assert_allclose(bellman(mdp, q), optimum, atol=1e-15)  # one step is already exact
    np.testing.assert_allclose(greedy_step(mdp, [policy], q, 2), [[0.45], [0.45]])  # max(±1, 0), averaged, times γ
    np.testing.assert_allclose(greedy_step(mdp, [policy], q, 2, "outside"), optimum, atol=1e-15)


def test_lemma_1_first_inequality_fails_inside_even_below_the_optimum():
    mdp, policy = coin()
    q, other = np.array([[-4.0], [-6.0]]), np.array([[-5.0], [-5.0]])
    np.testing.assert_allclose(bellman(mdp, q), bellman(mdp, other))
    np.testing.assert_allclose(greedy_step(mdp, [policy], q, 2), -3.825)  # 0.9 (-4 - 4.5) / 2
    np.testing.assert_allclose(greedy_step(mdp, [policy], other, 2), -4.05)  # 0.9 (-4.5)


# -- Theorem 5: the fast rate -----------------------------------------------------------------------------------------


def knowing_policies(mdp: MDP, optimum: np.ndarray, depth: int, random: np.random.Generator) -> list[np.ndarray]:
    """For each state a policy that is optimal in the states it can visit with `depth` decisions from there on."""
    best = optimum.argmax(axis=1)
    policies = []
    for state in range(mdp.num_states):
        policy, frontier = oracles.random_policy(random, mdp, stochastic=False), {state}
        for _ in range(depth):
            policy[list(frontier)] = best[list(frontier)]  # pyright: ignore[reportCallIssue]
            frontier = {t for s in frontier for t in np.flatnonzero(oracles.dense(mdp)[s, best[s]])}
        policies.append(policy)
    return policies


@given(seeds, st.integers(1, 4), st.integers(0, 2))
@thorough
def test_theorem_5_holds_inside_from_below_with_a_horizon_beyond_the_depth(seed, depth, more):
    mdp, optimum, _, random = problem(seed)
    q = below(optimum, random)
    ours = greedy_step(mdp, knowing_policies(mdp, optimum, depth, random), q, depth + 1 + more)
    assert distance(mdp, ours, optimum) <= mdp.discount ** (depth + 1) * distance(mdp, q, optimum) + ROUNDING


@given(seeds, st.integers(1, 4))
@thorough
def test_theorem_5_holds_outside_in_deterministic_models(seed, depth):
    mdp, optimum, _, random = problem(seed, deterministic=True)
    q = below(optimum, random)
    ours = greedy_step(mdp, knowing_policies(mdp, optimum, depth, random), q, depth + 1, "outside")
    assert distance(mdp, ours, optimum) <= mdp.discount ** (depth + 1) * distance(mdp, q, optimum) + ROUNDING


@given(seeds, st.integers(1, 4))
@thorough
def test_theorem_5_holds_outside_if_one_policy_is_optimal_everywhere(seed, depth):
    mdp, optimum, policies, random = problem(seed)
    q = below(optimum, random)
    ours = greedy_step(mdp, [*policies, optimum.argmax(axis=1)], q, depth + 1, "outside")
    assert distance(mdp, ours, optimum) <= mdp.discount ** (depth + 1) * distance(mdp, q, optimum) + ROUNDING


def fork() -> tuple[MDP, np.ndarray, list[np.ndarray]]:
    """CE2: s0 leads to s1 or s2 with probability 1/2 whatever one does; s1 pays 1 for action 0, s2 for action 1, and
    both lead to s3, which pays nothing for ever. γ = 0.9. Each of the two constant policies is right in one of s1, s2.
    """
    transitions = np.zeros((4, 2, 4))
    transitions[0, :, 1:3] = 0.5
    transitions[1:, :, 3] = 1.0
    rewards = np.zeros((4, 2))
    rewards[1, 0] = rewards[2, 1] = 1.0
    optimum = np.array([[0.9, 0.9], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    return MDP(transitions, rewards, 0.9), optimum, [np.zeros(4, int), np.ones(4, int)]


def test_counterexample_2_the_form_of_the_proofs_breaks_theorem_5():
    mdp, optimum, policies = fork()
    q = optimum - 1.0
    assert distance(mdp, bellman(mdp, optimum), optimum) < 1e-15
    assert distance(mdp, greedy_step(mdp, policies, q, 2, "outside"), optimum) == pytest.approx(0.9)  # not 0.81
    assert distance(mdp, greedy_step(mdp, policies, q, 2, "inside"), optimum) == pytest.approx(0.81)


@pytest.mark.parametrize("form", FORMS)
def test_counterexample_3_theorem_5_needs_a_horizon_beyond_the_depth(form):
    mdp, optimum, policies = fork()
    q = optimum - 1.0
    assert distance(mdp, greedy_step(mdp, policies, q, 1, form), optimum) == pytest.approx(0.9)  # claimed: 0.81
    # The optimal policy itself, optimal at every depth, gives γ^N and no more.
    for horizon in (1, 2, 5):
        ours = greedy_step(mdp, [optimum.argmax(axis=1)], q, horizon, form)
        assert distance(mdp, ours, optimum) == pytest.approx(0.9**horizon)


@pytest.mark.parametrize("form", FORMS)
def test_theorem_5_needs_q_below_the_optimum(form):
    # One state, one action, nothing is ever paid: Q* = 0. From q = 1 the largest of 1, γ, γ², ... is the first.
    mdp, policy = MDP(np.ones((1, 1, 1)), np.zeros((1, 1)), 0.9), np.array([0])
    assert greedy_step(mdp, [policy], np.ones((1, 1)), 10, form) == pytest.approx(0.9)
    assert greedy_step(mdp, [policy], -np.ones((1, 1)), 10, form) == pytest.approx(-(0.9**10))


# -- modified policy iteration ----------------------------------------------------------------------------------------


@given(seeds, horizons)
@thorough
def test_with_the_greedy_policy_from_q_below_its_backup_it_is_modified_policy_iteration(seed, horizon):
    mdp, _, _, _ = problem(seed)
    lowest = min(mdp.rewards[mdp.available].min(), 0.0) / (1 - mdp.discount)
    values = np.full(mdp.num_states, lowest)  # below its own backup, and then so are all that follow
    q = mdp.backup(values)
    for _ in range(10):
        values = modified_policy_iteration(mdp, values, horizon)
        inside, outside = (greedy_step(mdp, [q.argmax(axis=1)], q, horizon, form) for form in FORMS)
        assert (q <= bellman(mdp, q) + ROUNDING)[mdp.available].all()
        q = inside
        assert distance(mdp, inside, outside) <= ROUNDING
        assert distance(mdp, inside, mdp.backup(values)) <= ROUNDING


def modified_policy_iteration(mdp: MDP, values: np.ndarray, evaluations: int) -> np.ndarray:
    """`evaluations` sweeps of the policy that is greedy for `values`."""
    here, policy = np.arange(mdp.num_states), mdp.backup(values).argmax(axis=1)
    for _ in range(evaluations):
        values = mdp.backup(values)[here, policy]
    return values


def test_from_above_the_maximum_over_n_throws_away_what_modified_policy_iteration_gains():
    mdp, values = MDP(np.ones((1, 1, 1)), np.zeros((1, 1)), 0.9), np.array([1.0])
    after = modified_policy_iteration(mdp, values, 10)
    assert after == pytest.approx(0.9**10)
    q = greedy_step(mdp, [np.array([0])], mdp.backup(values), 10)  # q = 0.9 before
    assert q == pytest.approx(0.81)
    assert mdp.backup(after) == pytest.approx(0.9**11)


# -- Lemma 2 and the fixed point of the multi-step optimality operator ------------------------------------------------


@given(seeds, horizons)
@thorough
def test_lemma_2_multi_step_optimality_contracts_by_gamma_to_the_n(seed, horizon):
    mdp, _, policies, random = problem(seed)
    q, other = oracles.random_q(random, mdp), oracles.random_q(random, mdp)
    images = (multi_step_optimality(mdp, policies, table, horizon) for table in (q, other))
    assert distance(mdp, *images) <= mdp.discount**horizon * distance(mdp, q, other) + ROUNDING


@given(seeds, st.integers(2, 6))
@thorough
def test_the_fixed_point_of_multi_step_optimality_lies_below_the_optimum(seed, horizon):
    mdp, optimum, policies, _ = problem(seed, discount=QUICK)
    fixed = fixed_point(lambda q: multi_step_optimality(mdp, policies, q, horizon), zero(mdp))
    assert (fixed <= optimum + ROUNDING)[mdp.available].all()


def test_the_fixed_point_of_multi_step_optimality_can_lie_strictly_below():
    # Chain of 3, the reward at the far end, and a policy that walks away from it.
    mdp, back = models.chain(3, 0.9), np.zeros(3, int)
    fixed = fixed_point(lambda q: multi_step_optimality(mdp, [back], q, 2), zero(mdp))
    np.testing.assert_allclose(oracles.optimal_q(mdp)[:, 1], [0.81, 0.9, 1.0])
    np.testing.assert_allclose(fixed[:, 1], [0.0, 0.0, 1.0], atol=1e-12)


@given(seeds, st.integers(2, 5))
@thorough
def test_with_a_policy_that_knows_the_way_its_greedy_values_are_optimal(seed, horizon):
    mdp, optimum, _, random = problem(seed, discount=QUICK)
    policies = knowing_policies(mdp, optimum, horizon + 1, random)  # optimal at times 0..N, as the paper asks
    fixed = fixed_point(lambda q: multi_step_optimality(mdp, policies, q, horizon), zero(mdp))
    np.testing.assert_allclose(fixed.max(axis=1), optimum.max(axis=1), rtol=0, atol=ROUNDING)


@given(seeds, st.integers(2, 5))
@thorough
def test_with_a_policy_that_knows_the_way_its_fixed_point_is_optimal_in_deterministic_models(seed, horizon):
    mdp, optimum, _, random = problem(seed, deterministic=True, discount=QUICK)
    policies = knowing_policies(mdp, optimum, horizon + 1, random)
    fixed = fixed_point(lambda q: multi_step_optimality(mdp, policies, q, horizon), zero(mdp))
    assert distance(mdp, fixed, optimum) <= ROUNDING


@given(seeds, st.integers(2, 5))
@thorough
def test_one_optimal_policy_among_others_is_enough_for_its_fixed_point_to_be_optimal(seed, horizon):
    # The paper says that this "only happens when all the behavior policies are optimal".
    mdp, optimum, policies, _ = problem(seed, discount=QUICK)
    policies = [*policies, optimum.argmax(axis=1)]
    fixed = fixed_point(lambda q: multi_step_optimality(mdp, policies, q, horizon), zero(mdp))
    assert distance(mdp, fixed, optimum) <= ROUNDING


def test_counterexample_4_a_policy_that_knows_the_way_from_each_state_is_not_enough_in_stochastic_models():
    # s0: action 0 pays 10 and ends, action 1 leads to s1 or s2 with probability 1/2, where action 0 or action 1 pays 1.
    # All steps from s1 and s2 end. From every state one of the two policies is optimal as far as one can go.
    transitions, ends = np.zeros((3, 2, 3)), np.ones((3, 2))
    transitions[0, 1, 1:], ends[0, 1] = 0.5, 0.0
    mdp = MDP(transitions, np.array([[10.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 0.9, termination=ends)
    policies = [np.array([0, 0, 0]), np.array([0, 1, 1])]
    optimum = np.array([[10.0, 0.9], [1.0, 0.0], [0.0, 1.0]])
    assert distance(mdp, oracles.optimal_q(mdp), optimum) < 1e-12
    fixed = fixed_point(lambda q: multi_step_optimality(mdp, policies, q, 2), zero(mdp))
    assert fixed[0, 1] == pytest.approx(0.45)  # the theorem says 0.9
    np.testing.assert_allclose(fixed.max(axis=1), optimum.max(axis=1))


# -- the sampled operator ---------------------------------------------------------------------------------------------


@given(seeds, horizons)
@thorough
def test_the_sampled_operator_contracts_to_the_optimum_in_deterministic_models(seed, horizon):
    mdp, optimum, policies, random = problem(seed, deterministic=True)
    assert distance(mdp, sampled_limit(mdp, policies, optimum, horizon), optimum) <= ROUNDING
    q, other = oracles.random_q(random, mdp), oracles.random_q(random, mdp)
    images = [sampled_limit(mdp, policies, table, horizon) for table in (q, other)]
    assert distance(mdp, *images) <= mdp.discount * distance(mdp, q, other) + ROUNDING
    one_step = distance(mdp, bellman(mdp, q), optimum)  # and it is never slower than one step, from any q
    assert distance(mdp, images[0], optimum) <= one_step + ROUNDING


def rollout(random: np.random.Generator, mdp: MDP, state: int, action: int, length: int):
    """A stored trajectory from (state, action) on, with random actions afterwards."""
    states, actions, rewards = [state], [action], [mdp.rewards[state, action]]
    while True:
        row = oracles.dense(mdp)[states[-1], actions[-1]]
        outcome = random.choice(mdp.num_states + 1, p=np.append(row, max(1 - row.sum(), 0)) / max(row.sum(), 1))
        if outcome == mdp.num_states:  # the end; whichever state is stored after it must not matter
            return [*states, 0], actions, rewards, True
        states.append(int(outcome))
        if len(actions) == length:
            return states, actions, rewards, False
        actions.append(int(random.choice(np.flatnonzero(mdp.available[outcome]))))
        rewards.append(mdp.rewards[states[-1], actions[-1]])


def data(random: np.random.Generator, mdp: MDP, per_action: int, length: int = 6) -> list:
    pairs = np.argwhere(mdp.available)
    return [rollout(random, mdp, s, a, length) for _ in range(per_action) for s, a in pairs]


@given(seeds, horizons)
@settings(max_examples=40, deadline=None)
def test_data_that_visit_every_action_are_enough_in_deterministic_models(seed, horizon):
    mdp, optimum, _, random = problem(seed, deterministic=True)
    stored = data(random, mdp, per_action=1)
    q, other = oracles.random_q(random, mdp), oracles.random_q(random, mdp)
    images = [sampled(stored, table, mdp.discount, horizon) for table in (q, other)]
    assert distance(mdp, *images) <= mdp.discount * distance(mdp, q, other) + ROUNDING
    assert distance(mdp, sampled(stored, optimum, mdp.discount, horizon), optimum) <= ROUNDING


def lucky_model(mdp: MDP) -> tuple[MDP, np.ndarray]:
    """The model in which one chooses the outcome too: action a * (S+1) + s' leads from s to s' (or to the end), if it
    is possible. Also: the table [S, A, S+1] of which outcomes are.
    """
    S, A = mdp.rewards.shape
    ends = np.zeros((S, A)) if mdp.termination is None else mdp.termination
    possible = np.concatenate([oracles.dense(mdp), ends[:, :, None]], axis=2) > 0
    possible[..., -1] |= mdp.terminal[:, None] & mdp.available
    rewards = np.where(possible, mdp.rewards[:, :, None], -np.inf).reshape(S, -1)
    transitions = np.broadcast_to(np.eye(S + 1, S), (S, A, S + 1, S)).reshape(S, -1, S)
    ends = np.broadcast_to(np.arange(S + 1) == S, (S, A, S + 1)).reshape(S, -1).astype(float)
    return MDP(transitions, rewards, mdp.discount, termination=ends), possible


@given(seeds, horizons)
@thorough
def test_in_stochastic_models_it_contracts_to_the_value_of_choosing_the_outcome(seed, horizon):
    mdp, optimum, policies, random = problem(seed, deterministic=False)
    q, other = oracles.random_q(random, mdp), oracles.random_q(random, mdp)
    images = (sampled_limit(mdp, policies, table, horizon) for table in (q, other))
    assert distance(mdp, *images) <= mdp.discount * distance(mdp, q, other) + ROUNDING
    model, possible = lucky_model(mdp)
    lucky = np.where(possible.any(axis=2), oracles.optimal_q(model).reshape(possible.shape).max(axis=2), -np.inf)
    assert distance(mdp, sampled_limit(mdp, policies, lucky, horizon), lucky) <= ROUNDING  # whatever Π and N
    assert (lucky >= optimum - ROUNDING)[mdp.available].all()


def test_more_data_make_the_sampled_operator_worse_by_hand():
    # From s0 one step leads to s1 or s2 with probability 1/2; s1 pays 1, s2 nothing, and both end: Q*(s0) = 0.45.
    stored = {1: ([0, 1, 0], [0, 0], [0.0, 1.0], True), 2: ([0, 2, 0], [0, 0], [0.0, 0.0], True)}

    def bias(episodes: int) -> float:
        """Of the fixed point at s0, averaged over all equally likely data sets."""
        sets = product((1, 2), repeat=episodes)
        values = [sampled(map(stored.get, outcomes), np.zeros((3, 1)), 0.9)[0, 0] for outcomes in sets]
        return np.mean(values) - 0.45  # pyright: ignore[reportReturnType]

    np.testing.assert_allclose([bias(d) for d in (1, 2, 3, 8)], [0, 0.225, 0.3375, 0.45 - 0.9 / 256], atol=1e-12)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_more_data_never_lower_the_fixed_point_of_the_sampled_operator(seed):
    mdp, _, _, random = problem(seed, deterministic=False, discount=QUICK)
    stored = data(random, mdp, per_action=4)
    some = stored[: len(stored) // 4]  # one trajectory from every action, so that all entries are decided by data

    def limit(trajectories):
        return fixed_point(lambda q: sampled(trajectories, q, mdp.discount), zero(mdp))

    assert (limit(stored) >= limit(some) - ROUNDING)[mdp.available].all()


def test_more_data_end_in_the_luckiest_value():
    random = np.random.default_rng(0)
    mdp = models.garnet(6, 2, 3, discount=0.8, seed=1)
    optimum = oracles.optimal_q(mdp)
    luckiest = fixed_point(lambda q: sampled_limit(mdp, [np.full((6, 2), 0.5)], q, 6), zero(mdp))
    stored = data(random, mdp, per_action=100)
    bias = []
    for count in (1, 10, 100):
        fixed = fixed_point(lambda q, n=count * 12: sampled(stored[:n], q, mdp.discount), zero(mdp))
        bias.append((fixed - optimum).mean())
    assert 0 < bias[0] < bias[1] <= bias[2]
    assert bias[2] == pytest.approx((luckiest - optimum).mean())


# -- the operators that evaluate a policy -----------------------------------------------------------------------------


def contracts(mdp: MDP, operator, rate: float, random: np.random.Generator) -> bool:
    q, other = oracles.random_q(random, mdp), oracles.random_q(random, mdp)
    return distance(mdp, operator(q), operator(other)) <= rate * distance(mdp, q, other) + ROUNDING


@given(seeds, horizons)
@thorough
def test_on_policy_operators_contract_to_the_value_of_the_policy(seed, horizon):
    mdp, _, (policy, *_), random = problem(seed)
    gamma, value = mdp.discount, oracles.policy_q(mdp, policy)
    weights = random.dirichlet(np.ones(horizon))
    lambda_ = random.random()
    operators = {
        lambda q: expectation(mdp, policy, q): gamma,
        lambda q: multi_step_on_policy(mdp, policy, q, horizon): gamma**horizon,
        lambda q: weighted(mdp, policy, q, weights): weights @ gamma ** np.arange(1, horizon + 1),
        lambda q: lambda_operator(mdp, policy, q, lambda_): gamma * (1 - lambda_) / (1 - gamma * lambda_),
    }
    for operator, rate in operators.items():
        assert distance(mdp, operator(value), value) <= ROUNDING
        assert contracts(mdp, operator, rate, random)


@given(seeds, horizons)
@thorough
def test_the_off_policy_operator_contracts_to_the_value_of_a_target_that_is_covered(seed, horizon):
    mdp, _, behaviours, random = problem(seed)
    target = oracles.random_policy(random, mdp, stochastic=True)
    everywhere = mdp.available / mdp.available.sum(axis=1, keepdims=True)
    covering = [0.5 * everywhere + 0.5 * as_probabilities(mdp, policy) for policy in behaviours]
    value = oracles.policy_q(mdp, target)
    assert distance(mdp, multi_step_off_policy(mdp, target, covering, value, horizon), value) <= ROUNDING
    for policies in (covering, behaviours):  # the rate does not depend on coverage, the fixed point does
        assert contracts(
            mdp,
            lambda q, policies=policies: multi_step_off_policy(mdp, target, policies, q, horizon),
            mdp.discount**horizon,
            random,
        )


def as_probabilities(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    return np.eye(mdp.num_actions)[policy] if policy.ndim == 1 else policy


def test_importance_sampling_misses_what_no_behaviour_does():
    # One state; action 0 pays 1, action 1 nothing; γ = 1/2. The target always takes 0: Q^π = (2, 1).
    mdp = MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), 0.5)
    target, other = np.array([0]), np.array([1])
    np.testing.assert_allclose(oracles.policy_q(mdp, target), [[2.0, 1.0]])
    fixed = fixed_point(lambda q: multi_step_off_policy(mdp, target, [other], q, 2), np.zeros((1, 2)))
    np.testing.assert_allclose(fixed, [[1.0, 0.0]])  # all rewards after the first step are lost


def test_the_printed_weights_of_the_lambda_operator_do_not_sum_to_one():
    # One state, reward 1, γ = λ = 1/2, Q^π = 2. Printed: (1-λ) Σ λ^N (B^π)^N, whose weights sum to λ.
    mdp, policy, value = MDP(np.ones((1, 1, 1)), np.ones((1, 1)), 0.5), np.array([0]), np.full((1, 1), 2.0)
    printed = sum(0.5 * 0.5**n * multi_step_on_policy(mdp, policy, value, n) for n in range(1, 60))
    assert printed == pytest.approx(1.0)
    assert lambda_operator(mdp, policy, value, 0.5) == pytest.approx(2.0)


# -- the matrix formula of Section 4 ----------------------------------------------------------------------------------


def test_the_printed_matrix_formula_lacks_a_transition():
    # s0 leads to s1, which pays 1 and ends: V* = (0.9, 1). One update from V = 0 with N = 2.
    mdp, policy = models.chain(2, 0.9), np.array([1, 1])
    corrected, printed = (oracles.matrix_form(mdp, [policy], np.zeros(2), 2, as_printed=p) for p in (False, True))
    np.testing.assert_allclose(corrected, [0.9, 1.0])
    np.testing.assert_allclose(printed, [0.0, 1.9])  # the reward of s1 is counted twice in s1, and not at all in s0
    np.testing.assert_allclose(greedy_step(mdp, [policy], np.zeros((2, 2)), 2).max(axis=1), corrected)

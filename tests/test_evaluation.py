"""The compiled loops behind the fast solver, each beside the plain way to the same numbers."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import planning_problems
from greedystep import models
from greedystep.mdp import MDP
from greedystep.planning import backups, elimination, policy_evaluation, policy_iteration, transition_tables
from greedystep.signals import Deadline

MODELS = {
    "garnet": models.garnet(60, 3, 4, discount=0.95),
    "slippery": models.grid(8, 9, slip=0.3, discount=0.99),
    "maze": models.renumbered(models.maze(9, 9, slip=0.2, discount=0.999)),
    "long rows": models.garnet(50, 3, 20, discount=0.99),
    "chain": models.chain(40, 0.99),
    "missing actions": MDP(
        models.garnet(30, 4, 3).transitions,
        models.garnet(30, 4, 3).rewards,
        0.9,
        available=np.arange(120).reshape(30, 4) % 3 > 0,
    ),
}


def policy_of(mdp, seed):
    """A random policy that uses available actions only."""
    order = np.random.default_rng(seed).random(mdp.rewards.shape)
    return np.where(mdp.available, order, -1).argmax(axis=1)


def exact_value(mdp, policy):
    chain, reward = mdp.under(policy)
    chain = chain if isinstance(chain, np.ndarray) else chain.toarray()
    return np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * chain, reward)


def evaluated(mdp, policy, monkeypatch, **constants):
    for name, value in constants.items():
        monkeypatch.setattr(policy_evaluation, name, value)
    rows = transition_tables.as_table(mdp)
    choice = (rows.first[:-1] + policy).astype(np.uint32)
    v = np.zeros(mdp.num_states)
    policy_evaluation.PolicyEvaluator(rows).evaluate(choice, v, 1e-12, 500, mdp.discount)
    return v


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", MODELS)
def test_elimination_and_bicgstab_find_the_value_of_a_policy(name, seed, monkeypatch):
    mdp = MODELS[name]
    policy = policy_of(mdp, seed)
    truth = exact_value(mdp, policy)
    for worth in (0, 10**9):  # never, and always, by elimination
        np.testing.assert_allclose(evaluated(mdp, policy, monkeypatch, BAND_WORTH=worth), truth, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", MODELS)
def test_sparse_elimination_finds_the_value_of_a_policy(name, seed):
    mdp = MODELS[name]
    policy, rows = policy_of(mdp, seed), transition_tables.as_table(mdp)
    chain = policy_evaluation.PolicyEvaluator(rows).chain((rows.first[:-1] + policy).astype(np.uint32), mdp.discount)
    v = np.empty(mdp.num_states)
    assert elimination.solve_sparse(chain, v, Deadline())
    np.testing.assert_allclose(v, exact_value(mdp, policy), rtol=1e-11, atol=1e-11)


def test_sparse_elimination_refuses_what_has_no_value_or_no_room(monkeypatch):
    ring = models.garnet(4, 1, 1, discount=0.9)
    rows = transition_tables.as_table(ring)._replace(successor=np.array([1, 2, 3, 0], np.uint32))
    v = np.zeros(4)
    assert not elimination.solve_sparse(
        policy_evaluation.PolicyEvaluator(rows).chain(rows.first[:-1].copy(), 1.0), v, Deadline()
    )
    assert (v == 0).all()
    monkeypatch.setattr(elimination, "CHUNK", 100)
    monkeypatch.setattr(elimination, "FREE_FILL", 1000)
    monkeypatch.setattr(elimination, "FILL", 3)
    rows = transition_tables.as_table(models.garnet(200, 1, 5, discount=0.9))
    v = np.zeros(200)
    assert not elimination.solve_sparse(
        policy_evaluation.PolicyEvaluator(rows).chain(rows.first[:-1].copy(), 0.9), v, Deadline()
    )
    assert (v == 0).all()


@pytest.mark.parametrize("states", [1, 2, 17, 100, 700])
def test_a_dissection_orders_every_state_once_and_keeps_a_path_thin(states, monkeypatch):
    path = models.renumbered(models.chain(states))
    rows = transition_tables.as_table(path)
    chain = policy_evaluation.PolicyEvaluator(rows).chain(rows.first[:-1] + np.uint32(1), 1.0)
    for piece in (10**6, 10):
        monkeypatch.setattr(elimination, "CHUNK", piece)
        np.testing.assert_array_equal(np.sort(elimination.dissection_order(chain, Deadline())), np.arange(states))


def nearly_deterministic(states, chance, discount, seed):
    """Long ways through the states in a random order, on which a step seldom goes astray: BiCGSTAB is lost there."""
    random = np.random.default_rng(seed)
    successors = random.integers(0, states, (states, 2))
    table = sp.csr_array(
        (np.tile([1 - chance, chance], states), successors.ravel(), np.arange(states + 1) * 2), shape=(states, states)
    )
    return MDP(table, random.normal(size=(states, 1)), discount)


HARD = {
    "queue": models.renumbered(planning_problems.queue(400, 0.999999)),
    "corridor": models.renumbered(models.grid(3, 150, slip=0.5, discount=0.999999)),
    "maze": models.renumbered(models.maze(20, 20, slip=0.3, discount=0.99999, seed=3)),
    "clusters": planning_problems.clusters(8, 50, 2, 1e-6, 0.999999),
    "astray": nearly_deterministic(300, 1e-6, 0.999999, 0),
    "garnet": models.garnet(300, 2, 8, discount=0.9999),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", HARD)
def test_an_exact_evaluation_leaves_only_what_rounding_makes(name, seed):
    mdp = HARD[name]
    policy, rows = policy_of(mdp, seed), transition_tables.as_table(mdp)
    v = np.zeros(mdp.num_states)
    policy_evaluation.PolicyEvaluator(rows).evaluate_exactly(
        (rows.first[:-1] + policy).astype(np.uint32), v, mdp.discount
    )
    chain, reward = mdp.under(policy)
    residual = np.abs(reward + mdp.discount * (chain @ v) - v).max()
    assert residual <= 50 * 2.0**-53 * (np.abs(reward).max() + np.abs(v).max())  # LAPACK leaves as much


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**31))
def test_deterministic_chains_are_walked_to_their_end_or_round_their_loop(states, seed):
    mdp = models.garnet(states, 2, 1, discount=0.9, seed=seed)
    policy = policy_of(mdp, seed)
    rows = transition_tables.as_table(mdp)
    chain = policy_evaluation.PolicyEvaluator(rows).chain((rows.first[:-1] + policy).astype(np.uint32), 0.9)
    v = np.empty(states)
    assert policy_evaluation.solve_deterministic(chain, v)
    np.testing.assert_allclose(v, exact_value(mdp, policy), atol=1e-9)


def test_a_loop_that_loses_nothing_has_no_value():
    ring = models.garnet(4, 1, 1, discount=0.9)
    rows = transition_tables.as_table(ring)._replace(successor=np.array([1, 2, 3, 0], np.uint32))
    chain = policy_evaluation.PolicyEvaluator(rows).chain(rows.first[:-1].copy(), 1.0)
    assert not policy_evaluation.solve_deterministic(chain, np.zeros(4))
    v = np.zeros(4)
    assert not policy_evaluation.solve_banded(chain, v, *policy_evaluation.bandwidth(chain), Deadline())
    assert (v == 0).all()


def test_bicgstab_never_hands_back_something_worse():
    mdp = MODELS["slippery"]
    rows = transition_tables.as_table(mdp)
    policy = policy_of(mdp, 0)
    truth = exact_value(mdp, policy)
    for rounds in range(6):
        v = truth + 1e-9
        policy_evaluation.PolicyEvaluator(rows).evaluate(
            (rows.first[:-1] + policy).astype(np.uint32), v, 0.0, rounds, mdp.discount
        )
        assert np.abs(v - truth).max() < 1e-8


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dense", [False, True])
def test_a_pruned_backup_leaves_out_only_rows_that_cannot_be_the_best(name, dense, monkeypatch):
    mdp = MODELS[name]
    if dense:
        full = mdp.transitions.toarray() if not isinstance(mdp.transitions, np.ndarray) else mdp.transitions
        model = backups.DenseModel.__new__(backups.DenseModel)
        twin = mdp.with_rewards(mdp.rewards)
        twin.transitions = full
        model.__init__(twin)
    else:
        monkeypatch.setattr(backups, "PRUNE_FROM", 0)
        model = backups.SparseModel(mdp, transition_tables.as_table(mdp))
    random = np.random.default_rng(0)
    v = random.normal(size=mdp.num_states)
    for size in (10, 1, 1, 0.1, 1e-3, 0, 5, 1e-9):
        backup = model.backup(v)
        q = np.where(mdp.available, mdp.backup(v), -np.inf)
        np.testing.assert_allclose(backup.out, q.max(axis=1), atol=1e-12)
        chosen = q[np.arange(v.size), model.actions_of(backup.choice)]
        np.testing.assert_allclose(chosen, q.max(axis=1), atol=1e-12)
        assert backup.low == pytest.approx((q.max(axis=1) - v).min(), abs=1e-12)
        assert backup.high == pytest.approx((q.max(axis=1) - v).max(), abs=1e-12)
        v = backup.out + size * random.normal(size=v.size) + random.normal()


@pytest.mark.parametrize("dense", [False, True])
def test_a_pruned_backup_allows_for_rounding_at_values_that_it_has_left(dense, monkeypatch):
    monkeypatch.setattr(backups, "PRUNE_FROM", 0)
    loop, rewards = np.ones((1, 2, 1)), np.array([[0.1, 0.1 + 1e-11]])
    mdp = MDP(loop if dense else sp.csr_array(loop[0]), rewards, 0.9)
    for far in np.random.default_rng(0).uniform(-1e6, 1e6, 20):
        model = backups.DenseModel(mdp) if dense else backups.SparseModel(mdp, transition_tables.as_table(mdp))
        for v in (0.0, far):  # far away the actions are equal but for rounding
            model.backup(np.array([v]))
        assert model.backup(np.zeros(1)).high == rewards.max()


def test_a_pruned_backup_does_leave_rows_out(monkeypatch):
    monkeypatch.setattr(backups, "PRUNE_FROM", 0)
    mdp = MODELS["garnet"]
    rows = transition_tables.as_table(mdp)
    model = backups.SparseModel(mdp, rows)
    v = model.backup(np.zeros(mdp.num_states)).out
    best = model.backup(v)
    others = np.setdiff1d(np.arange(rows.reward.size), best.choice)
    rows.probability[rows.start[others[0]]] = np.nan  # whoever looks at it, finds nan
    again = model.backup(v + 1e-6)
    np.testing.assert_allclose(again.out, best.out + mdp.discount * 1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "mdp",
    [
        models.grid(12, 15, discount=0.99),
        models.renumbered(models.maze(20, 20, discount=0.999)),
        models.renumbered(models.chain(50, 0.9)),
    ],
)
def test_the_first_guess_is_exact_where_ways_are_straight(mdp):
    rows = transition_tables.as_table(mdp)
    v = np.empty(mdp.num_states)
    policy_iteration.first_guess(
        rows, mdp.discount, *transition_tables.reward_distance_order(rows, Deadline()), v, 0, v.size
    )
    np.testing.assert_allclose(mdp.backup(v).max(axis=1), v, atol=1e-9)


def test_patience_ends_and_comes_back():
    patience = policy_iteration._Patience()
    lasts = [patience.lasts(1.0) for _ in range(100)]
    assert lasts[: policy_iteration.PATIENCE] == [True] * policy_iteration.PATIENCE
    assert not all(lasts)
    assert any(lasts[2 * policy_iteration.PATIENCE + 1 :])
    progress = policy_iteration._Patience()
    assert all(progress.lasts(2.0**-i) for i in range(100))

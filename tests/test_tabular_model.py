"""Counting what was seen, the MDP of it, and planning on it while learning and from logs."""

import numpy as np
import oracles
import oracles_empirical as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import greedystep as gs
from greedystep import envs
from greedystep.envs import toy
from greedystep.tabular import EmpiricalModel, Episodes, collect, episodes_to_solve, learn, replay

seeds = st.integers(0, 2**32 - 1)
thorough = settings(max_examples=60, deadline=None)


def as_tuples(log):
    for e, terminated in enumerate(log.terminated):
        low, high = log.first[e], log.first[e + 1]
        states = log.states[low + e : high + e + 1]
        yield states, log.actions[low:high], log.rewards[low:high], log.behaviour_prob[low:high], bool(terminated)


def random_log(seed, deterministic=False):
    """(task, log): some random episodes, often too few to see everything, often cut off."""
    random = np.random.default_rng(seed)
    mdp = oracles.random_mdp(random, deterministic=deterministic)
    inner = np.flatnonzero(~mdp.terminal)
    start = np.zeros(mdp.num_states)
    start[inner if len(inner) else [0]] = 1.0
    task = toy.from_mdp("random", mdp, start / start.sum(), horizon=int(random.integers(1, 9)))
    return task, collect(task, episodes=int(random.integers(1, 30)), seed=random)


# -- counting ---------------------------------------------------------------------------------------------------------


@given(seeds)
@thorough
def test_the_counts_are_those_of_the_log(seed):
    task, log = random_log(seed)
    model = EmpiricalModel.of(log, task.num_states, task.num_actions)
    seen = oracle.outcomes(as_tuples(log))
    for s, a in np.ndindex(model.visits.shape):
        happened = seen.get((s, a), [])
        assert model.visits[s, a] == len(happened)
        assert model.seen[s, a] == bool(happened)
        successors = [after for _, after in happened]
        assert model.branching[s, a] == len(set(successors))
        if happened:
            assert model.termination[s, a] == pytest.approx(successors.count(oracle.END) / len(happened))
            assert model.rewards[s, a] == pytest.approx(np.mean([r for r, _ in happened]))
        else:
            assert model.rewards[s, a] == -np.inf


@given(seeds, st.integers(1, 5))
@thorough
def test_counting_in_parts_is_counting_at_once(seed, parts):
    task, log = random_log(seed)
    whole = EmpiricalModel.of(log, task.num_states, task.num_actions)
    model = EmpiricalModel(task.num_states, task.num_actions)
    episodes = [(s, a, r, ended) for s, a, r, _, ended in as_tuples(log)]
    for part in range(parts):
        if episodes[part::parts]:
            model.add(Episodes.of(episodes[part::parts]))
    np.testing.assert_array_equal(model.visits, whole.visits)
    np.testing.assert_array_equal(model.branching, whole.branching)
    np.testing.assert_allclose(model.rewards, whole.rewards)
    np.testing.assert_allclose(
        model.mdp(0.9).backup(np.ones(len(model.visits))), whole.mdp(0.9).backup(np.ones(len(model.visits)))
    )


def test_branching_is_of_successors_and_of_rewards():
    log = Episodes.of([([0, 1, 0], [0, 0], [1.0, 0.1], False), ([0, 0, 1, 0], [0, 1, 0], [1.0, 2.0, 0.1], True)])
    model = EmpiricalModel.of(log)
    np.testing.assert_array_equal(model.branching, [[2, 1], [2, 0]])
    assert not model.rewards_vary.any()
    assert not model.deterministic
    steady = EmpiricalModel.of(Episodes.of([([0, 0], [0], [0.1], True)] * 7))
    assert steady.deterministic
    assert steady.rewards[0, 0] == 0.1
    steady.add(Episodes.of([([0, 0], [0], [0.2], True)]))
    assert steady.rewards_vary[0, 0]
    assert not steady.deterministic


# -- the MDP ----------------------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([-np.inf, -3.0, 0.0, 2.0]))
@thorough
def test_the_mdp_of_a_log_has_the_optimum_of_the_log(seed, unknown):
    task, log = random_log(seed)
    model, gamma = EmpiricalModel.of(log, task.num_states, task.num_actions), 0.9
    mdp = model.mdp(gamma, unknown)
    table = np.full(model.visits.shape, -np.inf)
    table[~model.seen.any(axis=1)] = unknown
    truth = oracle.optimum(as_tuples(log), table, gamma)
    solved = gs.solve(mdp, tolerance=1e-9).q
    alive = model.seen & (truth > -np.inf)
    np.testing.assert_allclose(solved[alive], truth[alive], atol=1e-8)
    np.testing.assert_array_equal(mdp.available & model.seen & ~mdp.terminal[:, None], alive)
    if unknown > -np.inf:
        assert not (mdp.terminal & model.seen.any(axis=1) & (truth.max(axis=1) != 0.0)).any()


def test_a_state_that_was_only_reached_by_a_cut_is_worth_what_one_says():
    model = EmpiricalModel.of(Episodes.of([([0, 1, 2], [0, 0], [1.0, 1.0], False), ([0, 0], [1], [0.5], True)]))
    for unknown, expected in ((0.0, 1.9), (10.0, 10.0), (-10.0, 0.5)):
        assert gs.solve(model.mdp(0.9, unknown)).v[0] == pytest.approx(expected)
    cautious = model.mdp(0.9, -np.inf)
    np.testing.assert_array_equal(cautious.available[0], [False, True])  # action 0 leads to 1, from where only 2
    np.testing.assert_array_equal(cautious.terminal, [False, True, True])
    with pytest.raises(ValueError, match="unknown: expected a number below infinity, got nan"):
        model.mdp(0.9, np.nan)


def test_with_discount_one_the_mdp_s_own_rules_hold():
    model = EmpiricalModel.of(Episodes.of([([0, 1, 0, 0], [0, 0, 1], [0.0, 1.0, 3.0], True)]))
    np.testing.assert_array_equal(model.mdp(1.0).available, [[True, True], [True, False]])
    loop = EmpiricalModel.of(Episodes.of([([0, 1, 0], [0, 0], [0.0, 1.0], False)]))
    with pytest.raises(ValueError, match="discount"):
        loop.mdp(1.0)


def test_bad_arguments_are_answered_by_one_sentence():
    with pytest.raises(ValueError, match="num_states: expected an integer >= 1, got 0"):
        EmpiricalModel(0, 2)
    with pytest.raises(ValueError, match=r"log, episode 0, step 1: state 5 is not in 0\.\.1"):
        EmpiricalModel(2, 2).add(Episodes.of([([0, 5], [0], [0.0], True)]))


# -- planning on it ---------------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([-np.inf, -2.0, 0.0, 1.0]), st.sampled_from([0.5, 0.9, 0.99]))
@thorough
def test_a_replayed_log_gives_the_optimum_of_the_log(seed, initial, gamma):
    task, log = random_log(seed)
    table = np.where(task.mdp.available, initial, -np.inf)
    q = replay(log, table, "model", discount=gamma)
    np.testing.assert_allclose(q, oracle.optimum(as_tuples(log), table, gamma), atol=1e-7)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_while_learning_the_table_is_always_the_optimum_of_what_was_seen(seed):
    task, _ = random_log(seed)
    random, gamma = np.random.default_rng(seed), task.mdp.discount
    begin, memory, episodes = np.where(task.mdp.available, 0.0, -np.inf), None, []
    q = begin
    for _ in range(6):
        kept = random.bit_generator.state
        episodes += as_tuples(collect(task, episodes=1, epsilon=0.4, q=q, seed=random))
        random.bit_generator.state = kept
        q, _, _, memory = learn(task, "model", episodes=1, epsilon=0.4, q=q, seed=random, memory=memory)
        np.testing.assert_allclose(q, oracle.optimum(episodes, begin, gamma), atol=1e-7)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_logs_in_parts_are_one_log(seed):
    task, log = random_log(seed)
    memory = EmpiricalModel(task.num_states, task.num_actions)
    table = np.where(task.mdp.available, 0.0, -np.inf)
    q = table
    for s, a, r, _, ended in as_tuples(log):
        q = replay(Episodes.of([(s, a, r, ended)]), q, "model", discount=0.9, memory=memory)
    np.testing.assert_allclose(q, replay(log, table, "model", discount=0.9), atol=1e-7)


def test_learning_in_parts_is_learning_at_once_to_the_bit(tmp_path):
    for seed in range(30):  # changes of values too small to be propagated at once add up across the parts
        random = np.random.default_rng(seed)
        transitions, rewards = np.eye(3)[random.integers(0, 3, (3, 2))], random.normal(size=(3, 2))
        transitions[0, 0] = 0.0
        mdp = gs.MDP(transitions, rewards, 0.9, termination=1 - transitions.sum(axis=2))
        task = envs.toy_task.from_mdp("cycles", mdp, np.full(3, 1 / 3), 60)
        whole, parts = (gs.TabularAgent(task, "model", seed=seed, epsilon=0.5) for _ in range(2))
        whole.learn(18)
        for _ in range(6):
            parts.learn(3)
            parts.save(tmp_path / "agent.npz")
            parts = gs.TabularAgent.load(tmp_path / "agent.npz", task)
        np.testing.assert_array_equal(whole.q, parts.q)


def test_a_model_stored_without_propagated_values_is_read():
    _, log = random_log(0)
    model = EmpiricalModel.of(log)
    arrays = model.arrays()
    del arrays["propagated"]
    again = EmpiricalModel.from_arrays(arrays, *model.shape)
    np.testing.assert_array_equal(again.counts.propagated, model.counts.propagated)
    with pytest.raises(ValueError, match="a value of a stored model is not finite"):
        EmpiricalModel.from_arrays({**model.arrays(), "propagated": np.full(model.shape[0], np.nan)}, *model.shape)


@pytest.mark.parametrize("name", ["toy/choice", "toy/trace-back"])
def test_it_solves_the_delayed_reward_tasks(name):
    task = envs.make_task(name, delay=8)
    solved = episodes_to_solve(task, "model", limit=500, epsilon=1.0, seed=1)
    assert solved is not None
    q = learn(task, "model", episodes=solved, epsilon=1.0, seed=1).q
    assert task.expected_return(q.argmax(axis=1)) == pytest.approx(task.optimal_return)


def test_with_noise_it_learns_the_mean():
    task = envs.make_task("toy/choice", delay=5, noise=1.0)
    assert learn(task, "model", episodes=10_000, epsilon=1.0).q[0].max() == pytest.approx(task.optimal_return, abs=0.1)


def test_values_without_bound_are_reported():
    loop = Episodes.of([([0, 1, 0], [0, 0], [0.0, 1.0], False)])
    with pytest.raises(FloatingPointError, match="model: its values have no bound"):
        replay(loop, np.zeros((2, 1)), "model", discount=1.0)


def test_a_memory_that_does_not_fit_is_refused():
    task = envs.make_task("toy/choice")
    with pytest.raises(ValueError, match="memory: this method keeps nothing but its table"):
        learn(task, "q-learning", episodes=1, memory=EmpiricalModel(39, 2))
    with pytest.raises(ValueError, match="memory: expected EmpiricalModel of 39 states and 2 actions"):
        learn(task, "model", episodes=1, memory=EmpiricalModel(3, 2))
    with pytest.raises(ValueError, match="alpha: model has no such option, it has none"):
        learn(task, "model", episodes=1, alpha=0.5)

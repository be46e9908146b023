"""The forms of greedy-step: stored, for the paper's literal rule, and expected, for worlds with chance."""

import numpy as np
import oracles
import oracles_empirical as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tabular_model import as_tuples, random_log, seeds, thorough

import greedystep as gs
from greedystep import envs, models
from greedystep.envs import toy
from greedystep.tabular import EmpiricalModel, Episodes, StochasticityWarning, StoredEpisodes, collect, learn, replay

horizons = st.sampled_from([None, 1, 2, 3, 100])
discounts = st.sampled_from([0.5, 0.9, 1.0])


def one_by_one(log):
    """Every episode as a log of its own, and as the oracle wants it."""
    for episode in as_tuples(log):
        states, actions, rewards, chances, terminated = episode
        yield Episodes.of([(states, actions, rewards, terminated, chances)]), episode


# -- stored: the literal rule -----------------------------------------------------------------------------------------


@given(seeds, horizons, discounts, st.sampled_from([-np.inf, -2.0, 1.0]))
@thorough
def test_the_stored_form_values_every_stored_trajectory_again(seed, horizon, gamma, initial):
    task, log = random_log(seed)
    q = np.where(task.mdp.available, initial, -np.inf)
    memory, so_far = StoredEpisodes(*q.shape), []
    for one, episode in one_by_one(log):
        so_far.append(episode)
        expected = oracle.revalued(so_far, oracle.revalued(so_far, q, gamma, horizon), gamma, horizon)
        q = replay(one, q, form="stored", discount=gamma, horizon=horizon, memory=memory, sweeps=2)
        np.testing.assert_allclose(q, expected, rtol=1e-10, atol=1e-10)


@given(seeds, horizons)
@settings(max_examples=20, deadline=None)
def test_learning_in_the_stored_form_is_acting_and_valuing_in_turn(seed, horizon):
    task, _ = random_log(seed)
    learned = learn(task, form="stored", horizon=horizon, episodes=6, epsilon=0.4, seed=seed)
    random, q, so_far = np.random.default_rng(seed), np.where(task.mdp.available, 0.0, -np.inf), []
    for _ in range(6):
        so_far += as_tuples(collect(task, episodes=1, epsilon=0.4, q=q, seed=random))
        before = q
        q = learn(task, form="stored", horizon=horizon, episodes=len(so_far), epsilon=0.4, seed=seed).q
        expected = oracle.revalued(so_far, before, task.mdp.discount, horizon)
        np.testing.assert_allclose(q, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(learned.q, q)


@given(seeds, horizons)
@thorough
def test_without_chance_one_episode_that_meets_no_state_twice_gives_the_running_table(seed, horizon):
    task, log = random_log(seed, deterministic=True)
    gamma = task.mdp.discount
    lowest = np.where(task.mdp.available, task.lowest_return / (1 - gamma), -np.inf)
    for one, (states, *_, terminated) in one_by_one(log):
        visited = states[:-1] if terminated else states
        if len(set(visited.tolist())) == len(visited):
            running, stored = (
                replay(one, lowest, form=form, discount=gamma, horizon=horizon) for form in ("running", "stored")
            )
            np.testing.assert_array_equal(running, stored)


@given(seeds, horizons)
@thorough
def test_without_chance_both_sampled_forms_and_the_expected_one_find_the_optimum_of_the_log(seed, horizon):
    task, log = random_log(seed, deterministic=True)
    shape, gamma = task.mdp.rewards.shape, 0.8
    seen = EmpiricalModel.of(log, *shape).seen
    known = seen | ~seen.any(axis=1, keepdims=True)  # a state that was only reached is worth the least there is
    lowest = np.where(known, min(0.0, log.rewards.min()) / (1 - gamma), -np.inf)
    truth = oracle.optimum(as_tuples(log), lowest, gamma)
    for form in ("running", "stored", "expected"):
        q = replay(log, lowest, form=form, discount=gamma, sweeps=120, horizon=horizon)
        np.testing.assert_allclose(q, truth, atol=1e-7, err_msg=form)


def test_only_the_stored_form_comes_down_from_a_table_that_is_too_high():
    task = envs.make_task("toy/n-horizon", length=4, horizon=30)
    log = collect(task, episodes=60, seed=1)
    truth = oracles.optimal_q(task.mdp)
    high = np.full(truth.shape, 50.0)
    stored = replay(log, high, form="stored", discount=0.99, sweeps=3000)
    np.testing.assert_allclose(stored, truth, atol=1e-6)
    np.testing.assert_array_equal(replay(log, high, discount=0.99, sweeps=100), high)


def test_crossing_trajectories_are_joined_without_being_seen_again():
    # The first episode passes 1 and ends with nothing; the second comes to 1 from elsewhere and finds 5 behind it.
    first, second = ([0, 1, 0], [0, 0], [0.0, 0.0], True), ([2, 1, 0], [0, 1], [0.0, 5.0], True)
    memory = StoredEpisodes(3, 2)
    q = replay(Episodes.of([first]), np.zeros((3, 2)), form="stored", discount=1.0, memory=memory)
    q = replay(Episodes.of([second]), q, form="stored", discount=1.0, memory=memory)
    assert (q[2, 0], q[0, 0]) == (5.0, 0.0)  # all returns are those of the table before
    q = replay(Episodes.of([second]), q, form="stored", discount=1.0, memory=memory)
    assert q[0, 0] == 5.0


# -- expected ---------------------------------------------------------------------------------------------------------


@given(seeds, horizons, discounts, st.sampled_from([-2.0, 1.0]))
@thorough
def test_the_expected_form_takes_the_maximum_inside_the_expectation(seed, horizon, gamma, initial):
    task, log = random_log(seed)
    q = np.where(task.mdp.available, initial, -np.inf)
    memory, so_far = EmpiricalModel(*q.shape), []
    for one, episode in one_by_one(log):
        so_far.append(episode)
        expected = oracle.expected_update(oracle.outcomes(so_far), episode, q, gamma, horizon)
        q = replay(one, q, form="expected", discount=gamma, horizon=horizon, memory=memory)
        np.testing.assert_allclose(q, expected, rtol=1e-10, atol=1e-10)


@given(seeds, horizons, st.sampled_from([-np.inf, -3.0, 0.0, 5.0]))
@thorough
def test_the_expected_form_converges_to_the_optimum_of_any_log(seed, horizon, unknown):
    task, log = random_log(seed)
    model, gamma = EmpiricalModel.of(log, *task.mdp.rewards.shape), 0.8
    mdp = model.mdp(gamma, unknown)
    table = np.full(mdp.rewards.shape, -np.inf)
    table[~model.seen.any(axis=1)] = unknown
    q = replay(log, table, form="expected", discount=gamma, sweeps=150, horizon=horizon)
    alive = mdp.available & ~mdp.terminal[:, None]
    np.testing.assert_allclose(q[alive], gs.solve(mdp, tolerance=1e-10).q[alive], atol=1e-7)
    assert (q[model.seen & ~mdp.available] == -np.inf).all()


@given(seeds, horizons)
@thorough
def test_below_the_optimum_it_stays_below_and_is_never_slower_than_one_step_backups(seed, horizon):
    task, log = random_log(seed)
    gamma = task.mdp.discount
    begin = np.where(task.mdp.available, min(0.0, log.rewards.min()) / (1 - gamma), -np.inf)
    truth = oracle.optimum(as_tuples(log), begin, gamma)
    far, near = (replay(log, begin, form="expected", discount=gamma, sweeps=3, horizon=limit) for limit in (horizon, 1))
    assert (near <= far + 1e-9)[task.mdp.available].all()
    assert (far <= truth + 1e-6)[task.mdp.available].all()


def test_learning_in_the_expected_form_is_acting_and_replaying_in_turn():
    task = envs.make_task("toy/choice", delay=5, noise=1.0)
    learned = learn(task, form="expected", episodes=20, epsilon=0.4, seed=3)
    random, q, memory = np.random.default_rng(3), np.zeros((9, 2)), EmpiricalModel(9, 2)
    for _ in range(20):
        log = collect(task, episodes=1, epsilon=0.4, q=q, seed=random)
        q = replay(log, q, form="expected", discount=1.0, memory=memory)
    np.testing.assert_array_equal(learned.q, q)
    np.testing.assert_array_equal(learned.memory.visits, memory.visits)  # pyright: ignore[reportAttributeAccessIssue]


# -- what chance does to the sampled forms ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["running", "stored"])
def test_sampled_forms_are_too_high_in_a_world_with_chance_and_more_data_makes_it_worse(form):
    # Six states, random transitions: the setting in which the fixed point of the sampled operator was first measured.
    random = np.random.default_rng(0)
    mdp = models.MDP(random.dirichlet(np.full(6, 0.3), (6, 3)), random.random((6, 3)), 0.9)
    task = toy.from_mdp("six", mdp, np.full(6, 1 / 6), 20)
    log = collect(task, episodes=400, seed=1)
    truth, few = oracles.optimal_q(mdp), Episodes.of((s, a, r, ended) for s, a, r, _, ended in list(as_tuples(log))[:5])
    bias = {
        size: (replay(part, np.zeros((6, 3)), form=form, discount=0.9, sweeps=200) - truth).mean()
        for size, part in (("few", few), ("many", log))
    }
    assert 0.2 < bias["few"] < bias["many"]
    right = replay(log, np.zeros((6, 3)), form="expected", discount=0.9, sweeps=200)
    assert np.abs(right - truth).max() < 0.25


def test_the_expected_form_learns_what_the_sampled_one_cannot():
    task = envs.make_task("toy/choice", delay=5, noise=1.0)
    values = {form: learn(task, form=form, episodes=5000, epsilon=1.0).q[0] for form in ("running", "expected")}
    np.testing.assert_allclose(values["expected"], [1.0, 0.0], atol=0.15)
    assert values["running"].min() > 3.0


# -- the watch --------------------------------------------------------------------------------------------------------

COIN = [([0, 1, 0], [0, 0], [0.0, 1.0], True), ([0, 0], [0], [0.0], True), ([0, 1, 0], [0, 0], [0.0, 1.0], True)]
NOISE = [([0, 1, 0], [0, 0], [0.0, reward], True) for reward in (1.0, 1.0, -3.0)]


@pytest.mark.parametrize("form", ["running", "stored"])
@pytest.mark.parametrize(
    ("log", "what"),
    [
        (COIN, "action 0 of state 0 led to state 1 at one time and to the end at another"),
        (NOISE, "action 0 of state 1 paid 1 at one time and -3 at another"),
    ],
)
def test_an_agent_warns_once_when_an_action_does_two_different_things(form, log, what, tmp_path):
    task = envs.make_task("toy/choice", delay=3)
    agent = gs.TabularAgent(task, form=form)
    agent.fit(log[:1])
    with pytest.warns(StochasticityWarning, match=rf'{form} form .* {what}.* form="expected"') as caught:
        agent.fit(log[1:])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    agent.fit(log)  # a second warning would be an error here
    agent.save(tmp_path / "agent.npz")
    gs.TabularAgent.load(tmp_path / "agent.npz").fit(log)


@pytest.mark.parametrize("form", ["running", "stored"])
def test_learning_is_watched_too(form):
    noisy = gs.TabularAgent(envs.make_task("toy/choice", delay=4, noise=0.5), form=form)
    with pytest.warns(StochasticityWarning, match="action . of state . paid") as caught:
        noisy.learn(50)
    assert caught[0].filename == __file__
    noisy.learn(50)
    gs.TabularAgent(envs.make_task("toy/choice", delay=4), form=form).learn(100)


@pytest.mark.parametrize(
    ("method", "options"), [("greedy-step", {"form": "expected"}), ("model", {}), ("q-learning", {}), ("peng", {})]
)
def test_other_methods_do_not_warn(method, options):
    agent = gs.TabularAgent(envs.make_task("toy/choice", delay=4, noise=0.5), method, **options)
    agent.learn(50)
    agent.fit(COIN)


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="form: expected one of running, stored, expected, got 'lucky'"):
        gs.TabularAgent("toy/choice", form="lucky")

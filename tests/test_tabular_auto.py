"""The tabular method "auto": its definition, its limit in stochastic environments, and its files."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from test_tabular import as_log, random_episode, random_table, seeds, thorough

import greedystep as gs
from greedystep import envs, models
from greedystep.envs import toy
from greedystep.tabular import HorizonMeans, learn, replay


@given(seed=seeds)
@thorough
def test_learning_is_the_definition_written_out(seed):
    random = np.random.default_rng(seed)
    q, gamma = random_table(random), random.choice([0.1, 0.5, 0.9, 1.0])
    episodes = [random_episode(random, q) for _ in range(random.integers(1, 12))]
    expected = oracles.best_horizon(episodes, q, gamma)
    np.testing.assert_allclose(replay(as_log(*episodes), q, "auto", discount=gamma), expected, atol=1e-9)
    memory, table = HorizonMeans(*q.shape), q
    for episode in episodes:
        table = replay(as_log(episode), table, "auto", discount=gamma, memory=memory)
    np.testing.assert_allclose(table, expected, atol=1e-9)


STOCHASTIC = {
    "random model": toy.from_mdp("garnet", models.garnet(12, 3, 3, discount=0.8, seed=5), 0, horizon=30),
    "slippery ice": toy.from_mdp("ice", models.by_name("frozenlake-4x4", 0.9).mdp, 0, horizon=100),
}


@pytest.mark.parametrize(("name", "bound"), [("random model", 0.01), ("slippery ice", 0.08)])
def test_it_converges_to_the_optimal_values_where_sampled_greedy_step_does_not(name, bound):
    task = STOCHASTIC[name]
    truth = oracles.optimal_q(task.mdp)
    acted_in = ~task.mdp.terminal

    def error(method, episodes):
        q = learn(task, method, episodes=episodes, epsilon=1.0, seed=2).q
        return np.abs(q - truth)[acted_in].max() / np.abs(truth).max()

    few, many = error("auto", 500), error("auto", 60_000)
    assert many < bound
    assert many < few / 4
    assert error("greedy-step", 60_000) > 0.2


def test_the_bias_of_a_long_return_is_left_behind():
    """In the one state a random walk of any length loses; a fixed n or λ would keep some of that loss."""
    mdp = models.garnet(12, 3, 3, discount=0.8, seed=5)
    task, truth = STOCHASTIC["random model"], oracles.optimal_q(mdp).max(axis=1)
    kept = {
        method: truth[0] - learn(task, method, episodes=60_000, epsilon=1.0, seed=2, **options).q[0].max()
        for method, options in {"auto": {}, "peng": {"alpha": 0.01}, "n-step-q": {"alpha": 0.01}}.items()
    }
    assert abs(kept["auto"]) < 0.02 * truth[0]
    assert kept["peng"] > 0.1 * truth[0]
    assert kept["n-step-q"] > 0.1 * truth[0]


def test_a_reward_at_the_end_reaches_the_start_in_one_episode():
    task = envs.make_task("toy/choice", delay=30)
    first = learn(task, "auto", episodes=1, epsilon=1.0, seed=0)
    assert first.q[0].max() == pytest.approx(first.returns[0])


def test_an_agent_goes_on_from_its_file_exactly(tmp_path):
    whole = gs.TabularAgent(STOCHASTIC["random model"], "auto", seed=4)
    whole.learn(80)
    half = gs.TabularAgent(STOCHASTIC["random model"], "auto", seed=4)
    half.learn(30)
    half.save(tmp_path / "agent.npz")
    loaded = gs.TabularAgent.load(tmp_path / "agent.npz", STOCHASTIC["random model"])
    loaded.learn(50)
    np.testing.assert_array_equal(loaded.q, whole.q)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mean", np.zeros((12, 3, 2)), "mean: expected float64"),
        ("variance", np.full((12, 3, 6), -1.0), "variance: a number of the stored means lies outside its range"),
        ("mean", np.full((12, 3, 6), np.nan), "mean: a number of the stored means"),
        ("visits", np.zeros((12, 3), np.int32), "visits: expected int64"),
    ],
)
def test_damaged_means_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        HorizonMeans.from_arrays(HorizonMeans(12, 3).arrays() | {name: value}, 12, 3)

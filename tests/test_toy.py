"""The toy tasks: optimal returns known by hand, valid models, and a simulator that agrees with them."""

import numpy as np
import oracles
import pytest

from greedystep import envs, models, tabular
from greedystep.envs import toy

SMALL = {
    "toy/bomb": {"delay": 3, "side": 7},
    "toy/choice": {"delay": 5, "noise": 2.0},
    "toy/grid-world": {"size": 4},
    "toy/n-horizon": {"length": 5},
    "toy/trace-back": {"delay": 6},
    "toy/watch-repair": {"length": 4},
}
every_task = pytest.mark.parametrize("name", [name for name in envs.names() if name.startswith("toy/")])


def small(name):
    return envs.make_task(name, **SMALL[name])


# -- known by hand ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "optimum"),
    [
        ("toy/choice", {"delay": 10}, 1.0),
        ("toy/choice", {"delay": 7, "noise": 3.0, "best": 5.0, "other": 2.0}, 5.0),
        ("toy/trace-back", {"delay": 4}, 100.0),
        ("toy/trace-back", {"delay": 20}, 100.0),
        ("toy/trace-back", {"delay": 8, "terminal_only": True}, 100.0),
        ("toy/grid-world", {"size": 3}, -(1 - 0.99**4) / (1 - 0.99)),
        ("toy/n-horizon", {"length": 6, "discount": 0.9}, 0.9**5),
        # One step onto the bomb; then: closer (-0.09 · 1 · 1), onto it (0), away again (0.1 · 3 · 1).
        ("toy/bomb", {"delay": 1}, 500.0),
        ("toy/bomb", {"delay": 2}, 500.0 - 0.09 + 0.3),
        ("toy/watch-repair", {}, 1.75),
    ],
)
def test_optimal_returns_known_by_hand(name, options, optimum):
    task = envs.make_task(name, **options)
    assert task.optimal_return == pytest.approx(optimum, abs=1e-8)
    assert task.solved_return == pytest.approx(optimum - 0.1 * abs(optimum), abs=1e-8)
    assert task.lowest_return <= task.solved_return


@pytest.mark.parametrize("terminal_only", [False, True])
def test_only_up_then_right_solves_trace_back(terminal_only):
    task = envs.make_task("toy/trace-back", delay=8, terminal_only=terminal_only)
    for first in range(4):
        for second in range(4):
            policy = np.zeros(task.num_states, int)
            policy[0], policy[1 + first] = first, second
            right = (first, second) == (models.UP, models.RIGHT)
            assert task.expected_return(policy) == pytest.approx(100 if right else 50)
            assert task.solved_by(policy) == right


def test_trace_back_pays_when_it_says():
    log = tabular.collect(envs.make_task("toy/trace-back", delay=6), episodes=200)
    rewards = {tuple(episode) for episode in log.rewards.reshape(200, 6)}
    assert rewards == {(0, 50, 0, 0, 0, 0), (0, -50, 0, 0, 0, 150)}
    log = tabular.collect(envs.make_task("toy/trace-back", delay=6, terminal_only=True), episodes=200)
    rewards = {tuple(episode) for episode in log.rewards.reshape(200, 6)}
    assert rewards == {(0, 0, 0, 0, 0, 50), (0, 0, 0, 0, 0, 100)}


@pytest.mark.parametrize(("brand", "profit"), [(0, -1.5), (1, 3.5), (2, 3.5), (3, -1.5)])
def test_repairing_a_watch_earns_what_the_demonstration_says(brand, profit):
    task = envs.make_task("toy/watch-repair")
    policy = np.ones(task.num_states, int)
    policy[brand] = 0
    assert task.expected_return(policy) == pytest.approx(profit / 4)


# -- every task -------------------------------------------------------------------------------------------------------


@every_task
def test_the_outcomes_and_the_model_say_the_same(name):
    task = small(name)
    S, A = task.num_states, task.num_actions
    first, cumulative, successor, reward, noise = task.outcomes
    transitions, ends = oracles.dense(task.mdp), np.zeros((S, A))
    if task.mdp.termination is not None:
        ends = task.mdp.termination
    # Where a task was made from a model with a terminal state, arriving there is the end.
    goal = task.mdp.terminal if name == "toy/grid-world" else np.zeros(S, bool)
    ends = ends + transitions[:, :, goal].sum(axis=2)
    for row in range(S * A):
        s, a = divmod(row, A)
        outcomes = range(first[row], first[row + 1])
        assert (len(outcomes) > 0) == task.mdp.available[s, a]
        if not outcomes:
            continue
        chance = np.diff(cumulative[first[row] : first[row + 1]], prepend=0.0)
        assert chance.min() > 0
        assert cumulative[first[row + 1] - 1] == 1.0
        assert noise[outcomes].min() >= 0
        assert chance @ reward[outcomes] == pytest.approx(task.mdp.rewards[s, a])
        arrivals = np.bincount(successor[outcomes] + 1, chance, minlength=S + 1)
        np.testing.assert_allclose(arrivals[0], ends[s, a], atol=1e-12)
        np.testing.assert_allclose(arrivals[1:], np.where(goal, 0.0, transitions[s, a]), atol=1e-12)


@every_task
def test_simulated_returns_match_the_exact_value_of_the_policy(name):
    task = small(name)
    q = np.where(task.mdp.available, np.random.default_rng(1).integers(0, 2, task.mdp.rewards.shape), -np.inf)
    policy = np.array([oracles.epsilon_greedy(row, 0.5) for row in q])
    log = tabular.collect(task, episodes=20_000, epsilon=0.5, q=q, seed=3)
    time = np.arange(len(log.actions)) - np.repeat(log.first[:-1], np.diff(log.first))
    returns = np.add.reduceat(log.rewards * task.mdp.discount**time, log.first[:-1])
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - task.expected_return(policy)) <= 4 * error + 1e-9


def test_simulated_noise_has_the_size_given():
    task = envs.make_task("toy/choice", delay=3, noise=2.0)
    rewards = tabular.collect(task, episodes=20_000).rewards.reshape(-1, 3)
    assert (rewards[:, 0] == 0).all()
    assert rewards[:, 1].std() == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize(
    ("name", "option", "length_of"),
    [
        ("toy/choice", "delay", lambda delay: delay),
        ("toy/trace-back", "delay", lambda delay: delay),
        ("toy/bomb", "delay", lambda delay: 3 * delay // 2),
        ("toy/watch-repair", "length", lambda length: length),
    ],
)
@pytest.mark.parametrize("value", [4, 7])
def test_the_delay_sets_the_length_of_every_episode(name, option, length_of, value):
    task = envs.make_task(name, **{option: value})
    log = tabular.collect(task, episodes=50)
    assert (np.diff(log.first) == length_of(value)).all()
    assert log.terminated.all()
    assert task.horizon == length_of(value)


def test_grid_world_is_cut_off_where_it_has_not_ended():
    log = tabular.collect(envs.make_task("toy/grid-world", size=5, horizon=10), episodes=200)
    lengths = np.diff(log.first)
    assert lengths.max() == 10
    assert (log.terminated | (lengths == 10)).all()
    assert not log.terminated.all()


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("toy/nothing", {}, "name: 'toy/nothing' is not one of .*toy/bomb"),
        ("toy/choice", {"length": 3}, "length: toy/choice has no such option, only delay"),
        ("toy/choice", {"delay": 1}, "delay: expected an integer >= 2, got 1"),
        ("toy/choice", {"noise": -1.0}, "noise: expected a finite number >= 0"),
        ("toy/choice", {"best": 0.0}, "best: expected more than other"),
        ("toy/trace-back", {"delay": 3}, "delay: expected an integer >= 4"),
        ("toy/bomb", {"delay": 31}, "delay: expected an integer from 1 to 30, got 31"),
        ("toy/grid-world", {"size": 2.5}, "size: expected an integer"),
        ("toy/grid-world", {"discount": 1.0}, "discount: expected a number"),
        ("toy/n-horizon", {"horizon": 0}, "horizon: expected an integer >= 1"),
    ],
)
def test_bad_options_are_answered_by_one_sentence(name, options, message):
    with pytest.raises(ValueError, match=message):
        envs.make_task(name, **options)


def test_a_start_that_is_no_distribution_is_refused():
    with pytest.raises(ValueError, match="start: expected a distribution over 3 states"):
        toy.from_mdp("mine", models.chain(3), [0.5, 0.5, 0.5], 10)
    with pytest.raises(ValueError, match=r"start: expected a state in 0\.\.2, got 3"):
        toy.from_mdp("mine", models.chain(3), 3, 10)
